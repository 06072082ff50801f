// Shared by the tests of recurrent mixers: a mixer driven step by step, and plain double
// arithmetic.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/layers/memory_weights.h"
#include "model/layers/recurrent.h"

namespace quire::testing_support {

inline std::unique_ptr<Backend> plain_backend(int threads) {
  CpuBackendOptions options;
  options.kernels = "ref";
  options.threads = threads;
  options.dtype = ComputeDType::kFloat32;
  return make_cpu_backend(options).value();
}

inline std::vector<float> random_rows(std::int64_t rows, std::int64_t columns, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (float& v : values) v = normal(random);
  return values;
}

// Runs `x` [rows, hidden] through the mixer as the sequence in slot 1, in chunks of these sizes,
// beside `others` other sequences of 1, 2, ... rows per step that come before and after it. Returns
// its outputs.
inline std::vector<float> run_chunks(Mixer& mixer, Backend& backend, std::int64_t hidden,
                                     const std::vector<float>& x,
                                     const std::vector<std::int32_t>& chunks,
                                     std::int32_t others = 0) {
  RecurrentStore states;
  states.add_layer(24);  // another layer's part
  mixer.state_offset = states.add_layer(mixer.state_floats());
  states.reserve_slots(others + 2);
  std::memset(states.state(0, 0, 0, 1), 0x7f,
              static_cast<std::size_t>((others + 2) * states.bytes_per_slot()));
  KvCache cache;
  Workspace workspace(64 << 20);
  std::vector<float> result;
  std::int32_t position = 0;
  for (std::size_t step = 0; step < chunks.size(); ++step) {
    std::vector<std::int32_t> slots, row_begin = {0}, start_pos;
    std::vector<float> input;
    const auto add = [&](std::int32_t slot, std::int32_t start, std::vector<float> rows) {
      slots.push_back(slot);
      start_pos.push_back(start);
      row_begin.push_back(row_begin.back() + static_cast<std::int32_t>(rows.size()) /
                                                 static_cast<std::int32_t>(hidden));
      input.insert(input.end(), rows.begin(), rows.end());
    };
    const auto seed = static_cast<unsigned>(100 * step);
    if (others > 0) add(0, static_cast<std::int32_t>(step), random_rows(1, hidden, seed));
    const auto own_row = static_cast<std::size_t>(row_begin.back());
    const auto first = x.begin() + position * hidden;
    add(1, position, std::vector<float>(first, first + chunks[step] * hidden));
    for (std::int32_t o = 1; o < others; ++o)
      add(o + 1, static_cast<std::int32_t>(step) * (o + 1),
          random_rows(o + 1, hidden, seed + static_cast<unsigned>(o)));
    position += chunks[step];

    const std::vector<std::int32_t> ids(static_cast<std::size_t>(row_begin.back()));
    ModelInput model_input;
    model_input.token_ids = ids;
    model_input.positions = ids;
    model_input.slots = slots;
    model_input.row_begin = row_begin;
    model_input.start_pos = start_pos;
    backend.reserve(static_cast<std::int64_t>(ids.size()), 1024);
    std::vector<float> output(input.size());
    mixer.forward(backend, workspace, {model_input, {}, cache, states}, input.data(),
                  Epilogue::kStore, output.data());
    const auto begin = output.begin() + static_cast<std::ptrdiff_t>(own_row) * hidden;
    result.insert(result.end(), begin, begin + chunks[step] * hidden);
    workspace.reset();
  }
  return result;
}

// ---- the obvious loops, in double
using Table = std::vector<std::vector<double>>;  // [rows][columns]

inline double plain_silu(double x) { return x / (1.0 + std::exp(-x)); }
inline double plain_softplus(double x) { return std::log1p(std::exp(x)); }

inline Table to_table(const std::vector<float>& values, std::int64_t columns) {
  Table m;
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(columns))
    m.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(i),
                   values.begin() + static_cast<std::ptrdiff_t>(i) + columns);
  return m;
}

inline Table plain_linear(const MemoryWeights& weights, const std::string& name, const Table& x) {
  const Table w =
      to_table(weights.values(name + ".weight"), static_cast<std::int64_t>(x[0].size()));
  Table y(x.size(), std::vector<double>(w.size()));
  for (std::size_t r = 0; r < x.size(); ++r) {
    for (std::size_t o = 0; o < w.size(); ++o) {
      double sum = weights.contains(name + ".bias")
                       ? static_cast<double>(weights.values(name + ".bias")[o])
                       : 0.0;
      for (std::size_t i = 0; i < x[r].size(); ++i) sum += w[o][i] * x[r][i];
      y[r][o] = sum;
    }
  }
  return y;
}

inline Table plain_conv(const MemoryWeights& weights, const std::string& name, const Table& x,
                        bool silu) {
  const std::vector<float>& w = weights.values(name + ".weight");
  const std::size_t channels = x[0].size(), taps = w.size() / channels;
  Table y(x.size(), std::vector<double>(channels));
  for (std::size_t t = 0; t < x.size(); ++t) {
    for (std::size_t c = 0; c < channels; ++c) {
      double sum = weights.contains(name + ".bias")
                       ? static_cast<double>(weights.values(name + ".bias")[c])
                       : 0.0;
      for (std::size_t j = 0; j < taps; ++j) {
        if (t + j + 1 >= taps) sum += static_cast<double>(w[c * taps + j]) * x[t + j + 1 - taps][c];
      }
      y[t][c] = silu ? plain_silu(sum) : sum;
    }
  }
  return y;
}

inline Table columns(const Table& x, std::size_t begin, std::size_t count) {
  Table y;
  for (const auto& row : x)
    y.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(begin),
                   row.begin() + static_cast<std::ptrdiff_t>(begin + count));
  return y;
}

inline void plain_rms(std::vector<double>& row, const std::vector<float>& w, double eps) {
  double sum = 0;
  for (const double v : row) sum += v * v;
  for (std::size_t i = 0; i < row.size(); ++i)
    row[i] =
        row[i] / std::sqrt(sum / static_cast<double>(row.size()) + eps) * static_cast<double>(w[i]);
}

}  // namespace quire::testing_support
