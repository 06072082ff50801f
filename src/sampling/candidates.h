// The tokens that a draw may give, with their weights, and the filters that drop some of them. No
// filter sorts the row: each finds its limit by buckets or by quickselect and then orders only the
// few candidates around it. Scratch space that one thread reuses from row to row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace quire {

// In ascending id. What is dropped has weight 0.
struct Candidates {
  std::vector<TokenId> ids;                 // empty: candidate i is token i
  std::vector<float> scaled, weight;        // (logit - max) / temperature, at most 0; e^scaled
  std::vector<std::uint32_t> likely, edge;  // scratch: candidate numbers
  std::vector<double> distance;             // scratch of keep_typical

  std::size_t token(std::size_t candidate) const {
    return ids.empty() ? candidate : static_cast<std::size_t>(ids[candidate]);
  }
};

// Fills scaled and weight of the candidates in c->ids (or of all). max: the greatest logit.
void scale_candidates(std::span<const float> logits, float max, float inverse_temperature,
                      Candidates* c);

// Drops what weighs less than min_p times the best.
void drop_below(Candidates* c, double min_p);
// Keeps the k best: the greater scaled logit first, of equals the lower id.
void keep_top_k(Candidates* c, std::int32_t k);
// Keeps the smallest best set that holds at least the share top_p of the weight.
void keep_top_p(Candidates* c, double top_p);
// Locally typical sampling (Meister et al., 2022): keeps the smallest set that holds the share
// typical_p, beginning with the candidates whose surprise is nearest to the distribution's entropy.
void keep_typical(Candidates* c, double typical_p);
// XTC: of the candidates whose probability at temperature 1 is at least the threshold, drops all
// but the least likely.
void drop_top_choices(std::span<const float> logits, float max, double threshold, Candidates* c);

}  // namespace quire
