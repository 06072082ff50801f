#include "weights/gguf_weights.h"

#include <charconv>
#include <optional>

#include "weights/gguf_arch.h"
#include "weights/gguf_names.h"

namespace quire {
namespace {

// The number of the block in "blk.12.attn_q.weight"; -1: none.
std::int64_t block_number(std::string_view name) {
  constexpr std::string_view kBlock = "blk.";
  std::int64_t number = -1;
  if (name.starts_with(kBlock)) {
    std::from_chars(name.data() + kBlock.size(), name.data() + name.size(), number);
  }
  return number;
}

struct ExpertName {
  std::string stack;  // "mlp.experts.gate_proj.weight"
  std::int64_t expert = 0;
};
// "mlp.experts.3.gate_proj.weight" taken apart; nullopt: not the name of one expert's tensor.
std::optional<ExpertName> parse_expert(std::string_view name) {
  constexpr std::string_view kExperts = ".experts.";
  const std::size_t at = name.find(kExperts);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = name.substr(at + kExperts.size());
  ExpertName parsed;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), parsed.expert);
  const auto digits = static_cast<std::size_t>(end - rest.data());
  if (error != std::errc() || digits >= rest.size() || rest[digits] != '.' || parsed.expert < 0) {
    return std::nullopt;
  }
  parsed.stack = std::string(name.substr(0, at + kExperts.size())).append(rest.substr(digits + 1));
  return parsed;
}

}  // namespace

GgufWeights::GgufWeights(std::shared_ptr<const GgufFile> file, const ModelConfig& config)
    : file_(std::move(file)) {
  const GgufArch* arch = find_gguf_arch(config.source_architecture);
  permuted_qk_ = arch != nullptr && arch->rope == GgufRope::kPermuted;
  const std::string name_set = gguf_name_set(*file_, config.architecture);
  for (const std::string& name : file_->tensor_names()) {
    // Blocks behind the model's own are of multi-token prediction.
    if (is_config_tensor(name) || block_number(name) >= config.num_layers) continue;
    std::string hf_name = hf_name_of_gguf(name, name_set);
    if (hf_name.empty()) hf_name = name;  // not known: it will be left over
    TensorView view = file_->tensors().at(name);
    if (name.ends_with(".ssm_norm.weight")) view.shape = Shape{view.shape.elements()};
    if (tensors_.emplace(hf_name, view).second) names_.push_back(std::move(hf_name));
  }
  add_metadata_vectors(config);
}

// Apertus: the learned numbers of its activation, one per layer.
void GgufWeights::add_metadata_vectors(const ModelConfig& config) {
  for (const char* what : {"alpha_p", "alpha_n", "beta", "eps"}) {
    const GgufArray* values = file_->get_array(std::string("xielu.") + what);
    if (values == nullptr) continue;
    for (std::size_t i = 0;
         i < values->floats.size() && i < static_cast<std::size_t>(config.num_layers); ++i) {
      const float& value = from_metadata_.emplace_back(static_cast<float>(values->floats[i]));
      std::string name = "model.layers." + std::to_string(i) + ".mlp.act_fn." + what;
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      if (tensors_.emplace(name, TensorView{bytes, DType::kF32, Shape{1}}).second) {
        names_.push_back(std::move(name));
      }
    }
  }
}

std::string GgufWeights::stored_name(std::string_view name) const {
  std::string plain(name);
  if (tensors_.contains(plain)) return plain;
  const auto expert = parse_expert(name);
  return expert && tensors_.contains(expert->stack) ? expert->stack : plain;
}

TensorView GgufWeights::find(std::string_view name) const {
  if (const auto found = tensors_.find(std::string(name)); found != tensors_.end()) {
    return found->second;
  }
  const auto expert = parse_expert(name);
  if (!expert) return {};
  const auto stack = tensors_.find(expert->stack);
  if (stack == tensors_.end() || stack->second.shape.rank() < 2 ||
      expert->expert >= stack->second.shape[0]) {
    return {};
  }
  return stack->second.slice(expert->expert);
}

}  // namespace quire
