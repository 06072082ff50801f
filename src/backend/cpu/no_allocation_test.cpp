// Nothing is allocated in a step: operator new is counted while the operations run.
#include <gtest/gtest.h>

#include "backend/cpu/testing.h"
#include "base/allocation_count.h"

namespace quire {
namespace {

using testing_support::make_backend;
using testing_support::random_floats;

TEST(CpuBackend, AStepAllocatesNothing) {
  constexpr std::int32_t kHeads = 4, kKvHeads = 2, kDim = 32, kRows = 40, kHidden = kHeads * kDim;
  constexpr std::int32_t kWidth = (kHeads + 2 * kKvHeads) * kDim;
  const auto backend = make_backend(*available_kernels().back(), 2);
  const auto table = random_floats(kWidth * kHidden, 1);
  const TensorView view{reinterpret_cast<const std::byte*>(table.data()), DType::kF32,
                        Shape{kWidth, kHidden}};
  const auto linear = backend->pack_linear(std::span(&view, 1), {});
  ASSERT_TRUE(linear.has_value());
  KvGeometry geometry;
  geometry.groups = {{KvGroupKind::kFullAttention, 1, kKvHeads, kDim, kDim, 0}};
  const std::int32_t num_blocks = 100;
  const auto cache = backend->make_kv_cache(geometry, std::span(&num_blocks, 1));
  std::vector<std::int32_t> ids(kRows, 3), positions(kRows), blocks(100);
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::int32_t>(i);
  const std::vector<double> frequencies(kDim / 2, 0.5);
  std::vector<float> x(kRows * kHidden), qkv(kRows * kWidth), out(kRows * kHidden);
  std::vector<float> cos(kRows * kDim / 2), sin(cos.size());
  const std::int32_t rows[] = {0, 1, kRows}, starts[] = {1500, 0}, begins[] = {0, 50, 100};
  const std::int32_t decoding_rows[] = {0, 1, 2};
  const AttentionBatch batch{rows, starts, blocks, begins},
      decoding{decoding_rows, starts, blocks, begins};
  AttentionParams params;
  params.q_heads = kHeads;
  params.kv_heads = kKvHeads;
  params.head_dim = params.v_head_dim = kDim;
  const BlockCopy copy{0, 1, 2, 7};

  const std::int64_t before = allocation_count::of_all_threads;
  for (int step = 0; step < 3; ++step) {
    backend->embed(view, ids, x.data());
    backend->norm(testing_support::rms_norm(table.data(), kHidden), x.data(), kRows, x.data());
    backend->rope_table(positions, frequencies, 1.0, cos.data(), sin.data());
    backend->linear(x.data(), kRows, **linear, qkv.data(), Epilogue::kStore, 0);
    for (const AttentionBatch& rows_of : {batch, decoding})
      backend->rope_and_attend(qkv.data(), cos.data(), sin.data(), kDim, false, rows_of, params,
                               *cache, out.data());
    backend->activate({}, qkv.data(), kRows, kHidden, out.data());
    backend->copy_blocks(std::span(&copy, 1), *cache);
  }
  EXPECT_EQ(allocation_count::of_all_threads - before, 0);
}

}  // namespace
}  // namespace quire
