// A token costs no allocation once scratch space has grown. Counts what operator new gives to the
// thread that samples.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/allocation_count.h"
#include "sampling/sampler.h"

namespace quire {
namespace {

TEST(Sampler, AllocatesNothingPerToken) {
  constexpr std::size_t kRowSize = 2000;
  std::mt19937 rng(8);
  std::vector<std::vector<float>> rows(16, std::vector<float>(kRowSize));
  for (auto& row : rows) {
    for (float& x : row) x = static_cast<float>(rng() % 1000) * 0.01f;
  }
  for (int variant = 0; variant < 8; ++variant) {
    SamplingParams p;
    p.temperature = variant == 0 ? 0.0 : 0.9;
    p.top_k = variant == 2 ? 50 : variant == 3 ? 900 : 0;
    p.top_p = variant >= 3 ? 0.9 : 1.0;
    p.typical_p = variant >= 4 ? 0.9 : 1.0;
    p.min_p = variant == 5 ? 0.01 : 0.0;
    p.xtc_probability = variant == 5 ? 0.5 : 0.0;
    p.repetition_penalty = variant >= 1 ? 1.1 : 1.0;
    p.frequency_penalty = 0.1;
    p.bad_words = {{1, 2, 3}};
    p.logprobs = variant >= 6 ? 5 : -1;
    p.logprobs_mode = variant == 7 ? LogprobsMode::kProcessedLogprobs : LogprobsMode::kRawLogprobs;
    if (variant == 6) {
      p.dry_multiplier = 1;
      p.dry_penalty_last_n = 64;
    }
    Sampler sampler(kRowSize);
    std::vector<TokenId> prompt(kRowSize);  // every token is known from the start
    for (std::size_t i = 0; i < kRowSize; ++i) prompt[i] = static_cast<TokenId>(i);
    sampler.add_slot(SlotId{0}, p, prompt, prompt);
    std::vector<float> row(kRowSize);
    TokenLogprobs logprobs;
    std::int64_t before = 0;
    for (int step = 0; step < 600; ++step) {
      if (step == 300) before = allocation_count::of_this_thread;
      std::copy(rows[static_cast<std::size_t>(step) % 16].begin(),
                rows[static_cast<std::size_t>(step) % 16].end(), row.begin());
      sampler.sample(SlotId{0}, row, {}, &logprobs);
    }
    EXPECT_EQ(allocation_count::of_this_thread, before) << "variant " << variant;
  }
}

}  // namespace
}  // namespace quire
