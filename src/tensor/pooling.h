// How the hidden states of a prompt become one embedding.
#pragma once

#include <cstdint>

namespace quire {

enum class Pooling : std::uint8_t {
  kNone,   // no embedding is wanted
  kLast,   // the last token's
  kMean,   // of all tokens
  kFirst,  // the first token's ("CLS")
};

}  // namespace quire
