// A row's attention is the same to the bit, however its sequence is cut into steps, whoever shares
// the step, whatever the block size and the number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "backend/cpu/testing.h"
#include "base/sanitized.h"

namespace quire {
namespace {

using testing_support::make_backend;
using testing_support::random_floats;
using testing_support::same_bits;

struct Case {
  std::int32_t q_heads = 6, kv_heads = 2, head_dim = 24, window = 0;
  DType dtype = DType::kBF16;
  std::int32_t length = 150;
  std::int32_t blocks_of = 0;  // positions that see each other (AttentionParams::chunk)
  float soft_cap = 0;
  bool slopes = false, sinks = false;
  bool latent = false;  // V is the first part of K, one KV head; without RoPE
  std::int32_t v_head_dim() const { return latent ? head_dim - 8 : head_dim; }
};
struct Run {
  int threads = 1;
  std::int32_t block_size = 32, chunk = 1 << 20;
  bool others = false;
};

// Feeds one sequence step by step; in each step other sequences may come along.
class Player {
 public:
  Player(const KernelTable& table, const Case& c, const Run& run) : case_(c), run_(run) {
    backend_ = make_backend(table, run.threads);
    KvGeometry geometry;
    geometry.groups = {{KvGroupKind::kFullAttention, 2, c.kv_heads, c.head_dim, c.v_head_dim(),
                        c.window, c.latent}};
    geometry.block_size = run.block_size;
    geometry.dtype = c.dtype;
    const std::int32_t per_sequence = (c.length + 300) / run.block_size + 1;
    const std::int32_t blocks = 3 * per_sequence + 5;
    cache_ = backend_->make_kv_cache(geometry, std::span(&blocks, 1));
    std::int32_t next = 1;
    for (auto& blocks_of : tables_) {
      for (std::int32_t i = 0; i < per_sequence; ++i) blocks_of.push_back(next++);
      std::shuffle(blocks_of.begin(), blocks_of.end(), std::mt19937(5));
    }
  }

  // Rows of the first sequence: [length, q_heads * head_dim].
  std::vector<float> play() {
    std::vector<float> out;
    for (std::int32_t begin = 0; begin < case_.length; begin += run_.chunk) {
      step(begin, std::min(case_.length, begin + run_.chunk), &out);
    }
    return out;
  }

 private:
  std::int64_t width() const {
    return std::int64_t{case_.q_heads + 2 * case_.kv_heads} * case_.head_dim;
  }
  std::int64_t out_width() const { return std::int64_t{case_.q_heads} * case_.v_head_dim(); }

  void add_rows(int sequence, std::int32_t begin, std::int32_t end) {
    for (std::int32_t pos = begin; pos < end; ++pos) {
      const auto row = random_floats(width(), static_cast<unsigned>(sequence * 100000 + pos));
      qkv_.insert(qkv_.end(), row.begin(), row.end());
      positions_.push_back(pos);
    }
    row_begin_.push_back(static_cast<std::int32_t>(positions_.size()));
    start_pos_.push_back(begin);
    const auto& blocks = tables_[sequence];
    block_table_.insert(block_table_.end(), blocks.begin(), blocks.end());
    table_begin_.push_back(static_cast<std::int32_t>(block_table_.size()));
  }

  void step(std::int32_t begin, std::int32_t end, std::vector<float>* out) {
    qkv_.clear(), positions_.clear(), start_pos_.clear(), block_table_.clear();
    row_begin_ = {0}, table_begin_ = {0};
    const std::int32_t one = other_pos_, many = other_pos_ + 1 + other_pos_ % 9;
    if (run_.others) add_rows(1, one % 200, one % 200 + 1);
    const std::size_t first = positions_.size();
    add_rows(0, begin, end);
    if (run_.others) add_rows(2, one % 200, one % 200 + (many - one));
    other_pos_ = many;

    const double frequencies[] = {1.0, 0.3, 0.1, 0.01};
    std::vector<float> cos(positions_.size() * 4), sin(cos.size());
    backend_->rope_table(positions_, frequencies, 1.0, cos.data(), sin.data());
    const AttentionBatch batch{row_begin_, start_pos_, block_table_, table_begin_};
    const AttentionParams params = make_params();
    std::vector<float> result(positions_.size() * static_cast<std::size_t>(out_width()));
    if (case_.latent) {
      backend_->store_kv(qkv_.data() + std::int64_t{case_.q_heads} * case_.head_dim, width(),
                         nullptr, 0, batch, params, *cache_);
      backend_->attention(qkv_.data(), width(), batch, params, *cache_, result.data());
    } else {
      backend_->rope_and_attend(qkv_.data(), cos.data(), sin.data(), 8, false, batch, params,
                                *cache_, result.data());
    }
    const auto from = result.begin() + static_cast<std::ptrdiff_t>(first) * out_width();
    out->insert(out->end(), from, from + (end - begin) * out_width());
  }

  AttentionParams make_params() const {
    AttentionParams params;
    params.q_heads = case_.q_heads;
    params.kv_heads = case_.kv_heads;
    params.head_dim = case_.head_dim;
    params.v_head_dim = case_.v_head_dim();
    params.scale = 0.2f;
    params.window = case_.window;
    params.chunk = case_.blocks_of;
    params.soft_cap = case_.soft_cap;
    params.alibi = case_.slopes ? per_head_.data() : nullptr;
    params.sinks = case_.sinks ? per_head_.data() : nullptr;
    params.v_in_k = case_.latent;
    params.layer = 1;
    return params;
  }

  const Case case_;
  const Run run_;
  const std::vector<float> per_head_ = random_floats(case_.q_heads, 9, 0.1f);
  std::unique_ptr<CpuBackend> backend_;
  std::unique_ptr<KvCache> cache_;
  std::vector<std::int32_t> tables_[3];
  std::int32_t other_pos_ = 0;
  std::vector<float> qkv_;
  std::vector<std::int32_t> positions_, row_begin_, start_pos_, block_table_, table_begin_;
};

// The AMX table attends to a bf16 cache in its own arithmetic.
void expect_as_ref(const std::string& table, const Case& c, const std::vector<float>& out,
                   const std::vector<float>& of_ref) {
  if (table != "amx" || c.dtype != DType::kBF16) {
    EXPECT_TRUE(same_bits(out, of_ref)) << table << " differs from ref";
    return;
  }
  ASSERT_EQ(out.size(), of_ref.size());
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], of_ref[i], 1e-4f) << i;
}

void expect_invariant(const Case& c, std::initializer_list<Run> runs) {
  std::vector<float> of_ref;
  for (const KernelTable* table : available_kernels()) {
    const auto expected = Player(*table, c, {}).play();
    if (of_ref.empty()) of_ref = expected;
    expect_as_ref(table->name, c, expected, of_ref);
    for (const Run& run : runs) {
      EXPECT_TRUE(same_bits(Player(*table, c, run).play(), expected))
          << table->name << ": threads " << run.threads << " block " << run.block_size << " chunk "
          << run.chunk << " others " << run.others << " window " << c.window;
    }
  }
}

TEST(Attention, BitsDoNotDependOnChunksBlocksThreadsOrOthers) {
  expect_invariant({}, {{1, 32, 1, false},
                        {1, 32, 7, true},
                        {1, 8, 64, true},
                        {2, 16, 7, true},
                        {3, 256, 64, true},
                        {2, 32, 1, true},
                        {1, 24, 50, false}});
}

TEST(Attention, TheSameWithASlidingWindow) {
  expect_invariant({6, 2, 24, 37, DType::kBF16, 200},
                   {{1, 32, 1, false}, {2, 8, 7, true}, {3, 16, 64, true}, {2, 256, 1, true}});
}

TEST(Attention, TheSameInF32AndF16AndForOtherShapes) {
  expect_invariant({3, 3, 16, 0, DType::kF32, 90}, {{2, 8, 7, true}, {1, 32, 1, false}});
  expect_invariant({7, 1, 80, 0, DType::kF16, 90}, {{2, 8, 7, true}, {1, 40, 1, false}});
  expect_invariant({140, 1, 8, 0, DType::kBF16, 20},
                   {{2, 8, 3, true}});  // more heads than one item takes
}

TEST(Attention, TheSameInInt8) {
  expect_invariant({6, 2, 24, 0, DType::kI8, 150},
                   {{2, 8, 7, true}, {1, 32, 1, false}, {3, 256, 64, true}, {1, 24, 50, false}});
  expect_invariant({2, 1, 64, 37, DType::kI8, 90}, {{2, 16, 7, true}, {1, 40, 1, false}});
}

// Sizes that are no multiple of a vector, and those between the usual ones.
TEST(Attention, TheSameForOtherHeadSizes) {
  std::int32_t at = 0;
  for (const std::int32_t head_dim : {10, 20, 36, 100, 112, 160, 192}) {
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kI8}) {
      if (kSanitized && ++at % 3 != 0) continue;
      expect_invariant({2, 1, head_dim, 0, dtype, 70}, {{2, 8, 7, true}});
    }
  }
}

// What a layer may ask for besides, over every type of cache.
const std::pair<const char*, Case> kOptions[] = {
    {"plain", {}},
    {"window", {.window = 37}},
    {"sinks", {.sinks = true}},
    {"slopes", {.slopes = true}},
    {"soft cap", {.soft_cap = 2.0f}},
    {"blocks of positions", {.blocks_of = 40}},
    {"latent", {.q_heads = 4, .kv_heads = 1, .head_dim = 40, .latent = true}},
    {"latent, sinks", {.q_heads = 2, .kv_heads = 1, .head_dim = 18, .sinks = true, .latent = true}},
};

TEST(Attention, TheSameWithEveryOption) {
  for (const auto& [name, option] : kOptions) {
    SCOPED_TRACE(name);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
      if (kSanitized && dtype != DType::kI8) continue;
      Case c = option;
      c.dtype = dtype;
      c.length = 90;
      expect_invariant(c, {{2, 8, 7, true}, {1, 32, 1, false}});
    }
  }
}

// The same over two spans; on more threads than items, each span is a thread's own.
TEST(Attention, TheSameWithOptionsOverSeveralSpans) {
  for (const DType dtype : {DType::kF16, DType::kI8}) {
    if (kSanitized && dtype == DType::kF16) continue;
    Case c{.q_heads = 2, .kv_heads = 1, .head_dim = 8, .dtype = dtype, .length = 1100};
    c.sinks = c.slopes = true;
    c.soft_cap = 3.0f;
    expect_invariant(c, {{3, 32, 1099, false}});
  }
}

// Int8 keeps K and V to half a step of 1/127 of a token's largest.
TEST(Attention, Int8IsCloseToFloat) {
  const KernelTable& table = *available_kernels().back();
  for (const auto& [name, option] : kOptions) {
    SCOPED_TRACE(name);
    Case as_float = option, as_int8 = option;
    as_float.dtype = DType::kF32;
    as_int8.dtype = DType::kI8;
    const auto exact = Player(table, as_float, {}).play(),
               coarse = Player(table, as_int8, {}).play();
    double size = 0, error = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      size += exact[i] * exact[i];
      error += (coarse[i] - exact[i]) * (coarse[i] - exact[i]);
    }
    EXPECT_LT(error / size, 1e-2 * 1e-2);
    EXPECT_GT(error, 0.0);
  }
}

// A sink takes its share of every query's weight, and no more.
TEST(Attention, SinksTakeTheirShare) {
  for (const KernelTable* table : available_kernels()) {
    Case c{.q_heads = 2, .kv_heads = 1, .head_dim = 8, .dtype = DType::kF32, .length = 1};
    const auto without = Player(*table, c, {}).play();
    c.sinks = true;
    const auto with = Player(*table, c, {}).play();
    // The numbers that Player makes; at position 0 rotation changes nothing.
    const auto row = random_floats(32, 0), sinks = random_floats(2, 9, 0.1f);
    for (std::size_t h = 0; h < 2; ++h) {
      float score = 0;
      for (std::size_t d = 0; d < 8; ++d) score += 0.2f * row[h * 8 + d] * row[16 + d];
      const float share = std::exp(score) / (std::exp(score) + std::exp(sinks[h]));
      for (std::size_t d = 0; d < 8; ++d)
        EXPECT_NEAR(with[h * 8 + d], without[h * 8 + d] * share, 1e-6f) << table->name;
    }
  }
}

TEST(Attention, SpansOfALongSequenceAreMergedInOrderOnAnyThread) {
  if (!kSanitized) {  // half a minute each there
    expect_invariant({2, 1, 16, 0, DType::kBF16, 2200},
                     {{2, 32, 2199, false}, {3, 16, 2199, false}, {2, 32, 300, true}});
  }
  expect_invariant({2, 1, 16, 1100, DType::kBF16, 2200},
                   {{2, 32, 2199, false}, {3, 64, 700, true}});
}

// As many items as threads want, but nearly all of the work is one chunk's.
TEST(Attention, SpansOfALongChunkAmongShortSequencesAreSpread) {
  expect_invariant({4, 2, 16, 0, DType::kBF16, 1300},
                   {{2, 32, 20, true}, {3, 16, 5, true}, {2, 32, 1300, false}});
}

TEST(KvCache, CopiedBlocksHoldTheFirstTokens) {
  const auto backend = make_backend(*available_kernels().front(), 2);
  KvGeometry geometry;
  geometry.groups = {{KvGroupKind::kFullAttention, 2, 3, 16, 8, 0}};
  geometry.block_size = 16;
  const std::int32_t blocks = 4;
  auto cache = backend->make_kv_cache(geometry, std::span(&blocks, 1));
  auto& cpu = static_cast<CpuKvCache&>(*cache);
  const std::int64_t bytes = geometry.block_bytes(0);
  for (std::int64_t i = 0; i < bytes; ++i)
    cpu.groups[0].data()[i] = static_cast<std::byte>(1 + i % 251);
  const BlockCopy copies[] = {{0, 0, 1, 16}, {0, 0, 2, 5}};
  backend->copy_blocks(copies, *cache);
  EXPECT_EQ(std::memcmp(cpu.groups[0].data(), cpu.groups[0].data() + bytes,
                        static_cast<std::size_t>(bytes)),
            0);
  const auto* source = cpu.groups[0].as<std::uint16_t>();
  const auto* target = source + bytes;  // block 2, in elements of two bytes
  for (std::int64_t part = 0; part < 6; ++part) {
    for (std::int64_t token = 0; token < 16; ++token) {
      const std::int64_t base = part * 16 * 24, k = base + 3 * 16 + token,
                         v = base + 16 * 16 + token * 8 + 7;
      EXPECT_EQ(target[k], token < 5 ? source[k] : 0);
      EXPECT_EQ(target[v], token < 5 ? source[v] : 0);
    }
  }
}

// Latent attention keeps K alone: a block is that much smaller, and copies take no V along.
TEST(KvCache, ValuesInsideOfKeysTakeNoRoom) {
  KvGeometry geometry;
  geometry.groups = {{KvGroupKind::kFullAttention, 1, 1, 16, 8, 0, true}};
  geometry.block_size = 8;
  EXPECT_EQ(geometry.block_bytes(0), 16 * 8 * 2);
  const auto backend = make_backend(*available_kernels().front(), 1);
  const std::int32_t blocks = 3;
  auto cache = backend->make_kv_cache(geometry, std::span(&blocks, 1));
  auto& memory = static_cast<CpuKvCache&>(*cache).groups[0];
  ASSERT_EQ(memory.size(), 3u * 256);
  std::fill(memory.data(), memory.data() + 256, std::byte{7});
  const BlockCopy copy{0, 0, 1, 8};
  backend->copy_blocks(std::span(&copy, 1), *cache);
  for (std::size_t i = 0; i < 512; ++i)
    ASSERT_EQ(memory.data()[256 + i], static_cast<std::byte>(i < 256 ? 7 : 0)) << i;
}

// Models that only have recurrent layers.
TEST(KvCache, MayHaveNoGroups) {
  const auto backend = make_backend(*available_kernels().front(), 1);
  const auto cache = backend->make_kv_cache(KvGeometry{}, {});
  EXPECT_TRUE(static_cast<const CpuKvCache&>(*cache).groups.empty());
}

TEST(KvCache, CopiedInt8BlocksBringTheirScales) {
  const auto backend = make_backend(*available_kernels().front(), 2);
  KvGeometry geometry;
  geometry.groups = {{KvGroupKind::kFullAttention, 1, 2, 16, 8, 0}};
  geometry.block_size = 8;
  geometry.dtype = DType::kI8;
  const std::int32_t blocks = 2;
  auto cache = backend->make_kv_cache(geometry, std::span(&blocks, 1));
  auto& cpu = static_cast<CpuKvCache&>(*cache);
  const std::int64_t bytes = geometry.block_bytes(0);
  EXPECT_EQ(bytes, 2 * 8 * (24 + 8));
  for (std::int64_t i = 0; i < bytes; ++i)
    cpu.groups[0].data()[i] = static_cast<std::byte>(1 + i % 251);
  const BlockCopy copy{0, 0, 1, 3};
  backend->copy_blocks(std::span(&copy, 1), *cache);
  for (std::int64_t head = 0; head < 2; ++head) {
    for (std::int64_t part = 0; part < 2; ++part) {
      const std::int64_t at = head * geometry.head_bytes(0) + 24 * 8 + part * 32;
      for (std::int64_t i = 0; i < 32; ++i)
        EXPECT_EQ(cpu.groups[0].data()[bytes + at + i],
                  i < 12 ? cpu.groups[0].data()[at + i] : std::byte{0});
    }
  }
}

}  // namespace
}  // namespace quire
