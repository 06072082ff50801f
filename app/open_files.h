// Opens what --model, --load-format and --tokenizer name.
#pragma once

#include <cstdint>
#include <string>

#include "app/flags.h"

namespace quire {

// path: as resolve_model gives it. seed: of dummy weights. tokenizer: --tokenizer, or empty.
Result<ModelFiles> open_files(const std::string& path, const OpenFlags& flags, std::uint64_t seed,
                              const std::string& tokenizer = "");

}  // namespace quire
