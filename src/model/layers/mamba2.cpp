// Mamba 2 (Dao and Gu, 2024): in_proj gives a gate z, the convolution's input x | B | C and a time
// step per head; one decay per head and step; the gated result is normalised before out_proj.
// State: the convolution's last inputs, then h [heads][state][head_dim].
#include <algorithm>
#include <limits>
#include <utility>

#include "model/layers/recurrent.h"
#include "model/layers/recurrent_common.h"

namespace quire {
namespace {

using recurrent::ConvLayer, recurrent::SequencePart;

class Mamba2Mixer final : public Mixer {
 public:
  explicit Mamba2Mixer(const Mamba2Spec& spec) : spec_(spec) {}

  Status load(WeightLoader& loader, const std::string& name, std::int64_t hidden) {
    const std::int64_t inner = spec_.inner, heads = spec_.heads, groups = spec_.groups;
    if (heads * spec_.head_dim != inner || groups < 1 || heads % groups != 0) {
      return make_error(ErrorCode::kBadFile,
                        "Mamba 2: {} heads of {} in {} groups do not make {} channels", heads,
                        spec_.head_dim, groups, inner);
    }
    const std::int64_t channels = inner + 2 * groups * spec_.state;
    QUIRE_ASSIGN(in_proj_, loader.linear({{name + "in_proj", inner + channels + heads, false, {}}},
                                         hidden, recurrent::bias_if(spec_.proj_bias)));
    QUIRE_ASSIGN(conv_,
                 ConvLayer::load(loader, name + "conv1d", channels, spec_.conv, spec_.conv_bias));
    conv_.add_columns(inner, channels);
    QUIRE_ASSIGN(out_proj_, loader.linear({{name + "out_proj", hidden, false, {}}}, inner,
                                          recurrent::bias_if(spec_.proj_bias)));
    QUIRE_ASSIGN(a_, recurrent::load_decay(loader, name, {Shape{heads}, Shape{heads, 1}}));
    QUIRE_ASSIGN(d_, recurrent::tensor_of(loader, name + "D", {Shape{heads}, Shape{heads, 1}}));
    QUIRE_ASSIGN(dt_bias_, loader.vector(name + "dt_bias", heads));
    QUIRE_ASSIGN(norm_, recurrent::tensor_of(loader, name + "norm.weight",
                                             {Shape{inner}, Shape{groups, inner / groups}}));
    return {};
  }

  void forward(Backend& backend, Workspace& workspace, const MixerContext& context,
               const float* input, Epilogue epilogue, float* output) const override {
    const std::int64_t rows = context.input.rows(), inner = spec_.inner;
    const std::size_t mark = workspace.mark();
    const std::span<const SequencePart> parts =
        recurrent::sequence_parts(context, workspace, state_offset, state_floats());
    float* const projected =
        workspace.take<float>(rows * in_proj_->outputs);              // [rows, z | x | B | C | dt]
    float* const xbc = workspace.take<float>(rows * conv_.channels);  // [rows, x | B | C]
    float* const mixed = workspace.take<float>(rows * inner);
    backend.linear(input, rows, *in_proj_, projected, Epilogue::kStore);
    conv_.forward(backend, parts, {projected, in_proj_->outputs}, xbc);
    scan(backend, parts, projected, xbc, mixed, rows);
    const std::int64_t groups = spec_.norm_per_group ? spec_.groups : 1, width = inner / groups;
    const auto gate_and_normalize = [&](std::int64_t unit) {
      const std::int64_t r = unit / groups, begin = unit % groups * width;
      float* const y = mixed + r * inner + begin;
      recurrent::multiply_silu(y, projected + r * in_proj_->outputs + begin, width);
      recurrent::rms_normalize(y, norm_.data() + begin, width, spec_.norm_eps, y);
    };
    recurrent::spread(backend, rows * groups, rows * inner * 16, gate_and_normalize);
    backend.linear(mixed, rows, *out_proj_, output, epilogue);
    workspace.release_to(mark);
  }

  std::int64_t scratch_floats_per_row() const override {
    return in_proj_->outputs + conv_.channels + spec_.inner + recurrent::kPartFloatsPerRow;
  }
  std::int64_t state_floats() const override {
    return conv_.state_floats() + std::int64_t{spec_.inner} * spec_.state;
  }

 private:
  void scan(Backend& backend, std::span<const SequencePart> parts, const float* projected,
            const float* xbc, float* mixed, std::int64_t rows) const {
    const std::int64_t inner = spec_.inner, heads = spec_.heads, state = spec_.state,
                       dim = spec_.head_dim;
    const std::int64_t outputs = in_proj_->outputs, channels = conv_.channels;
    const auto run_unit = [&](std::int64_t unit) {
      const SequencePart& part = parts[static_cast<std::size_t>(unit / heads)];
      const std::int64_t head = unit % heads, group = head / (heads / spec_.groups);
      const float* const first = xbc + part.first_row * channels;
      const auto h = static_cast<std::size_t>(head);
      recurrent::Mamba2Scan scan;
      scan.x = {first + head * dim, channels};
      scan.b = {first + inner + group * state, channels};
      scan.c = {first + inner + (spec_.groups + group) * state, channels};
      scan.dt = {projected + part.first_row * outputs + inner + channels + head, outputs};
      scan.rows = part.rows;
      scan.head_dim = dim;
      scan.state_size = state;
      scan.a = a_[h];
      scan.d = d_[h];
      scan.dt_bias = dt_bias_[h];
      scan.dt_min = spec_.dt_min;
      scan.dt_max = spec_.dt_max > 0.0f ? spec_.dt_max : std::numeric_limits<float>::infinity();
      scan.state = {part.state + conv_.state_floats() + head * state * dim, dim};
      scan.y = {mixed + part.first_row * inner + head * dim, inner};
      recurrent::mamba2_scan(scan);
    };
    recurrent::spread(backend, static_cast<std::int64_t>(parts.size()) * heads,
                      rows * inner * state * 2, run_unit);
  }

  const Mamba2Spec spec_;
  std::unique_ptr<Linear> in_proj_, out_proj_;
  ConvLayer conv_;
  std::vector<float> a_, d_, dt_bias_;  // [heads]
  std::vector<float> norm_;             // [inner]
};

}  // namespace

Result<std::unique_ptr<Mixer>> load_mamba2(WeightLoader& loader, const std::string& prefix,
                                           std::int64_t hidden, const Mamba2Spec& spec) {
  auto mixer = std::make_unique<Mamba2Mixer>(spec);
  QUIRE_TRY(mixer->load(loader, prefix + spec.name + ".", hidden));
  return mixer;
}

}  // namespace quire
