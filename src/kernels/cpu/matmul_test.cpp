// Every table of matrix products against the reference: equal bits for integer kinds and f32
// activations, a tolerance for bf16; one row's bits for every number of rows; nothing written
// outside of C. The reference itself is held to products of dequantized values in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/kernels.h"
#include "tensor/dequantize.h"
#include "tensor/half.h"

namespace quire {
namespace {

using Random = std::mt19937;

struct NamedTable {
  std::string name;
  MatmulKernels kernels;
};
// Every table of this machine but ref, the emulation, and what other processors would get.
std::vector<NamedTable> matmul_tables() {
  std::vector<NamedTable> all(2);
  all[0].name = "emulated";
  fill_matmul_emulated(&all[0].kernels);
  all[1].name = "emulated, pairs of bf16";
  fill_matmul_emulated_pairs(&all[1].kernels);
  for (const KernelTable* table : available_kernels()) {
    if (std::string(table->name) == "ref") continue;
    all.push_back({table->name, table->mm});
#ifdef __x86_64__
    if (std::string(table->name) != "vnni") continue;
    fill_matmul_vnni(&all.back().kernels);
    all.push_back({"vnni, shared ports", table->mm});
    fill_matmul_vnni_shared(&all.back().kernels);
#endif
  }
  return all;
}
// Of tables like this one.
MatmulKernels matmul_reference(bool integers_as_bf16 = false) {
  MatmulKernels kernels;
  fill_matmul_ref(&kernels);
  if (integers_as_bf16) fill_matmul_ref_tiles(&kernels);
  return kernels;
}

struct Case {
  DType stored;
  ComputeDType compute;
};
std::string case_name(const Case& c) {
  return std::string(dtype_name(c.stored)) + " as " +
         packed_kind_info(packed_kind_for(c.stored, c.compute)).name + ", compute " +
         std::to_string(static_cast<int>(c.compute));
}

void set_half(std::byte* p, float f) {
  const std::uint16_t h = f32_to_f16(f);
  std::memcpy(p, &h, 2);
}
// A scale that makes weights of about 1.
float scale_size(DType stored) {
  switch (stored) {
    case DType::kQ8_0:
    case DType::kIQ4_NL:
      return 0.01f;
    case DType::kQ6_K:
    case DType::kIQ4_XS:
      return 0.0003f;
    case DType::kQ3_K:
      return 0.005f;
    default:
      return 0.05f;
  }
}
// A stored matrix of random blocks (scales of a sane size) or numbers.
std::vector<std::byte> random_weights(DType stored, std::int64_t n, std::int64_t k,
                                      Random& random) {
  const std::int64_t row = row_bytes(stored, k);
  std::vector<std::byte> out(static_cast<std::size_t>(n * row));
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  if (!is_quantized(stored)) {
    for (std::int64_t i = 0; i < n * k; ++i) {
      const float f = value(random);
      const std::uint16_t h = stored == DType::kF16 ? f32_to_f16(f) : f32_to_bf16(f);
      if (stored == DType::kF32)
        std::memcpy(out.data() + 4 * i, &f, 4);
      else
        std::memcpy(out.data() + 2 * i, &h, 2);
    }
    return out;
  }
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  const std::int64_t block = dtype_info(stored).block_bytes;
  const bool second = stored == DType::kQ4_1 || stored == DType::kQ5_1 || stored == DType::kQ4_K ||
                      stored == DType::kQ5_K || stored == DType::kQ2_K;
  const std::int64_t scale_at = stored == DType::kQ6_K   ? 208
                                : stored == DType::kQ3_K ? 108
                                : stored == DType::kQ2_K ? 80
                                                         : 0;
  const float size = scale_size(stored);
  const bool float8 = stored == DType::kF8_32 || stored == DType::kF8_128;
  for (std::size_t at = 0; at < out.size(); at += static_cast<std::size_t>(block)) {
    if (float8) {
      const float scale = value(random) * 0.01f;
      std::memcpy(out.data() + at, &scale, 4);
      for (std::int64_t i = 4; i < block; ++i) {  // no NaN
        std::byte& code = out[at + static_cast<std::size_t>(i)];
        if ((code & std::byte{0x7f}) == std::byte{0x7f}) code ^= std::byte{1};
      }
      continue;
    }
    if (stored == DType::kMXFP4) {
      out[at] = static_cast<std::byte>(118 + random() % 8);
      continue;
    }
    if (is_g4_kind(packed_kind_for(stored, ComputeDType::kAuto)))
      out[at + 2] = static_cast<std::byte>(random() % 17);
    std::byte* scale = out.data() + static_cast<std::int64_t>(at) + scale_at;
    set_half(scale, value(random) * size);
    if (second) set_half(scale + 2, value(random) * size);
  }
  return out;
}

constexpr float kFactor = 0x1p64f;  // of tables that have one

// One problem: packed weights, and activations in every form.
struct Problem {
  PackedShape shape;
  ComputeDType compute;
  DType stored;
  std::int64_t m, scale_stride;
  std::vector<std::byte> rows, packed;
  std::vector<float> x;  // [m, padded_k]
  std::vector<std::int8_t> q;
  std::vector<std::uint16_t> half, scaled_half;  // bf16 of x, and of 2^64 x
  std::vector<float> scale, sum, bias, c0;
  std::vector<std::int32_t> isum;
};

// size: the activations'.
Problem make_problem(const Case& c, std::int64_t m, std::int64_t n, std::int64_t k, unsigned seed,
                     float size = 1.0f) {
  Random random(seed);
  Problem p;
  p.shape = {packed_kind_for(c.stored, c.compute), n, k};
  p.compute = c.compute;
  p.stored = c.stored;
  p.m = m;
  const std::int64_t padded = p.shape.padded_k();
  p.rows = random_weights(c.stored, n, k, random);
  p.packed.resize(static_cast<std::size_t>(p.shape.bytes()));
  pack_panels(p.shape, c.stored, p.rows.data(), row_bytes(c.stored, k), 0, p.shape.panels(),
              p.packed.data());
  std::normal_distribution<float> normal;
  p.x.assign(static_cast<std::size_t>(m * padded), 0.0f);
  for (std::int64_t r = 0; r < m; ++r)
    for (std::int64_t i = 0; i < k; ++i)
      p.x[static_cast<std::size_t>(r * padded + i)] = size * normal(random);
  p.q.resize(p.x.size());
  p.half.resize(p.x.size());
  p.scaled_half.resize(p.x.size());
  p.scale_stride = padded / 32 + 1;
  const auto groups = static_cast<std::size_t>(m * p.scale_stride);
  p.scale.resize(groups);
  p.sum.resize(groups);
  p.isum.resize(2 * groups);
  const MatmulKernels ref = matmul_reference();
  for (std::int64_t r = 0; r < m; ++r) {
    const auto at = static_cast<std::size_t>(r * padded),
               group = static_cast<std::size_t>(r * p.scale_stride);
    ref.round_row_bf16(&p.x[at], k, padded, 1.0f, &p.half[at]);
    ref.round_row_bf16(&p.x[at], k, padded, kFactor, &p.scaled_half[at]);
    if (padded % 32 == 0)
      ref.quantize_row(&p.x[at], k, padded, &p.q[at], &p.scale[group], &p.sum[group],
                       &p.isum[2 * group]);
  }
  for (std::int64_t i = 0; i < n; ++i) p.bias.push_back(normal(random));
  for (std::int64_t i = 0; i < m * n; ++i) p.c0.push_back(normal(random));
  return p;
}

MatmulArgs arguments(const Problem& p, ActForm form, std::int64_t row, std::int64_t rows) {
  MatmulArgs args;
  args.shape = p.shape;
  args.weights = p.packed.data();
  args.a_stride = p.shape.padded_k();
  const std::int64_t at = row * args.a_stride;
  if (form == ActForm::kF32) args.a = p.x.data() + at;
  if (form == ActForm::kBF16) args.a = p.half.data() + at;
  if (form == ActForm::kInt8) args.a = p.q.data() + at;
  args.a_scale = p.scale.data() + row * p.scale_stride;
  args.a_sum = p.sum.data() + row * p.scale_stride;
  args.a_isum = p.isum.data() + row * p.scale_stride * 2;
  args.scale_stride = p.scale_stride;
  args.m = rows;
  args.panel_end = p.shape.panels();
  return args;
}

constexpr float kGuard = -12345.0f;
constexpr std::int64_t kMargin = 5;

// C of rows [row, row + rows), with guards around each row checked.
std::vector<float> multiply(const MatmulKernels& kernels, const Problem& p, std::int64_t row,
                            std::int64_t rows, bool epilogue) {
  const std::int64_t n = p.shape.n, ldc = n + kMargin;
  std::vector<float> c(static_cast<std::size_t>(kMargin + rows * ldc), kGuard);
  float* first = c.data() + kMargin;
  const ActForm form = kernels.act_form(p.shape.kind, p.compute);
  MatmulArgs args = arguments(p, form, row, rows);
  if (form == ActForm::kBF16 && is_block_kind(p.shape.kind) && kernels.bf16_factor != 1.0f) {
    EXPECT_EQ(kernels.bf16_factor, kFactor);
    args.a = p.scaled_half.data() + row * args.a_stride;
    args.unscale = 1.0f / kFactor;
  }
  args.c = first;
  args.ldc = ldc;
  if (epilogue) {
    args.bias = p.bias.data();
    args.accumulate = true;
    for (std::int64_t r = 0; r < rows; ++r)
      std::memcpy(first + r * ldc, p.c0.data() + (row + r) * n, static_cast<std::size_t>(n) * 4);
  }
  const MatmulFn fn = kernels.matmul[static_cast<int>(p.shape.kind)][static_cast<int>(form)];
  EXPECT_NE(fn, nullptr);
  // Two calls, panels split between them, as two threads would.
  args.panel_end = p.shape.panels() / 2;
  fn(args);
  args.panel_begin = args.panel_end;
  args.panel_end = p.shape.panels();
  fn(args);
  std::vector<float> out;
  for (std::int64_t r = 0; r < rows; ++r)
    out.insert(out.end(), first + r * ldc, first + r * ldc + n);
  for (std::int64_t i = 0; i < kMargin; ++i) EXPECT_EQ(c[static_cast<std::size_t>(i)], kGuard);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = n; i < ldc; ++i)
      EXPECT_EQ(first[r * ldc + i], kGuard) << "row " << r << " column " << i;
  return out;
}

void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want,
                      const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &want[i], 4) == 0) continue;
    ADD_FAILURE() << what << ": element " << i << " is " << got[i] << ", not " << want[i];
    return;
  }
}
// bf16 sums round differently inside vdpbf16ps and in tiles: an error within a small share of the
// sum of magnitudes.
void expect_close(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i])) <=
        tolerance + 1e-5 * std::fabs(static_cast<double>(want[i])))
      continue;
    ADD_FAILURE() << what << ": element " << i << " is " << got[i] << ", not " << want[i];
    return;
  }
}

constexpr DType kBlockTypes[] = {
    DType::kQ8_0,   DType::kQ4_0,   DType::kQ4_1,   DType::kQ5_0,   DType::kQ5_1,   DType::kQ4_K,
    DType::kQ5_K,   DType::kQ6_K,   DType::kQ2_K,   DType::kQ3_K,   DType::kMXFP4,  DType::kIQ4_NL,
    DType::kIQ4_XS, DType::kG4_32,  DType::kG4_64,  DType::kG4_128, DType::kG4_256, DType::kG8_32,
    DType::kG8_64,  DType::kG8_128, DType::kG8_256, DType::kF8_32,  DType::kF8_128};
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (DType stored : {DType::kF32, DType::kF16, DType::kBF16})
    for (ComputeDType compute :
         {ComputeDType::kAuto, ComputeDType::kFloat32, ComputeDType::kFloat16})
      cases.push_back({stored, compute});
  for (DType stored : kBlockTypes)
    for (ComputeDType compute : {ComputeDType::kAuto, ComputeDType::kFloat32})
      cases.push_back({stored, compute});
  return cases;
}
std::vector<std::int64_t> inner_sizes(const Case& c) {
  const std::int64_t block = dtype_info(c.stored).block_elements;
  if (block == 256) return {256, 1024};
  if (block == 64 || block == 128) return {block, 3 * block, 1152};
  if (block == 32) return {32, 96, 800};
  // bf16: more than one chunk of K.
  return {1, 31, 32, 33, packed_kind_for(c.stored, c.compute) == PackedKind::kBF16 ? 1611 : 300};
}

class MatmulTest : public testing::TestWithParam<Case> {};

TEST_P(MatmulTest, EveryTableAgreesWithTheReference) {
  const std::vector<NamedTable> all = matmul_tables();
  for (std::int64_t k : inner_sizes(GetParam())) {
    for (std::int64_t n : {1, 16, 17, 63, 100}) {
      for (std::int64_t m : {1, 2, 3, 5, 7, 9, 17}) {
        const bool epilogue = (m + n) % 2 == 0;
        const Problem p =
            make_problem(GetParam(), m, n, k, static_cast<unsigned>(m * 1000 + n + k));
        std::vector<float> wanted[2];
        for (const NamedTable& table : all) {
          const std::string what = table.name + ": " + case_name(GetParam()) + " m " +
                                   std::to_string(m) + " n " + std::to_string(n) + " k " +
                                   std::to_string(k);
          const bool tiles = table.kernels.integers_as_bf16;
          std::vector<float>& want = wanted[tiles];
          if (want.empty()) want = multiply(matmul_reference(tiles), p, 0, m, epilogue);
          const std::vector<float> got = multiply(table.kernels, p, 0, m, epilogue);
          // Instructions for pairs of bf16 add in an order of their own; all others as ref does.
          const bool bf16 = table.kernels.act_form(p.shape.kind, p.compute) == ActForm::kBF16;
          const bool pairs = table.name == "bf16" || table.name == "amx";
          if (bf16 && (pairs || p.shape.kind != PackedKind::kBF16))
            expect_close(got, want, 2e-6 * static_cast<double>(k) + 1e-5, what);
          else
            expect_same_bits(got, want, what);
        }
      }
    }
  }
}

TEST_P(MatmulTest, ARowKeepsItsBitsForEveryNumberOfRows) {
  const std::int64_t block = dtype_info(GetParam().stored).block_elements;
  const std::int64_t k = block > 32 ? 1280 : block > 1 ? 1056 : 1650, n = 84, most = 130;
  const Problem p = make_problem(GetParam(), most, n, k, 7);
  for (const NamedTable& table : matmul_tables()) {
    if (table.name.starts_with("emulated")) continue;  // slow, and the same tiles
    const std::vector<float> want = multiply(table.kernels, p, 0, most, true);
    for (std::int64_t rows : {1, 2, 3, 4, 6, 8, 13, 33, 64, 97}) {
      const std::int64_t row = most - rows;
      const std::vector<float> got = multiply(table.kernels, p, row, rows, true);
      expect_same_bits(got, std::vector<float>(want.begin() + row * n, want.end()),
                       table.name + ": " + case_name(GetParam()) + " rows " + std::to_string(rows));
    }
  }
}

TEST_P(MatmulTest, ManyPanelsOfManyRowsHaveTheBitsOfFewRows) {
  const std::int64_t k = dtype_info(GetParam().stored).block_elements > 1 ? 1280 : 300;
  const std::int64_t n = 596, most = 100;  // 10 panels, the last of 2 strips; two blocks of rows
  const Problem p = make_problem(GetParam(), most, n, k, 8);
  for (const NamedTable& table : matmul_tables()) {
    if (table.name.starts_with("emulated")) continue;  // slow, and the same tiles
    const std::vector<float> want = multiply(table.kernels, p, 0, most, false);
    for (std::int64_t row : {0, 51}) {
      const std::vector<float> got = multiply(table.kernels, p, row, 2, false);
      expect_same_bits(got,
                       std::vector<float>(want.begin() + row * n, want.begin() + (row + 2) * n),
                       table.name + ": " + case_name(GetParam()) + " row " + std::to_string(row));
    }
  }
}

// Blocks of up to 512 rows, chunks of K that several panels share, a last panel of three strips.
TEST_P(MatmulTest, RowsBeyondABlockHaveTheBitsOfFewRows) {
  const DType stored = GetParam().stored;
  const bool one_of_each = stored == DType::kBF16 || stored == DType::kQ4_0 ||
                           stored == DType::kQ6_K || stored == DType::kF8_128;
  if (GetParam().compute != ComputeDType::kAuto || !one_of_each) return;
  const std::int64_t k = dtype_info(stored).block_elements > 32 ? 1280 : 1056;
  const std::int64_t n = 596 + 48, most = 600;
  const Problem p = make_problem(GetParam(), most, n, k, 9);
  for (const NamedTable& table : matmul_tables()) {
    // No such paths.
    if (table.name.starts_with("emulated") || table.kernels.row_block < 512) continue;
    const std::vector<float> want = multiply(table.kernels, p, 0, most, true);
    for (std::int64_t row : {0, 255, 511, 512, 598}) {
      const std::vector<float> got = multiply(table.kernels, p, row, 2, true);
      expect_same_bits(got,
                       std::vector<float>(want.begin() + row * n, want.begin() + (row + 2) * n),
                       table.name + ": " + case_name(GetParam()) + " row " + std::to_string(row));
    }
  }
}

// Activations that are smaller by a power of two give the same products, smaller by it: nothing
// is lost to numbers too small for an instruction.
TEST_P(MatmulTest, SmallActivationsKeepTheirPrecision) {
  const std::int64_t k = dtype_info(GetParam().stored).block_elements > 32 ? 512 : 160, n = 37;
  const Problem p = make_problem(GetParam(), 3, n, k, 12);
  const Problem small = make_problem(GetParam(), 3, n, k, 12, 0x1p-30f);
  for (const NamedTable& table : matmul_tables()) {
    std::vector<float> want = multiply(table.kernels, p, 0, 3, false);
    for (float& value : want) value *= 0x1p-30f;
    expect_same_bits(multiply(table.kernels, small, 0, 3, false), want,
                     table.name + ": " + case_name(GetParam()));
  }
}

TEST_P(MatmulTest, ReferenceIsTheProductOfDequantizedValues) {
  const std::int64_t k = dtype_info(GetParam().stored).block_elements > 32 ? 512 : 160, n = 37,
                     m = 3;
  const Problem p = make_problem(GetParam(), m, n, k, 11);
  for (const bool tiles : {false, true}) {
    const MatmulKernels ref = matmul_reference(tiles);
    const ActForm form = ref.act_form(p.shape.kind, p.compute);
    const std::vector<float> got = multiply(ref, p, 0, m, false);
    std::vector<float> w(static_cast<std::size_t>(k));
    for (std::int64_t j = 0; j < n; ++j) {
      dequantize_row(p.stored, p.rows.data() + j * row_bytes(p.stored, k), k, w.data());
      for (std::int64_t r = 0; r < m; ++r) {
        double sum = 0, size = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          const double term =
              static_cast<double>(w[static_cast<std::size_t>(i)]) *
              static_cast<double>(p.x[static_cast<std::size_t>(r * p.shape.padded_k() + i)]);
          sum += term;
          size += term * term;
        }
        // int8 activations err by up to max|x| / 254 each, bf16 by 2^-8 of each factor: random, so
        // by the norm.
        const bool exact = form == ActForm::kF32 && dtype_info(p.stored).block_elements > 1;
        EXPECT_NEAR(static_cast<double>(got[static_cast<std::size_t>(r * n + j)]), sum,
                    (exact ? 1e-5 : 4e-2) * std::sqrt(size) + 1e-6)
            << case_name(GetParam());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MatmulTest, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& test) {
                           return std::string(dtype_name(test.param.stored)) + "_" +
                                  std::to_string(static_cast<int>(test.param.compute));
                         });

TEST(QuantizeRow, EveryTableAgreesWithTheReference) {
  const MatmulKernels ref = matmul_reference();
  Random random(3);
  std::normal_distribution<float> normal;
  for (std::int64_t k : {1, 15, 16, 31, 32, 33, 100, 256}) {
    const std::int64_t padded = (k + 63) / 32 * 32, groups = padded / 32;
    std::vector<float> x(static_cast<std::size_t>(k));
    for (float& f : x) f = normal(random) * std::exp(3.0f * normal(random));
    if (k > 32) std::fill(x.begin(), x.begin() + 32, k == 100 ? 1e-38f : 0.0f);
    if (k == 256) x[70] = NAN, x[130] = INFINITY;
    struct Out {
      std::vector<std::int8_t> q;
      std::vector<float> scale, sum;
      std::vector<std::int32_t> isum;
    };
    const auto run = [&](const MatmulKernels& kernels) {
      Out o{std::vector<std::int8_t>(static_cast<std::size_t>(padded), 99),
            std::vector<float>(static_cast<std::size_t>(groups)),
            std::vector<float>(static_cast<std::size_t>(groups)),
            std::vector<std::int32_t>(static_cast<std::size_t>(2 * groups))};
      kernels.quantize_row(x.data(), k, padded, o.q.data(), o.scale.data(), o.sum.data(),
                           o.isum.data());
      return o;
    };
    const Out want = run(ref);
    for (const NamedTable& table : matmul_tables()) {
      const Out got = run(table.kernels);
      EXPECT_EQ(got.q, want.q) << table.name << " k " << k;
      EXPECT_EQ(got.isum, want.isum) << table.name << " k " << k;
      EXPECT_EQ(0, std::memcmp(got.scale.data(), want.scale.data(), want.scale.size() * 4))
          << table.name;
      if (k != 256) {
        EXPECT_EQ(0, std::memcmp(got.sum.data(), want.sum.data(), want.sum.size() * 4))
            << table.name;
      }
      std::vector<std::uint16_t> a(static_cast<std::size_t>(padded), 9),
          b(static_cast<std::size_t>(padded), 9);
      table.kernels.round_row_bf16(x.data(), k, padded, 0.25f, a.data());
      ref.round_row_bf16(x.data(), k, padded, 0.25f, b.data());
      EXPECT_EQ(a, b) << table.name << " k " << k;
    }
  }
}

TEST(QuantizeRow, ErrorIsHalfAStep) {
  const std::vector<float> x = {-3.0f, 2.5f, 0.0f, 1.1f};
  std::vector<std::int8_t> q(32);
  float scale, sum;
  std::int32_t isum[2];
  matmul_reference().quantize_row(x.data(), 4, 32, q.data(), &scale, &sum, isum);
  EXPECT_EQ(q[0], -127);
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(static_cast<float>(q[i]) * scale, x[i], scale / 2 + 1e-6f);
  EXPECT_EQ(isum[0], q[0] + q[1] + q[2] + q[3]);
  EXPECT_EQ(isum[1], 0);
}

TEST(PackedShape, SizesStayWithinTheFile) {
  for (DType stored : kBlockTypes) {
    const PackedShape shape{packed_kind_for(stored, ComputeDType::kAuto), 640, 1024};
    EXPECT_LE(static_cast<double>(shape.bytes()),
              1.03 * static_cast<double>(640 * row_bytes(stored, 1024)))
        << dtype_name(stored);
  }
}

TEST(SelectKernels, NamesTablesAndRefusesOthers) {
  EXPECT_STREQ(available_kernels().front()->name, "ref");
  EXPECT_EQ(select_kernels("auto").value(), available_kernels().back());
  for (const KernelTable* table : available_kernels())
    EXPECT_EQ(select_kernels(table->name).value(), table);
  const auto missing = select_kernels("sse");
  ASSERT_FALSE(missing.has_value());
  EXPECT_NE(missing.error().message.find("ref"), std::string::npos);
}

// Sums of f16 weights are f32: 4096 products of 500 * 4 are far above f16's largest number.
TEST(Matmul, SumsOfF16WeightsDoNotOverflow) {
  constexpr std::int64_t kK = 4096;
  const std::vector<std::uint16_t> weights(16 * kK, f32_to_f16(500.0f));
  const PackedShape shape{PackedKind::kF16, 16, kK};
  std::vector<std::byte> packed(static_cast<std::size_t>(shape.bytes()));
  pack_panels(shape, DType::kF16, reinterpret_cast<const std::byte*>(weights.data()), 2 * kK, 0, 1,
              packed.data());
  const std::vector<float> x(4 * kK, 4.0f);
  for (const NamedTable& table : matmul_tables()) {
    std::vector<float> c(4 * 16);
    MatmulArgs args;
    args.shape = shape;
    args.weights = packed.data();
    args.a = x.data();
    args.a_stride = kK;
    args.m = 4;
    args.panel_end = 1;
    args.c = c.data();
    args.ldc = 16;
    table.kernels.matmul[static_cast<std::size_t>(PackedKind::kF16)]
                        [static_cast<std::size_t>(ActForm::kF32)](args);
    for (const float value : c) EXPECT_EQ(value, 500.0f * 4.0f * kK) << table.name;
  }
}

}  // namespace
}  // namespace quire
