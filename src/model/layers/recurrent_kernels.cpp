#include "model/layers/recurrent_kernels.h"

#include <algorithm>
#include <cmath>

#include "model/layers/recurrent_math.h"

namespace quire::recurrent {
namespace {

// y += w * x
void multiply_add(const float* __restrict w, const float* __restrict x, std::int64_t n,
                  float* __restrict y) {
  for (std::int64_t c = 0; c < n; ++c) y[c] += w[c] * x[c];
}

// One state dimension of a Mamba channel block.
void mamba_update(const float* __restrict a, const float* __restrict dt,
                  const float* __restrict dtx, float b, float c, std::int64_t n,
                  float* __restrict state, float* __restrict sum) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float h = state[i] * exp(dt[i] * a[i]) + dtx[i] * b;
    state[i] = h;
    sum[i] += h * c;
  }
}

// h = h * decay + x * b; sum += h * c
void linear_update(float decay, const float* __restrict x, float b, float c, std::int64_t n,
                   float* __restrict state, float* __restrict sum) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float h = state[i] * decay + x[i] * b;
    state[i] = h;
    sum[i] += h * c;
  }
}

// Sixteen partial sums by index modulo 16, folded in halves.
float sum_of_squares(const float* x, std::int64_t n) {
  float lanes[16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (std::int64_t l = 0; l < 16; ++l) lanes[l] += x[i + l] * x[i + l];
  }
  for (std::int64_t l = 0; i + l < n; ++l) lanes[l] += x[i + l] * x[i + l];
  for (std::int64_t half = 8; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

}  // namespace

void causal_conv(const Conv& conv) {
  const std::int64_t before = conv.taps - 1, n = conv.channels;
  const auto input = [&](std::int64_t row) {
    return row >= 0 ? conv.x.row(row) : conv.state.row(row + before);
  };
  for (std::int64_t t = 0; t < conv.rows; ++t) {
    float* const y = conv.y.row(t);
    std::copy(conv.bias, conv.bias + n, y);
    for (std::int64_t j = 0; j < conv.taps; ++j)
      multiply_add(conv.weight.row(j), input(t - before + j), n, y);
    if (!conv.silu) continue;
    for (std::int64_t c = 0; c < n; ++c) y[c] = silu(y[c]);
  }
  // Ascending: an old row is read before it is overwritten.
  for (std::int64_t i = 0; i < before; ++i) {
    const float* const x = input(conv.rows - before + i);
    std::copy(x, x + n, conv.state.row(i));
  }
}

void mamba_scan(const MambaScan& scan) {
  const std::int64_t n = scan.channels;
  float dt[kMaxChannels], dtx[kMaxChannels], sum[kMaxChannels];
  for (std::int64_t t = 0; t < scan.rows; ++t) {
    const float* const x = scan.x.row(t);
    const float* const raw = scan.dt.row(t);
    for (std::int64_t i = 0; i < n; ++i) {
      dt[i] = softplus(raw[i]);
      dtx[i] = dt[i] * x[i];
      sum[i] = 0.0f;
    }
    for (std::int64_t s = 0; s < scan.state_size; ++s)
      mamba_update(scan.a.row(s), dt, dtx, scan.b.row(t)[s], scan.c.row(t)[s], n, scan.state.row(s),
                   sum);
    const float* const z = scan.z.row(t);
    float* const y = scan.y.row(t);
    for (std::int64_t i = 0; i < n; ++i) y[i] = (sum[i] + scan.d[i] * x[i]) * silu(z[i]);
  }
}

void mamba2_scan(const Mamba2Scan& scan) {
  for (std::int64_t t = 0; t < scan.rows; ++t) {
    const float dt = std::clamp(softplus(*scan.dt.row(t) + scan.dt_bias), scan.dt_min, scan.dt_max);
    const float decay = exp(dt * scan.a);
    const float* const x = scan.x.row(t);
    float* const y = scan.y.row(t);
    std::fill(y, y + scan.head_dim, 0.0f);
    for (std::int64_t s = 0; s < scan.state_size; ++s)
      linear_update(decay, x, dt * scan.b.row(t)[s], scan.c.row(t)[s], scan.head_dim,
                    scan.state.row(s), y);
    for (std::int64_t p = 0; p < scan.head_dim; ++p) y[p] += scan.d * x[p];
  }
}

void delta_scan(const DeltaScan& scan) {
  const std::int64_t n = scan.channels;
  float memory[kMaxChannels], delta[kMaxChannels], sum[kMaxChannels];
  for (std::int64_t t = 0; t < scan.rows; ++t) {
    const float decay = exp(scan.a * softplus(*scan.alpha.row(t) + scan.dt_bias));
    const float beta = sigmoid(*scan.beta.row(t));
    const float* const q = scan.q.row(t);
    const float* const k = scan.k.row(t);
    const float* const value = scan.value.row(t);
    std::fill(memory, memory + n, 0.0f);
    std::fill(sum, sum + n, 0.0f);
    for (std::int64_t i = 0; i < scan.key_dim; ++i) {
      const float* const state = scan.state.row(i);
      for (std::int64_t v = 0; v < n; ++v) memory[v] += state[v] * decay * k[i];
    }
    for (std::int64_t v = 0; v < n; ++v) delta[v] = (value[v] - memory[v]) * beta;
    for (std::int64_t i = 0; i < scan.key_dim; ++i)
      linear_update(decay, delta, k[i], q[i], n, scan.state.row(i), sum);
    std::copy(sum, sum + n, scan.y.row(t));
  }
}

void l2_normalize(float* x, std::int64_t n, float eps, float scale) {
  const float factor = scale / std::sqrt(sum_of_squares(x, n) + eps);
  for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

void rms_normalize(const float* x, const float* w, std::int64_t n, float eps, float* y) {
  const float inverse = 1.0f / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) + eps);
  for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] * inverse) * w[i];
}

void multiply_silu(float* x, const float* z, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= silu(z[i]);
}

}  // namespace quire::recurrent
