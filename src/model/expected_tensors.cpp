#include "model/expected_tensors.h"

#include <algorithm>
#include <string>
#include <utility>

namespace quire {
namespace {

class Lister {
 public:
  Lister(const ModelSpec& spec, const WeightSource& weights) : spec_(spec), weights_(weights) {}

  std::vector<ExpectedTensor> run() {
    const std::int64_t outer = spec_.embedding_size > 0 ? spec_.embedding_size : spec_.hidden_size;
    add(spec_.embedding + ".weight", {spec_.vocab_size, outer});
    if (!spec_.project_in.empty()) {
      linear(spec_.project_in, spec_.hidden_size, outer, false, false, false);
      linear(spec_.project_out, outer, spec_.hidden_size, false, false, false);
    }
    norm(spec_.embedding_norm, spec_.hidden_size);
    constexpr std::size_t kMost = 1 << 19;  // no model has as many: an absurd configuration
    for (const LayerSpec& layer : spec_.layers) {
      if (tensors_.size() < kMost) add_layer(layer);
    }
    prefix_.clear();
    norm(spec_.final_norm, spec_.hidden_size);
    if (!spec_.tied_head)
      linear(spec_.head, spec_.vocab_size, outer, false, spec_.head_bias, false);
    return std::move(tensors_);
  }

 private:
  void add(const std::string& name, const Shape& shape, bool optional = false) {
    tensors_.push_back({prefix_ + name, shape, optional});
  }

  void linear(const std::string& name, std::int64_t outputs, std::int64_t inputs, bool transposed,
              bool require_bias, bool ignore_bias) {
    add(name + ".weight", transposed ? Shape{inputs, outputs} : Shape{outputs, inputs});
    if (!ignore_bias) add(name + ".bias", {outputs}, !require_bias);
  }

  void norm(const NormSpec& spec, std::int64_t elements) {
    if (spec.kind == NormKind::kNone || spec.name.empty()) return;
    add(spec.name + ".weight", {elements});
    if (spec.bias) add(spec.name + ".bias", {elements});
  }

  void add_layer(const LayerSpec& layer) {
    prefix_ = layer.prefix;
    for (const NormSpec* each :
         {&layer.input_norm, &layer.post_mixer_norm, &layer.mlp_norm, &layer.post_mlp_norm,
          &layer.mixer_sum_norm, &layer.mlp_sum_norm}) {
      norm(*each, spec_.hidden_size);
    }
    if (const auto* attention = std::get_if<AttentionSpec>(&layer.mixer)) add_attention(*attention);
    if (const auto* mla = std::get_if<MlaSpec>(&layer.mixer)) add_mla(*mla);
    if (const auto* mlp = std::get_if<MlpSpec>(&layer.mlp)) add_mlp(*mlp, "");
    if (const auto* moe = std::get_if<MoeSpec>(&layer.mlp)) add_moe(*moe);
  }

  void add_attention(const AttentionSpec& spec) {
    const std::int64_t q = std::int64_t{spec.q_heads} * spec.head_dim;
    const std::int64_t kv = std::int64_t{spec.kv_heads} * spec.head_dim;
    const auto input = [&](const std::string& name, std::int64_t outputs) {
      linear(name, outputs, spec_.hidden_size, spec.transposed, spec.require_qkv_bias,
             spec.ignore_bias);
    };
    if (spec.layout == QkvLayout::kSeparate) {
      input(spec.q, spec.output_gate ? 2 * q : q);
      input(spec.k, kv);
      input(spec.v, kv);
    } else {
      input(spec.qkv, q + 2 * kv);
    }
    linear(spec.output, spec_.hidden_size, q, spec.transposed, spec.require_output_bias,
           spec.ignore_bias || spec.ignore_output_bias);
    if (!spec.norm_per_head_weights) {  // those have more than one form
      norm(spec.q_norm, spec.norm_all_heads ? q : spec.head_dim);
      norm(spec.k_norm, spec.norm_all_heads ? kv : spec.head_dim);
    }
    if (!spec.sinks.empty()) add(spec.sinks, {spec.q_heads});
  }

  void add_mla(const MlaSpec& spec) {
    const std::int64_t hidden = spec_.hidden_size, heads = spec.heads, latent = spec.kv_lora_rank;
    const std::int64_t q = heads * (spec.nope_dim + spec.rope_dim);
    if (spec.q_lora_rank > 0) {
      linear(spec.q_a, spec.q_lora_rank, hidden, false, false, false);
      norm(spec.q_norm, spec.q_lora_rank);
      linear(spec.q_b, q, spec.q_lora_rank, false, false, false);
    } else {
      linear(spec.q, q, hidden, false, false, false);
    }
    linear(spec.kv_a, latent + spec.rope_dim, hidden, false, false, false);
    norm(spec.kv_norm, latent);
    if (weights_.find(prefix_ + spec.k_b + ".weight").empty()) {
      add(spec.kv_b + ".weight", {heads * (spec.nope_dim + spec.v_dim), latent});
    } else {
      add(spec.k_b + ".weight", {heads, latent, spec.nope_dim});
      add(spec.v_b + ".weight", {heads, spec.v_dim, latent});
    }
    linear(spec.output, hidden, heads * spec.v_dim, false, false, false);
  }

  void add_mlp(const MlpSpec& spec, const std::string& under) {
    const std::int64_t hidden = spec_.hidden_size, width = spec.intermediate;
    const auto up = [&](const std::string& name, std::int64_t outputs) {
      linear(under + name, outputs, hidden, spec.transposed, spec.require_bias, spec.ignore_bias);
    };
    if (spec.gated && !spec.fused_gate_up.empty()) {
      up(spec.fused_gate_up, 2 * width);
    } else {
      if (spec.gated) up(spec.gate, width);
      up(spec.up, width);
    }
    linear(under + spec.down, hidden, width, spec.transposed, spec.require_bias, spec.ignore_bias);
  }

  void add_moe(const MoeSpec& spec) {
    linear(spec.router, spec.experts, spec_.hidden_size, false, spec.router_bias, false);
    if (!spec.correction_bias.empty()) add(spec.correction_bias, {spec.experts});
    if (spec.has_shared) add_mlp(spec.shared, "");
    if (spec.has_shared && !spec.shared_gate.empty()) {
      linear(spec.shared_gate, 1, spec_.hidden_size, false, false, false);
    }
    MlpSpec expert = spec.expert;
    if (spec.intermediate > 0) expert.intermediate = spec.intermediate;
    if (spec.storage != ExpertStorage::kSeparate) return add_stacks(spec, expert);
    expert.require_bias |= spec.expert_bias;
    constexpr std::int32_t kMostExperts = 1024;  // Moe refuses more
    for (std::int32_t e = 0; e < std::min(spec.experts, kMostExperts); ++e) {
      add_mlp(expert, spec.expert_prefix + "." + std::to_string(e) + ".");
    }
  }

  void add_stacks(const MoeSpec& spec, const MlpSpec& expert) {
    const std::int64_t hidden = spec_.hidden_size, width = expert.intermediate;
    const bool transposed = spec.storage == ExpertStorage::kStackedTransposed;
    const auto stack = [&](const std::string& stem, std::int64_t outputs, std::int64_t inputs,
                           bool is_transposed) {
      const std::string name = spec.expert_prefix + "." + stem + spec.expert_suffix;
      const std::int64_t rows = is_transposed ? inputs : outputs,
                         columns = is_transposed ? outputs : inputs;
      const bool flat =
          weights_.find(prefix_ + name).shape.rank() == 2;  // the experts below each other
      add(name, flat ? Shape{spec.experts * rows, columns} : Shape{spec.experts, rows, columns});
    };
    if (!expert.fused_gate_up.empty()) {
      stack(expert.fused_gate_up, 2 * width, hidden, transposed);
    } else {
      if (expert.gated) stack(expert.gate, width, hidden, transposed);
      stack(expert.up, width, hidden, transposed);
    }
    stack(expert.down, hidden, width, transposed || spec.down_transposed);
  }

  const ModelSpec& spec_;
  const WeightSource& weights_;
  std::string prefix_;  // of the layer at hand
  std::vector<ExpectedTensor> tensors_;
};

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec, const WeightSource& weights) {
  return Lister(spec, weights).run();
}

}  // namespace quire
