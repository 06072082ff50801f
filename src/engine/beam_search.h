// Which beams go on: the arithmetic of beam search, as vLLM defines it. Pure; the Scheduler keeps
// the sequences (scheduler_beam.cpp).
//
// In each round every beam offers its most likely tokens (two for each beam of the width). An end
// token completes a hypothesis; of the others the `width` best by the sum of log-probabilities are
// the next beams. Hypotheses are ranked by that sum over length^length_penalty, the length being
// that of prompt and answer without the end token. Ties go to the better beam, then to the likelier
// token.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "sampling/sampler.h"

namespace quire {

// When the search ends before max_tokens; never with fewer hypotheses than the width.
enum class EarlyStopping : std::uint8_t {
  kExact,      // no beam can become one of the best any more ("never", and the default)
  kHeuristic,  // none could if it ended now (false)
  kFirst,      // at once (true)
};

struct BeamParams {
  std::int32_t width = 1;  // = the number of choices
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::kExact;
  std::int32_t logprobs =
      -1;  // top count that the answer shows; SamplingParams has the search's own

  std::int32_t num_candidates() const { return 2 * width; }  // per beam
};

double beam_score(double logprob_sum, std::int64_t num_tokens, double length_penalty);

// A beam that goes on, or a hypothesis that is complete: `token` after the beam `parent`.
struct BeamStep {
  std::size_t parent;
  TokenLogprobs token;
  double logprob_sum;  // with it
};

// What a beam offers: its sum, and its most likely tokens, best first.
struct BeamOffer {
  double logprob_sum;
  const TokenLogprobs* next;
};

struct BeamRound {
  std::vector<BeamStep> beams;  // best first
  std::vector<BeamStep> ended;
};
enum class TokenEnds : std::uint8_t { kNo, kYes, kBanned };  // kBanned: neither ends nor goes on
BeamRound next_beams(std::span<const BeamOffer> offers, const BeamParams& params,
                     const std::function<TokenEnds(TokenId)>& ends);

// Whether the search is over. scores: of the complete hypotheses, any order; best: the best beam's
// sum, num_tokens: the length of every beam, max_tokens: the greatest it can come to.
bool beams_done(std::span<const double> scores, double best, std::int64_t num_tokens,
                std::int64_t max_tokens, const BeamParams& params);

}  // namespace quire
