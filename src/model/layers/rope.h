// Rotary position embedding (Su et al., 2021): the inverse frequencies of each scaling kind, and a
// step's tables.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "model/layers/mixer.h"
#include "weights/model_config.h"

namespace quire {

// One way to turn: position p rotates pair i by p * inverse[i] radians; cos and sin are multiplied
// by scale.
struct RopeFrequencies {
  std::vector<double> inverse;  // [rotary_dim / 2]
  double scale = 1.0;
};
// For a request of `prompt_tokens` (dynamic and longrope look at it). kBadFile names a field that
// is missing or wrong.
Result<RopeFrequencies> rope_frequencies(const RopeConfig& rope, std::int64_t prompt_tokens);

class Rope {
 public:
  static Result<Rope> create(const RopeConfig& config);
  // cos and sin of the step's rows, in the workspace.
  RopeTable table(Backend& backend, Workspace& workspace, const ModelInput& input) const;
  // Requests with equal regimes turn alike: 0 up to the original length, then 1 (longrope) or the
  // length itself (dynamic).
  std::uint64_t regime(std::int64_t prompt_tokens) const;
  std::int64_t scratch_floats_per_row() const { return config_.rotary_dim; }

 private:
  // Of a sequence with a prompt of this length.
  const RopeFrequencies& of_request(std::int64_t prompt_tokens) const;

  RopeConfig config_;
  bool by_length_ = false;
  RopeFrequencies short_, long_;     // long_: of prompts beyond original_max_position (longrope)
  mutable RopeFrequencies dynamic_;  // of the last request that asked (dynamic)
};

}  // namespace quire
