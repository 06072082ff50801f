// IBM Granite 3: Llama with multipliers of embedding, attention, residual and logits; with experts;
// with a shared MLP.
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {
namespace {

MlpSpec shared_mlp(const ModelConfig& config, std::int64_t intermediate) {
  MlpSpec mlp = gated_mlp("shared_mlp", intermediate);
  mlp.down = "shared_mlp.output_linear";
  if (!config.from_gguf) mlp.fused_gate_up = "shared_mlp.input_linear";
  return mlp;
}

}  // namespace

Result<ModelSpec> granite_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  const auto number = [&](const char* name, double otherwise) {
    return static_cast<float>(config.fields.number(name, otherwise));
  };
  model.embedding_multiplier = number("embedding_multiplier", 1.0);
  model.logit_multiplier = 1.0f / number("logits_scaling", 1.0);
  for (LayerSpec& layer : model.layers) {
    layer.residual_multiplier = number("residual_multiplier", 1.0);
    attention_of(layer).scale = number("attention_multiplier", 0.0);
  }
  return model;
}

// Softmax over the chosen experts' logits; gate and up in one stacked tensor (a GGUF has two).
Result<ModelSpec> granitemoe_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(ModelSpec model, granite_spec(config));
  MoeSpec moe = moe_of(config);
  moe.score = RouterScore::kSoftmaxOfTopK;
  moe.router = "block_sparse_moe.router.layer";
  moe.expert_prefix = "block_sparse_moe.experts";
  const std::int64_t shared = first_integer(config, {"shared_intermediate_size"}, 0);
  moe.has_shared = shared > 0;
  moe.shared = shared_mlp(config, shared);
  if (!config.from_gguf) {
    moe.storage = ExpertStorage::kStacked;
    moe.expert_prefix = "block_sparse_moe";
    moe.expert.fused_gate_up = "input_linear";
    moe.expert.down = "output_linear";
  }
  for (LayerSpec& layer : model.layers) layer.mlp = moe;
  return model;
}

// Granite 4: Mamba 2 in most layers, attention with or without positions in the others; experts
// with a shared MLP, or that MLP alone.
Result<ModelSpec> granitemoehybrid_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(ModelSpec model, granitemoe_spec(config));
  const bool rotary = config.fields.text("position_embedding_type", "") == "rope";
  const Mamba2Spec mixer = mamba2_of(config, "mamba_");
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    LayerSpec& layer = model.layers[i];
    if (std::get<MoeSpec>(layer.mlp).experts == 0)
      layer.mlp = shared_mlp(config, first_integer(config, {"shared_intermediate_size"}, 1024));
    if (!rotary) attention_of(layer).rope = -1;
    const std::string type = i < config.layer_types.size() ? config.layer_types[i] : "attention";
    if (type == "mamba" || type == "linear_attention") layer.mixer = mixer;
  }
  if (!rotary) model.ropes.clear();
  return model;
}

}  // namespace quire
