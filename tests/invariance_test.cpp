// The engine's first promise: the bits of a request's logits do not depend on what else runs, how
// its prompt is chunked, preemption, prefix-cache hits, block size or threads.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/sanitized.h"
#include "step_driver.h"

namespace quire {
namespace {

struct Case {
  const char* model;
  const char* dtype;
  const char* quantization = "";
  const char* kv_cache_dtype = "auto";
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.model << " " << c.dtype;
}

// Without it running sequences do not run out of blocks: a window's few are all counted at
// admission.
bool has_full_attention(const LoadedModel& model) {
  const auto& groups = model.runner->capacity().geometry.groups;
  return std::ranges::any_of(groups, [](const KvGroup& group) { return group.window == 0; });
}

class Invariance : public ::testing::TestWithParam<Case> {};

TEST_P(Invariance, SameBitsWhateverHappensAround) {
  EngineFlags flags;
  flags.quantization = GetParam().quantization;
  flags.kv_cache_dtype = GetParam().kv_cache_dtype;
  const LoadedModel model = load_for_test(GetParam().model, GetParam().dtype, flags);
  const auto context = static_cast<std::int32_t>(model.max_model_len);
  for (const double temperature : {0.0, 1.0}) {
    if (kSanitized && temperature == 0) continue;
    SamplingParams sampling;
    sampling.temperature = temperature;
    sampling.seed = 42;
    const auto run = [&](const FollowOptions& options) {
      return run_followed(*model.runner, context, long_prompt(), sampling, 24, options);
    };
    const Followed alone = run({});
    ASSERT_EQ(alone.tokens.size(), 24u);
    for (const std::int32_t chunk : {1, 7, 64}) {
      FollowOptions options;
      options.max_num_batched_tokens = chunk;
      expect_same_bits(alone, run(options), "chunked");
    }
    for (const std::uint64_t seed : {1, 2, 3}) {
      FollowOptions options;
      options.others = 31;
      options.lead_steps = static_cast<int>(seed) * 3;
      options.seed = seed;
      expect_same_bits(alone, run(options), "with 31 others");
      options.max_num_batched_tokens = 33;
      options.prefix_caching = false;
      expect_same_bits(alone, run(options), "with 31 others, chunked, no prefix cache");
      options.async = true;
      options.prefix_caching = seed % 2 == 0;
      const Followed ahead = run(options);
      expect_same_bits(alone, ahead, "with 31 others, chunked, planned ahead");
      EXPECT_GT(ahead.planned_ahead, 20);
    }
    std::int64_t preemptions = 0;
    for (const std::uint64_t seed : {4, 5, 6, 7}) {
      FollowOptions options;
      options.others = 31;
      options.num_blocks = 6;
      options.lead_steps = 4;
      options.seed = seed;
      options.async = seed % 2 == 0;
      const Followed pressed = run(options);
      preemptions += pressed.preemptions;
      expect_same_bits(alone, pressed, "with 6 blocks and preemption");
    }
    // Without prefix hits nobody is admitted who would not fit: see the next test.
    if (!model.runner->capacity().recurrent_state && has_full_attention(model)) {
      EXPECT_GT(preemptions, 0);
    }
  }
}

TEST_P(Invariance, SameBitsWhenPreemptedInSmallBlocks) {
  EngineFlags flags;
  flags.block_size = 8;
  flags.quantization = GetParam().quantization;
  flags.kv_cache_dtype = GetParam().kv_cache_dtype;
  const LoadedModel model = load_for_test(GetParam().model, GetParam().dtype, flags);
  SamplingParams sampling;
  sampling.temperature = 0;
  const auto run = [&](FollowOptions options) {
    options.block_size = 8;
    return run_followed(*model.runner, static_cast<std::int32_t>(model.max_model_len),
                        long_prompt(), sampling, 24, options);
  };
  const Followed alone = run({});
  std::int64_t preemptions = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    FollowOptions options;
    options.others = 31;
    options.num_blocks = 20;  // the followed request needs 16 of them
    options.lead_steps = 4;
    options.prefix_caching = false;
    options.max_num_batched_tokens = seed % 2 == 0 ? 512 : 19;
    options.seed = seed;
    const Followed pressed = run(options);
    preemptions += pressed.preemptions;
    expect_same_bits(alone, pressed, "preempted");
  }
  // A model that only keeps states, or windows, never runs out of blocks.
  if (has_full_attention(model)) {
    EXPECT_GT(preemptions, 0);
  }
}

TEST_P(Invariance, SameBitsForEveryThreadCountAndBlockSize) {
  SamplingParams sampling;
  sampling.temperature = 0;
  Followed want;
  for (const int threads : {1, 2, 3}) {
    for (const std::int32_t block_size : {8, 32, 128}) {
      EngineFlags flags;
      flags.threads = threads;
      flags.quantization = GetParam().quantization;
      flags.kv_cache_dtype = GetParam().kv_cache_dtype;
      flags.block_size = block_size;
      const LoadedModel model = load_for_test(GetParam().model, GetParam().dtype, flags);
      FollowOptions options;
      options.block_size = block_size;
      options.others = 5;
      const Followed got =
          run_followed(*model.runner, static_cast<std::int32_t>(model.max_model_len), long_prompt(),
                       sampling, 24, options);
      if (want.tokens.empty())
        want = got;
      else
        expect_same_bits(want, got, "threads and block size");
    }
  }
}

class RecurrentInvariance : public Invariance {};

// Requests whose prompts begin like the followed one's leave snapshots of the state behind.
TEST_P(RecurrentInvariance, SameBitsFromSnapshots) {
  EngineFlags flags;
  flags.block_size = 8;
  flags.num_gpu_blocks_override = 400;
  const LoadedModel model = load_for_test(GetParam().model, GetParam().dtype, flags);
  SamplingParams sampling;
  sampling.temperature = 0;
  const auto run = [&](FollowOptions options) {
    options.block_size = 8;
    return run_followed(*model.runner, static_cast<std::int32_t>(model.max_model_len),
                        long_prompt(), sampling, 24, options);
  };
  FollowOptions uncached;
  uncached.prefix_caching = false;
  const Followed alone = run(uncached);
  EXPECT_EQ(alone.cached_tokens, 0);
  std::int64_t preemptions = 0;
  for (const std::int32_t num_snapshots : {200, 4}) {
    std::int32_t most_cached = 0;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      FollowOptions options;
      options.others = 31;
      options.lead_steps = 25;
      options.seed = seed;
      options.num_snapshots = num_snapshots;
      options.snapshot_interval = seed % 2 == 0 ? 8 : 24;
      options.num_blocks = seed > 3 ? 40 : 400;
      options.max_num_batched_tokens = seed % 3 == 0 ? 19 : 512;
      const Followed got = run(options);
      expect_same_bits(alone, got, "from snapshots");
      EXPECT_EQ(got.cached_tokens % std::max(options.snapshot_interval, 8), 0);
      most_cached = std::max(most_cached, got.cached_tokens);
      preemptions += got.preemptions;
    }
    if (num_snapshots > 100) {
      EXPECT_GE(most_cached, 24);
    }
  }
  if (has_full_attention(model)) {
    EXPECT_GT(preemptions, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Invariance,
                         ::testing::Values(Case{"tests/golden/llama", "float32"},
                                           Case{"tests/golden/llama", "auto"},
                                           Case{"tests/golden/mistral", "auto"},
                                           Case{"tests/golden-gguf/llama.Q4_1.gguf", "auto"},
                                           Case{"tests/golden-gguf/llama.Q4_1.gguf", "float32"},
                                           Case{"tests/golden-gguf/llama.Q5_0.gguf", "auto"},
                                           Case{"tests/golden-gguf/llama.F16.gguf", "auto"}));

INSTANTIATE_TEST_SUITE_P(KvCacheInt8, Invariance,
                         ::testing::Values(Case{"tests/golden/llama", "auto", "", "int8"},
                                           Case{"tests/golden/gemma2", "float32", "", "int8"}));

INSTANTIATE_TEST_SUITE_P(QuantizedAtLoad, Invariance,
                         ::testing::Values(Case{"tests/golden/llama", "auto", "int8"},
                                           Case{"tests/golden/llama", "auto", "int4"}));

// The kinds that quantized checkpoints are packed as (MXFP4: architecture_invariance_test.cpp).
INSTANTIATE_TEST_SUITE_P(
    QuantizedCheckpoints, Invariance,
    ::testing::Values(Case{"tests/golden-quant/awq_llama_g128", "auto"},
                      Case{"tests/golden-quant/awq_qwen3_moe_g64", "auto"},
                      Case{"tests/golden-quant/gptq_qwen2_desc_act_asym", "auto"},
                      Case{"tests/golden-quant/gptq_qwen2_g32_asym", "auto"},
                      Case{"tests/golden-quant/gptq_qwen2_w8_g64_asym", "auto"},
                      Case{"tests/golden-quant/ct_llama_w8a8_int8", "auto"},
                      Case{"tests/golden-quant/fp8_llama_block128_cut", "auto"}));

// Layers with a window or chunks beside layers with full attention.
INSTANTIATE_TEST_SUITE_P(Windows, Invariance,
                         ::testing::Values(Case{"tests/golden/gemma2", "float32"},
                                           Case{"tests/golden/llama4_text", "auto"}));

// A state per sequence besides K and V, or instead of them.
const auto kRecurrent = ::testing::Values(
    Case{"tests/golden/mamba", "float32"}, Case{"tests/golden/mamba2", "auto"},
    Case{"tests/golden/jamba", "float32"}, Case{"tests/golden/qwen3_next", "float32"},
    Case{"tests/golden/qwen3_next", "auto"}, Case{"tests/golden/lfm2", "auto"},
    Case{"tests/golden/lfm2_moe", "float32"});
INSTANTIATE_TEST_SUITE_P(Recurrent, Invariance, kRecurrent);
INSTANTIATE_TEST_SUITE_P(Recurrent, RecurrentInvariance, kRecurrent);

}  // namespace
}  // namespace quire
