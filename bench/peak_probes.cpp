// Loops of independent instructions, long enough to fill the pipelines. x86 only; elsewhere only
// the bandwidth.
#include "peak_probes.h"

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "tensor/buffer.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire::bench {
namespace {

// Best of five runs of f, in seconds.
template <class F>
double best_seconds(F&& f) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = taken.count() < best ? taken.count() : best;
  }
  return best;
}

constexpr std::int64_t kRounds = 2'000'000;
volatile float sink;

#if defined(__x86_64__)
// Sixteen chains of `op zmm, zmm30, zmm31`: more than latency x ports. Both sources are zero.
#define QUIRE_CHAINS(op)                                                                        \
  for (std::int64_t i = 0; i < kRounds; ++i)                                                    \
  asm volatile(op " %%zmm31, %%zmm30, %%zmm0\n\t" op " %%zmm31, %%zmm30, %%zmm1\n\t" op         \
                  " %%zmm31, %%zmm30, %%zmm2\n\t" op " %%zmm31, %%zmm30, %%zmm3\n\t" op         \
                  " %%zmm31, %%zmm30, %%zmm4\n\t" op " %%zmm31, %%zmm30, %%zmm5\n\t" op         \
                  " %%zmm31, %%zmm30, %%zmm6\n\t" op " %%zmm31, %%zmm30, %%zmm7\n\t" op         \
                  " %%zmm31, %%zmm30, %%zmm8\n\t" op " %%zmm31, %%zmm30, %%zmm9\n\t" op         \
                  " %%zmm31, %%zmm30, %%zmm10\n\t" op " %%zmm31, %%zmm30, %%zmm11\n\t" op       \
                  " %%zmm31, %%zmm30, %%zmm12\n\t" op " %%zmm31, %%zmm30, %%zmm13\n\t" op       \
                  " %%zmm31, %%zmm30, %%zmm14\n\t" op " %%zmm31, %%zmm30, %%zmm15" ::           \
                      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", \
                        "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")
__attribute__((target("avx512f"))) void clear_registers() {
  asm volatile(
      "vpxord %%zmm30, %%zmm30, %%zmm30\n\tvpxord %%zmm31, %%zmm31, %%zmm31\n\tvzeroall" ::);
}
void run_fma() {
  clear_registers();
  QUIRE_CHAINS("vfmadd231ps");
}
void run_vpdpbusd() {
  clear_registers();
  QUIRE_CHAINS("vpdpbusd");
}
void run_vdpbf16ps() {
  clear_registers();
  QUIRE_CHAINS("vdpbf16ps");
}
// Four accumulators of 16 x 16; 64 bytes of K. The table of kernels has asked for the tile
// registers before.
void configure_tiles() {
  struct alignas(64) {
    std::uint8_t palette = 1, start = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  asm volatile("ldtilecfg %0" ::"m"(config));
}
void run_amx_int8() {
  configure_tiles();
  for (std::int64_t i = 0; i < kRounds / 8; ++i)
    asm volatile(
        "tdpbssd %%tmm5, %%tmm4, %%tmm0\n\ttdpbssd %%tmm7, %%tmm6, %%tmm1\n\t"
        "tdpbssd %%tmm5, %%tmm6, %%tmm2\n\ttdpbssd %%tmm7, %%tmm4, %%tmm3" ::);
  asm volatile("tilerelease" ::);
}
void run_amx_bf16() {
  configure_tiles();
  for (std::int64_t i = 0; i < kRounds / 8; ++i)
    asm volatile(
        "tdpbf16ps %%tmm5, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm6, %%tmm1\n\t"
        "tdpbf16ps %%tmm5, %%tmm6, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm3" ::);
  asm volatile("tilerelease" ::);
}
#endif

// Reads [begin, end), a multiple of 512 bytes, once.
void read_all(const std::byte* begin, const std::byte* end) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    for (const std::byte* p = begin; p < end; p += 512)
      asm volatile(
          "vmovdqa64 (%0), %%zmm0\n\tvmovdqa64 64(%0), %%zmm1\n\tvmovdqa64 128(%0), %%zmm2\n\t"
          "vmovdqa64 192(%0), %%zmm3\n\tvmovdqa64 256(%0), %%zmm4\n\tvmovdqa64 320(%0), %%zmm5\n\t"
          "vmovdqa64 384(%0), %%zmm6\n\tvmovdqa64 448(%0), %%zmm7" ::"r"(p)
          : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
    return;
  }
#endif
  std::uint64_t sums[4] = {};
  for (const std::byte* p = begin; p < end; p += 256)
    for (int j = 0; j < 4; ++j) {
      std::uint64_t word;
      std::memcpy(&word, p + 64 * j, sizeof word);
      sums[j] += word;
    }
  sink = static_cast<float>(sums[0] + sums[1] + sums[2] + sums[3]);
}

// Every thread reads its part of one buffer several times; the best pass of all together counts.
double read_bandwidth(int threads, std::size_t bytes) {
  Buffer buffer(bytes);
  std::memset(buffer.data(), 1, bytes);
  const double seconds = best_seconds([&] {
    std::vector<std::thread> readers;
    const std::size_t part = bytes / static_cast<std::size_t>(threads) / 512 * 512;
    for (int t = 0; t < threads; ++t)
      readers.emplace_back([&, t] {
        const std::byte* begin = buffer.data() + static_cast<std::size_t>(t) * part;
        for (int pass = 0; pass < 4; ++pass) read_all(begin, begin + part);
      });
    for (std::thread& reader : readers) reader.join();
  });
  return 4.0 * static_cast<double>(bytes) / seconds / 1e9;
}

// `threads` threads run `loop` at once, each `macs` multiply-adds. Each stays on a processor of its
// own: the loops end before a scheduler would have moved two of them apart.
double dot_rate(int threads, double macs, void (*loop)()) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  const double seconds = best_seconds([&] {
    std::vector<std::thread> runners;
    for (int t = 0; t < threads; ++t) {
      runners.emplace_back([&, t] {
        cpu_set_t own;
        CPU_ZERO(&own);
        CPU_SET(cpus[static_cast<std::size_t>(t) % cpus.size()], &own);
        sched_setaffinity(0, sizeof own, &own);
        loop();
      });
    }
    for (std::thread& runner : runners) runner.join();
  });
  return threads * macs / seconds / 1e9;
}

DotPeaks dot_peaks([[maybe_unused]] int threads) {
  DotPeaks peaks;
#if defined(__x86_64__)
  const double rounds = static_cast<double>(kRounds);
  if (__builtin_cpu_supports("avx512f")) peaks.fma = dot_rate(threads, rounds * 16 * 16, run_fma);
  if (__builtin_cpu_supports("avx512vnni"))
    peaks.vpdpbusd = dot_rate(threads, rounds * 16 * 64, run_vpdpbusd);
  if (__builtin_cpu_supports("avx512bf16"))
    peaks.vdpbf16ps = dot_rate(threads, rounds * 16 * 32, run_vdpbf16ps);
  if (__builtin_cpu_supports("amx-int8"))
    peaks.amx_int8 = dot_rate(threads, rounds / 8 * 4 * 16 * 16 * 64, run_amx_int8);
  if (__builtin_cpu_supports("amx-bf16"))
    peaks.amx_bf16 = dot_rate(threads, rounds / 8 * 4 * 16 * 16 * 32, run_amx_bf16);
#endif
  return peaks;
}

}  // namespace

Peaks measure_peaks(int threads, std::size_t read_bytes) {
  Peaks peaks;
  static_cast<DotPeaks&>(peaks) = dot_peaks(1);
  peaks.all = threads == 1 ? static_cast<DotPeaks>(peaks) : dot_peaks(threads);
  peaks.read_gb_per_s = read_bandwidth(threads, read_bytes);
  return peaks;
}

}  // namespace quire::bench
