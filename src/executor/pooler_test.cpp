// Pooling over chunks against the whole prompt.
#include "executor/pooler.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr std::int64_t kHidden = 3;

// Its final norm doubles.
class DoublingModel : public Model {
 public:
  DoublingModel() { hidden_size = kHidden; }
  KvGeometry kv_geometry(std::int32_t, DType) const override { return {}; }
  std::size_t workspace_bytes(std::int64_t, std::int64_t) const override { return 0; }
  void forward(const ModelInput&, KvCache&, Workspace&, float*) override {}
  void logits(const float*, std::int64_t, Workspace&, float*) override {}
  void final_hidden(const float* hidden, std::int64_t rows, float* out) override {
    for (std::int64_t i = 0; i < rows * kHidden; ++i) out[i] = 2 * hidden[i];
  }
};

constexpr std::int32_t kTokens = 75;  // more than are normed at once

std::vector<float> states() {
  std::vector<float> out;
  for (std::int32_t t = 0; t < kTokens; ++t) {
    for (std::int32_t i = 0; i < kHidden; ++i)
      out.push_back(0.1f * static_cast<float>((t * 7 + i * 3) % 11));
  }
  return out;
}

std::vector<float> pool(Pooler& pooler, Pooling pooling, const std::vector<std::int32_t>& chunks) {
  const std::vector<float> hidden = states();
  std::int32_t start = 0;
  std::vector<float> out;
  for (const std::int32_t tokens : chunks) {
    EXPECT_TRUE(out.empty());
    out =
        pooler.take({SlotId{4}, pooling, start, tokens, kTokens}, hidden.data() + start * kHidden);
    start += tokens;
  }
  EXPECT_EQ(start, kTokens);
  return out;
}

TEST(Pooler, GivesTheSameBitsForEveryChunking) {
  DoublingModel model;
  Pooler pooler(&model);
  const std::vector<float> hidden = states();
  for (const Pooling pooling : {Pooling::kLast, Pooling::kMean, Pooling::kFirst}) {
    const auto whole = pool(pooler, pooling, {kTokens});
    ASSERT_EQ(whole.size(), 3u);
    EXPECT_EQ(pool(pooler, pooling, {1, 1, 40, 33}), whole);
    EXPECT_EQ(pool(pooler, pooling, {74, 1}), whole);
    // Preempted after its first chunk: computed again from the start.
    pooler.take({SlotId{4}, pooling, 0, 30, kTokens}, hidden.data());
    EXPECT_EQ(pool(pooler, pooling, {50, 25}), whole);
    for (std::size_t i = 0; i < 3; ++i) {
      double sum = 0;
      for (std::size_t t = 0; t < kTokens; ++t) sum += 2.0 * static_cast<double>(hidden[t * 3 + i]);
      const double want = pooling == Pooling::kMean    ? sum / kTokens
                          : pooling == Pooling::kFirst ? 2.0 * static_cast<double>(hidden[i])
                                                       : 2.0 * static_cast<double>(hidden[222 + i]);
      EXPECT_NEAR(whole[i], want, 1e-5);
    }
  }
}

}  // namespace
}  // namespace quire
