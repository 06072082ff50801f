#include "engine/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace quire {

double beam_score(double logprob_sum, std::int64_t num_tokens, double length_penalty) {
  return logprob_sum / std::pow(static_cast<double>(num_tokens), length_penalty);
}

BeamRound next_beams(std::span<const BeamOffer> offers, const BeamParams& params,
                     const std::function<TokenEnds(TokenId)>& ends) {
  BeamRound round;
  for (std::size_t parent = 0; parent < offers.size(); ++parent) {
    const TokenLogprobs& next = *offers[parent].next;
    for (std::size_t i = 0; i < next.top.size(); ++i) {
      const auto [token, logprob] = next.top[i];
      const TokenEnds kind = ends(token);
      if (kind == TokenEnds::kBanned) continue;
      BeamStep step{parent, {}, offers[parent].logprob_sum + static_cast<double>(logprob)};
      step.token.token = token;
      step.token.logprob = logprob;
      step.token.rank = static_cast<std::int32_t>(i) + 1;
      const std::size_t shown = static_cast<std::size_t>(std::max(0, params.logprobs));
      const auto last =
          next.top.begin() + static_cast<std::ptrdiff_t>(std::min(shown, next.top.size()));
      step.token.top.assign(next.top.begin(), last);
      (kind == TokenEnds::kYes ? round.ended : round.beams).push_back(std::move(step));
    }
  }
  std::ranges::stable_sort(round.beams, std::greater{}, &BeamStep::logprob_sum);
  if (round.beams.size() > static_cast<std::size_t>(params.width)) {
    round.beams.erase(round.beams.begin() + params.width, round.beams.end());
  }
  return round;
}

bool beams_done(std::span<const double> scores, double best, std::int64_t num_tokens,
                std::int64_t max_tokens, const BeamParams& params) {
  const auto width = static_cast<std::size_t>(params.width);
  if (scores.size() < width) return false;
  if (params.early_stopping == EarlyStopping::kFirst) return true;
  std::vector<double> ranked(scores.begin(), scores.end());
  const auto worst = ranked.begin() + static_cast<std::ptrdiff_t>(width) - 1;
  std::nth_element(ranked.begin(), worst, ranked.end(), std::greater{});
  // Sums only fall: with a penalty above 0 the greatest length makes the most of one.
  const bool longest = params.early_stopping == EarlyStopping::kExact && params.length_penalty > 0;
  return *worst >= beam_score(best, longest ? max_tokens : num_tokens, params.length_penalty);
}

}  // namespace quire
