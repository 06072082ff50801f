// Chooses the kernel table: what CPUID offers, the operating system saves, and the caller asks for.
// Tables are built once, on first use, by the thread that starts the process.
#include <array>
#include <string>

#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace quire {
namespace {

struct CpuFeatures {
  bool avx2 = false, avx_vnni = false, avx512 = false, vnni = false, bf16 = false, amx = false;
  bool neon = false, i8mm = false;
  bool shared_ports = false;  // dot products have none of their own
};

#if defined(__x86_64__)
std::uint64_t read_xcr0() {
  std::uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}
// Linux hands out the AMX tile registers (8 KB per thread) on request, for the whole process.
bool request_amx() {
  constexpr int kArchReqXcompPerm = 0x1023, kXtileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXtileData) == 0;
}
CpuFeatures read_features() {
  CpuFeatures f;
  std::uint32_t a, b, c, d;
  if (!__get_cpuid(0, &a, &b, &c, &d)) return f;
  f.shared_ports = b == signature_INTEL_ebx;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
  const bool osxsave = c >> 27 & 1, fma = c >> 12 & 1, f16c = c >> 29 & 1;
  if (!osxsave || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
  const std::uint64_t saved = read_xcr0();
  const bool ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xe6) == 0xe6,
             tiles = (saved & 0x60000) == 0x60000;
  f.avx2 = ymm && fma && f16c && (b >> 5 & 1);
  const std::uint32_t f_bw_dq_vl = 1u << 16 | 1u << 30 | 1u << 17 | 1u << 31;
  f.avx512 = f.avx2 && zmm && (b & f_bw_dq_vl) == f_bw_dq_vl;
  f.vnni = f.avx512 && (c >> 11 & 1);
  const std::uint32_t amx_bits = 1u << 22 | 1u << 23 | 1u << 24;  // bf16, AVX512-FP16, tile
  const bool amx = (d & amx_bits) == amx_bits;
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d)) a = 0;
  f.avx_vnni = f.avx2 && (a >> 4 & 1);
  f.bf16 = f.vnni && (a >> 5 & 1);
  f.amx = f.bf16 && amx && tiles && request_amx();
  return f;
}
#elif defined(__aarch64__) && defined(__linux__)
CpuFeatures read_features() {
  CpuFeatures f;
  constexpr unsigned long kAsimdHp = 1ul << 10, kAsimdDp = 1ul << 20;
  f.neon = (getauxval(AT_HWCAP) & (kAsimdHp | kAsimdDp)) == (kAsimdHp | kAsimdDp);
  constexpr unsigned long kI8mm = 1ul << 13;
  f.i8mm = f.neon && (getauxval(AT_HWCAP2) & kI8mm) != 0;
  return f;
}
#else
CpuFeatures read_features() { return {}; }
#endif

class Tables {
 public:
  Tables() {
    const CpuFeatures f = read_features();
    KernelTable table;
    fill_matmul_ref(&table.mm);
    fill_vector_kernels_ref(&table.vec);
    add("ref", table);
#ifdef QUIRE_HAVE_ISA_avx2
    if (!f.avx2) return;
    fill_matmul_avx2(&table.mm);
    fill_vector_kernels_avx2(&table.vec);
    add("avx2", table);
#endif
#ifdef QUIRE_HAVE_ISA_avx_vnni
    if (f.avx_vnni) {  // of its own: processors with AVX-512 may lack it
      fill_matmul_avx_vnni(&table.mm);
      add("avx_vnni", table);
    }
#endif
#ifdef QUIRE_HAVE_ISA_avx512
    if (!f.avx512) return;
    fill_matmul_avx512(&table.mm);
    fill_vector_kernels_avx512(&table.vec);
    add("avx512", table);
#endif
#ifdef QUIRE_HAVE_ISA_vnni
    if (!f.vnni) return;
    (f.shared_ports ? fill_matmul_vnni_shared : fill_matmul_vnni)(&table.mm);
    add("vnni", table);
#endif
#ifdef QUIRE_HAVE_ISA_bf16
    if (!f.bf16) return;
    fill_matmul_bf16(&table.mm);
    add("bf16", table);
#endif
#ifdef QUIRE_HAVE_ISA_amx
    if (!f.amx) return;
    fill_matmul_amx(&table.mm);
    fill_vector_kernels_amx(&table.vec);
    add("amx", table);
#endif
#ifdef QUIRE_HAVE_ISA_neon
    if (!f.neon) return;
    fill_matmul_neon(&table.mm);
    fill_vector_kernels_neon(&table.vec);
    add("neon", table);
#endif
#ifdef QUIRE_HAVE_ISA_i8mm
    if (!f.i8mm) return;
    fill_matmul_i8mm(&table.mm);
    add("i8mm", table);
#endif
  }
  const std::vector<const KernelTable*>& available() const { return available_; }

 private:
  void add(const char* name, KernelTable table) {
    table.name = name;
    KernelTable& slot = tables_[available_.size()];
    slot = table;
    available_.push_back(&slot);
  }
  std::array<KernelTable, 8> tables_;
  std::vector<const KernelTable*> available_;
};

const Tables& tables() {
  static const Tables kTables;
  return kTables;
}

}  // namespace

std::vector<const KernelTable*> available_kernels() { return tables().available(); }

Result<const KernelTable*> select_kernels(std::string_view name) {
  const std::vector<const KernelTable*>& available = tables().available();
  if (name.empty() || name == "auto") return available.back();
  std::string names;
  for (const KernelTable* table : available) {
    if (name == table->name) return table;
    names += std::string(names.empty() ? "" : ", ") + table->name;
  }
  return tl::unexpected(Error{ErrorCode::kInvalidArgument,
                              fmt::format("--kernels {}: this machine has auto, {}", name, names),
                              "kernels"});
}

}  // namespace quire
