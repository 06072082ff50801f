// gpt-oss: attention sinks, windows in every other layer, experts with biases and a clamped SwiGLU.
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {

// Gate and up interleaved in one stacked tensor; a GGUF has two, and llama.cpp clamps at 7.
Result<ModelSpec> gpt_oss_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  MoeSpec moe = moe_of(config);
  moe.score = RouterScore::kSoftmaxOfTopK;
  moe.router = "mlp.router";
  moe.router_bias = true;
  moe.expert_bias = true;
  moe.expert.activation = ActivationKind::kSwigluOai;
  moe.expert.activation_alpha = static_cast<float>(config.fields.number("swiglu_alpha", 1.702));
  moe.expert.activation_limit = static_cast<float>(config.fields.number("swiglu_limit", 7.0));
  if (!config.from_gguf) {
    // Blocks run along the inputs, so MXFP4 has the experts as [out, in].
    const bool blocks = config.quantization.method == QuantMethod::kMxfp4;
    moe.storage = blocks ? ExpertStorage::kStacked : ExpertStorage::kStackedTransposed;
    moe.expert_suffix.clear();
    moe.expert.fused_gate_up = "gate_up_proj";
    moe.interleaved_gate_up = true;
  }
  set_windows(config, model, [](std::int32_t layer) { return layer % 2 == 0; });
  for (LayerSpec& layer : model.layers) {
    AttentionSpec& attention = attention_of(layer);
    attention.require_qkv_bias = attention.require_output_bias = true;
    attention.sinks = "self_attn.sinks";
    layer.mlp = moe;
  }
  return model;
}

}  // namespace quire
