#include "peak_probes.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "tensor/buffer.h"

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

volatile float sink;

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

// Rounds of a probe that take some milliseconds.
std::int64_t rounds_of(const DotProbe& probe) {
  constexpr std::chrono::milliseconds kEnough{6};
  for (std::int64_t rounds = 1000;; rounds *= 2) {
    const auto start = std::chrono::steady_clock::now();
    probe.loop(rounds);
    if (std::chrono::steady_clock::now() - start > kEnough) return rounds;
  }
}

// `threads` threads run the probe at once. Each stays on a processor of its own: the loops end
// before a scheduler would have moved two of them apart.
double dot_rate(int threads, const DotProbe& probe) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  const std::int64_t rounds = rounds_of(probe);
  const double seconds = best_seconds([&] {
    std::vector<std::thread> runners;
    for (int t = 0; t < threads; ++t) {
      runners.emplace_back([&, t] {
        cpu_set_t own;
        CPU_ZERO(&own);
        CPU_SET(cpus[static_cast<std::size_t>(t) % cpus.size()], &own);
        sched_setaffinity(0, sizeof own, &own);
        probe.loop(rounds);
      });
    }
    for (std::thread& runner : runners) runner.join();
  });
  return threads * static_cast<double>(rounds) * probe.macs_per_round / seconds / 1e9;
}

DotPeaks dot_peaks(int threads) {
  DotPeaks peaks;
  const std::array<DotProbe, kNumDots> probes = dot_probes();
  for (std::size_t i = 0; i < kNumDots; ++i)
    if (probes[i].loop != nullptr) peaks.gmacs[i] = dot_rate(threads, probes[i]);
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

double peak_of_table(std::string_view table, ActForm form, const DotPeaks& peaks) {
  const std::optional<TableDots> dots = dots_of_table(table);
  if (!dots) return 0;
  const double f32 = peaks[dots->f32];
  switch (form) {
    case ActForm::kInt8:
      return peaks[dots->int8];
    case ActForm::kBF16:  // some processors multiply pairs of bf16 slower than f32
      return std::max(peaks[dots->bf16], f32);
    default:
      return f32;
  }
}

}  // namespace quire::bench
