#include "model/llama.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/layers/attention.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"
#include "model/layers/rope.h"
#include "model/layers/weight_loader.h"

namespace quire {
namespace {

struct Layer {
  RmsNorm attention_norm, mlp_norm;
  AttentionLayer attention;
  GatedMlp mlp;
};

class Llama final : public Model {
 public:
  Llama(ModelConfig config, Backend& backend) : config_(std::move(config)), backend_(backend) {
    hidden_size = config_.hidden_size;
    vocab_size = config_.vocab_size;
  }

  Status load(const WeightSource& weights) {
    WeightLoader loader(weights, backend_);
    QUIRE_ASSIGN(inverse_frequencies_, inverse_frequencies(config_.rope));
    QUIRE_ASSIGN(embedding_, loader.matrix("model.embed_tokens.weight", vocab_size, hidden_size));
    for (std::int32_t i = 0; i < config_.num_layers; ++i) QUIRE_TRY(load_layer(loader, i));
    QUIRE_ASSIGN(final_norm_, load_norm(loader, "model.norm.weight"));
    const char* head = config_.tied_embeddings ? "model.embed_tokens" : "lm_head";
    QUIRE_ASSIGN(head_, loader.linear({{head, vocab_size}}, hidden_size));
    weight_bytes = loader.packed_bytes();
    return {};
  }

  KvGeometry kv_geometry(std::int32_t block_size, DType kv_dtype) const override {
    KvGroup group;
    group.kind = config_.sliding_window > 0 ? KvGroupKind::kSlidingWindow : KvGroupKind::kFullAttention;
    group.num_layers = config_.num_layers;
    group.kv_heads = config_.num_kv_heads;
    group.head_dim = group.v_head_dim = config_.head_dim;
    group.window = config_.sliding_window;
    return {{group}, block_size, kv_dtype};
  }

  std::size_t workspace_bytes(std::int64_t max_rows, std::int64_t max_logits) const override {
    const Layer& layer = layers_.front();
    const std::int64_t widest =
        std::max(layer.attention.scratch_floats_per_row(), layer.mlp.scratch_floats_per_row());
    const std::int64_t floats = max_rows * (hidden_size + config_.rope.rotary_dim + widest) + max_logits * hidden_size;
    return static_cast<std::size_t>(floats) * sizeof(float) + 4096;
  }

  void forward(const ModelInput& input, KvCache& cache, Workspace& workspace, float* hidden) override {
    const std::int64_t rows = input.rows();
    const std::size_t mark = workspace.mark();
    const RopeTable rope = make_rope_table(input, workspace);
    float* normed = workspace.take<float>(rows * hidden_size);
    backend_.embed(embedding_, input.token_ids, hidden);
    for (const Layer& layer : layers_) {
      layer.attention_norm.forward(backend_, hidden, rows, normed);
      layer.attention.forward(backend_, workspace, input, rope, cache, normed, hidden);
      layer.mlp_norm.forward(backend_, hidden, rows, normed);
      layer.mlp.forward(backend_, workspace, normed, rows, hidden);
    }
    workspace.release_to(mark);
  }

  void logits(const float* hidden, std::int64_t rows, Workspace& workspace, float* logits) override {
    const std::size_t mark = workspace.mark();
    float* normed = workspace.take<float>(rows * hidden_size);
    final_norm_.forward(backend_, hidden, rows, normed);
    backend_.linear(normed, rows, *head_, logits, Epilogue::kStore);
    workspace.release_to(mark);
  }

 private:
  Status load_layer(WeightLoader& loader, std::int32_t index) {
    const std::string prefix = "model.layers." + std::to_string(index);
    AttentionParams params;
    params.q_heads = config_.num_heads;
    params.kv_heads = config_.num_kv_heads;
    params.head_dim = params.v_head_dim = config_.head_dim;
    params.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
    params.window = config_.sliding_window;
    params.layer = index;
    Layer layer;
    QUIRE_ASSIGN(layer.attention_norm, load_norm(loader, prefix + ".input_layernorm.weight"));
    QUIRE_ASSIGN(layer.mlp_norm, load_norm(loader, prefix + ".post_attention_layernorm.weight"));
    QUIRE_ASSIGN(layer.attention, AttentionLayer::load(loader, prefix + ".self_attn", hidden_size, params,
                                                       config_.attention_bias));
    QUIRE_ASSIGN(layer.mlp, GatedMlp::load(loader, prefix + ".mlp", hidden_size, config_.intermediate_size,
                                           config_.mlp_bias));
    layers_.push_back(std::move(layer));
    return {};
  }

  Result<RmsNorm> load_norm(WeightLoader& loader, const std::string& name) const {
    QUIRE_ASSIGN(std::vector<float> weight, loader.vector(name, hidden_size));
    return RmsNorm{std::move(weight), static_cast<float>(config_.norm_eps)};
  }

  RopeTable make_rope_table(const ModelInput& input, Workspace& workspace) const {
    const std::int64_t half = config_.rope.rotary_dim / 2;
    float* cos = workspace.take<float>(input.rows() * half);
    float* sin = workspace.take<float>(input.rows() * half);
    backend_.rope_table(input.positions, inverse_frequencies_, cos, sin);
    return {cos, sin, config_.rope.rotary_dim, config_.rope.interleaved};
  }

  const ModelConfig config_;
  Backend& backend_;
  std::vector<double> inverse_frequencies_;   // [rotary_dim / 2]
  TensorView embedding_;                      // [vocab, hidden], in the mapped file
  std::vector<Layer> layers_;
  RmsNorm final_norm_;
  std::unique_ptr<Linear> head_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_llama(const ModelConfig& config, const WeightSource& weights, Backend& backend) {
  auto model = std::make_unique<Llama>(config, backend);
  QUIRE_TRY(model->load(weights));
  return model;
}

}  // namespace quire
