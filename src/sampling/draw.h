// The draw of one token from a row of processed logits: temperature, min-p, top-k, typical-p,
// top-p, XTC, inverse CDF.
//
// One order rules all filters: the greater scaled logit first, of equals the lower id. The draw
// walks the kept tokens in ascending id and takes the first whose cumulative weight passes u times
// the total, so that u alone decides.
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"
#include "sampling/sampling_params.h"

namespace quire {

// Random numbers of a draw, each in [0, 1).
struct DrawNumbers {
  double token = 0;
  double xtc = 1;  // XTC acts when it is below xtc_probability; drawn only when that is above 0
};

// logits: [vocab], without NaN, at least one above minus infinity. params.temperature is above
// greedy. min_p keeps tokens of at least min_p times the largest probability; each later filter
// looks at what those before it left. processed, if given, gets the row that the token was drawn
// from: logits over temperature, minus infinity where dropped (or under e^-87 of the best).
TokenId draw_token(std::span<const float> logits, const SamplingParams& params, DrawNumbers numbers,
                   std::vector<float>* processed = nullptr);

}  // namespace quire
