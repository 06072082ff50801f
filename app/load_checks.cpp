#include "app/load_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/log.h"
#include "sampling/sampling_params.h"

namespace quire {

Status check_vocabulary(const Tokenizer& tokenizer, std::int64_t vocab_size) {
  const auto size = static_cast<std::int64_t>(tokenizer.vocab_size());
  if (size <= vocab_size) return {};
  for (std::int64_t id = vocab_size; id < size; ++id) {
    const auto token = static_cast<TokenId>(id);
    if (tokenizer.token_text(token).empty() || tokenizer.is_special(token)) continue;
    return make_error(
        ErrorCode::kBadFile,
        "the tokenizer has {} tokens, but the model's vocab_size and its embedding are {}: token "
        "{} (\"{}\") would "
        "have no embedding; give the tokenizer that belongs to the model (--tokenizer)",
        size, vocab_size, id, tokenizer.token_text(token));
  }
  log_warning(
      "the tokenizer has {} tokens, the model's vocab_size and its embedding are {}: the special "
      "tokens beyond "
      "cannot be used",
      size, vocab_size);
  return {};
}

Status check_generation(const ModelConfig::Generation& generation, std::int64_t vocab_size,
                        const OpenOptions& options) {
  SamplingParams sampling;
  sampling.temperature = generation.temperature.value_or(sampling.temperature);
  sampling.top_p = generation.top_p.value_or(sampling.top_p);
  sampling.min_p = generation.min_p.value_or(sampling.min_p);
  sampling.repetition_penalty = generation.repetition_penalty.value_or(sampling.repetition_penalty);
  const std::int64_t top_k = generation.top_k.value_or(0);
  const auto status = validate_sampling_params(sampling, vocab_size);
  constexpr std::int64_t kMaxTopK = std::numeric_limits<std::int32_t>::max();
  if (status && top_k >= -1 && top_k <= kMaxTopK) return {};
  const std::string why =
      status ? fmt::format("top_k must be from -1 to {}, but it is {}", kMaxTopK, top_k)
             : status.error().message;
  const bool own = options.generation_config == "auto";
  if (!options.override_generation_config.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--override-generation-config{}: {}",
                      own ? ", over the model's generation config" : "", why);
  }
  if (!own) {
    return make_error(ErrorCode::kInvalidArgument, "--generation-config {}: {}",
                      options.generation_config, why);
  }
  return make_error(ErrorCode::kBadFile,
                    "the model's generation config: {}: correct that file, or use "
                    "--override-generation-config",
                    why);
}

Status check_finite(const WeightSource& weights) {
  const std::vector<std::string> unused = weights.unused_names();  // sorted
  std::vector<float> row;
  for (const std::string& name : weights.names()) {
    if (std::binary_search(unused.begin(), unused.end(), name)) continue;
    const TensorView found = weights.find(name);
    if (found.empty() || !can_dequantize(found.dtype)) continue;
    QUIRE_ASSIGN(const TensorView view, weights.require(name, found.shape));
    row.resize(static_cast<std::size_t>(view.columns()));
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      dequantize_row(view, r, row.data());
      const auto bad =
          std::find_if(row.begin(), row.end(), [](float value) { return !std::isfinite(value); });
      if (bad == row.end()) continue;
      return make_error(
          ErrorCode::kBadFile,
          "tensor \"{}\" {} holds {} in row {}, column {}: the file is damaged or was "
          "converted wrongly; fetch it again",
          name, view.shape.to_string(), std::isnan(*bad) ? "NaN" : "an infinity", r,
          bad - row.begin());
    }
    weights.release_pages(view);
  }
  return {};
}

}  // namespace quire
