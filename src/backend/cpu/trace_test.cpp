// Every operation of the backend leaves its span, and so does each kernel thread that takes part.
#include "base/trace.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "backend/cpu/testing.h"

namespace quire {
namespace {

using testing_support::make_backend;
using testing_support::random_floats;

TEST(CpuBackendTrace, EveryOperationIsRecorded) {
  constexpr std::int32_t kHeads = 4, kKvHeads = 2, kDim = 32, kRows = 40, kHidden = kHeads * kDim;
  constexpr std::int32_t kWidth = (kHeads + 2 * kKvHeads) * kDim;
  const auto backend = make_backend(*available_kernels().back(), 2);
  const auto table = random_floats(kWidth * kHidden, 1);
  const TensorView view{reinterpret_cast<const std::byte*>(table.data()), DType::kF32,
                        Shape{kWidth, kHidden}};
  const auto linear = backend->pack_linear(std::span(&view, 1), {});
  const auto heads = backend->pack_heads(std::span(&view, 1));
  ASSERT_TRUE(linear.has_value() && heads.has_value());
  KvGeometry geometry;
  geometry.groups = {{KvGroupKind::kFullAttention, 1, kKvHeads, kDim, kDim, 0}};
  const std::int32_t num_blocks = 4;
  const auto cache = backend->make_kv_cache(geometry, std::span(&num_blocks, 1));
  std::vector<std::int32_t> ids(kRows, 3), positions(kRows);
  const std::vector<double> frequencies(kDim / 2, 0.5);
  std::vector<float> x(kRows * kHidden), qkv(kRows * kWidth), out(kRows * kWidth);
  std::vector<float> cos(kRows * kDim / 2), sin(cos.size());
  const std::int32_t rows[] = {0, kRows}, starts[] = {0}, blocks[] = {0, 1, 2, 3},
                     begins[] = {0, 4};
  const AttentionBatch batch{rows, starts, blocks, begins};
  AttentionParams params;
  params.q_heads = kHeads;
  params.kv_heads = kKvHeads;
  params.head_dim = params.v_head_dim = kDim;
  RouteArgs route;
  route.experts = 8;
  route.top_k = 2;
  std::vector<std::int32_t> chosen(kRows * 2);
  std::vector<float> weights(kRows * 2);
  const BlockCopy copy{0, 1, 2, 7};

  start_trace("");
  backend->embed(view, ids, x.data());
  backend->norm(testing_support::rms_norm(table.data(), kHidden), x.data(), kRows, x.data());
  backend->linear(x.data(), kRows, **linear, qkv.data(), Epilogue::kStore, 0);
  backend->linear_heads(x.data(), kRows, **heads, {kHidden, kHidden, kWidth, kWidth}, out.data());
  const Linear* const experts[] = {linear->get(), linear->get()};
  const std::int32_t expert_rows[] = {0, 7, kRows};
  backend->linear_experts(x.data(), expert_rows, experts, out.data());
  backend->activate({}, qkv.data(), kRows, kHidden, out.data());
  backend->map(MapKind::kScale, 0.5f, x.data(), kRows, kHidden);
  backend->add_scaled(x.data(), 0.5f, nullptr, kRows, kHidden, out.data());
  backend->scale_rows(x.data(), kRows, kHidden, kHidden, out.data());
  backend->sigmoid_mul(x.data(), kHidden, kRows, kHidden, out.data());
  backend->gather_rows(x.data(), positions, kHidden, out.data());
  backend->route(route, x.data(), kRows, chosen.data(), weights.data());
  backend->combine(x.data(), positions.data(), weights.data(), kRows / 2, 2, kHidden,
                   Epilogue::kStore, out.data());
  backend->rope_table(positions, frequencies, 1.0, cos.data(), sin.data());
  backend->rope({cos.data(), sin.data(), kDim, false, kHeads, kDim, kHidden}, kRows, x.data());
  backend->store_kv(qkv.data(), kWidth, qkv.data(), kWidth, batch, params, *cache);
  backend->rope_and_attend(qkv.data(), cos.data(), sin.data(), kDim, false, batch, params, *cache,
                           out.data());
  backend->copy_blocks(std::span(&copy, 1), *cache);
  backend->parallel_for(2, [](std::int64_t) {});
  const std::vector<TraceThread> threads = take_trace();

  std::set<TraceKind> seen;
  bool worker_multiplied = false;
  for (const TraceThread& thread : threads) {
    for (const TraceEvent& event : thread.events) {
      seen.insert(event.label.kind);
      worker_multiplied |=
          thread.name.starts_with("kernel-") && event.label.kind == TraceKind::kLinear;
    }
  }
  for (int k = static_cast<int>(TraceKind::kOutput) + 1; k < static_cast<int>(TraceKind::kCount);
       ++k) {
    const auto kind = static_cast<TraceKind>(k);
    EXPECT_TRUE(seen.contains(kind)) << trace_kind_name(kind);
  }
  EXPECT_TRUE(worker_multiplied);
}

}  // namespace
}  // namespace quire
