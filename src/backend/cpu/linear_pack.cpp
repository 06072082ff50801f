// Weights of the CPU backend's matrix products: checked and packed at load. linear.cpp multiplies.
#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "tensor/dequantize.h"

namespace quire {
namespace {

Status check_stack(std::span<const TensorView> weights, std::span<const TensorView> biases) {
  if (weights.empty())
    return make_error(ErrorCode::kInternal, "a linear layer needs at least one matrix");
  if (!biases.empty() && biases.size() != weights.size()) {
    return make_error(ErrorCode::kInternal, "{} matrices with {} biases", weights.size(),
                      biases.size());
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const TensorView& w = weights[i];
    if (w.shape.rank() != 2 || w.columns() != weights[0].columns()) {
      return make_error(ErrorCode::kBadFile,
                        "a weight of shape {} cannot be stacked on one of shape {}",
                        w.shape.to_string(), weights[0].shape.to_string());
    }
    if (!is_dequantizable(w.dtype)) {
      return make_error(
          ErrorCode::kUnsupported,
          "weights of type {} are not supported; convert the model to one of F32, F16, BF16, Q8_0, "
          "Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4",
          dtype_name(w.dtype));
    }
    if (biases.empty() || biases[i].empty()) continue;
    if (biases[i].shape.elements() != w.shape[0] || !is_dequantizable(biases[i].dtype)) {
      return make_error(
          ErrorCode::kBadFile, "a bias of shape {} and type {} does not fit a weight of shape {}",
          biases[i].shape.to_string(), dtype_name(biases[i].dtype), w.shape.to_string());
    }
  }
  return {};
}

// The order of the columns of a stack: the first that a matrix has.
std::vector<std::int32_t> common_order(std::span<const TensorView> weights) {
  for (const TensorView& w : weights) {
    if (w.column_order != nullptr) return {w.column_order, w.column_order + w.columns()};
  }
  return {};
}

// The matrix with its columns in this order (empty: as they lie): itself where they are, else a
// copy in *storage, of plain numbers as they are, of others as f32.
TensorView with_order(const TensorView& w, const std::vector<std::int32_t>& order,
                      Buffer* storage) {
  const std::int32_t* own = w.column_order;
  if (order.empty() || (own != nullptr && std::equal(order.begin(), order.end(), own))) return w;
  const bool as_is = own == nullptr && !is_quantized(w.dtype);
  TensorView copy{nullptr, as_is ? w.dtype : DType::kF32, w.shape};
  *storage = Buffer(static_cast<std::size_t>(copy.bytes()));
  copy.data = storage->data();
  const std::size_t columns = order.size(), size = as_is ? w.row_bytes() / columns : sizeof(float);
  std::vector<float> stored(columns), values(columns);
  for (std::int64_t r = 0; r < w.rows(); ++r) {
    const std::byte* from = w.row(r);
    std::byte* to = storage->data() + r * copy.row_bytes();
    if (!as_is) {
      dequantize_row(w.dtype, from, w.columns(), stored.data());
      for (std::size_t c = 0; c < columns; ++c)
        values[own == nullptr ? c : static_cast<std::size_t>(own[c])] = stored[c];
      from = reinterpret_cast<const std::byte*>(values.data());
    }
    for (std::size_t c = 0; c < columns; ++c)
      std::memcpy(to + c * size, from + static_cast<std::size_t>(order[c]) * size, size);
  }
  return copy;
}

}  // namespace

Result<std::unique_ptr<Linear>> CpuBackend::pack_linear(std::span<const TensorView> weights,
                                                        std::span<const TensorView> biases) {
  QUIRE_TRY(check_stack(weights, biases));
  auto packed = std::make_unique<PackedLinear>();
  packed->inputs = weights[0].columns();
  packed->column_order = common_order(weights);
  reserve_activations(packed->inputs);
  for (const TensorView& source : weights) {
    Buffer reordered;
    const TensorView w = with_order(source, packed->column_order, &reordered);
    PackedLinear::Segment& segment = packed->segments.emplace_back();
    segment.shape = {packed_kind_for(w.dtype, dtype_), w.shape[0], w.columns()};
    segment.form = kernels_.mm.act_form(segment.shape.kind, dtype_);
    if (segment.form == ActForm::kBF16 && is_block_kind(segment.shape.kind))
      packed->bf16_factor = kernels_.mm.bf16_factor;
    segment.first_output = packed->outputs;
    segment.first_panel = packed->panels;
    segment.weights = slabs_.take(static_cast<std::size_t>(segment.shape.bytes()));
    packed->outputs += segment.shape.n;
    packed->panels += segment.shape.panels();
    packed->packed_bytes += segment.shape.bytes();
    std::int64_t& padded = packed->padded_k[index_of(segment.form)];
    padded = std::max(padded, segment.shape.padded_k());
    QUIRE_CHECK(
        kernels_.mm.matmul[static_cast<std::size_t>(segment.shape.kind)][index_of(segment.form)] !=
            nullptr,
        "kernels {} lack a product for weights packed as {}", kernels_.name,
        packed_kind_info(segment.shape.kind).name);
    pool_.run([&](int thread) {
      const Range panels = split_range(segment.shape.panels(), thread, pool_.size());
      pack_panels(segment.shape, w.dtype, w.data, w.row_bytes(), panels.begin, panels.end,
                  segment.weights.data());
    });
  }
  const bool any_bias =
      std::any_of(biases.begin(), biases.end(), [](const TensorView& b) { return !b.empty(); });
  if (any_bias) {
    packed->bias = Buffer(static_cast<std::size_t>(packed->outputs) * sizeof(float));
    packed->packed_bytes += static_cast<std::int64_t>(packed->bias.size());
    for (std::size_t i = 0; i < biases.size(); ++i) {
      if (biases[i].empty()) continue;
      const PackedLinear::Segment& segment = packed->segments[i];
      dequantize_row(biases[i].dtype, biases[i].data, segment.shape.n,
                     packed->bias.as<float>() + segment.first_output);
    }
  }
  return packed;
}

Result<std::unique_ptr<Linear>> CpuBackend::pack_heads(std::span<const TensorView> weights) {
  for (const TensorView& w : weights) {
    if (w.shape != weights[0].shape || w.dtype != weights[0].dtype)
      return make_error(ErrorCode::kInternal, "heads of shapes {} and {}",
                        weights[0].shape.to_string(), w.shape.to_string());
  }
  QUIRE_ASSIGN(std::unique_ptr<Linear> linear, pack_linear(weights, {}));
  auto& packed = static_cast<PackedLinear&>(*linear);
  packed.heads = static_cast<std::int64_t>(packed.segments.size());
  packed.outputs /= packed.heads;
  reserve_activations(packed.heads * packed.segments[0].shape.padded_k());
  return linear;
}

}  // namespace quire
