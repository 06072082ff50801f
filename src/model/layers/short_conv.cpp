// The short convolution of LFM2 (Liquid AI, 2025): out_proj(C * conv(B * x)), where B, C and x come
// from one projection. State: the last inputs of the convolution.
#include <utility>

#include "model/layers/recurrent.h"
#include "model/layers/recurrent_common.h"

namespace quire {
namespace {

using recurrent::ConvLayer, recurrent::SequencePart;

class ShortConvMixer final : public Mixer {
 public:
  static Result<std::unique_ptr<Mixer>> load(WeightLoader& loader, const std::string& prefix,
                                             std::int64_t hidden, const ShortConvSpec& spec) {
    auto mixer = std::make_unique<ShortConvMixer>();
    const std::string name = prefix + spec.name;
    const Bias bias = recurrent::bias_if(spec.bias);
    QUIRE_ASSIGN(mixer->in_proj_,
                 loader.linear({{name + ".in_proj", 3 * hidden, false, {}}}, hidden, bias));
    QUIRE_ASSIGN(mixer->conv_,
                 ConvLayer::load(loader, name + ".conv", hidden, spec.conv, spec.bias));
    mixer->conv_.silu = false;
    mixer->conv_.add_columns(0, hidden);
    QUIRE_ASSIGN(mixer->out_proj_,
                 loader.linear({{name + ".out_proj", hidden, false, {}}}, hidden, bias));
    return mixer;
  }

  void forward(Backend& backend, Workspace& workspace, const MixerContext& context, const float* x,
               Epilogue epilogue, float* y) const override {
    const std::int64_t rows = context.input.rows(), n = conv_.channels;
    const std::size_t mark = workspace.mark();
    const std::span<const SequencePart> parts =
        recurrent::sequence_parts(context, workspace, state_offset, state_floats());
    float* const bcx = workspace.take<float>(rows * 3 * n);  // [rows, B | C | x]
    float* const mixed = workspace.take<float>(rows * n);
    backend.linear(x, rows, *in_proj_, bcx, Epilogue::kStore);
    const auto multiply_b = [&](std::int64_t r) {
      float* const row = bcx + r * 3 * n;
      for (std::int64_t c = 0; c < n; ++c) row[c] *= row[2 * n + c];
    };
    recurrent::spread(backend, rows, rows * n, multiply_b);
    conv_.forward(backend, parts, {bcx, 3 * n}, mixed);
    const auto multiply_c = [&](std::int64_t r) {
      const float* const c_row = bcx + r * 3 * n + n;
      for (std::int64_t c = 0; c < n; ++c) mixed[r * n + c] *= c_row[c];
    };
    recurrent::spread(backend, rows, rows * n, multiply_c);
    backend.linear(mixed, rows, *out_proj_, y, epilogue);
    workspace.release_to(mark);
  }

  std::int64_t scratch_floats_per_row() const override {
    return 4 * conv_.channels + recurrent::kPartFloatsPerRow;
  }
  std::int64_t state_floats() const override { return conv_.state_floats(); }

 private:
  std::unique_ptr<Linear> in_proj_, out_proj_;
  ConvLayer conv_;
};

}  // namespace

Result<std::unique_ptr<Mixer>> load_short_conv(WeightLoader& loader, const std::string& prefix,
                                               std::int64_t hidden, const ShortConvSpec& spec) {
  return ShortConvMixer::load(loader, prefix, hidden, spec);
}

}  // namespace quire
