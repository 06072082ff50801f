// rope_and_attend leaves the bits of rope, store_kv and attention, in its output and in the cache,
// whether it does them in one (rows that only decode) or one after the other (all else).
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/testing.h"
#include "base/trace.h"

namespace quire {
namespace {

using testing_support::make_backend;
using testing_support::random_floats;
using testing_support::same_bits;

using Ints = std::vector<std::int32_t>;

struct HeadShape {
  std::int32_t q_heads = 6, kv_heads = 2, head_dim = 32;
};
struct Step {
  HeadShape heads = {};
  DType dtype = DType::kBF16;
  std::int32_t rotary_dim = 32;
  bool interleaved = false;
  std::int32_t window = 0, chunk = 0;
  std::int32_t block_size = 32;
  Ints positions = {70, 0, 31, 32, 200};  // of each sequence's first row
  Ints rows = {};                         // of each sequence; empty: one
  Ints shared = {};  // how many of its first blocks a sequence has from the one before; empty: none
};

class Play {
 public:
  Play(const KernelTable& table, int threads, const Step& step)
      : step_(step), backend_(make_backend(table, threads)) {
    KvGeometry geometry;
    const auto& [q_heads, kv_heads, head_dim] = step.heads;
    geometry.groups = {{KvGroupKind::kFullAttention, 2, kv_heads, head_dim, head_dim, 0}};
    geometry.block_size = step.block_size;
    geometry.dtype = step.dtype;
    params_.q_heads = q_heads;
    params_.kv_heads = kv_heads;
    params_.head_dim = params_.v_head_dim = head_dim;
    params_.scale = 0.2f;
    params_.window = step.window;
    params_.chunk = step.chunk;
    params_.layer = 1;
    width_ = std::int64_t{q_heads + 2 * kv_heads} * head_dim;
    lay_out();
    cache_ = backend_->make_kv_cache(geometry, std::span(&next_block_, 1));
    fill();
    cos_ = random_floats(row_begin_.back() * std::int64_t{step.rotary_dim} / 2, 7);
    sin_ = random_floats(row_begin_.back() * std::int64_t{step.rotary_dim} / 2, 8);
  }

  // Output, then all of the cache.
  std::vector<float> one_by_one() {
    std::vector<float> qkv = rows(), out = output();
    const auto& [q_heads, kv_heads, head_dim] = step_.heads;
    if (step_.rotary_dim > 0) {
      backend_->rope({cos_.data(), sin_.data(), step_.rotary_dim, step_.interleaved,
                      q_heads + kv_heads, head_dim, width_},
                     row_begin_.back(), qkv.data());
    }
    const float* const k = qkv.data() + q_heads * head_dim;
    backend_->store_kv(k, width_, k + kv_heads * head_dim, width_, batch(), params_, *cache_);
    backend_->attention(qkv.data(), width_, batch(), params_, *cache_, out.data());
    return with_cache(out);
  }
  std::vector<float> in_one() {
    std::vector<float> qkv = rows(), out = output();
    start_trace("");
    backend_->rope_and_attend(qkv.data(), cos_.data(), sin_.data(), step_.rotary_dim,
                              step_.interleaved, batch(), params_, *cache_, out.data());
    fused_ = true;
    for (const TraceThread& thread : take_trace()) {
      for (const TraceEvent& event : thread.events)
        fused_ &= event.label.kind != TraceKind::kRopeAndStore;
    }
    return with_cache(out);
  }
  bool fused() const { return fused_; }

 private:
  void lay_out() {
    std::vector<Ints> tables;
    for (std::size_t s = 0; s < step_.positions.size(); ++s) {
      const std::int32_t rows = step_.rows.empty() ? 1 : step_.rows[s];
      row_begin_.push_back(row_begin_.back() + rows);
      const std::int32_t blocks = (step_.positions[s] + rows - 1) / step_.block_size + 1;
      const std::int32_t shared = step_.shared.empty() ? 0 : step_.shared[s];
      Ints table;
      for (std::int32_t b = 0; b < blocks; ++b)
        table.push_back(b < shared ? tables.back()[static_cast<std::size_t>(b)] : next_block_++);
      table_.insert(table_.end(), table.begin(), table.end());
      table_begin_.push_back(static_cast<std::int32_t>(table_.size()));
      tables.push_back(table);
    }
  }
  // K and V of all positions before the step's, in both layers.
  void fill() {
    for (params_.layer = 0; params_.layer < 2; ++params_.layer) {
      for (std::size_t s = 0; s < step_.positions.size(); ++s) {
        const std::int32_t count = step_.positions[s];
        const auto kv = random_floats(count * width_, static_cast<unsigned>(s + 1));
        const Ints rows = {0, count}, start = {0}, begin = {table_begin_[s], table_begin_[s + 1]};
        backend_->store_kv(kv.data(), width_, kv.data() + width_ / 2, width_,
                           {rows, start, table_, begin}, params_, *cache_);
      }
    }
    params_.layer = 1;
  }
  AttentionBatch batch() const { return {row_begin_, step_.positions, table_, table_begin_}; }
  std::vector<float> rows() const { return random_floats(row_begin_.back() * width_, 99); }
  std::vector<float> output() const {
    return std::vector<float>(static_cast<std::size_t>(
        row_begin_.back() * std::int64_t{step_.heads.q_heads} * step_.heads.head_dim));
  }
  std::vector<float> with_cache(std::vector<float> out) const {
    const Buffer& memory = static_cast<const CpuKvCache&>(*cache_).groups[0];
    const std::size_t at = out.size();
    out.resize(at + memory.size() / sizeof(float));
    std::memcpy(out.data() + at, memory.data(), memory.size() / sizeof(float) * sizeof(float));
    return out;
  }

  const Step step_;
  std::unique_ptr<CpuBackend> backend_;
  std::unique_ptr<KvCache> cache_;
  AttentionParams params_;
  std::int64_t width_ = 0;
  std::int32_t next_block_ = 1;
  Ints row_begin_ = {0}, table_, table_begin_ = {0};
  std::vector<float> cos_, sin_;
  bool fused_ = false;
};

void expect_same(const Step& step, bool fused) {
  for (const KernelTable* table : available_kernels()) {
    const auto expected = Play(*table, 1, step).one_by_one();
    for (const int threads : {1, 2, 3}) {
      Play play(*table, threads, step);
      EXPECT_TRUE(same_bits(play.in_one(), expected)) << table->name << ", threads " << threads;
      EXPECT_EQ(play.fused(), fused) << table->name << ", threads " << threads;
    }
  }
}

TEST(RopeAndAttend, DecodingRowsInOneHaveTheBitsOfThreeOperations) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8})
    expect_same({.dtype = dtype}, true);
  expect_same({.heads = {7, 1, 80}, .rotary_dim = 20, .block_size = 16}, true);
  expect_same({.heads = {3, 3, 24}, .rotary_dim = 24, .interleaved = true, .block_size = 8}, true);
  expect_same({.heads = {40, 2, 16}, .dtype = DType::kI8, .rotary_dim = 0}, true);
  expect_same({.window = 37}, true);
  expect_same({.chunk = 64, .block_size = 256}, true);
}

// Few sequences, long: their spans go to different threads, and one of these keeps K and V.
TEST(RopeAndAttend, SoWhereSpansGoToDifferentThreads) {
  expect_same({.heads = {4, 1, 16}, .rotary_dim = 16, .positions = {3000}}, true);
  expect_same({.heads = {4, 2, 16}, .dtype = DType::kI8, .rotary_dim = 16, .positions = {2047, 5}},
              true);
  expect_same({.heads = {4, 1, 16}, .rotary_dim = 16, .positions = {1024}}, true);
  expect_same({.heads = {4, 1, 16}, .rotary_dim = 16, .window = 1100, .positions = {2500}}, true);
}

TEST(RopeAndAttend, BlocksThatNobodyWritesAreShared) {
  expect_same({.positions = {64, 64, 70, 100}, .shared = {0, 2, 2, 2}}, true);
}

// A prompt's last token on a block that another sequence fills in the same step.
TEST(RopeAndAttend, ARowThatReadsABlockOfThisStepWaitsForIt) {
  expect_same({.positions = {31, 32}, .shared = {0, 1}}, false);
  // The reader comes first: sequence 1 writes the block that 0 has read from.
  expect_same({.positions = {95, 63}, .shared = {0, 2}}, false);
  // Both go on in one block.
  expect_same({.positions = {40, 41}, .shared = {0, 2}}, false);
}

TEST(RopeAndAttend, StepsWithPromptsStoreAllRowsFirst) {
  expect_same({.positions = {70, 0, 31}, .rows = {1, 40, 1}}, false);
  expect_same({.positions = {0}, .rows = {50}}, false);
}

// 140 query heads of one KV head are two work items; a block of 24 lies in two spans.
TEST(RopeAndAttend, WhereNoItemOwnsTheHeadOrTheBlockItIsDoneOneByOne) {
  expect_same({.heads = {140, 1, 8}, .rotary_dim = 8}, false);
  expect_same({.block_size = 24, .positions = {1030, 3}}, false);
}

}  // namespace
}  // namespace quire
