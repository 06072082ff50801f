#include "executor/pooler.h"

#include <algorithm>

namespace quire {
namespace {
constexpr std::int64_t kRows = 32;  // normed at once
}

Pooler::Pooler(Model* model)
    : model_(model), rows_(static_cast<std::size_t>(kRows * model->hidden_size) * sizeof(float)) {}

std::vector<float> Pooler::normed(const float* hidden_row) {
  std::vector<float> out(static_cast<std::size_t>(model_->hidden_size));
  model_->final_hidden(hidden_row, 1, out.data());
  return out;
}

std::vector<float> Pooler::take(const Chunk& chunk, const float* hidden) {
  const std::int64_t size = model_->hidden_size;
  const bool ends = chunk.start_pos + chunk.num_tokens == chunk.prompt_tokens;
  if (chunk.pooling == Pooling::kLast)
    return ends ? normed(hidden + (chunk.num_tokens - 1) * size) : std::vector<float>();

  std::vector<double>& sum = sums_[chunk.slot.value];
  if (chunk.start_pos == 0) sum.assign(static_cast<std::size_t>(size), 0.0);
  std::int64_t wanted = chunk.num_tokens;
  if (chunk.pooling == Pooling::kFirst) wanted = chunk.start_pos == 0 ? 1 : 0;
  for (std::int64_t begin = 0; begin < wanted; begin += kRows) {
    const std::int64_t count = std::min(kRows, wanted - begin);
    model_->final_hidden(hidden + begin * size, count, rows_.as<float>());
    for (std::int64_t r = 0; r < count; ++r) {
      const float* row = rows_.as<float>() + r * size;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(row[i]);
    }
  }
  if (!ends) return {};
  const double count = chunk.pooling == Pooling::kMean ? chunk.prompt_tokens : 1;
  std::vector<float> out(sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i) out[i] = static_cast<float>(sum[i] / count);
  sums_.erase(chunk.slot.value);
  return out;
}

}  // namespace quire
