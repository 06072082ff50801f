// Every table of kernels that this machine can run keeps the promise that the others of these tests
// hold the best one to: a sequence's bits do not depend on what runs beside it. For plain and
// quantized weights, the kinds included that no tiny model on disk has.
#include <gtest/gtest.h>

#include <deque>

#include "backend/cpu/testing.h"
#include "base/sanitized.h"
#include "model/layers/memory_weights.h"
#include "model_harness.h"
#include "step_driver.h"

namespace quire {
namespace {

using testing_support::Matrix;
using testing_support::MemoryWeights;
using testing_support::random_matrix;

std::string table_name(const ::testing::TestParamInfo<std::string>& tested) { return tested.param; }

struct TableCase {
  const char *model, *dtype, *kv_cache_dtype;
};
constexpr TableCase kTableCases[] = {
    {"tests/golden-gguf/llama.BF16.gguf", "bfloat16", "auto"},
    {"tests/golden-gguf/llama.Q4_0.gguf", "auto", "int8"},
    {"tests/golden-gguf/llama.Q5_1.gguf", "auto", "auto"},
    {"tests/golden-gguf/qwen3.Q8_0.gguf", "auto", "float16"},
    {"tests/golden/gemma2", "float32", "int8"},
};

class EveryTable : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (kSanitized && GetParam() == "ref") GTEST_SKIP() << "slow under sanitizers";
  }
};

TEST_P(EveryTable, GivesARequestTheSameBitsWhateverHappensAround) {
  std::size_t number = 0;
  for (const TableCase& c : kTableCases) {
    if (kSanitized && ++number > 2) break;
    SCOPED_TRACE(c.model);
    EngineFlags flags;
    flags.kernels = GetParam();
    flags.kv_cache_dtype = c.kv_cache_dtype;
    flags.threads = 1;
    const LoadedModel one = load_for_test(c.model, c.dtype, flags);
    flags.threads = 2;
    flags.block_size = 16;
    const LoadedModel two = load_for_test(c.model, c.dtype, flags);
    SamplingParams sampling;
    sampling.temperature = 0;
    const auto run = [&](const LoadedModel& model, const FollowOptions& options) {
      return run_followed(*model.runner, static_cast<std::int32_t>(model.max_model_len),
                          long_prompt(), sampling, 24, options);
    };
    const Followed alone = run(one, {});
    FollowOptions chunked;
    chunked.max_num_batched_tokens = 7;
    chunked.others = 3;
    expect_same_bits(alone, run(one, chunked), "in chunks");
    FollowOptions pressed;
    pressed.block_size = 16;
    pressed.num_blocks = 11;  // the followed request needs 8 of them
    pressed.others = 15;
    pressed.lead_steps = 4;
    pressed.prefix_caching = false;
    pressed.max_num_batched_tokens = 33;
    std::int64_t preemptions = 0;
    for (const std::uint64_t seed : {1, 2}) {
      pressed.seed = seed;
      pressed.async = seed == 2;
      const Followed got = run(two, pressed);
      preemptions += got.preemptions;
      expect_same_bits(alone, got, "among others, with few blocks, on two threads");
    }
    EXPECT_GT(preemptions, 0);
  }
}

// A llama of one layer whose matrices are of this kind.
struct MadeUpLlama {
  static constexpr std::int64_t kHidden = 256, kKv = 128, kVocab = 512;
  ModelConfig config;
  MemoryWeights weights;
  std::deque<Matrix> matrices;

  explicit MadeUpLlama(DType dtype) {
    OpenOptions options;
    options.hf_overrides =
        R"({"hidden_size": 256, "intermediate_size": 256, "head_dim": 64, "num_hidden_layers": 1})";
    config = std::move(open_model(source_path("tests/golden/llama"), options)->config);
    const std::string layer = "model.layers.0.";
    const std::pair<std::string, std::int64_t> rows[] = {
        {"lm_head", kVocab},
        {layer + "self_attn.q_proj", kHidden},
        {layer + "self_attn.k_proj", kKv},
        {layer + "self_attn.v_proj", kKv},
        {layer + "self_attn.o_proj", kHidden},
        {layer + "mlp.gate_proj", kHidden},
        {layer + "mlp.up_proj", kHidden},
        {layer + "mlp.down_proj", kHidden},
    };
    for (const auto& [name, outputs] : rows) {
      const auto seed = static_cast<unsigned>(matrices.size());
      matrices.push_back(random_matrix(dtype, outputs, kHidden, seed));
      weights.borrow(name + ".weight", dtype, Shape{outputs, kHidden},
                     matrices.back().bytes.data());
    }
    weights.add("model.embed_tokens.weight", Shape{kVocab, kHidden});
    for (const std::string& name :
         {layer + "input_layernorm", layer + "post_attention_layernorm", std::string("model.norm")})
      weights.add(name + ".weight", Shape{kHidden});
  }
};

TEST_P(EveryTable, GivesASequenceTheSameBitsForEveryKindOfWeights) {
  std::size_t number = 0;
  for (const DType dtype :
       {DType::kQ4_K, DType::kQ6_K, DType::kMXFP4, DType::kQ5_K, DType::kQ5_1, DType::kQ2_K,
        DType::kQ3_K, DType::kIQ4_NL, DType::kIQ4_XS, DType::kG4_128, DType::kG8_64, DType::kF8_128,
        DType::kTQ2_0, DType::kIQ3_S}) {
    if (++number > 3 && kSanitized) break;
    SCOPED_TRACE(dtype_name(dtype));
    const MadeUpLlama llama(dtype);
    HarnessOptions options;
    options.kernels = GetParam().c_str();
    options.kv = number % 2 == 0 ? DType::kI8 : DType::kBF16;
    for (const ComputeDType compute : {ComputeDType::kAuto, ComputeDType::kFloat32}) {
      if (kSanitized && compute == ComputeDType::kFloat32) continue;
      options.dtype = compute;
      expect_bits_of_the_sequence_alone(llama.config, llama.weights, options);
    }
  }
}

// Layers that a llama does not have: sinks, latent attention, chunks, slopes, a soft cap, experts,
// a recurrent state.
TEST_P(EveryTable, GivesASequenceTheSameBitsInEveryKindOfLayer) {
  std::size_t number = 0;
  for (const char* name : {"gpt_oss", "deepseek_v2", "llama4_text", "falcon_alibi", "gemma2",
                           "mixtral", "mamba2", "qwen3_next"}) {
    if (kSanitized && ++number > 2) break;
    SCOPED_TRACE(name);
    const ModelFiles files =
        std::move(*open_model(source_path(std::string("tests/golden/") + name)));
    HarnessOptions options;
    options.kernels = GetParam().c_str();
    for (const DType kv : {DType::kI8, DType::kBF16}) {
      options.kv = kv;
      expect_bits_of_the_sequence_alone(files.config, *files.weights, options);
    }
  }
}

TEST_P(EveryTable, IsTheOneThatRuns) {
  const ModelFiles files = std::move(*open_model(source_path("tests/golden/llama")));
  HarnessOptions options;
  options.kernels = GetParam().c_str();
  const Harness harness(files.config, *files.weights, options, 1);
  EXPECT_NE(harness.description().find("(" + GetParam() + ","), std::string::npos)
      << harness.description();
}

INSTANTIATE_TEST_SUITE_P(Tables, EveryTable, ::testing::ValuesIn(kernel_table_names()), table_name);

}  // namespace
}  // namespace quire
