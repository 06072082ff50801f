// The draw of one token from a row of processed logits: temperature, min-p, top-k, top-p, inverse
// CDF.
//
// One order rules all filters: the greater scaled logit first, of equals the lower id. The draw
// walks the kept tokens in ascending id and takes the first whose cumulative weight passes u times
// the total, so that u alone decides.
#pragma once

#include <span>

#include "base/ids.h"
#include "sampling/sampling_params.h"

namespace quire {

// logits: [vocab], without NaN, at least one above minus infinity. params.temperature is above
// greedy. u: [0, 1). min_p keeps tokens of at least min_p times the largest probability; top_p the
// smallest best set that holds at least that share of what min_p and top_k left.
TokenId draw_token(std::span<const float> logits, const SamplingParams& params, double u);

}  // namespace quire
