// The tokens that a grammar allows as the next one of a sequence.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"

namespace quire {

struct TokenMask {
  std::span<const std::uint32_t> bits;  // id % 32 of word id / 32; ids beyond are not allowed.
                                        // Empty: all are
  TokenId only = -1;                    // the one token that is allowed, when there is but one
};

}  // namespace quire
