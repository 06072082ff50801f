#include "model/layers/recurrent_common.h"

#include <algorithm>
#include <cmath>

namespace quire::recurrent {

std::span<const SequencePart> sequence_parts(const MixerContext& context, Workspace& workspace,
                                             std::int64_t state_offset, std::int64_t state_floats) {
  const ModelInput& input = context.input;
  const std::size_t count = input.start_pos.size();
  auto* const parts = workspace.take<SequencePart>(static_cast<std::int64_t>(count));
  for (std::size_t s = 0; s < count; ++s) {
    const std::int64_t first = input.row_begin[s];
    parts[s] = {
        first, input.row_begin[s + 1] - first,
        context.states.state(state_offset, state_floats, input.slots[s], input.start_pos[s])};
  }
  return {parts, count};
}

Result<ConvLayer> ConvLayer::load(WeightLoader& loader, const std::string& name,
                                  std::int64_t channels, std::int64_t taps, bool require_bias) {
  ConvLayer conv;
  conv.channels = channels;
  conv.taps = taps;
  QUIRE_ASSIGN(
      const std::vector<float> stored,
      tensor_of(loader, name + ".weight", {Shape{channels, 1, taps}, Shape{channels, taps}}));
  conv.weight.resize(stored.size());
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t j = 0; j < taps; ++j)
      conv.weight[static_cast<std::size_t>(j * channels + c)] =
          stored[static_cast<std::size_t>(c * taps + j)];
  }
  conv.bias.assign(static_cast<std::size_t>(channels), 0.0f);
  if (require_bias || loader.has(name + ".bias")) {
    QUIRE_ASSIGN(conv.bias, loader.vector(name + ".bias", channels));
  }
  return conv;
}

void ConvLayer::add_columns(std::int64_t column, std::int64_t count) {
  std::int64_t channel = runs.empty() ? 0 : runs.back().channel + runs.back().count;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t take = std::min(kMaxChannels, count - done);
    runs.push_back({column + done, channel, take});
    channel += take;
    done += take;
  }
}

void ConvLayer::forward(Backend& backend, std::span<const SequencePart> parts, Rows x,
                        float* y) const {
  const auto num_runs = static_cast<std::int64_t>(runs.size());
  const std::int64_t rows = parts.empty() ? 0 : parts.back().first_row + parts.back().rows;
  const auto run_unit = [&](std::int64_t unit) {
    const SequencePart& part = parts[static_cast<std::size_t>(unit / num_runs)];
    const Run& run = runs[static_cast<std::size_t>(unit % num_runs)];
    Conv conv;
    conv.x = {x.row(part.first_row) + run.column, x.stride};
    conv.y = {y + part.first_row * channels + run.channel, channels};
    conv.rows = part.rows;
    conv.channels = run.count;
    conv.taps = taps;
    conv.weight = {weight.data() + run.channel, channels};
    conv.bias = bias.data() + run.channel;
    conv.state = {part.state + run.channel, channels};
    conv.silu = silu;
    causal_conv(conv);
  };
  spread(backend, static_cast<std::int64_t>(parts.size()) * num_runs, rows * channels * (taps + 16),
         run_unit);
}

Result<std::vector<float>> tensor_of(WeightLoader& loader, const std::string& name,
                                     std::initializer_list<Shape> shapes) {
  Result<std::vector<float>> first = loader.tensor(name, *shapes.begin());
  for (auto shape = shapes.begin() + 1; !first && shape != shapes.end(); ++shape) {
    Result<std::vector<float>> other = loader.tensor(name, *shape);
    if (other) return other;
  }
  return first;
}

Result<std::vector<float>> load_decay(WeightLoader& loader, const std::string& name,
                                      std::initializer_list<Shape> shapes) {
  if (loader.has(name + "A")) return tensor_of(loader, name + "A", shapes);
  QUIRE_ASSIGN(std::vector<float> rates, tensor_of(loader, name + "A_log", shapes));
  for (float& rate : rates) rate = static_cast<float>(-std::exp(static_cast<double>(rate)));
  return rates;
}

}  // namespace quire::recurrent
