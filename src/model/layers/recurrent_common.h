// What the recurrent mixers share: where each sequence's rows and state are, work spread over
// threads, and weights that Hugging Face and GGUF files shape differently. Engine thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "model/layers/mixer.h"
#include "model/layers/recurrent_kernels.h"
#include "model/layers/weight_loader.h"

namespace quire::recurrent {

// One sequence's part of a step.
struct SequencePart {
  std::int64_t first_row = 0, rows = 0;
  float* state = nullptr;  // the layer's part of its slot; zeros at a sequence's beginning
};
// Floats per row of the step that sequence_parts() may take from the workspace.
inline constexpr std::int64_t kPartFloatsPerRow = sizeof(SequencePart) / sizeof(float);

std::span<const SequencePart> sequence_parts(const MixerContext& context, Workspace& workspace,
                                             std::int64_t state_offset, std::int64_t state_floats);

// Calls fn(i) for i in [0, count) over the kernel threads, or here when `work` (multiplications of
// all calls) is too little to wake them.
template <class Fn>
void spread(Backend& backend, std::int64_t count, std::int64_t work, const Fn& fn) {
  constexpr std::int64_t kMinParallelWork = 1 << 15;
  if (work < kMinParallelWork) {
    for (std::int64_t i = 0; i < count; ++i) fn(i);
  } else {
    backend.parallel_for(
        count, std::cref(fn));  // a reference: std::function would copy the captures to the heap
  }
}

// A causal convolution over channels, and the columns that it reads its channels from.
struct ConvLayer {
  // Channels [channel, channel + count) stand in the columns from `column` on.
  struct Run {
    std::int64_t column, channel, count;
  };
  std::int64_t channels = 0, taps = 0;
  std::vector<float> weight;  // [taps][channels]
  std::vector<float> bias;    // [channels]
  std::vector<Run> runs;      // units of work, at most kMaxChannels channels each
  bool silu = true;

  // "<name>.weight" [channels, 1, taps], or [channels, taps] as in GGUF; "<name>.bias" where there
  // is one, which `require_bias` makes a must.
  static Result<ConvLayer> load(WeightLoader& loader, const std::string& name,
                                std::int64_t channels, std::int64_t taps, bool require_bias);
  void add_columns(std::int64_t column, std::int64_t count);  // the next `count` channels
  std::int64_t state_floats() const { return (taps - 1) * channels; }
  // x: a row per token; the state is the first state_floats() of each part's.  y: [rows, channels]
  void forward(Backend& backend, std::span<const SequencePart> parts, Rows x, float* y) const;
};

// Biases that a configuration announces must be there; without a word of it those are taken that
// are there.
inline Bias bias_if(bool announced) { return announced ? Bias::kRequired : Bias::kIfPresent; }
// A tensor that has one of these shapes, as f32.
Result<std::vector<float>> tensor_of(WeightLoader& loader, const std::string& name,
                                     std::initializer_list<Shape> shapes);
// The decay rates of a state space, negative: "<name>A" as it is (GGUF stores it so), or
// -exp("<name>A_log").
Result<std::vector<float>> load_decay(WeightLoader& loader, const std::string& name,
                                      std::initializer_list<Shape> shapes);

}  // namespace quire::recurrent
