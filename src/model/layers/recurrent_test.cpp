// Every recurrent mixer against the obvious loop in double, and the same bits for every way of
// cutting the work.
#include <gtest/gtest.h>

#include "model/layers/recurrent_math.h"
#include "model/layers/recurrent_test_util.h"

namespace quire {
namespace {

using namespace testing_support;  // NOLINT

constexpr std::int64_t kWide = 24;
constexpr std::int64_t kSteps = 11;

double error_of(const std::vector<float>& got, const Table& want) {
  double worst = 0, largest = 1e-3;
  std::size_t i = 0;
  for (const auto& row : want) {
    for (const double v : row) {
      worst = std::max(worst, std::fabs(static_cast<double>(got[i++]) - v));
      largest = std::max(largest, std::fabs(v));
    }
  }
  EXPECT_EQ(i, got.size());
  return worst / largest;
}

// The result in one piece, after checking that no other way to cut it changes a bit.
std::vector<float> run_all_ways(Mixer& mixer, const std::vector<float>& x) {
  const auto backend = plain_backend(1);
  const auto many = plain_backend(3);
  const std::vector<float> whole = run_chunks(mixer, *backend, kWide, x, {11});
  const auto same = [&](const std::vector<float>& other) {
    return whole.size() == other.size() &&
           std::memcmp(whole.data(), other.data(), whole.size() * sizeof(float)) == 0;
  };
  EXPECT_TRUE(same(run_chunks(mixer, *backend, kWide, x, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})));
  EXPECT_TRUE(same(run_chunks(mixer, *backend, kWide, x, {2, 3, 1, 5})));
  EXPECT_TRUE(same(run_chunks(mixer, *many, kWide, x, {11})));
  EXPECT_TRUE(same(run_chunks(mixer, *backend, kWide, x, {11}, 5)));
  EXPECT_TRUE(same(run_chunks(mixer, *many, kWide, x, {4, 1, 1, 5}, 60)));
  return whole;
}

TEST(RecurrentMath, AgreesWithLibm) {
  using recurrent::exp, recurrent::softplus, recurrent::silu;
  for (double x = -86.0; x < 88.0; x += 0.0371) {
    const float f = static_cast<float>(x);
    const double e = std::exp(static_cast<double>(f)),
                 s = std::log1p(std::exp(-std::fabs(static_cast<double>(f)))) +
                     std::max(0.0, static_cast<double>(f));
    EXPECT_NEAR(static_cast<double>(exp(f)) / e, 1.0, 4e-7) << x;
    EXPECT_NEAR(static_cast<double>(softplus(f)) / s, 1.0, 6e-7) << x;
    EXPECT_NEAR(static_cast<double>(silu(f)), plain_silu(x), 1e-5 + 1e-6 * std::fabs(x)) << x;
  }
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-1000.0f), 0.0f);
  EXPECT_EQ(exp(-INFINITY), 0.0f);
  EXPECT_TRUE(std::isfinite(exp(INFINITY)));
  EXPECT_TRUE(std::isnan(exp(NAN)));
  EXPECT_TRUE(std::isnan(softplus(NAN)));
  EXPECT_EQ(softplus(1000.0f), 1000.0f);
}

void add_mamba(MemoryWeights& weights, const MambaSpec& spec) {
  const std::string n = "l." + spec.name + ".";
  weights.add(n + "in_proj.weight", {2 * spec.inner, kWide});
  weights.add(n + "conv1d.weight", {spec.inner, 1, spec.conv});
  weights.add(n + "conv1d.bias", {spec.inner});
  weights.add(n + "x_proj.weight", {spec.dt_rank + 2 * spec.state, spec.inner});
  weights.add(n + "dt_proj.weight", {spec.inner, spec.dt_rank});
  weights.add(n + "dt_proj.bias", {spec.inner});
  weights.add(n + "A_log", {spec.inner, spec.state}, 0.7f);
  weights.add(n + "D", {spec.inner});
  weights.add(n + "out_proj.weight", {kWide, spec.inner});
  weights.add(n + "dt_layernorm.weight", {spec.dt_rank}, 1.0f);
  weights.add(n + "b_layernorm.weight", {spec.state}, 1.0f);
  weights.add(n + "c_layernorm.weight", {spec.state}, 1.0f);
}

Table plain_mamba(const MemoryWeights& weights, const MambaSpec& spec,
                  const std::vector<float>& input) {
  const std::string n = "l." + spec.name + ".";
  const auto inner = static_cast<std::size_t>(spec.inner),
             state = static_cast<std::size_t>(spec.state),
             rank = static_cast<std::size_t>(spec.dt_rank);
  const Table xz = plain_linear(weights, n + "in_proj", to_table(input, kWide));
  const Table x = plain_conv(weights, n + "conv1d", columns(xz, 0, inner), true);
  const Table selection = plain_linear(weights, n + "x_proj", x);
  Table low = columns(selection, 0, rank), b = columns(selection, rank, state),
        c = columns(selection, rank + state, state);
  for (std::size_t t = 0; t < x.size() && spec.dt_norm_eps > 0; ++t) {
    plain_rms(low[t], weights.values(n + "dt_layernorm.weight"),
              static_cast<double>(spec.dt_norm_eps));
    plain_rms(b[t], weights.values(n + "b_layernorm.weight"),
              static_cast<double>(spec.dt_norm_eps));
    plain_rms(c[t], weights.values(n + "c_layernorm.weight"),
              static_cast<double>(spec.dt_norm_eps));
  }
  const Table dt = plain_linear(weights, n + "dt_proj", low);
  Table h(inner, std::vector<double>(state)), y = x;
  for (std::size_t t = 0; t < x.size(); ++t) {
    for (std::size_t i = 0; i < inner; ++i) {
      const double step = plain_softplus(dt[t][i]);
      double sum = static_cast<double>(weights.values(n + "D")[i]) * x[t][i];
      for (std::size_t s = 0; s < state; ++s) {
        const double a = -std::exp(static_cast<double>(weights.values(n + "A_log")[i * state + s]));
        h[i][s] = h[i][s] * std::exp(step * a) + step * b[t][s] * x[t][i];
        sum += h[i][s] * c[t][s];
      }
      y[t][i] = sum * plain_silu(xz[t][inner + i]);
    }
  }
  return plain_linear(weights, n + "out_proj", y);
}

TEST(Recurrent, Mamba) {
  for (const float norm_eps : {0.0f, 1e-3f}) {
    MambaSpec spec;
    spec.inner = 80;  // more than one block of channels
    spec.state = 5;
    spec.conv = 4;
    spec.dt_rank = 3;
    spec.dt_norm_eps = norm_eps;
    MemoryWeights weights;
    add_mamba(weights, spec);
    const auto backend = plain_backend(1);
    WeightLoader loader(weights, *backend);
    const auto mixer = load_mamba(loader, "l.", kWide, spec);
    ASSERT_TRUE(mixer) << mixer.error().message;
    const std::vector<float> x = random_rows(kSteps, kWide, 1);
    EXPECT_LT(error_of(run_all_ways(**mixer, x), plain_mamba(weights, spec, x)), 2e-5);

    // As a GGUF has it: A itself, the convolution without its middle dimension.
    std::vector<float> a = weights.values("l.mixer.A_log");
    for (float& v : a) v = -std::exp(v);
    weights.erase("l.mixer.A_log");
    weights.set("l.mixer.A", {spec.inner, spec.state}, std::move(a));
    weights.set("l.mixer.conv1d.weight", {spec.inner, spec.conv},
                std::vector<float>(weights.values("l.mixer.conv1d.weight")));
    const auto other = load_mamba(loader, "l.", kWide, spec);
    ASSERT_TRUE(other) << other.error().message;
    weights.set("l.mixer.A_log", {spec.inner, spec.state}, {});
    const std::vector<float> first = run_chunks(**mixer, *backend, kWide, x, {11});
    const std::vector<float> second = run_chunks(**other, *backend, kWide, x, {11});
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(first[i], second[i], 1e-5f);
  }
}

TEST(Recurrent, Mamba2) {
  for (const bool per_group : {false, true}) {
    Mamba2Spec spec;
    spec.heads = 6;
    spec.head_dim = 20;
    spec.inner = 120;
    spec.groups = 2;
    spec.state = 7;
    spec.conv = 3;
    spec.dt_min = 0.2f;
    spec.dt_max = 1.5f;
    spec.norm_per_group = per_group;
    MemoryWeights weights;
    const std::string n = "l.mixer.";
    weights.add(n + "in_proj.weight", {2 * 120 + 2 * 14 + 6, kWide});
    weights.add(n + "conv1d.weight", {148, 1, 3});
    weights.add(n + "conv1d.bias", {148});
    weights.add(n + "A_log", {6}, 0.7f);
    weights.add(n + "D", {6});
    weights.add(n + "dt_bias", {6});
    weights.add(n + "norm.weight", {120}, 1.0f);
    weights.add(n + "out_proj.weight", {kWide, 120});
    const auto backend = plain_backend(1);
    WeightLoader loader(weights, *backend);
    const auto mixer = load_mamba2(loader, "l.", kWide, spec);
    ASSERT_TRUE(mixer) << mixer.error().message;
    const std::vector<float> input = random_rows(kSteps, kWide, 2);

    const Table projected = plain_linear(weights, n + "in_proj", to_table(input, kWide));
    const Table xbc = plain_conv(weights, n + "conv1d", columns(projected, 120, 148), true);
    Table y = columns(xbc, 0, 120);
    std::vector<double> h(120 * 7);
    for (std::size_t t = 0; t < y.size(); ++t) {
      for (std::size_t head = 0; head < 6; ++head) {
        const double step =
            std::clamp(plain_softplus(projected[t][268 + head] +
                                      static_cast<double>(weights.values(n + "dt_bias")[head])),
                       0.2, 1.5);
        const double decay =
            std::exp(-std::exp(static_cast<double>(weights.values(n + "A_log")[head])) * step);
        for (std::size_t p = 20 * head; p < 20 * head + 20; ++p) {
          double sum = static_cast<double>(weights.values(n + "D")[head]) * xbc[t][p];
          for (std::size_t s = 0; s < 7; ++s) {
            double& state = h[p * 7 + s];
            state = state * decay + step * xbc[t][120 + head / 3 * 7 + s] * xbc[t][p];
            sum += state * xbc[t][134 + head / 3 * 7 + s];
          }
          y[t][p] = sum * plain_silu(projected[t][p]);
        }
      }
      const std::vector<float>& w = weights.values(n + "norm.weight");
      if (!per_group) {
        plain_rms(y[t], w, 1e-5);
        continue;
      }
      std::vector<double> low(y[t].begin(), y[t].begin() + 60), high(y[t].begin() + 60, y[t].end());
      plain_rms(low, w, 1e-5);
      plain_rms(high, std::vector<float>(w.begin() + 60, w.end()), 1e-5);
      std::copy(high.begin(), high.end(), std::copy(low.begin(), low.end(), y[t].begin()));
    }
    EXPECT_LT(error_of(run_all_ways(**mixer, input), plain_linear(weights, n + "out_proj", y)),
              2e-5);
  }
}

// Qwen3-Next's projection: per key head q, k, the v of its value heads, the z of them.
TEST(Recurrent, DeltaNet) {
  constexpr std::size_t kKeyHeads = 2, kGroup = 3, kKey = 6,
                        kValue = 70;  // more than one block of channels
  DeltaNetSpec spec;
  spec.key_heads = kKeyHeads;
  spec.value_heads = kKeyHeads * kGroup;
  spec.key_dim = kKey;
  spec.value_dim = kValue;
  spec.conv = 4;
  constexpr std::int64_t kChannels = 2 * kKeyHeads * kKey + kKeyHeads * kGroup * kValue,
                         kValues = kKeyHeads * kGroup * kValue;
  MemoryWeights weights;
  const std::string n = "l.linear_attn.";
  weights.add(n + "in_proj_qkvz.weight", {kChannels + kValues, kWide});
  weights.add(n + "in_proj_ba.weight", {2 * kKeyHeads * kGroup, kWide});
  weights.add(n + "conv1d.weight", {kChannels, 1, 4});
  weights.add(n + "A_log", {6}, 0.7f);
  weights.add(n + "dt_bias", {6});
  weights.add(n + "norm.weight", {kValue}, 1.0f);
  weights.add(n + "out_proj.weight", {kWide, kValues});
  const auto backend = plain_backend(1);
  WeightLoader loader(weights, *backend);
  const auto mixer = load_delta_net(loader, "l.", kWide, spec);
  ASSERT_TRUE(mixer) << mixer.error().message;
  const std::vector<float> input = random_rows(kSteps, kWide, 3);

  const Table qkvz = plain_linear(weights, n + "in_proj_qkvz", to_table(input, kWide));
  const Table ba = plain_linear(weights, n + "in_proj_ba", to_table(input, kWide));
  constexpr std::size_t kStride = 2 * kKey + 2 * kGroup * kValue;
  Table mixed;
  for (const auto& row : qkvz) {
    auto& out = mixed.emplace_back();
    const auto copy = [&](std::size_t begin, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) out.push_back(row[begin + i]);
    };
    for (std::size_t h = 0; h < kKeyHeads; ++h) copy(h * kStride, kKey);
    for (std::size_t h = 0; h < kKeyHeads; ++h) copy(h * kStride + kKey, kKey);
    for (std::size_t h = 0; h < kKeyHeads; ++h) copy(h * kStride + 2 * kKey, kGroup * kValue);
  }
  mixed = plain_conv(weights, n + "conv1d", mixed, true);
  Table y(kSteps, std::vector<double>(kValues));
  for (std::size_t head = 0; head < kKeyHeads * kGroup; ++head) {
    const std::size_t key_head = head / kGroup;
    Table s(kKey, std::vector<double>(kValue));
    for (std::size_t t = 0; t < kSteps; ++t) {
      std::vector<double> q(kKey), k(kKey), m(kValue), out(kValue);
      double q2 = 1e-6, k2 = 1e-6;
      for (std::size_t i = 0; i < kKey; ++i) {
        q[i] = mixed[t][key_head * kKey + i];
        k[i] = mixed[t][(kKeyHeads + key_head) * kKey + i];
        q2 += q[i] * q[i];
        k2 += k[i] * k[i];
      }
      const double beta = 1 / (1 + std::exp(-ba[t][key_head * 2 * kGroup + head % kGroup]));
      const double alpha = ba[t][key_head * 2 * kGroup + kGroup + head % kGroup];
      const double decay = std::exp(
          -std::exp(static_cast<double>(weights.values(n + "A_log")[head])) *
          plain_softplus(alpha + static_cast<double>(weights.values(n + "dt_bias")[head])));
      for (std::size_t v = 0; v < kValue; ++v) {
        for (std::size_t i = 0; i < kKey; ++i) m[v] += decay * s[i][v] * k[i] / std::sqrt(k2);
        const double value = mixed[t][2 * kKeyHeads * kKey + head * kValue + v];
        for (std::size_t i = 0; i < kKey; ++i) {
          s[i][v] = decay * s[i][v] + k[i] / std::sqrt(k2) * (value - m[v]) * beta;
          out[v] += s[i][v] * q[i] / std::sqrt(q2) / std::sqrt(static_cast<double>(kKey));
        }
      }
      plain_rms(out, weights.values(n + "norm.weight"), 1e-6);
      const std::size_t z = key_head * kStride + 2 * kKey + (kGroup + head % kGroup) * kValue;
      for (std::size_t v = 0; v < kValue; ++v)
        y[t][head * kValue + v] = out[v] * plain_silu(qkvz[t][z + v]);
    }
  }
  EXPECT_LT(error_of(run_all_ways(**mixer, input), plain_linear(weights, n + "out_proj", y)), 5e-5);
}

TEST(Recurrent, ShortConv) {
  for (const bool bias : {false, true}) {
    ShortConvSpec spec;
    spec.conv = 3;
    spec.bias = bias;
    MemoryWeights weights;
    const std::string n = "l.conv.";
    weights.add(n + "in_proj.weight", {3 * kWide, kWide});
    weights.add(n + "conv.weight", {kWide, 1, 3});
    weights.add(n + "out_proj.weight", {kWide, kWide});
    for (const char* part : {"in_proj", "conv", "out_proj"}) {
      if (bias)
        weights.add(n + part + ".bias", {std::string(part) == "in_proj" ? 3 * kWide : kWide});
    }
    const auto backend = plain_backend(1);
    WeightLoader loader(weights, *backend);
    const auto mixer = load_short_conv(loader, "l.", kWide, spec);
    ASSERT_TRUE(mixer) << mixer.error().message;
    const std::vector<float> input = random_rows(kSteps, kWide, 4);

    const Table bcx = plain_linear(weights, n + "in_proj", to_table(input, kWide));
    Table bx = columns(bcx, 0, kWide);
    for (std::size_t t = 0; t < kSteps; ++t) {
      for (std::size_t c = 0; c < kWide; ++c) bx[t][c] *= bcx[t][2 * kWide + c];
    }
    Table y = plain_conv(weights, n + "conv", bx, false);
    for (std::size_t t = 0; t < kSteps; ++t) {
      for (std::size_t c = 0; c < kWide; ++c) y[t][c] *= bcx[t][kWide + c];
    }
    EXPECT_LT(error_of(run_all_ways(**mixer, input), plain_linear(weights, n + "out_proj", y)),
              1e-5);
  }
}

TEST(Recurrent, SaysWhatAFileLacks) {
  MambaSpec spec;
  spec.inner = 8;
  spec.state = 2;
  spec.conv = 4;
  spec.dt_rank = 2;
  MemoryWeights weights;
  add_mamba(weights, spec);
  weights.set("l.mixer.conv1d.weight", {8, 1, 3}, std::vector<float>(24));
  const auto backend = plain_backend(1);
  WeightLoader loader(weights, *backend);
  const auto mixer = load_mamba(loader, "l.", kWide, spec);
  ASSERT_FALSE(mixer);
  EXPECT_NE(mixer.error().message.find("l.mixer.conv1d.weight"), std::string::npos)
      << mixer.error().message;
  EXPECT_NE(mixer.error().message.find("[8, 1, 4]"), std::string::npos) << mixer.error().message;
}

}  // namespace
}  // namespace quire
