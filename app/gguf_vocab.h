// A GGUF's tokenizer.ggml.* metadata as the text layer's VocabSpec.
#pragma once

#include "base/result.h"
#include "text/vocab_spec.h"
#include "weights/gguf_file.h"

namespace quire {

Result<VocabSpec> read_gguf_vocab(const GgufFile& file);

}  // namespace quire
