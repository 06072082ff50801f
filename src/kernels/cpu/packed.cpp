// Facts about the packed kinds, and which one a stored weight becomes.
#include "kernels/cpu/packed.h"

#include "base/check.h"
#include "kernels/cpu/matmul_kernels.h"

namespace quire {

const PackedKindInfo& packed_kind_info(PackedKind kind) {
  static constexpr PackedKindInfo kInfo[kNumPackedKinds] = {
      {"f32", 2, 128},     {"f16", 2, 64},      {"bf16", 2, 64},     {"q8", 32, 544},
      {"q4_sym", 32, 288}, {"q4_min", 32, 320}, {"q5_sym", 32, 352}, {"q5_min", 32, 384},
      {"q4_k", 256, 2368}, {"q5_k", 256, 2880}, {"q6_k", 256, 3360},
  };
  return kInfo[static_cast<int>(kind)];
}

bool is_packable(DType stored) {
  switch (stored) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ8_0:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return true;
    default:
      return false;
  }
}

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
    case DType::kQ4_K:
      return PackedKind::kQ4K;
    case DType::kQ5_K:
      return PackedKind::kQ5K;
    case DType::kQ6_K:
      return PackedKind::kQ6K;
    default:
      break;
  }
  check_failed(__FILE__, __LINE__, "is_packable(stored)", std::string(dtype_name(stored)));
}

ActForm act_form_for(PackedKind kind, ComputeDType compute) {
  if (compute == ComputeDType::kFloat32) return ActForm::kF32;
  if (is_integer_kind(kind)) return ActForm::kInt8;
  return kind == PackedKind::kBF16 ? ActForm::kBF16 : ActForm::kF32;
}

}  // namespace quire
