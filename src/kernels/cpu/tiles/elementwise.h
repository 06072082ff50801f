// Layer norm, activations and other work on single elements over the sixteen-lane wrapper; every
// function gives the bits of ref/elementwise.h. Include after QUIRE_ISA is defined.
#pragma once

#include "kernels/cpu/tiles/vector.h"

namespace quire::QUIRE_ISA {

QUIRE_INLINE F32 negate(F32 x) { return mul(x, set1(-1.0f)); }
QUIRE_INLINE F32 sigmoid_divisor(F32 x) { return add(set1(1.0f), exp(negate(x))); }
QUIRE_INLINE F32 magnitude(F32 x) { return max(x, negate(x)); }

QUIRE_INLINE F32 tanh(F32 x) {
  const F32 a = magnitude(x), z = mul(x, x);
  F32 p = set1(-5.70498872745e-3f);
  p = fma(p, z, set1(2.06390887954e-2f));
  p = fma(p, z, set1(-5.37397155531e-2f));
  p = fma(p, z, set1(1.33314422036e-1f));
  p = fma(p, z, set1(-3.33332819422e-1f));
  const F32 small = fma(mul(p, z), x, x);
  const F32 big = sub(set1(1.0f), div(set1(2.0f), add(exp(add(a, a)), set1(1.0f))));
  return select_lt(a, set1(0.625f), small, select_lt(x, zero(), negate(big), big));
}
QUIRE_INLINE F32 soft_cap(F32 cap, F32 x) { return mul(cap, tanh(div(x, cap))); }

QUIRE_INLINE F32 erfc(F32 x) {
  const F32 t = div(set1(1.0f), fma(set1(0.3275911f), x, set1(1.0f)));
  F32 p = set1(1.061405429f);
  p = fma(p, t, set1(-1.453152027f));
  p = fma(p, t, set1(1.421413741f));
  p = fma(p, t, set1(-0.284496736f));
  p = fma(p, t, set1(0.254829592f));
  return mul(mul(p, t), exp(negate(mul(x, x))));
}

template <ActivationKind kKind>
QUIRE_INLINE F32 activation_of(const Activation& a, F32 x) {
  if constexpr (kKind == ActivationKind::kSilu) {
    return div(x, sigmoid_divisor(x));
  } else if constexpr (kKind == ActivationKind::kGeluQuick) {
    return div(x, sigmoid_divisor(mul(set1(1.702f), x)));
  } else if constexpr (kKind == ActivationKind::kGeluTanh) {
    const F32 u = mul(set1(0.79788456f), fma(mul(set1(0.044715f), mul(x, x)), x, x));
    return div(x, sigmoid_divisor(add(u, u)));
  } else if constexpr (kKind == ActivationKind::kGeluErf) {
    const F32 size = magnitude(x);
    return fma(mul(set1(-0.5f), size), erfc(mul(size, set1(0.70710678f))),
               select_lt(zero(), x, x, zero()));
  } else if constexpr (kKind == ActivationKind::kRelu) {
    return select_lt(zero(), x, x, zero());
  } else if constexpr (kKind == ActivationKind::kRelu2) {
    return select_lt(zero(), x, mul(x, x), zero());
  } else if constexpr (kKind == ActivationKind::kXielu) {
    const F32 linear = mul(set1(a.beta), x);
    const F32 above = fma(mul(set1(a.alpha_p), x), x, linear);
    const F32 e = sub(exp(min(x, set1(a.xielu_eps))), set1(1.0f));
    return select_lt(zero(), x, above, fma(sub(e, x), set1(a.alpha_n), linear));
  } else {
    const F32 g = min(x, set1(a.limit));
    return div(g, sigmoid_divisor(mul(set1(a.alpha), g)));
  }
}

template <ActivationKind kKind>
QUIRE_INLINE F32 times_up(const Activation& a, F32 v, F32 up) {
  if constexpr (kKind == ActivationKind::kSwigluOai) {
    up = add(max(min(up, set1(a.limit)), set1(-a.limit)), set1(1.0f));
  }
  return mul(v, up);
}

template <ActivationKind kKind>
static void activate_as(const Activation& a, const float* gate, const float* up, int64_t n,
                        float* out) {
  for (int64_t i = 0; i < n; i += 16) {
    const int lanes = lanes_at(n, i);
    F32 v = activation_of<kKind>(a, load_n(gate + i, lanes));
    if (up != nullptr) v = times_up<kKind>(a, v, load_n(up + i, lanes));
    store_n(out + i, v, lanes);
  }
}
static void activate(const Activation& a, const float* gate, const float* up, int64_t n,
                     float* out) {
  using Kind = ActivationKind;
  switch (a.kind) {
    case Kind::kSilu:
      return activate_as<Kind::kSilu>(a, gate, up, n, out);
    case Kind::kGeluTanh:
      return activate_as<Kind::kGeluTanh>(a, gate, up, n, out);
    case Kind::kGeluErf:
      return activate_as<Kind::kGeluErf>(a, gate, up, n, out);
    case Kind::kGeluQuick:
      return activate_as<Kind::kGeluQuick>(a, gate, up, n, out);
    case Kind::kRelu:
      return activate_as<Kind::kRelu>(a, gate, up, n, out);
    case Kind::kRelu2:
      return activate_as<Kind::kRelu2>(a, gate, up, n, out);
    case Kind::kXielu:
      return activate_as<Kind::kXielu>(a, gate, up, n, out);
    case Kind::kSwigluOai:
      return activate_as<Kind::kSwigluOai>(a, gate, up, n, out);
  }
}

// Calls fn(i, lanes) for the vectors of a row of n.
template <class Fn>
QUIRE_INLINE void for_vectors(int64_t n, Fn fn) {
  for (int64_t i = 0; i < n; i += 16) fn(i, lanes_at(n, i));
}

static void map(MapOp op, float a, int64_t n, float* x) {
  const F32 limit = set1(a);
  if (op == MapOp::kScale) {
    for_vectors(n, [&](int64_t i, int m) { store_n(x + i, mul(load_n(x + i, m), limit), m); });
  } else if (op == MapOp::kClamp) {
    const F32 low = set1(-a);
    for_vectors(
        n, [&](int64_t i, int m) { store_n(x + i, max(min(load_n(x + i, m), limit), low), m); });
  } else {
    for_vectors(n, [&](int64_t i, int m) { store_n(x + i, soft_cap(limit, load_n(x + i, m)), m); });
  }
}

static void sigmoid_mul(const float* gate, int64_t n, float* x) {
  for_vectors(n, [&](int64_t i, int m) {
    store_n(x + i, div(load_n(x + i, m), sigmoid_divisor(load_n(gate + i, m))), m);
  });
}

static void add_scaled(const float* x, float a, int64_t n, float* y) {
  const F32 factor = set1(a);
  for_vectors(n, [&](int64_t i, int m) {
    store_n(y + i, fma(load_n(x + i, m), factor, load_n(y + i, m)), m);
  });
}

static void layer_norm(const float* x, const float* w, const float* b, float eps, int64_t n,
                       float* y) {
  F32 acc[4] = {zero(), zero(), zero(), zero()};
  for_vectors(n, [&](int64_t i, int m) {
    F32& lanes = acc[i / 16 % 4];
    lanes = add(lanes, load_n(x + i, m));
  });
  const float count = static_cast<float>(n);
  const F32 mean = set1(sum(add(add(acc[0], acc[1]), add(acc[2], acc[3]))) / count);
  for (int j = 0; j < 4; ++j) acc[j] = zero();
  for_vectors(n, [&](int64_t i, int m) {
    F32 d = sub(load_n(x + i, m), mean);
    if (m < 16) {  // lanes past the end count as zero
      float rest[16] = {};
      store_n(rest, d, m);
      d = load(rest);
    }
    F32& lanes = acc[i / 16 % 4];
    lanes = fma(d, d, lanes);
  });
  const float variance = sum(add(add(acc[0], acc[1]), add(acc[2], acc[3]))) / count;
  const F32 inverse = div(set1(1.0f), sqrt(set1(variance + eps)));
  for_vectors(n, [&](int64_t i, int m) {
    const F32 v = mul(sub(load_n(x + i, m), mean), inverse), weight = load_n(w + i, m);
    store_n(y + i, b != nullptr ? fma(v, weight, load_n(b + i, m)) : mul(v, weight), m);
  });
}

}  // namespace quire::QUIRE_ISA
