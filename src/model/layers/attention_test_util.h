// Shared by the tests of attention layers: one sequence through a mixer, and the obvious loops in
// double.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/layers/recurrent_test_util.h"
#include "model/layers/rope.h"

namespace quire::testing_support {

inline constexpr std::int64_t kHidden = 24, kRows = 13;

inline RopeConfig rope_of(std::int32_t dim, bool interleaved) {
  RopeConfig rope;
  rope.theta = 100;
  rope.rotary_dim = dim;
  rope.interleaved = interleaved;
  return rope;
}

// One sequence from position 0 on, in one step.
inline std::vector<float> run(Mixer& mixer, const std::vector<float>& x,
                              const RopeConfig& rope_config) {
  const auto backend = plain_backend(2);
  backend->reserve(kRows, 1024);
  KvGeometry geometry;
  geometry.groups = {*mixer.kv_group()};
  geometry.groups[0].num_layers = 1;
  geometry.block_size = 8;
  geometry.dtype = DType::kF32;
  const std::int32_t blocks = 2;
  const auto cache = backend->make_kv_cache(geometry, std::span(&blocks, 1));
  std::vector<std::int32_t> positions;
  for (std::int32_t r = 0; r < kRows; ++r) positions.push_back(r);
  const std::int32_t rows[] = {0, kRows}, start[] = {0}, table[] = {1, 0}, begin[] = {0, 2},
                     prompt[] = {kRows};
  ModelInput input;
  input.token_ids = input.positions = positions;
  input.groups = {{rows, start, table, begin}};
  input.row_begin = rows;
  input.start_pos = start;
  input.prompt_tokens = prompt;
  Workspace workspace(1 << 20);
  const Rope rope = Rope::create(rope_config).value();
  const RopeTable tables[] = {rope.table(*backend, workspace, input)};
  RecurrentStore states;
  std::vector<float> y(x.size(), 1.0f);
  mixer.forward(*backend, workspace, {input, tables, *cache, states}, x.data(), Epilogue::kAdd,
                y.data());
  for (float& v : y) v -= 1.0f;
  return y;
}

inline void rotate(std::vector<double>& head, std::size_t position, const RopeConfig& rope) {
  const auto half = static_cast<std::size_t>(rope.rotary_dim / 2);
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) /
                         std::pow(rope.theta, static_cast<double>(i) / static_cast<double>(half));
    double& a = head[rope.interleaved ? 2 * i : i];
    double& b = head[rope.interleaved ? 2 * i + 1 : i + half];
    const double x = a, y = b;
    a = x * std::cos(angle) - y * std::sin(angle);
    b = y * std::cos(angle) + x * std::sin(angle);
  }
}

inline std::vector<double> head_of(const std::vector<double>& row, std::size_t head,
                                   std::size_t dim) {
  return {row.begin() + static_cast<std::ptrdiff_t>(head * dim),
          row.begin() + static_cast<std::ptrdiff_t>((head + 1) * dim)};
}

// The softmax of q.k over the keys that `sees` lets through, times the values.
inline std::vector<double> mix(const std::function<double(std::size_t)>& score,
                               const std::function<bool(std::size_t)>& sees, std::size_t keys,
                               const std::function<std::vector<double>(std::size_t)>& value,
                               double sink_weight) {
  double sum = sink_weight;
  std::vector<double> out;
  for (std::size_t k = 0; k < keys; ++k) {
    if (!sees(k)) continue;
    const double p = std::exp(score(k));
    const std::vector<double> v = value(k);
    out.resize(v.size());
    sum += p;
    for (std::size_t d = 0; d < v.size(); ++d) out[d] += p * v[d];
  }
  for (double& v : out) v /= sum;
  return out;
}
inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline void expect_near(const std::vector<float>& got, const Table& want, double tolerance) {
  std::size_t i = 0;
  for (const auto& row : want) {
    for (const double v : row) EXPECT_NEAR(static_cast<double>(got[i++]), v, tolerance);
  }
  EXPECT_EQ(i, got.size());
}

}  // namespace quire::testing_support
