// Attention on AMX tiles: as close to the reference as f32 is, and for each query vector the same
// bits whoever shares its call.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cpu/attention_testing.h"
#include "kernels/cpu/kernels.h"

namespace quire {
namespace {

using testing_support::attend;
using testing_support::Cache;
using testing_support::LatentProblem;
using testing_support::random_floats;
using testing_support::reference;
using testing_support::same_bits;

const VectorKernels* amx_kernels() {
  for (const KernelTable* table : available_kernels())
    if (std::string(table->name) == "amx") return &table->vec;
  return nullptr;
}

struct AmxShape {
  std::int32_t head_dim, v_head_dim, heads, rows, block_size;
  std::int64_t first_pos;
  std::int32_t window = 0, chunk = 0;
  float soft_cap = 0.0f;
  bool slopes = false;
  float q_size = 1.0f;
};
const AmxShape kAmxShapes[] = {
    {64, 64, 3, 1, 32, 0},
    {64, 64, 3, 1, 32, 99},
    {64, 64, 3, 42, 32, 50},
    {64, 64, 7, 18, 32, 1000},
    {128, 128, 6, 21, 32, 1100},
    {128, 128, 4, 3, 256, 2100},
    {80, 80, 7, 9, 16, 130},
    {24, 24, 1, 17, 8, 3},
    {7, 9, 2, 40, 24, 61},
    {96, 48, 2, 5, 24, 77},
    {256, 256, 1, 2, 64, 200, 1},
    {64, 64, 64, 1, 32, 2100, 1030},
    {32, 32, 2, 64, 8, 1010, 70},
    {64, 64, 3, 42, 32, 300, 37},
    {64, 64, 3, 42, 40, 300, 0, 71},
    {40, 40, 2, 33, 32, 140, 0, 0, 4.0f},
    {40, 40, 2, 33, 32, 140, 0, 0, 0.0f, true},
    {40, 40, 128, 1, 32, 1500, 0, 0, 30.0f, true},
    {64, 64, 3, 42, 32, 500, 0, 0, 0.0f, false, 20.0f},  // scores of some hundreds
};

const float* slopes_of(std::int32_t heads) {
  static std::vector<float> slopes;
  slopes.clear();
  for (std::int32_t h = 0; h < heads; ++h) slopes.push_back(std::exp2(-static_cast<float>(h % 8)));
  return slopes.data();
}

struct AmxProblem {
  Cache cache;
  std::vector<float> q;
  AttentionItem item;
  explicit AmxProblem(const AmxShape& shape)
      : cache(shape.first_pos + shape.rows, shape.block_size, shape.head_dim, shape.v_head_dim,
              DType::kBF16),
        q(random_floats(std::int64_t{shape.rows} * shape.heads * shape.head_dim, 31,
                        shape.q_size)) {
    item.kv = cache.head;
    item.q = q.data();
    item.q_stride = std::int64_t{shape.heads} * shape.head_dim;
    item.rows = shape.rows;
    item.heads = shape.heads;
    item.first_pos = shape.first_pos;
    item.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
    item.window = shape.window;
    item.chunk = shape.chunk;
    item.soft_cap = shape.soft_cap;
    if (shape.slopes) item.alibi = slopes_of(shape.heads);
  }
};

class AmxAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (amx_kernels() == nullptr) GTEST_SKIP() << "this machine has no AMX";
  }
};

TEST_F(AmxAttention, IsAsCloseToTheReferenceAsFloatIs) {
  for (const AmxShape& shape : kAmxShapes) {
    const AmxProblem problem(shape);
    const auto expected = attend(reference(), problem.item);
    const auto out = attend(*amx_kernels(), problem.item);
    float worst = 0.0f;
    for (std::size_t i = 0; i < out.size(); ++i)
      worst = std::max(worst, std::isfinite(out[i]) ? std::abs(out[i] - expected[i]) : INFINITY);
    // Values are about 1, weights are off by 2^-16; scores by 2^-17 and some 2^-24 of their size,
    // which q_size sets.
    EXPECT_LE(worst, 4e-5f * shape.q_size)
        << "head_dim " << shape.head_dim << " heads " << shape.heads << " rows " << shape.rows
        << " block " << shape.block_size << " window " << shape.window;
  }
}

TEST_F(AmxAttention, BitsDoNotDependOnHowManyRowsShareTheCall) {
  for (const AmxShape& shape : kAmxShapes) {
    const AmxProblem problem(shape);
    const auto expected = attend(*amx_kernels(), problem.item);
    for (const std::int32_t chunk : {1, 2, 5, 16}) {
      if (chunk >= shape.rows) break;
      std::vector<float> out;
      for (std::int32_t row = 0; row < shape.rows; row += chunk) {
        AttentionItem item = problem.item;
        item.q += row * item.q_stride;
        item.first_pos += row;
        item.rows = std::min(chunk, shape.rows - row);
        const auto part = attend(*amx_kernels(), item);
        out.insert(out.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(same_bits(out, expected))
          << "head_dim " << shape.head_dim << " heads " << shape.heads << " rows " << shape.rows
          << " chunk " << chunk << " window " << shape.window;
    }
  }
}

// A head alone: other columns of its row's tile.
TEST_F(AmxAttention, BitsDoNotDependOnTheOtherHeads) {
  const AmxProblem problem({64, 64, 7, 18, 32, 1000});
  const auto all = attend(*amx_kernels(), problem.item);
  for (std::int32_t head = 0; head < 7; ++head) {
    AttentionItem item = problem.item;
    item.heads = 1;
    item.q += head * 64;
    const auto alone = attend(*amx_kernels(), item);
    for (std::size_t row = 0; row < 18; ++row) {
      for (std::size_t d = 0; d < 64; ++d) {
        ASSERT_EQ(alone[row * 64 + d], all[(row * 7 + static_cast<std::size_t>(head)) * 64 + d])
            << "head " << head << " row " << row << " dimension " << d;
      }
    }
  }
}

TEST_F(AmxAttention, ValuesInsideOfKeysEqualACopyOfThem) {
  struct Sizes {
    std::int32_t head_dim, v_head_dim, block_size, rows;
  };
  for (const Sizes& sizes : {Sizes{14, 10, 8, 5}, Sizes{72, 64, 32, 1}, Sizes{37, 33, 24, 21},
                             Sizes{576, 512, 32, 9}, Sizes{576, 512, 40, 1}}) {
    LatentProblem problem(sizes.head_dim, sizes.v_head_dim, sizes.block_size, sizes.rows,
                          DType::kBF16, 0.05f);
    AttentionItem& item = problem.item;
    const auto expected = attend(*amx_kernels(), item);
    item.kv = problem.inside.head;
    EXPECT_TRUE(same_bits(attend(*amx_kernels(), item), expected)) << sizes.head_dim;
    const auto exact = attend(reference(), item);
    for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(expected[i], exact[i], 2e-5f);
  }
}

// A row that is stored only as its item begins, behind keys that nobody wrote.
TEST_F(AmxAttention, StoresTheRowBeforeItIsRead) {
  for (const std::int64_t first : {0, 31, 63, 64, 1023, 1024, 1500}) {
    AmxProblem problem({64, 64, 3, 1, 32, first});
    const auto expected = attend(*amx_kernels(), problem.item);
    AmxProblem late({64, 64, 3, 1, 32, first});
    const auto k = random_floats((first + 1) * 64, 11), v = random_floats((first + 1) * 64, 12);
    const std::vector<float> nothing(64, NAN);
    late.cache.store(reference(), nothing.data(), nothing.data(), 1, first);
    KvStore store;
    store.k = k.data() + first * 64;
    store.v = v.data() + first * 64;
    store.rows = 1;
    store.block =
        late.cache.bytes.data() +
        late.cache.blocks[static_cast<std::size_t>(first / 32)] * late.item.kv.block_stride;
    store.block_size = 32;
    store.offset = static_cast<std::int32_t>(first % 32);
    store.head_dim = store.v_head_dim = 64;
    late.item.store = &store;
    EXPECT_TRUE(same_bits(attend(*amx_kernels(), late.item), expected)) << first;
  }
}

TEST_F(AmxAttention, OtherTypesOfCacheGiveTheBitsOfTheReference) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI8}) {
    Cache cache(150, 32, 64, 64, dtype);
    const auto q = random_floats(3 * 20 * 64, 31);
    AttentionItem item;
    item.kv = cache.head;
    item.q = q.data();
    item.q_stride = 3 * 64;
    item.rows = 20;
    item.heads = 3;
    item.first_pos = 130;
    item.scale = 0.125f;
    EXPECT_TRUE(same_bits(attend(*amx_kernels(), item), attend(reference(), item)));
  }
}

}  // namespace
}  // namespace quire
