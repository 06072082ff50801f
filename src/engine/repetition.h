// Whether a sequence has begun to repeat itself: the end of its generated tokens is one pattern,
// several times over.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"

namespace quire {

struct RepetitionRule {
  std::int32_t max_pattern_size = 0, min_pattern_size = 1;  // tokens; max 0: off
  std::int32_t min_count = 2;                               // times that the pattern stands there
};

bool repeats(std::span<const TokenId> generated, const RepetitionRule& rule);

}  // namespace quire
