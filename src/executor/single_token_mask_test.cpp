// A row whose mask allows one token takes it without logits, unless somebody asks for its
// log-probability; through the runner, with a model of two numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "executor/model_runner.h"

namespace quire {
namespace {

constexpr std::int64_t kVocab = 8;

// Logits of every row: 0, 1, 2, ...; counts the rows that are asked for.
class CountingModel : public Model {
 public:
  explicit CountingModel(std::int64_t* rows) : num_logits_rows_(rows) {
    hidden_size = 2;
    vocab_size = kVocab;
  }
  KvGeometry kv_geometry(std::int32_t, DType) const override { return {}; }
  std::size_t workspace_bytes(std::int64_t, std::int64_t) const override { return 64; }
  void forward(const ModelInput& input, KvCache&, Workspace&, float* hidden) override {
    std::fill(hidden, hidden + input.rows() * hidden_size, 0.0f);
  }
  void logits(const float*, std::int64_t rows, Workspace&, float* logits) override {
    *num_logits_rows_ += rows;
    for (std::int64_t i = 0; i < rows * kVocab; ++i) logits[i] = static_cast<float>(i % kVocab);
  }
  void final_hidden(const float*, std::int64_t, float*) override {}

 private:
  std::int64_t* num_logits_rows_;
};

class SingleTokenMask : public testing::Test {
 protected:
  SingleTokenMask() {
    CpuBackendOptions options;
    options.threads = 1;
    runner_ = std::make_unique<ModelRunner>(make_cpu_backend(options).value(),
                                            std::make_unique<CountingModel>(&num_rows_),
                                            ModelRunner::Options{});
  }
  // One step of a prompt per entry of `logprobs` (-1: none wanted), all with this mask.
  StepResult run(const std::vector<std::int32_t>& logprobs, const TokenMask& mask) {
    StepPlan plan;
    const auto prompt = std::make_shared<const std::vector<TokenId>>(std::vector<TokenId>{1, 2});
    for (std::size_t i = 0; i < logprobs.size(); ++i) {
      const SlotId slot{static_cast<std::int32_t>(i)};
      auto params = std::make_shared<SamplingParams>();
      params->temperature = 0;
      params->logprobs = logprobs[i];
      plan.added.push_back({slot, params, prompt});
      plan.rows.push_back({slot, 0, 2, 1, true, false});
      plan.token_ids.insert(plan.token_ids.end(), prompt->begin(), prompt->end());
    }
    const std::vector<TokenMask> masks(logprobs.size(), mask);
    num_rows_ = 0;
    runner_->submit(plan);
    runner_->sample(masks);
    return runner_->wait();
  }

  std::int64_t num_rows_ = 0;
  std::unique_ptr<ModelRunner> runner_;
};

TEST_F(SingleTokenMask, IsTakenWithoutLogits) {
  const std::uint32_t bits = 1u << 3;
  const StepResult result = run({-1, -1}, {{&bits, 1}, 3});
  EXPECT_EQ(result.rows.at(0).token, 3);
  EXPECT_EQ(result.rows.at(1).token, 3);
  EXPECT_EQ(num_rows_, 0);
}

TEST_F(SingleTokenMask, HasTheModelsLogprobWhereItIsAskedFor) {
  const std::uint32_t bits = 1u << 3;
  const StepResult result = run({-1, 2}, {{&bits, 1}, 3});
  EXPECT_EQ(num_rows_, 1);  // of the second alone
  EXPECT_FALSE(result.rows.at(0).has_logprobs);
  ASSERT_TRUE(result.rows.at(1).has_logprobs);
  double sum = 0;
  for (std::int64_t i = 0; i < kVocab; ++i) sum += std::exp(static_cast<double>(i));
  EXPECT_EQ(result.rows.at(1).logprobs.token, 3);
  EXPECT_NEAR(result.rows.at(1).logprobs.logprob, 3 - std::log(sum), 1e-5);
  EXPECT_EQ(result.rows.at(1).logprobs.top.at(0).first, kVocab - 1);
}

TEST_F(SingleTokenMask, TwoAllowedTokensAreDrawnFrom) {
  const std::uint32_t bits = 1u << 3 | 1u << 5;
  const StepResult result = run({-1}, {{&bits, 1}, -1});
  EXPECT_EQ(num_rows_, 1);
  EXPECT_EQ(result.rows.at(0).token, 5);
}

}  // namespace
}  // namespace quire
