#include "tensor/dtype.h"

#include <array>

namespace quire {
namespace {

constexpr std::array<DTypeInfo, kNumDTypes> kInfo = {{
    {"F32", 1, 4},        {"F16", 1, 2},        {"BF16", 1, 2},       {"F64", 1, 8},
    {"I8", 1, 1},         {"I16", 1, 2},        {"I32", 1, 4},        {"I64", 1, 8},
    {"U8", 1, 1},         {"BOOL", 1, 1},       {"F8_E4M3", 1, 1},    {"F8_E5M2", 1, 1},
    {"Q4_0", 32, 18},     {"Q4_1", 32, 20},     {"Q5_0", 32, 22},     {"Q5_1", 32, 24},
    {"Q8_0", 32, 34},     {"Q2_K", 256, 84},    {"Q3_K", 256, 110},   {"Q4_K", 256, 144},
    {"Q5_K", 256, 176},   {"Q6_K", 256, 210},   {"IQ4_NL", 32, 18},   {"IQ4_XS", 256, 136},
    {"MXFP4", 32, 17},    {"NVFP4", 64, 36},    {"TQ1_0", 256, 54},   {"TQ2_0", 256, 66},
    {"IQ1_S", 256, 50},   {"IQ1_M", 256, 56},   {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74},
    {"IQ2_S", 256, 82},   {"IQ3_XXS", 256, 98}, {"IQ3_S", 256, 110},  {"G4_32", 32, 19},
    {"G4_64", 64, 35},    {"G4_128", 128, 67},  {"G4_256", 256, 131}, {"G8_32", 32, 35},
    {"G8_64", 64, 67},    {"G8_128", 128, 131}, {"G8_256", 256, 259}, {"F8_32", 32, 36},
    {"F8_128", 128, 132},
}};

}  // namespace

const DTypeInfo& dtype_info(DType dtype) { return kInfo[static_cast<std::size_t>(dtype)]; }

std::optional<ComputeDType> parse_compute_dtype(std::string_view text) {
  if (text == "auto") return ComputeDType::kAuto;
  if (text == "float32" || text == "float") return ComputeDType::kFloat32;
  if (text == "bfloat16") return ComputeDType::kBFloat16;
  if (text == "float16" || text == "half") return ComputeDType::kFloat16;
  return std::nullopt;
}

}  // namespace quire
