// The inner loops of recurrent layers over raw pointers: no allocation, no threads. Each call works
// on one sequence and some of its channels, row after row (a row is a token), and leaves the state
// as it is after the last row. An element's bits depend on its own channel's and row's inputs and
// on the state, never on how many rows or channels a call has; sums go in ascending order. Strides
// are in floats.
#pragma once

#include <cstdint>

namespace quire::recurrent {

// A row-major matrix of one row per token, or a slice of its columns.
struct Rows {
  const float* data = nullptr;
  std::int64_t stride = 0;
  const float* row(std::int64_t r) const { return data + r * stride; }
};
struct MutableRows {
  float* data = nullptr;
  std::int64_t stride = 0;
  float* row(std::int64_t r) const { return data + r * stride; }
};

// Channels one call of a scan takes at most.
inline constexpr std::int64_t kMaxChannels = 64;

// Depthwise causal convolution: y[t][c] = bias[c] + sum over j of weight[j][c] * x[t - taps + 1 +
// j][c]; rows before the first are the state's.
struct Conv {
  Rows x;
  MutableRows y;  // not x
  std::int64_t rows = 0, channels = 0;
  std::int64_t taps = 0;
  Rows weight;                  // [taps][channels]
  const float* bias = nullptr;  // [channels]
  MutableRows state;            // [taps - 1][channels]: the last inputs, oldest first
  bool silu = false;            // y = silu(y)
};
void causal_conv(const Conv& conv);

// Mamba 1's selective scan over at most kMaxChannels channels. With dt' = softplus(dt[c]), per
// state dimension s:
//   h[s][c] = h[s][c] * exp(dt' * a[s][c]) + dt' * x[c] * b[s];   y[c] = (sum over s of h[s][c] *
//   c[s] + d[c] * x[c]) * silu(z[c])
struct MambaScan {
  Rows x, dt, z;  // [rows][channels]
  Rows b, c;      // [rows][state_size]
  std::int64_t rows = 0, channels = 0, state_size = 0;
  Rows a;                    // [state_size][channels], negative
  const float* d = nullptr;  // [channels]
  MutableRows state;         // [state_size][channels]
  MutableRows y;             // [rows][channels]
};
void mamba_scan(const MambaScan& scan);

// Mamba 2's scan of one head: dt' = clamp(softplus(dt + dt_bias)), one decay exp(dt' * a) for the
// whole head.
//   h[s][p] = h[s][p] * decay + dt' * x[p] * b[s];   y[p] = sum over s of h[s][p] * c[s] + d * x[p]
struct Mamba2Scan {
  Rows x;     // [rows][head_dim]
  Rows dt;    // [rows][1]
  Rows b, c;  // [rows][state_size]
  std::int64_t rows = 0, head_dim = 0, state_size = 0;
  float a = 0.0f, d = 0.0f, dt_bias = 0.0f, dt_min = 0.0f, dt_max = 0.0f;
  MutableRows state;  // [state_size][head_dim]
  MutableRows y;      // [rows][head_dim]
};
void mamba2_scan(const Mamba2Scan& scan);

// The gated delta rule of one value head, at most kMaxChannels of its value dimensions. With g =
// exp(a * softplus(alpha + dt_bias)), beta' = sigmoid(beta), per key dimension i:
//   S[i][v] *= g;   m[v] = sum over i of S[i][v] * k[i];   S[i][v] += k[i] * (value[v] - m[v]) *
//   beta'; y[v] = sum over i of S[i][v] * q[i]
struct DeltaScan {
  Rows q, k;         // [rows][key_dim], normalised
  Rows value;        // [rows][channels]
  Rows alpha, beta;  // [rows][1]
  std::int64_t rows = 0, key_dim = 0, channels = 0;
  float a = 0.0f, dt_bias = 0.0f;  // a negative
  MutableRows state;               // [key_dim][channels]
  MutableRows y;                   // [rows][channels]
};
void delta_scan(const DeltaScan& scan);

// x[i] *= scale / sqrt(sum of x^2 + eps)
void l2_normalize(float* x, std::int64_t n, float eps, float scale);
// y[i] = x[i] / sqrt(mean of x^2 + eps) * w[i].  y may be x.
void rms_normalize(const float* x, const float* w, std::int64_t n, float eps, float* y);
// x[i] = x[i] * silu(z[i])
void multiply_silu(float* x, const float* z, std::int64_t n);

}  // namespace quire::recurrent
