// ERNIE 4.5, dense and with experts: interleaved rotary positions.
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {
namespace {

// llama.cpp ignores the biases of a dense model's output and cannot load those of its MLP.
ModelSpec ernie_decoder(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  model.ropes[0].interleaved = true;
  const bool biased = config.fields.boolean("use_bias", false) && !config.from_gguf;
  for (LayerSpec& layer : model.layers) {
    AttentionSpec& attention = attention_of(layer);
    attention.require_qkv_bias = attention.require_output_bias = mlp_of(layer).require_bias =
        biased;
    attention.ignore_output_bias = mlp_of(layer).ignore_bias = config.from_gguf;
  }
  return model;
}

}  // namespace

Result<ModelSpec> ernie4_5_spec(const ModelConfig& config) { return ernie_decoder(config); }

// Softmax scores with a correction bias for the choice; the chosen ones always sum to one.
Result<ModelSpec> ernie4_5_moe_spec(const ModelConfig& config) {
  ModelSpec model = ernie_decoder(config);
  MoeSpec moe = moe_of(config);
  moe.normalize = true;
  moe.correction_bias = "mlp.moe_statics.e_score_correction_bias";
  const std::int64_t shared = first_integer(config, {"moe_num_shared_experts"}, 0);
  moe.has_shared = shared > 0;
  moe.shared = gated_mlp("mlp.shared_experts", shared * moe.intermediate);
  const std::int64_t interval = period_of(config, {"moe_layer_interval"}, 1);
  const std::int64_t first = first_integer(config, {"moe_layer_start_index"}, 0);
  const std::int64_t named_last = first_integer(config, {"moe_layer_end_index"}, -1);
  const std::int64_t last = named_last < 0 ? config.num_layers - 1 : named_last;
  for (std::int64_t i = first; i <= last && i < config.num_layers; ++i) {
    if ((i + 1) % interval == 0) model.layers[static_cast<std::size_t>(i)].mlp = moe;
  }
  return model;
}

}  // namespace quire
