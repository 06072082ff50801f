#include "model_harness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace quire {
namespace {

constexpr std::int32_t kHarnessBlock = 8, kBlocksPerSequence = 8;
constexpr std::int64_t kMaxRows = 96;

std::vector<std::int32_t> random_tokens(std::size_t count, std::uint32_t seed) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    tokens.push_back(static_cast<std::int32_t>(4 + seed / 65536 % 508));
  }
  return tokens;
}

}  // namespace

Harness::Harness(const ModelConfig& config, const WeightSource& weights,
                 const HarnessOptions& options, int threads) {
  CpuBackendOptions backend;
  backend.dtype = options.dtype;
  backend.threads = threads;
  backend.kernels = options.kernels;
  backend_ = std::move(*make_cpu_backend(backend));
  Result<std::unique_ptr<Model>> model = create_model(config, weights, *backend_);
  if (!model) throw std::runtime_error(model.error().message);
  model_ = std::move(*model);
  const DType usual = options.dtype == ComputeDType::kFloat32 ? DType::kF32 : DType::kBF16;
  const KvGeometry geometry = model_->kv_geometry(kHarnessBlock, options.kv.value_or(usual));
  const std::vector<std::int32_t> blocks(geometry.groups.size(), 2 * kBlocksPerSequence);
  cache_ = backend_->make_kv_cache(geometry, blocks);
  workspace_ = std::make_unique<Workspace>(model_->workspace_bytes(kMaxRows, kMaxRows));
  backend_->reserve(kMaxRows, 0);
  model_->reserve_slots(2);
}

std::vector<float> Harness::step(const std::vector<HarnessPart>& parts) {
  std::vector<std::int32_t> ids, positions, rows(1, 0), starts, prompts, slots, table,
      table_begin(1, 0);
  for (const HarnessPart& part : parts) {
    for (std::int32_t p = part.begin; p < part.end; ++p) {
      ids.push_back(part.tokens[static_cast<std::size_t>(p)]);
      positions.push_back(p);
    }
    rows.push_back(static_cast<std::int32_t>(ids.size()));
    starts.push_back(part.begin);
    prompts.push_back(static_cast<std::int32_t>(part.tokens.size()));
    slots.push_back(part.slot);
    // Blocks of the two sequences interleave, last first.
    for (std::int32_t b = 0; b < kBlocksPerSequence; ++b)
      table.push_back(2 * (kBlocksPerSequence - 1 - b) + part.slot);
    table_begin.push_back(static_cast<std::int32_t>(table.size()));
  }
  ModelInput input;
  input.token_ids = ids;
  input.positions = positions;
  input.groups.assign(cache_->geometry.groups.size(), {rows, starts, table, table_begin});
  input.row_begin = rows;
  input.start_pos = starts;
  input.prompt_tokens = prompts;
  input.slots = slots;
  const auto count = static_cast<std::int64_t>(ids.size());
  std::vector<float> hidden(static_cast<std::size_t>(count * model_->hidden_size));
  std::vector<float> logits(static_cast<std::size_t>(count * model_->vocab_size));
  workspace_->reset();
  model_->forward(input, *cache_, *workspace_, hidden.data());
  model_->logits(hidden.data(), count, *workspace_, logits.data());
  return logits;
}

void expect_bits_of_the_sequence_alone(const ModelConfig& config, const WeightSource& weights,
                                       const HarnessOptions& options) {
  const auto followed = random_tokens(45, 1), other = random_tokens(50, 2);
  Harness alone(config, weights, options, 1), crowded(config, weights, options, 2);
  const std::vector<float> expected = alone.step({{followed, 0, 45, 0}});
  for (const float v : expected) ASSERT_TRUE(std::isfinite(v));
  std::vector<float> got;
  const auto keep = [&](const std::vector<float>& logits, std::size_t first, std::size_t rows) {
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(first * crowded.vocab());
    got.insert(got.end(), begin, begin + static_cast<std::ptrdiff_t>(rows * crowded.vocab()));
  };
  crowded.step({{other, 0, 20, 0}});  // leaves a state and K and V behind in the slot
  keep(crowded.step({{other, 0, 11, 1}, {followed, 0, 13, 0}}), 11, 13);
  keep(crowded.step({{followed, 13, 14, 0}}), 0, 1);
  keep(crowded.step({{followed, 14, 37, 0}, {other, 11, 50, 1}}), 0, 23);
  keep(crowded.step({{followed, 37, 45, 0}}), 0, 8);
  EXPECT_TRUE(got == expected) << "dtype " << static_cast<int>(options.dtype) << " on "
                               << crowded.description();
}

}  // namespace quire
