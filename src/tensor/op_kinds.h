// Kinds of the operations that models choose between: named by a model's specification, computed by
// a backend.
#pragma once

#include <cstdint>

namespace quire {

enum class NormKind : std::uint8_t {
  kNone,
  kRms,    // x / sqrt(mean(x^2) + eps) * w
  kLayer,  // (x - mean) / sqrt(variance + eps) * w + b
  kL2,     // kRms with w = 1 (Llama 4)
};

enum class ActivationKind : std::uint8_t {
  kSilu,
  kGeluTanh,
  kGeluErf,
  kGeluQuick,
  kRelu,
  kRelu2,
  kXielu,      // Apertus: learned alpha_p, alpha_n, beta, eps per layer
  kSwigluOai,  // gpt-oss: clamped, gate * sigmoid(alpha * gate) * (up + 1)
};

enum class RouterScore : std::uint8_t {
  kSoftmax,        // softmax over all experts, then top-k
  kSoftmaxOfTopK,  // top-k logits, softmax over them (Mixtral, gpt-oss, Granite)
  kSigmoid,        // sigmoid of each (DeepSeek V3, GLM-4, dots, LFM2)
  kSparseMixer,    // PhiMoE
  kSigmoidInput,   // Llama 4: top-1, sigmoid of the logit multiplies the expert's input
};

}  // namespace quire
