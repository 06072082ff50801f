// Several choices for one prompt give, bit for bit, what each gives alone: forked from one
// computation of the prompt, in chunks, with few blocks and preemption.
#include <gtest/gtest.h>

#include <cstring>

#include "step_driver.h"

namespace quire {
namespace {

constexpr std::uint32_t kChoices = 4;
constexpr int kMaxTokens = 12;

struct Family {
  std::vector<Followed> choices{kChoices};
  std::int64_t prompt_tokens = 0;  // computed below the prompt's end, all choices together
  std::int64_t preemptions = 0;
};

SamplingParams sampling_of(double temperature, std::uint32_t choice) {
  SamplingParams sampling;
  sampling.temperature = temperature;
  sampling.seed = 42;
  sampling.choice = choice;
  sampling.logprobs = 1;
  return sampling;
}

std::vector<TokenId> prompt_of(int length) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < length; ++i) prompt.push_back(4 + (i * 37 + i * i) % 500);
  return prompt;
}

class FamilyRun {
 public:
  FamilyRun(ModelRunner& runner, std::int32_t max_model_len, std::vector<TokenId> prompt,
            double temperature, const FollowOptions& options)
      : runner_(runner), scheduler_(scheduler_options(runner, max_model_len, options)) {
    const auto shared = std::make_shared<const std::vector<TokenId>>(std::move(prompt));
    for (std::uint32_t i = 0; i < kChoices; ++i) {
      Request request;
      request.id = RequestId(i + 1);
      request.family = RequestId(1);
      request.prompt = shared;
      request.sampling = std::make_shared<SamplingParams>(sampling_of(temperature, i));
      request.stop.max_tokens = kMaxTokens;
      request.stop.ignore_eos = true;
      scheduler_.add(request, 0);
    }
    prompt_size_ = static_cast<std::int32_t>(shared->size());
  }

  Family run() {
    runner_.set_logits_hook([this](const StepPlan& plan, std::span<const std::int32_t> rows,
                                   std::span<const std::int32_t> positions,
                                   const float* logits) { keep(plan, rows, positions, logits); });
    while (scheduler_.has_work()) step();
    const StepPlan last = scheduler_.plan(0, {});  // the executor forgets the last slots
    runner_.submit(last);
    runner_.sample({});
    runner_.wait();
    runner_.set_logits_hook({});
    family_.preemptions = scheduler_.stats().preemptions;
    EXPECT_EQ(scheduler_.stats().kv.used_blocks, 0);
    return std::move(family_);
  }

 private:
  void step() {
    const StepPlan plan = scheduler_.plan(0, {});
    for (const StepPlan::AddedSlot& added : plan.added)
      choice_of_[added.slot] = added.params->choice;
    for (const StepPlan::Row& row : plan.rows) {
      family_.prompt_tokens += std::max(0, std::min(row.num_tokens, prompt_size_ - row.start_pos));
    }
    runner_.submit(plan);
    runner_.sample({});
    for (const SequenceUpdate& update : scheduler_.apply(plan, runner_.wait(), 0)) {
      auto& tokens = family_.choices.at(update.id.value - 1).tokens;
      tokens.insert(tokens.end(), update.tokens.begin(), update.tokens.end());
      EXPECT_EQ(update.logprobs.size(), update.tokens.size());
    }
    const Status integrity = scheduler_.check_integrity();
    EXPECT_TRUE(integrity) << integrity.error().message;
  }
  void keep(const StepPlan& plan, std::span<const std::int32_t> rows,
            std::span<const std::int32_t> positions, const float* logits) {
    const auto vocab = static_cast<std::ptrdiff_t>(runner_.capacity().vocab_size);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const SlotId slot = plan.rows[static_cast<std::size_t>(rows[i])].slot;
      const float* row = logits + static_cast<std::ptrdiff_t>(i) * vocab;
      family_.choices.at(choice_of_.at(slot)).logits[positions[i]].assign(row, row + vocab);
    }
  }

  ModelRunner& runner_;
  Scheduler scheduler_;
  Family family_;
  std::map<SlotId, std::uint32_t> choice_of_;
  std::int32_t prompt_size_ = 0;
};

void expect_same_choice(const Followed& want, const Followed& got, const char* what) {
  EXPECT_EQ(want.tokens, got.tokens) << what;
  EXPECT_GE(got.logits.size(), static_cast<std::size_t>(kMaxTokens - 1)) << what;
  for (const auto& [position, row] : got.logits) {
    const auto& wanted = want.logits.at(position);
    EXPECT_EQ(std::memcmp(row.data(), wanted.data(), row.size() * sizeof(float)), 0)
        << what << ": logits differ at position " << position;
  }
}

struct ForkCase {
  std::string model, kernels = "auto";
};
std::ostream& operator<<(std::ostream& out, const ForkCase& c) {
  return out << c.model << " " << c.kernels;
}

class ForkInvariance : public ::testing::TestWithParam<ForkCase> {};

TEST_P(ForkInvariance, EveryChoiceIsWhatItIsAlone) {
  EngineFlags flags;
  flags.block_size = 8;
  flags.kernels = GetParam().kernels;
  const LoadedModel model = load_for_test(GetParam().model, "auto", flags);
  const auto context = static_cast<std::int32_t>(model.max_model_len);
  FollowOptions plenty, chunked, pressed;
  plenty.block_size = chunked.block_size = pressed.block_size = 8;
  plenty.prefix_caching = pressed.prefix_caching = false;
  chunked.max_num_batched_tokens = 7;
  pressed.num_blocks = 9;  // one choice needs 7
  for (const double temperature : {0.0, 1.0}) {
    for (const int length : {40, 43}) {  // with and without a part of a block to copy
      std::vector<Followed> alone;
      for (std::uint32_t i = 0; i < kChoices; ++i) {
        alone.push_back(run_followed(*model.runner, context, prompt_of(length),
                                     sampling_of(temperature, i), kMaxTokens, plenty));
      }
      if (temperature == 0.0) {
        EXPECT_EQ(alone[0].tokens, alone[1].tokens);
      } else {
        EXPECT_NE(alone[0].tokens, alone[1].tokens);
      }
      const auto run = [&](const FollowOptions& options, const char* what) {
        Family family =
            FamilyRun(*model.runner, context, prompt_of(length), temperature, options).run();
        for (std::uint32_t i = 0; i < kChoices; ++i)
          expect_same_choice(alone[i], family.choices[i], what);
        return family;
      };
      EXPECT_EQ(run(plenty, "together").prompt_tokens, length);
      EXPECT_EQ(run(chunked, "in chunks").prompt_tokens, length);
      run(pressed, "with few blocks");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, ForkInvariance,
    ::testing::Values(ForkCase{"tests/golden/llama"}, ForkCase{"tests/golden-gguf/llama.Q4_1.gguf"},
                      ForkCase{"tests/golden/gemma2"}, ForkCase{"tests/golden/llama4_text"},
                      ForkCase{"tests/golden/deepseek_v2"}, ForkCase{"tests/golden/mamba"},
                      ForkCase{"tests/golden/mamba2"}, ForkCase{"tests/golden/jamba"},
                      ForkCase{"tests/golden/qwen3_next"}, ForkCase{"tests/golden/lfm2"}));

std::vector<ForkCase> cases_of_tables() {
  std::vector<ForkCase> cases;
  for (const std::string& name : kernel_table_names())
    cases.push_back({"tests/golden-gguf/llama.Q4_1.gguf", name});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Tables, ForkInvariance, ::testing::ValuesIn(cases_of_tables()),
                         [](const auto& tested) { return tested.param.kernels; });

}  // namespace
}  // namespace quire
