// Chains of independent instructions: at least latency x ports of them. Their data does not matter.
#include "dot_probes.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace quire::bench {
namespace {

#if defined(__x86_64__)
#define QUIRE_CLOBBERS                                                                     \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
// Sixteen accumulators zmm0-zmm15, twelve accumulators ymm0-ymm11.
#define QUIRE_OP512(op, acc) op " %%zmm31, %%zmm30, %%zmm" #acc "\n\t"
#define QUIRE_OP256(op, acc) op " %%ymm15, %%ymm14, %%ymm" #acc "\n\t"
#define QUIRE_CHAINS_512(op)                                                                   \
  for (std::int64_t i = 0; i < rounds; ++i)                                                    \
  asm volatile(QUIRE_OP512(op, 0) QUIRE_OP512(op, 1) QUIRE_OP512(op, 2) QUIRE_OP512(op, 3)     \
                   QUIRE_OP512(op, 4) QUIRE_OP512(op, 5) QUIRE_OP512(op, 6) QUIRE_OP512(op, 7) \
                       QUIRE_OP512(op, 8) QUIRE_OP512(op, 9) QUIRE_OP512(op, 10)               \
                           QUIRE_OP512(op, 11) QUIRE_OP512(op, 12) QUIRE_OP512(op, 13)         \
                               QUIRE_OP512(op, 14) QUIRE_OP512(op, 15)::                       \
                                   : QUIRE_CLOBBERS)
#define QUIRE_CHAINS_256(op)                                                                   \
  for (std::int64_t i = 0; i < rounds; ++i)                                                    \
  asm volatile(QUIRE_OP256(op, 0) QUIRE_OP256(op, 1) QUIRE_OP256(op, 2) QUIRE_OP256(op, 3)     \
                   QUIRE_OP256(op, 4) QUIRE_OP256(op, 5) QUIRE_OP256(op, 6) QUIRE_OP256(op, 7) \
                       QUIRE_OP256(op, 8) QUIRE_OP256(op, 9) QUIRE_OP256(op, 10)               \
                           QUIRE_OP256(op, 11)::                                               \
                               : QUIRE_CLOBBERS)
// Pairs of bytes, pairs of those, and their sum, with a register between them; eight accumulators.
#define QUIRE_MADD(r, w, a, acc, t)                                                           \
  "vpmaddubsw %%" r #a ", %%" r #w ", %%" r #t "\n\tvpmaddwd %%" r #a ", %%" r #t ", %%" r #t \
  "\n\tvpaddd %%" r #t ", %%" r #acc ", %%" r #acc "\n\t"
#define QUIRE_MADDS(r, w, a)                                                                      \
  for (std::int64_t i = 0; i < rounds; ++i)                                                       \
  asm volatile(QUIRE_MADD(r, w, a, 0, 8) QUIRE_MADD(r, w, a, 1, 9) QUIRE_MADD(r, w, a, 2, 10)     \
                   QUIRE_MADD(r, w, a, 3, 11) QUIRE_MADD(r, w, a, 4, 8) QUIRE_MADD(r, w, a, 5, 9) \
                       QUIRE_MADD(r, w, a, 6, 10) QUIRE_MADD(r, w, a, 7, 11)::                    \
                           : QUIRE_CLOBBERS)

void clear_ymm() { asm volatile("vzeroall" ::: QUIRE_CLOBBERS); }
void clear_zmm() {
  asm volatile("vpxord %%zmm30, %%zmm30, %%zmm30\n\tvpxord %%zmm31, %%zmm31, %%zmm31\n\tvzeroall" ::
                   : QUIRE_CLOBBERS);
}
void run_fma(std::int64_t rounds) {
  clear_zmm();
  QUIRE_CHAINS_512("vfmadd231ps");
  clear_ymm();
}
void run_vpdpbusd(std::int64_t rounds) {
  clear_zmm();
  QUIRE_CHAINS_512("vpdpbusd");
  clear_ymm();
}
void run_vdpbf16ps(std::int64_t rounds) {
  clear_zmm();
  QUIRE_CHAINS_512("vdpbf16ps");
  clear_ymm();
}
void run_vpmaddubsw(std::int64_t rounds) {
  clear_zmm();
  QUIRE_MADDS("zmm", 30, 31);
  clear_ymm();
}
void run_fma_256(std::int64_t rounds) {
  clear_ymm();
  QUIRE_CHAINS_256("vfmadd231ps");
  clear_ymm();
}
void run_vpdpbusd_256(std::int64_t rounds) {
  clear_ymm();
  QUIRE_CHAINS_256("%{vex%} vpdpbusd");
  clear_ymm();
}
void run_vpmaddubsw_256(std::int64_t rounds) {
  clear_ymm();
  QUIRE_MADDS("ymm", 14, 15);
  clear_ymm();
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
void run_amx_int8(std::int64_t rounds) {
  configure_tiles();
  for (std::int64_t i = 0; i < rounds; ++i)
    asm volatile(
        "tdpbssd %%tmm5, %%tmm4, %%tmm0\n\ttdpbssd %%tmm7, %%tmm6, %%tmm1\n\t"
        "tdpbssd %%tmm5, %%tmm6, %%tmm2\n\ttdpbssd %%tmm7, %%tmm4, %%tmm3" ::);
  asm volatile("tilerelease" ::);
}
void run_amx_bf16(std::int64_t rounds) {
  configure_tiles();
  for (std::int64_t i = 0; i < rounds; ++i)
    asm volatile(
        "tdpbf16ps %%tmm5, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm6, %%tmm1\n\t"
        "tdpbf16ps %%tmm5, %%tmm6, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm3" ::);
  asm volatile("tilerelease" ::);
}
bool has_avx_vnni() {
  std::uint32_t a, b, c, d;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#elif defined(__aarch64__)
// Twenty-four accumulators v0-v23; `s` and `b` are the shapes of the accumulator and the sources.
#define QUIRE_OP(op, s, b, acc) op " v" #acc "." s ", v30." b ", v31." b "\n\t"
#define QUIRE_CHAINS(op, s, b)                                                                     \
  for (std::int64_t i = 0; i < rounds; ++i)                                                        \
  asm volatile(                                                                                    \
      QUIRE_OP(op, s, b, 0) QUIRE_OP(op, s, b, 1) QUIRE_OP(op, s, b, 2) QUIRE_OP(op, s, b, 3)      \
          QUIRE_OP(op, s, b, 4) QUIRE_OP(op, s, b, 5) QUIRE_OP(op, s, b, 6) QUIRE_OP(op, s, b, 7)  \
              QUIRE_OP(op, s, b, 8) QUIRE_OP(op, s, b, 9) QUIRE_OP(op, s, b, 10)                   \
                  QUIRE_OP(op, s, b, 11) QUIRE_OP(op, s, b, 12) QUIRE_OP(op, s, b, 13)             \
                      QUIRE_OP(op, s, b, 14) QUIRE_OP(op, s, b, 15) QUIRE_OP(op, s, b, 16)         \
                          QUIRE_OP(op, s, b, 17) QUIRE_OP(op, s, b, 18) QUIRE_OP(op, s, b, 19)     \
                              QUIRE_OP(op, s, b, 20) QUIRE_OP(op, s, b, 21) QUIRE_OP(op, s, b, 22) \
                                  QUIRE_OP(op, s, b, 23)::                                         \
                                      : QUIRE_CLOBBERS)
#define QUIRE_CLOBBERS                                                                           \
  "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
      "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v30", "v31"

__attribute__((noinline)) void clear_registers() {
  asm volatile("movi v30.2d, #0\n\tmovi v31.2d, #0" ::: "v30", "v31");
}
void run_neon_fmla(std::int64_t rounds) {
  clear_registers();
  QUIRE_CHAINS("fmla", "4s", "4s");
}
__attribute__((target("arch=armv8.2-a+dotprod"))) void run_neon_sdot(std::int64_t rounds) {
  clear_registers();
  QUIRE_CHAINS("sdot", "4s", "16b");
}
__attribute__((target("arch=armv8.2-a+i8mm"))) void run_neon_smmla(std::int64_t rounds) {
  clear_registers();
  QUIRE_CHAINS("smmla", "4s", "16b");
}
__attribute__((target("arch=armv8.2-a+bf16"))) void run_neon_bfmmla(std::int64_t rounds) {
  clear_registers();
  QUIRE_CHAINS("bfmmla", "4s", "8h");
}
#endif

}  // namespace

std::array<DotProbe, kNumDots> dot_probes() {
  std::array<DotProbe, kNumDots> probes = {{{"fma"},
                                            {"vpdpbusd"},
                                            {"vdpbf16ps"},
                                            {"amx_int8"},
                                            {"amx_bf16"},
                                            {"vpmaddubsw"},
                                            {"fma_256"},
                                            {"vpmaddubsw_256"},
                                            {"vpdpbusd_256"},
                                            {"neon_fmla"},
                                            {"neon_sdot"},
                                            {"neon_smmla"},
                                            {"neon_bfmmla"}}};
  [[maybe_unused]] const auto add = [&](Dot dot, bool present, void (*loop)(std::int64_t),
                                        std::int64_t macs) {
    if (!present) return;
    probes[index_of(dot)].loop = loop;
    probes[index_of(dot)].macs_per_round = static_cast<double>(macs);
  };
#if defined(__x86_64__)
  const bool fma_256 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  add(Dot::kFma256, fma_256, run_fma_256, 12 * 8);
  add(Dot::kVpmaddubsw256, __builtin_cpu_supports("avx2"), run_vpmaddubsw_256, 8 * 32);
  add(Dot::kVpdpbusd256, has_avx_vnni(), run_vpdpbusd_256, 12 * 32);
  add(Dot::kFma, __builtin_cpu_supports("avx512f"), run_fma, 16 * 16);
  add(Dot::kVpmaddubsw, __builtin_cpu_supports("avx512bw"), run_vpmaddubsw, 8 * 64);
  add(Dot::kVpdpbusd, __builtin_cpu_supports("avx512vnni"), run_vpdpbusd, 16 * 64);
  add(Dot::kVdpbf16ps, __builtin_cpu_supports("avx512bf16"), run_vdpbf16ps, 16 * 32);
  constexpr std::int64_t kTileOutputs = 16 * 16;
  add(Dot::kAmxInt8, __builtin_cpu_supports("amx-int8"), run_amx_int8, 4 * kTileOutputs * 64);
  add(Dot::kAmxBf16, __builtin_cpu_supports("amx-bf16"), run_amx_bf16, 4 * kTileOutputs * 32);
#elif defined(__aarch64__)
  constexpr unsigned long kAsimdDp = 1ul << 20, kI8mm = 1ul << 13, kBf16 = 1ul << 14;
  const unsigned long caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
  add(Dot::kNeonFmla, true, run_neon_fmla, 24 * 4);
  add(Dot::kNeonSdot, caps & kAsimdDp, run_neon_sdot, 24 * 16);
  add(Dot::kNeonSmmla, caps2 & kI8mm, run_neon_smmla, 24 * 32);
  add(Dot::kNeonBfmmla, caps2 & kBf16, run_neon_bfmmla, 24 * 16);
#endif
  return probes;
}

std::optional<TableDots> dots_of_table(std::string_view table) {
  struct Row {
    std::string_view table;
    TableDots dots;
  };
  // AMX tables multiply integers as bf16: MatmulKernels::act_form says so.
  static constexpr Row kRows[] = {{"avx2", {Dot::kFma256, Dot::kFma256, Dot::kVpmaddubsw256}},
                                  {"avx_vnni", {Dot::kFma256, Dot::kFma256, Dot::kVpdpbusd256}},
                                  {"avx512", {Dot::kFma, Dot::kFma, Dot::kVpmaddubsw}},
                                  {"vnni", {Dot::kFma, Dot::kFma, Dot::kVpdpbusd}},
                                  {"bf16", {Dot::kFma, Dot::kVdpbf16ps, Dot::kVpdpbusd}},
                                  {"amx", {Dot::kFma, Dot::kAmxBf16, Dot::kAmxInt8}},
                                  {"neon", {Dot::kNeonFmla, Dot::kNeonFmla, Dot::kNeonSdot}},
                                  {"i8mm", {Dot::kNeonFmla, Dot::kNeonFmla, Dot::kNeonSmmla}}};
  for (const Row& row : kRows)
    if (row.table == table) return row.dots;
  return std::nullopt;
}

}  // namespace quire::bench
