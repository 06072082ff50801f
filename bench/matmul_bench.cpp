// The matrix products of one layer of real models, by type of weights and number of rows, as
// fractions of what this machine could do at most: the larger of the time to read the weights and
// the time of the multiply-adds at the peak of the dot instruction. Both are measured in the same
// run.
//   matmul_bench [--kernels T] [--threads N] [--types a,b] [--rows 1,8] [--models a,b] [--each]
//   matmul_bench --peaks [--threads N]
// What is timed is the backend's whole product: activations into the kernel's form, threads woken,
// partition. Weights come from memory, not from a cache: a run goes through many layers.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/cpu_topology.h"
#include "peak_probes.h"
#include "tensor/half.h"

namespace quire::bench {
namespace {

struct Product {
  const char* name;
  std::int64_t k, n;
};
struct Model {
  const char* name;
  std::vector<Product> layer;
};
const std::vector<Model> kModels = {
    {"135M", {{"qkv", 576, 960}, {"o", 576, 576}, {"gate_up", 576, 3072}, {"down", 1536, 576}}},
    {"0.5B", {{"qkv", 896, 1152}, {"o", 896, 896}, {"gate_up", 896, 9728}, {"down", 4864, 896}}},
    {"1.5B",
     {{"qkv", 1536, 2048}, {"o", 1536, 1536}, {"gate_up", 1536, 17920}, {"down", 8960, 1536}}}};
constexpr DType kTypes[] = {DType::kBF16,  DType::kQ8_0,   DType::kQ4_0,   DType::kQ4_1,
                            DType::kQ5_0,  DType::kQ2_K,   DType::kQ3_K,   DType::kQ4_K,
                            DType::kQ5_K,  DType::kQ6_K,   DType::kIQ4_NL, DType::kIQ4_XS,
                            DType::kMXFP4, DType::kG4_128, DType::kG8_128, DType::kF8_128};

struct Options {
  std::string kernels = "auto";
  int threads = 0;
  std::vector<std::string> types, models;
  std::vector<std::int64_t> rows = {1, 2, 4, 8, 16, 32, 64, 512};
  bool each = false, gmacs = false, peaks = false;
  std::size_t read_mb = 256;
  double seconds = 0.25;
};

bool wanted(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

// A stored matrix of codes and scales that are sane numbers of its type.
Buffer make_stored(DType type, std::int64_t n, std::int64_t k) {
  Buffer stored(static_cast<std::size_t>(n * row_bytes(type, k)));
  if (!is_quantized(type)) {
    const std::uint16_t values[4] = {f32_to_bf16(0.5f), f32_to_bf16(-0.25f), f32_to_bf16(0.125f),
                                     f32_to_bf16(-1.0f)};
    for (std::size_t i = 0; i < stored.size(); i += 2)
      std::memcpy(stored.data() + i, &values[i / 2 * 5 / 3 % 4], 2);
    return stored;
  }
  for (std::size_t i = 0; i < stored.size(); ++i)
    stored.data()[i] = static_cast<std::byte>(0x10 + i * 7 % 31);
  if (is_g4_kind(packed_kind_for(type, ComputeDType::kAuto))) {
    const auto block = static_cast<std::size_t>(dtype_info(type).block_bytes);
    for (std::size_t at = 2; at < stored.size(); at += block) stored.data()[at] = std::byte{7};
  }
  return stored;
}

// Layers of packed weights, more bytes together than the caches hold.
struct Layers {
  std::vector<std::unique_ptr<Linear>> matrices;  // one product, layer after layer
  double bytes = 0;                               // of one
};
Layers make_layers(CpuBackend& backend, DType type, const Product& product) {
  constexpr double kBytes = 100e6;  // three times a last-level cache of 32 MB
  const Buffer stored = make_stored(type, product.n, product.k);
  const TensorView view{stored.data(), type, Shape{product.n, product.k}};
  Layers layers;
  do {
    layers.matrices.push_back(backend.pack_linear({&view, 1}, {}).value());
    layers.bytes = static_cast<double>(layers.matrices.back()->packed_bytes);
  } while (layers.bytes * static_cast<double>(layers.matrices.size()) < kBytes &&
           layers.matrices.size() < 400);
  return layers;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of one product: the median over the products of passes through all layers.
double seconds_per_product(CpuBackend& backend, const Layers& layers, const Product& product,
                           std::int64_t rows, double least) {
  Buffer x(static_cast<std::size_t>(rows * product.k) * 4);
  Buffer y(static_cast<std::size_t>(rows * product.n) * 4);
  for (std::int64_t i = 0; i < rows * product.k; ++i)
    x.as<float>()[i] = static_cast<float>(i * 7919 % 2003) / 1001.0f - 1.0f;
  std::vector<double> taken;
  const double begin = now();
  for (std::size_t i = 0; i < layers.matrices.size() || now() - begin < least; ++i) {
    const Linear& weights = *layers.matrices[i % layers.matrices.size()];
    const double start = now();
    backend.linear(x.as<float>(), rows, weights, y.as<float>(), Epilogue::kStore, 0);
    taken.push_back(now() - start);
    if (taken.size() > 4 && now() - begin > 4 * least) break;
  }
  std::nth_element(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(taken.size() / 2),
                   taken.end());
  return taken[taken.size() / 2];
}

double peak_of(const KernelTable& kernels, DType type, const DotPeaks& peaks) {
  const PackedKind kind = packed_kind_for(type, ComputeDType::kAuto);
  return peak_of_table(kernels.name, kernels.mm.act_form(kind, ComputeDType::kAuto), peaks);
}

struct Cell {
  double seconds = 0, bound = 0, macs = 0;  // bound 0: no peak is known
};
void print_row(const std::string& type, const std::string& model, const std::vector<Cell>& cells,
               bool gmacs) {
  std::printf("| %s | %s |", type.c_str(), model.c_str());
  for (const Cell& cell : cells) {
    if (gmacs)
      std::printf(" %.0f |", cell.macs / cell.seconds / 1e9);
    else if (cell.bound > 0)
      std::printf(" %.2f |", cell.bound / cell.seconds);
    else
      std::printf(" – |");
  }
  std::printf("\n");
  std::fflush(stdout);
}

void bench_model(CpuBackend& backend, const KernelTable& kernels, DType type, const Model& model,
                 const Options& options, const Peaks& peaks) {
  std::vector<Cell> total(options.rows.size());
  const double peak = peak_of(kernels, type, peaks.all) * 1e9;
  for (const Product& product : model.layer) {
    if (product.k % dtype_info(type).block_elements != 0) continue;  // files have other types there
    const Layers layers = make_layers(backend, type, product);
    std::vector<Cell> cells;
    for (std::int64_t rows : options.rows) {
      Cell cell;
      cell.seconds = seconds_per_product(backend, layers, product, rows, options.seconds);
      cell.macs = static_cast<double>(rows * product.n) * static_cast<double>(product.k);
      if (peak > 0)
        cell.bound = std::max(cell.macs / peak, layers.bytes / (peaks.read_gb_per_s * 1e9));
      Cell& sum = total[cells.size()];
      sum.seconds += cell.seconds;
      sum.bound += cell.bound;
      sum.macs += cell.macs;
      cells.push_back(cell);
    }
    if (options.each)
      print_row(std::string(dtype_name(type)), std::string(model.name) + " " + product.name, cells,
                options.gmacs);
  }
  if (total[0].seconds > 0)
    print_row(std::string(dtype_name(type)), model.name, total, options.gmacs);
}

// The machine's roofline as one line of JSON.
int print_peaks(int threads, std::size_t read_bytes) {
  if (const auto table = select_kernels("auto"); !table) return 1;  // asks for the tile registers
  if (threads <= 0) threads = read_cpu_topology().usable_threads;
  const Peaks peaks = measure_peaks(threads, read_bytes);
  std::printf("{\"threads\": %d", threads);
  const auto print = [](const char* suffix, const DotPeaks& p) {
    for (std::size_t i = 0; const DotProbe& probe : dot_probes())
      std::printf(", \"%s%s_gmacs\": %.0f", probe.name, suffix, p.gmacs[i++]);
  };
  print("", peaks);
  print("_all", peaks.all);
  std::printf(", \"read_gb_s\": %.1f}\n", peaks.read_gb_per_s);
  return 0;
}

// The instructions that the machine has and their peaks.
std::string describe(const DotPeaks& peaks) {
  std::string text;
  for (std::size_t i = 0; const DotProbe& probe : dot_probes()) {
    if (peaks.gmacs[i] > 0) text += fmt::format(" {} {:.0f},", probe.name, peaks.gmacs[i]);
    ++i;
  }
  if (text.empty()) return " no known dot instruction";
  text.pop_back();
  return text;
}

int run(const Options& options) {
  if (options.peaks) return print_peaks(options.threads, options.read_mb << 20);
  const auto backend = make_cpu_backend({options.kernels, options.threads, ComputeDType::kAuto});
  if (!backend) {
    std::fprintf(stderr, "%s\n", backend.error().message.c_str());
    return 1;
  }
  auto& cpu = static_cast<CpuBackend&>(**backend);
  const KernelTable& kernels = *select_kernels(options.kernels).value();
  const Peaks peaks = measure_peaks(cpu.num_threads());
  cpu.reserve(*std::max_element(options.rows.begin(), options.rows.end()), 8960);
  std::printf("%s; %s. All threads together: 10^9 multiply-adds per second%s; read %.1f GB/s\n",
              read_cpu_topology().model_name.c_str(), cpu.description().c_str(),
              describe(peaks.all).c_str(), peaks.read_gb_per_s);
  if (peak_of_table(kernels.name, ActForm::kF32, peaks.all) == 0 && !options.gmacs)
    std::printf("No peak is known for the kernels %s: no fractions.\n", kernels.name);
  std::printf("\n| weights | layer of |");
  for (std::int64_t rows : options.rows) std::printf(" M = %ld |", rows);
  std::printf("\n|---|---|");
  for (std::size_t i = 0; i < options.rows.size(); ++i) std::printf("---|");
  std::printf("\n");
  for (const DType type : kTypes) {
    if (!wanted(options.types, dtype_name(type))) continue;
    for (const Model& model : kModels)
      if (wanted(options.models, model.name))
        bench_model(cpu, kernels, type, model, options, peaks);
  }
  return 0;
}

}  // namespace
}  // namespace quire::bench

int main(int argc, char** argv) {
  quire::bench::Options options;
  CLI::App app("Matrix products as fractions of the machine's roofline");
  app.add_option("--kernels", options.kernels, "A table of kernels");
  app.add_option("--threads", options.threads, "0: every core");
  app.add_option("--types", options.types, "Types of weights, as files name them")->delimiter(',');
  app.add_option("--models", options.models, "135M, 0.5B, 1.5B")->delimiter(',');
  app.add_option("--rows", options.rows, "Numbers of rows")->delimiter(',');
  app.add_option("--seconds", options.seconds, "Of measuring per figure, at least");
  app.add_flag("--each", options.each, "Each product by itself too");
  app.add_flag("--gmacs", options.gmacs, "10^9 multiply-adds per second in place of fractions");
  app.add_option("--read-mb", options.read_mb, "MiB that --peaks reads for the read bandwidth");
  app.add_flag("--peaks", options.peaks, "Print the machine's roofline only");
  CLI11_PARSE(app, argc, argv);
  return quire::bench::run(options);
}
