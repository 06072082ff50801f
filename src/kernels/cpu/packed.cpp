// Facts about the packed kinds, and which one a stored weight becomes.
#include "kernels/cpu/packed.h"

#include "base/check.h"
#include "kernels/cpu/matmul_kernels.h"
#include "tensor/dequantize.h"

namespace quire {

const PackedKindInfo& packed_kind_info(PackedKind kind) {
  static constexpr PackedKindInfo kInfo[kNumPackedKinds] = {
      {"f32", 2, 128},     {"f16", 2, 64},        {"bf16", 2, 64},       {"q8", 32, 544},
      {"q4_sym", 32, 288}, {"q4_min", 32, 320},   {"q5_sym", 32, 352},   {"q5_min", 32, 384},
      {"q4_k", 256, 2368}, {"q5_k", 256, 2880},   {"q6_k", 256, 3360},   {"q2_k", 256, 1344},
      {"q3_k", 256, 1760}, {"mx4", 32, 272},      {"iq4_nl", 32, 288},   {"iq4_xs", 256, 2208},
      {"g4_32", 32, 304},  {"g4_64", 64, 560},    {"g4_128", 128, 1072}, {"g4_256", 256, 2096},
      {"g8_32", 32, 560},  {"g8_64", 64, 1072},   {"g8_128", 128, 2096}, {"g8_256", 256, 4144},
      {"f8_32", 32, 576},  {"f8_128", 128, 2112},
  };
  return kInfo[static_cast<int>(kind)];
}

bool is_packable(DType stored) { return is_dequantizable(stored); }

PackedKind packed_kind_for(DType stored, ComputeDType compute) {
  switch (stored) {
    case DType::kF32:
      if (compute == ComputeDType::kFloat32) return PackedKind::kF32;
      return compute == ComputeDType::kFloat16 ? PackedKind::kF16 : PackedKind::kBF16;
    case DType::kF16:
      return compute == ComputeDType::kBFloat16 ? PackedKind::kBF16 : PackedKind::kF16;
    case DType::kBF16:
      return compute == ComputeDType::kFloat16 ? PackedKind::kF16 : PackedKind::kBF16;
    case DType::kQ8_0:
      return PackedKind::kQ8;
    case DType::kQ4_0:
      return PackedKind::kQ4Sym;
    case DType::kQ4_1:
      return PackedKind::kQ4Min;
    case DType::kQ5_0:
      return PackedKind::kQ5Sym;
    case DType::kQ5_1:
      return PackedKind::kQ5Min;
    case DType::kQ2_K:
      return PackedKind::kQ2K;
    case DType::kQ3_K:
      return PackedKind::kQ3K;
    case DType::kQ4_K:
      return PackedKind::kQ4K;
    case DType::kQ5_K:
      return PackedKind::kQ5K;
    case DType::kQ6_K:
      return PackedKind::kQ6K;
    case DType::kMXFP4:
      return PackedKind::kMx4;
    case DType::kIQ4_NL:
      return PackedKind::kIq4Nl;
    case DType::kIQ4_XS:
      return PackedKind::kIq4Xs;
    case DType::kG4_32:
      return PackedKind::kG4x32;
    case DType::kG4_64:
      return PackedKind::kG4x64;
    case DType::kG4_128:
      return PackedKind::kG4x128;
    case DType::kG4_256:
      return PackedKind::kG4x256;
    case DType::kG8_32:
      return PackedKind::kG8x32;
    case DType::kG8_64:
      return PackedKind::kG8x64;
    case DType::kG8_128:
      return PackedKind::kG8x128;
    case DType::kG8_256:
      return PackedKind::kG8x256;
    case DType::kF8_32:
      return PackedKind::kF8x32;
    case DType::kF8_128:
      return PackedKind::kF8x128;
    default:
      break;
  }
  check_failed(__FILE__, __LINE__, "is_packable(stored)", std::string(dtype_name(stored)));
}

ActForm act_form_for(PackedKind kind, ComputeDType compute) {
  if (compute == ComputeDType::kFloat32) return ActForm::kF32;
  if (is_integer_kind(kind)) return ActForm::kInt8;
  if (is_float8_kind(kind) && compute != ComputeDType::kFloat16) return ActForm::kBF16;
  return kind == PackedKind::kBF16 ? ActForm::kBF16 : ActForm::kF32;
}

}  // namespace quire
