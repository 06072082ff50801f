// Loops of each dot instruction that this processor has, which fill its pipelines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quire::bench {

// x86 without a width: 512 bits. vpmaddubsw is followed by vpmaddwd and vpaddd, as without VNNI.
enum class Dot {
  kFma,
  kVpdpbusd,
  kVdpbf16ps,
  kAmxInt8,
  kAmxBf16,
  kVpmaddubsw,
  kFma256,
  kVpmaddubsw256,
  kVpdpbusd256,  // the VEX form (AVX-VNNI)
  kNeonFmla,
  kNeonSdot,
  kNeonSmmla,   // i8mm
  kNeonBfmmla,  // bf16
};
inline constexpr std::size_t kNumDots = 13;
constexpr std::size_t index_of(Dot dot) { return static_cast<std::size_t>(dot); }

struct DotProbe {
  const char* name = "";                        // in the JSON of `matmul_bench --peaks`
  void (*loop)(std::int64_t rounds) = nullptr;  // null: the processor lacks the instruction
  double macs_per_round = 0;                    // multiply-adds
};
// By index_of(Dot).
std::array<DotProbe, kNumDots> dot_probes();

// The fastest dot instruction of what a table of kernels (KernelTable::name) is written for, by the
// form of the activations.
struct TableDots {
  Dot f32, bf16, int8;
};
// nullopt: a table without dot instructions of its own ("ref").
std::optional<TableDots> dots_of_table(std::string_view table);

}  // namespace quire::bench
