// Runs a loaded model on the prompts of a golden file and measures how far it is from the values
// there. Shared by the tests of whole models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/load.h"

namespace quire {

struct GoldenOptions {
  int prompts = 3;  // compare the first so many
  // Per prompt: one token only (its past depends on the length).
  std::vector<bool> first_only;
  // Tokens from the first one on whose golden margin is below this are not compared.
  float stop_margin = 0;
};

struct GoldenResult {
  // Largest error of any logit, and of the best token's log-probability.
  float worst = 0, worst_top1 = 0;
  double mean = 0;                    // mean error of all logits
  std::vector<float> position_worst;  // largest error of each position's logits
  double same_best = 0;               // share of positions whose best token is the golden one
  // Of each prompt's greedy continuation: the first token that differs, -1: none, and the golden
  // margin there.
  std::vector<int> first_difference;
  std::vector<float> margins_at_difference;
};

// golden: a path in the source tree. Throws where the file cannot be read.
GoldenResult compare_with_golden(const LoadedModel& model, const std::string& golden,
                                 const GoldenOptions& options = {});

inline constexpr float kExact = 5e-4f;      // largest error of a logit between float32 kernels
inline constexpr float kKnifeEdge = 1e-3f;  // a greedy token may differ below this margin only

// The models under a folder of the source tree that have a golden.json, sorted.
std::vector<std::string> golden_names(const std::string& folder);

// Every greedy continuation is the golden one up to a token whose margin is below this.
void expect_tokens(const GoldenResult& result, float margin);

}  // namespace quire
