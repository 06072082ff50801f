#include "app/dummy_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <variant>

#include "model/architectures.h"
#include "model/expected_tensors.h"
#include "tensor/half.h"

namespace quire {
namespace {

constexpr float kDeviation = 0.02f;
// Where in a pool tensors may begin, in elements: a multiple of kStep below kStarts.
constexpr std::int64_t kStarts = 1 << 16, kStep = 64;

// splitmix64's mixing function: 64 well-mixed bits of a counter.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The sum of four uniform 16-bit numbers, centred and scaled to deviation 1.
float nearly_normal(std::uint64_t bits) {
  constexpr float kSumDeviation = 37837.23f;  // 65536 * sqrt(4 / 12)
  const std::uint64_t sum =
      (bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) + ((bits >> 32) & 0xFFFF) + (bits >> 48);
  return (static_cast<float>(sum) - 131070.0f) / kSumDeviation;
}

void store(DType dtype, float value, std::byte* out) {
  if (dtype == DType::kF32) {
    std::memcpy(out, &value, sizeof(value));
    return;
  }
  const std::uint16_t half = dtype == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
  std::memcpy(out, &half, sizeof(half));
}

Buffer make_pool(std::int64_t elements, float mean, DType dtype, std::uint64_t seed) {
  const std::int64_t size = row_bytes(dtype, 1);
  Buffer pool(static_cast<std::size_t>(elements * size));
  for (std::int64_t i = 0; i < elements; ++i) {
    const float value =
        mean + kDeviation * nearly_normal(mix(seed ^ mix(static_cast<std::uint64_t>(i))));
    store(dtype, value, pool.data() + i * size);
  }
  return pool;
}

bool is_norm(std::string_view name, const Shape& shape) {
  return shape.rank() == 1 && name.ends_with("norm.weight");
}

// FNV-1a, so that a tensor begins at the same place on every machine.
std::int64_t start_of(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return static_cast<std::int64_t>(mix(hash) % (kStarts / kStep)) * kStep;
}

Result<ModelSpec> spec_of(const ModelConfig& config) {
  for (const Architecture& entry : architectures()) {
    if (entry.name == config.architecture) return entry.spec(config);
  }
  return make_error(ErrorCode::kUnsupported, "architecture '{}' is not supported",
                    config.source_architecture);
}

// A file without tensors: where it could hold a matrix in more than one form, the first form is
// taken.
class NoWeights : public WeightSource {
 public:
  TensorView find(std::string_view) const override { return {}; }
  void release_pages(const TensorView&) const override {}
  std::vector<std::string> names() const override { return {}; }
  bool permuted_qk() const override { return false; }
};

// Biases of stacked experts (gpt-oss), numbers of a learned activation (Apertus).
void add_unlisted_of_mlp(const LayerSpec& layer, std::int64_t hidden,
                         std::vector<ExpectedTensor>* tensors) {
  if (const auto* mlp = std::get_if<MlpSpec>(&layer.mlp); mlp && !mlp->xielu.empty()) {
    for (const char* number : {"alpha_p", "alpha_n", "beta", "eps"})
      tensors->push_back({layer.prefix + mlp->xielu + "." + number, {1}});
  }
  const auto* moe = std::get_if<MoeSpec>(&layer.mlp);
  if (!moe || !moe->expert_bias || moe->storage == ExpertStorage::kSeparate ||
      moe->expert.fused_gate_up.empty())
    return;
  const std::string experts = layer.prefix + moe->expert_prefix + ".";
  const std::int64_t width = moe->intermediate > 0 ? moe->intermediate : moe->expert.intermediate;
  tensors->push_back({experts + moe->expert.fused_gate_up + "_bias", {moe->experts, 2 * width}});
  tensors->push_back({experts + moe->expert.down + "_bias", {moe->experts, hidden}});
}

// What expected_tensors leaves to the file: lengths and forms that only a file can say.
void add_unlisted(const ModelSpec& spec, std::int64_t max_position,
                  std::vector<ExpectedTensor>* tensors) {
  if (!spec.position_embedding.empty())
    tensors->push_back({spec.position_embedding + ".weight",
                        {max_position + spec.position_offset, spec.hidden_size}});
  for (const LayerSpec& layer : spec.layers) {
    add_unlisted_of_mlp(layer, spec.hidden_size, tensors);
    const auto* attention = std::get_if<AttentionSpec>(&layer.mixer);
    if (!attention || !attention->norm_per_head_weights ||
        attention->q_norm.kind == NormKind::kNone)
      continue;
    tensors->push_back({layer.prefix + attention->q_norm.name + ".weight",
                        {attention->q_heads, attention->head_dim}});
    tensors->push_back({layer.prefix + attention->k_norm.name + ".weight",
                        {attention->kv_heads, attention->head_dim}});
  }
}

}  // namespace

Result<std::unique_ptr<DummyWeights>> DummyWeights::create(const ModelConfig& config,
                                                           std::uint64_t seed) {
  QUIRE_ASSIGN(const ModelSpec spec, spec_of(config));
  const bool has_recurrent_layers = std::ranges::any_of(spec.layers, [](const LayerSpec& layer) {
    return !std::holds_alternative<AttentionSpec>(layer.mixer) &&
           !std::holds_alternative<MlaSpec>(layer.mixer);
  });
  std::vector<ExpectedTensor> tensors = expected_tensors(spec, NoWeights());
  std::erase_if(tensors, [](const ExpectedTensor& tensor) { return tensor.optional; });
  add_unlisted(spec, config.max_position, &tensors);
  const bool as_stored = config.stored_dtype == DType::kF32 || config.stored_dtype == DType::kF16;
  std::unique_ptr<DummyWeights> weights(
      new DummyWeights(std::move(tensors), as_stored ? config.stored_dtype : DType::kBF16, seed));
  weights->has_recurrent_layers_ = has_recurrent_layers;
  return weights;
}

DummyWeights::DummyWeights(std::vector<ExpectedTensor> tensors, DType dtype, std::uint64_t seed)
    : dtype_(dtype), seed_(seed) {
  std::int64_t largest = 0, largest_norm = 0;
  for (ExpectedTensor& tensor : tensors) {
    const std::int64_t elements = tensor.shape.elements();
    std::int64_t& most = is_norm(tensor.name, tensor.shape) ? largest_norm : largest;
    most = std::max(most, elements);
    if (shapes_.emplace(std::move(tensor.name), tensor.shape).second)
      total_bytes_ += static_cast<std::uint64_t>(row_bytes(dtype, elements));
  }
  around_zero_ = make_pool(largest + kStarts, 0.0f, dtype, seed);
  around_one_ = make_pool(largest_norm + kStarts, 1.0f, dtype, ~seed);
}

TensorView DummyWeights::find(std::string_view name) const {
  const auto found = shapes_.find(name);
  if (found == shapes_.end()) return {};
  const Buffer& pool = is_norm(name, found->second) ? around_one_ : around_zero_;
  return {pool.data() + row_bytes(dtype_, start_of(name)), dtype_, found->second};
}

// The same numbers as in the pool of its kind, where that is too small.
TensorView DummyWeights::made_up(std::string_view name, const Shape& shape) const {
  if (!has_recurrent_layers_) return {};
  const bool norm = is_norm(name, shape);
  const Buffer* pool = norm ? &around_one_ : &around_zero_;
  const std::int64_t start = row_bytes(dtype_, start_of(name));
  const std::lock_guard lock(mutex_);
  if (start + row_bytes(dtype_, shape.elements()) > static_cast<std::int64_t>(pool->size())) {
    pool = &larger_.emplace_back(
        make_pool(shape.elements() + kStarts, norm ? 1.0f : 0.0f, dtype_, norm ? ~seed_ : seed_));
  }
  return {pool->data() + start, dtype_, shape};
}

std::vector<std::string> DummyWeights::names() const {
  std::vector<std::string> names;
  names.reserve(shapes_.size());
  for (const auto& [name, shape] : shapes_) names.push_back(name);
  return names;
}

}  // namespace quire
