// Matrix products on one thread: multiply-adds per second, as a fraction of the measured peak (few
// rows: bytes of weights per second, as a fraction of the read bandwidth).
//   matmul_bench [table] [kind...]     e.g. matmul_bench vnni q4_min
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/cpu_topology.h"
#include "kernels/cpu/kernels.h"
#include "peak_probes.h"
#include "tensor/buffer.h"
#include "tensor/half.h"

namespace quire::bench {
namespace {

struct Size {
  std::int64_t k, n;
};
constexpr Size kSizes[] = {{576, 960},  {576, 576},   {576, 3072},
                           {1536, 576}, {576, 49152}, {2048, 8192}};
constexpr std::int64_t kRowCounts[] = {1, 8, 16, 32, 512};

struct Activations {
  std::vector<float> x;
  std::vector<std::int8_t> q;
  std::vector<std::uint16_t> half;
  std::vector<float> scale, sum;
  std::vector<std::int32_t> isum;
};
Activations make_activations(const KernelTable& table, std::int64_t m, std::int64_t k) {
  Activations a;
  const auto rows = static_cast<std::size_t>(m), columns = static_cast<std::size_t>(k);
  a.x.resize(rows * columns);
  for (std::size_t i = 0; i < a.x.size(); ++i)
    a.x[i] = static_cast<float>(i * 7919 % 2003) / 1001.0f - 1.0f;
  a.q.resize(a.x.size());
  a.half.resize(a.x.size());
  a.scale.resize(rows * columns / 32);
  a.sum.resize(a.scale.size());
  a.isum.resize(2 * a.scale.size());
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t group = r * columns / 32;
    table.mm.quantize_row(&a.x[r * columns], k, k, &a.q[r * columns], &a.scale[group],
                          &a.sum[group], &a.isum[2 * group]);
    table.mm.round_row_bf16(&a.x[r * columns], k, k, &a.half[r * columns]);
  }
  return a;
}

double seconds_per_call(const MatmulArgs& args, MatmulFn fn) {
  double best = 1e9;
  fn(args);
  for (double total = 0; total < 0.15;) {
    const auto start = std::chrono::steady_clock::now();
    fn(args);
    const double taken =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    total += taken;
    best = taken < best ? taken : best;
  }
  return best;
}

void bench_kind(const KernelTable& table, PackedKind kind, const Peaks& peaks) {
  const ActForm form = act_form_for(kind, ComputeDType::kAuto);
  const MatmulFn fn = table.mm.matmul[static_cast<int>(kind)][static_cast<int>(form)];
  const double peak = form == ActForm::kInt8   ? peaks.vpdpbusd
                      : form == ActForm::kBF16 ? peaks.vdpbf16ps
                                               : peaks.fma;
  for (const Size& size : kSizes) {
    const PackedShape shape{kind, size.n, size.k};
    if (shape.padded_k() != size.k) continue;
    // Bytes that are sane as codes and as f16 scales.
    Buffer weights(static_cast<std::size_t>(shape.bytes()));
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights.data()[i] = static_cast<std::byte>(0x10 + i * 7 % 31);
    std::printf("%-7s %5ld x %5ld ", packed_kind_info(kind).name, size.k, size.n);
    for (std::int64_t m : kRowCounts) {
      const Activations a = make_activations(table, m, size.k);
      std::vector<float> c(static_cast<std::size_t>(m * size.n));
      MatmulArgs args;
      args.shape = shape;
      args.weights = weights.data();
      args.a = form == ActForm::kInt8   ? static_cast<const void*>(a.q.data())
               : form == ActForm::kBF16 ? static_cast<const void*>(a.half.data())
                                        : static_cast<const void*>(a.x.data());
      args.a_stride = size.k;
      args.a_scale = a.scale.data();
      args.a_sum = a.sum.data();
      args.a_isum = a.isum.data();
      args.scale_stride = size.k / 32;
      args.m = m;
      args.panel_end = shape.panels();
      args.c = c.data();
      args.ldc = size.n;
      const double seconds = seconds_per_call(args, fn);
      const double rate =
          static_cast<double>(m * size.n) * static_cast<double>(size.k) / seconds / 1e9;
      if (m == 1) {
        std::printf("| m1 %6.1f GB/s ", static_cast<double>(shape.bytes()) / seconds / 1e9);
      } else {
        std::printf("| m%-3ld %6.1f G %4.2f ", m, rate, rate / peak);
      }
    }
    std::printf("\n");
  }
}

// `matmul_bench --peaks`: the machine's roofline as one line of JSON.
int print_peaks() {
  if (const auto table = select_kernels("auto"); !table) return 1;  // asks for the tile registers
  const int threads = read_cpu_topology().usable_threads;
  const Peaks peaks = measure_peaks(threads);
  std::printf(
      "{\"threads\": %d, \"fma_gmacs\": %.0f, \"vpdpbusd_gmacs\": %.0f, \"vdpbf16ps_gmacs\": %.0f, "
      "\"amx_int8_gmacs\": %.0f, \"fma_all_gmacs\": %.0f, \"vpdpbusd_all_gmacs\": %.0f, "
      "\"vdpbf16ps_all_gmacs\": %.0f, \"amx_int8_all_gmacs\": %.0f, \"read_gb_s\": %.1f}\n",
      threads, peaks.fma, peaks.vpdpbusd, peaks.vdpbf16ps, peaks.amx_int8, peaks.all.fma,
      peaks.all.vpdpbusd, peaks.all.vdpbf16ps, peaks.all.amx_int8, peaks.read_gb_per_s);
  return 0;
}

int run(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--peaks") == 0) return print_peaks();
  const auto table = select_kernels(argc > 1 ? argv[1] : "auto");
  if (!table) {
    std::fprintf(stderr, "%s\n", table.error().message.c_str());
    return 1;
  }
  const Peaks peaks = measure_peaks(1);
  std::printf(
      "table %s; one thread, 10^9 multiply-adds per second: fma %.0f, vpdpbusd %.0f, vdpbf16ps "
      "%.0f, "
      "amx int8 %.0f; read %.1f GB/s\nfractions are of vpdpbusd (integer kinds) or vdpbf16ps\n",
      (*table)->name, peaks.fma, peaks.vpdpbusd, peaks.vdpbf16ps, peaks.amx_int8,
      peaks.read_gb_per_s);
  for (PackedKind kind : {PackedKind::kQ4Min, PackedKind::kQ8, PackedKind::kQ4K, PackedKind::kQ6K,
                          PackedKind::kBF16}) {
    bool wanted = argc < 3;
    for (int i = 2; i < argc; ++i)
      wanted = wanted || std::strcmp(argv[i], packed_kind_info(kind).name) == 0;
    if (wanted) bench_kind(**table, kind, peaks);
  }
  return 0;
}

}  // namespace
}  // namespace quire::bench

int main(int argc, char** argv) { return quire::bench::run(argc, argv); }
