// KV memory is touched ahead of its use; what is stored is told by attention_test and
// rope_and_attend_test.
#include <gtest/gtest.h>

#include "backend/cpu/testing.h"

namespace quire {
namespace {

using testing_support::make_backend;
using testing_support::random_floats;

// Two layers of blocks of 128 KiB; one row of one sequence is stored, or stored and attended to.
struct OneRow {
  OneRow() {
    KvGeometry geometry;
    geometry.groups = {{KvGroupKind::kFullAttention, 2, 8, 64, 64, 0}};
    geometry.block_size = 32;
    geometry.dtype = DType::kBF16;
    const std::int32_t num_blocks = 1024;
    cache = backend->make_kv_cache(geometry, std::span(&num_blocks, 1));
    params.q_heads = params.kv_heads = 8;
    params.head_dim = params.v_head_dim = 64;
    qkv = random_floats(3 * 8 * 64, 1);
    out.resize(8 * 64);
  }
  std::size_t touched() { return static_cast<CpuKvCache&>(*cache).touch_ahead[0]->settle(); }
  AttentionBatch batch(std::int32_t block_id) {
    block = block_id;
    AttentionBatch batch;
    batch.row_begin = row_begin;
    batch.start_pos = start_pos;
    batch.block_table = {&block, 1};
    batch.table_begin = table_begin;
    return batch;
  }
  void store(std::int32_t block_id, std::int32_t layer) {
    params.layer = layer;
    backend->store_kv(qkv.data() + 8 * 64, 8 * 64, qkv.data() + 16 * 64, 8 * 64, batch(block_id),
                      params, *cache);
  }
  void store_and_attend(std::int32_t block_id) {
    params.layer = 0;
    backend->rope_and_attend(qkv.data(), nullptr, nullptr, 0, false, batch(block_id), params,
                             *cache, out.data());
  }

  std::unique_ptr<CpuBackend> backend = make_backend(*available_kernels().front(), 2);
  std::unique_ptr<KvCache> cache;
  AttentionParams params;
  std::vector<float> qkv, out;
  std::vector<std::int32_t> row_begin{0, 1}, start_pos{0}, table_begin{0, 1};
  std::int32_t block = 0;
};

constexpr std::size_t kMiBytes = 1 << 20;

TEST(KvMemory, IsTouchedBeyondTheLastBlockWrittenTo) {
  OneRow row;
  row.store(0, 0);  // as warming up does
  EXPECT_EQ(row.touched(), 0u);
  row.store(31, 1);  // the first layer has told
  EXPECT_EQ(row.touched(), 0u);
  row.store(31, 0);
  EXPECT_EQ(row.touched(), (4 + 16) * kMiBytes);  // an eighth of 128 MiB
  row.store_and_attend(47);
  EXPECT_EQ(row.touched(), (6 + 16) * kMiBytes);
  row.store_and_attend(1);
  EXPECT_EQ(row.touched(), (6 + 16) * kMiBytes);
}

TEST(KvMemory, IsTakenAtOnceWhenAsked) {
  OneRow row;
  row.cache->touch();
  EXPECT_EQ(row.touched(), 128 * kMiBytes);
}

}  // namespace
}  // namespace quire
