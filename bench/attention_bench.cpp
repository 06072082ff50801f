// Attention on all kernel threads: prefill as a fraction of the peak of f32 FMA in the kernels'
// instruction set (masked keys don't count), decode as a fraction of the read bandwidth (bytes of K
// and V).
//   attention_bench [--kernels NAME] [--threads N]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "kernels/cpu/kernels.h"
#include "peak_probes.h"

namespace quire::bench {
namespace {

struct Shape {
  const char* name;
  std::int32_t q_heads, kv_heads, head_dim;
  std::int32_t layers;  // enough that what is read does not stay in a cache
};
constexpr Shape kShapes[] = {
    {"SmolLM2-135M", 9, 3, 64, 30},
    {"Qwen2.5-0.5B", 14, 2, 64, 24},
    {"Qwen2.5-1.5B", 12, 2, 128, 28},
    {"MHA 16 x 64", 16, 16, 64, 8},
};

double seconds(const std::chrono::steady_clock::time_point& start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Bench {
 public:
  Bench(Backend& backend, const Shape& shape, DType dtype, std::int32_t tokens)
      : backend_(backend), shape_(shape) {
    KvGeometry geometry;
    geometry.dtype = dtype;
    geometry.groups = {{KvGroupKind::kFullAttention, shape.layers, shape.kv_heads, shape.head_dim,
                        shape.head_dim, 0}};
    bytes_per_key_ =
        2.0 * shape.kv_heads * shape.head_dim * static_cast<double>(dtype_info(dtype).block_bytes);
    const std::int32_t blocks = tokens / geometry.block_size + 64;
    cache_ = backend.make_kv_cache(geometry, std::span(&blocks, 1));
    params_.q_heads = shape.q_heads;
    params_.kv_heads = shape.kv_heads;
    params_.head_dim = params_.v_head_dim = shape.head_dim;
    params_.scale = 0.125f;
    width_ = std::int64_t{shape.q_heads + 2 * shape.kv_heads} * shape.head_dim;
    fill(blocks * geometry.block_size);
  }

  // Best seconds of one step of all layers: `sequences` of `rows` rows after `start` others.
  double step(std::int32_t sequences, std::int32_t start, std::int32_t rows) {
    std::vector<std::int32_t> row_begin{0}, starts, table, begins{0};
    for (std::int32_t s = 0; s < sequences; ++s) {
      row_begin.push_back(row_begin.back() + rows);
      starts.push_back(start);
      const std::int32_t blocks = (start + rows + 31) / 32;
      for (std::int32_t b = 0; b < blocks; ++b) table.push_back(s * blocks + b);
      begins.push_back(static_cast<std::int32_t>(table.size()));
    }
    std::vector<float> q(static_cast<std::size_t>(row_begin.back() * width_), 0.5f);
    std::vector<float> out(q.size());
    const AttentionBatch batch{row_begin, starts, table, begins};
    double best = 1e9;
    for (double total = 0; total < 0.4;) {
      const auto begin = std::chrono::steady_clock::now();
      for (params_.layer = 0; params_.layer < shape_.layers; ++params_.layer)
        backend_.attention(q.data(), width_, batch, params_, *cache_, out.data());
      const double taken = seconds(begin);
      total += taken;
      best = std::min(best, taken);
    }
    return best;
  }
  // Multiply-adds of that step, and bytes of K and V.
  double products(double sequences, double start, double rows) const {
    return sequences * shape_.layers * shape_.q_heads * 2.0 * shape_.head_dim *
           (rows * start + rows * (rows + 1) / 2);
  }
  double bytes(double sequences, double keys) const {
    return sequences * keys * bytes_per_key_ * shape_.layers;
  }

 private:
  void fill(std::int32_t tokens) {
    constexpr std::int32_t kRows = 512;
    std::vector<float> kv(static_cast<std::size_t>(kRows * width_));
    for (std::size_t i = 0; i < kv.size(); ++i)
      kv[i] = static_cast<float>(i * 7919 % 2003) / 1001.0f - 1.0f;
    std::vector<std::int32_t> table;
    for (std::int32_t b = 0; b < tokens / 32; ++b) table.push_back(b);
    const std::int32_t end = static_cast<std::int32_t>(table.size());
    for (std::int32_t at = 0; at < tokens; at += kRows) {
      const std::int32_t rows[] = {0, std::min(kRows, tokens - at)}, begins[] = {0, end};
      for (params_.layer = 0; params_.layer < shape_.layers; ++params_.layer)
        backend_.store_kv(kv.data(), width_, kv.data() + 3, width_,
                          {rows, std::span(&at, 1), table, begins}, params_, *cache_);
    }
  }

  Backend& backend_;
  const Shape shape_;
  double bytes_per_key_ = 0;
  std::int64_t width_ = 0;
  AttentionParams params_;
  std::unique_ptr<KvCache> cache_;
};

// fma_gmacs: of one thread; 0: no peak is known.
void run(Backend& backend, const Shape& shape, DType dtype, double fma_gmacs,
         double read_gb_per_s) {
  Bench bench(backend, shape, dtype, 16384);
  const double fma = fma_gmacs * 1e9 * backend.num_threads(), read = read_gb_per_s * 1e9;
  std::printf("%-13s %-4s", shape.name, std::string(dtype_name(dtype)).c_str());
  for (const std::int32_t start : {0, 3584}) {
    const double s = bench.step(1, start, 512);
    std::printf(" | prefill 512 at %4d: %7.2f ms", start, s * 1e3);
    if (fma > 0) std::printf(" %4.2f", bench.products(1, start, 512) / s / fma);
  }
  struct Decode {
    std::int32_t sequences, context;
  };
  for (const Decode d : {Decode{1, 4096}, Decode{4, 4000}, Decode{16, 256}, Decode{64, 256}}) {
    const double s = bench.step(d.sequences, d.context - 1, 1);
    std::printf(" | decode %2d x %4d: %6.2f ms %5.1f GB/s %4.2f", d.sequences, d.context, s * 1e3,
                bench.bytes(d.sequences, d.context) / s / 1e9,
                bench.bytes(d.sequences, d.context) / s / read);
  }
  std::printf("\n");
  std::fflush(stdout);
}

int main_of(int argc, char** argv) {
  CpuBackendOptions options;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--kernels") == 0) options.kernels = argv[i + 1];
    if (std::strcmp(argv[i], "--threads") == 0) options.threads = std::atoi(argv[i + 1]);
  }
  const Result<std::unique_ptr<Backend>> backend = make_cpu_backend(options);
  if (!backend) {
    std::fprintf(stderr, "%s\n", backend.error().message.c_str());
    return 1;
  }
  (*backend)->reserve(1024, 0);
  const Peaks peaks = measure_peaks((*backend)->num_threads());
  const char* table = select_kernels(options.kernels).value()->name;
  const double fma = peak_of_table(table, ActForm::kF32, peaks);
  std::printf("%s; FMA peak of a thread %s G/s, read bandwidth of all %.1f GB/s\n",
              (*backend)->description().c_str(),
              fma > 0 ? fmt::format("{:.1f}", fma).c_str() : "unknown", peaks.read_gb_per_s);
  for (const Shape& shape : kShapes) {
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kI8}) {
      if (dtype != DType::kBF16 && &shape != kShapes) continue;
      run(**backend, shape, dtype, fma, peaks.read_gb_per_s);
    }
  }
  return 0;
}

}  // namespace
}  // namespace quire::bench

int main(int argc, char** argv) { return quire::bench::main_of(argc, argv); }
