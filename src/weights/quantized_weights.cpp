#include "weights/quantized_weights.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace quire {
namespace {

// Bytes of the result below which more threads are not worth their start.
constexpr std::int64_t kThreadBytes = 1 << 20;

void convert_all(const QuantTensor& tensor, const TensorView& view, std::int64_t most_threads,
                 std::byte* out) {
  const std::int64_t rows = view.rows();
  const std::int64_t threads =
      std::clamp<std::int64_t>(view.bytes() / kThreadBytes, 1, most_threads);
  std::vector<std::jthread> others;
  const auto part = [&](std::int64_t t) {
    const std::int64_t begin = rows * t / threads, end = rows * (t + 1) / threads;
    convert_rows(tensor, begin, end, out + begin * view.row_bytes());
  };
  for (std::int64_t t = 1; t < threads; ++t) others.emplace_back([&part, t] { part(t); });
  part(0);
}

}  // namespace

Result<std::unique_ptr<QuantizedWeights>> QuantizedWeights::create(SafetensorsFile file,
                                                                   const QuantConfig& config) {
  std::unique_ptr<QuantizedWeights> weights(new QuantizedWeights(std::move(file)));
  TensorTable table = weights->tensors();
  QUIRE_ASSIGN(std::vector<QuantTensor> tensors, take_quant_tensors(config, &table));
  for (QuantTensor& tensor : tensors) {
    // The data stands for what is not there yet: never empty, never read.
    table.emplace(tensor.name, TensorView{tensor.codes.data, tensor.dtype, tensor.shape});
    const std::string name = tensor.name;
    weights->quantized_.emplace(name, std::move(tensor));
  }
  weights->set_tensors(std::move(table));
  return weights;
}

TensorView QuantizedWeights::with_data(const std::string& stored, const TensorView& view) const {
  const auto found = quantized_.find(stored);
  if (found == quantized_.end()) return view;
  TensorView converted = view;
  Buffer data(static_cast<std::size_t>(view.bytes()));
  convert_all(found->second, view, threads_, data.data());
  converted.data = data.data();
  const std::vector<std::int32_t>& order = found->second.column_order;
  converted.column_order = order.empty() ? nullptr : order.data();
  const std::lock_guard lock(mutex_);
  converted_.emplace(converted.data, Converted{&found->second, std::move(data)});
  return converted;
}

void QuantizedWeights::release_pages(const TensorView& view) const {
  const std::lock_guard lock(mutex_);
  const auto found = converted_.find(view.data);
  if (found == converted_.end()) return SafetensorsWeights::release_pages(view);
  for (const TensorView& part : found->second.tensor->parts)
    SafetensorsWeights::release_pages(part);
  converted_.erase(found);
}

}  // namespace quire
