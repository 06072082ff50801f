// Mamba (Gu and Dao, 2023): in_proj gives x and a gate z; x goes through a causal convolution;
// x_proj makes the time step, B and C from it; a selective scan; out_proj. Jamba normalises the
// time step, B and C. State: the convolution's last inputs, then h [state][inner].
#include <algorithm>
#include <utility>

#include "model/layers/recurrent.h"
#include "model/layers/recurrent_common.h"

namespace quire {
namespace {

using recurrent::ConvLayer, recurrent::SequencePart;

class MambaMixer final : public Mixer {
 public:
  explicit MambaMixer(const MambaSpec& spec) : spec_(spec) {}

  Status load(WeightLoader& loader, const std::string& name, std::int64_t hidden) {
    const std::int64_t inner = spec_.inner, state = spec_.state;
    QUIRE_ASSIGN(in_proj_, loader.linear({{name + "in_proj", 2 * inner, false, {}}}, hidden,
                                         recurrent::bias_if(spec_.proj_bias)));
    QUIRE_ASSIGN(conv_,
                 ConvLayer::load(loader, name + "conv1d", inner, spec_.conv, spec_.conv_bias));
    conv_.add_columns(0, inner);
    QUIRE_ASSIGN(x_proj_, loader.linear({{name + "x_proj", spec_.dt_rank + 2 * state, false, {}}},
                                        inner, Bias::kIfPresent, Precision::kAsStored));
    QUIRE_ASSIGN(dt_proj_, loader.linear({{name + "dt_proj", inner, false, {}}}, spec_.dt_rank,
                                         Bias::kRequired, Precision::kAsStored));
    QUIRE_ASSIGN(out_proj_, loader.linear({{name + "out_proj", hidden, false, {}}}, inner,
                                          recurrent::bias_if(spec_.proj_bias)));
    QUIRE_ASSIGN(d_, loader.vector(name + "D", inner));
    QUIRE_ASSIGN(const std::vector<float> a,
                 recurrent::load_decay(loader, name, {Shape{inner, state}}));
    a_.resize(a.size());
    for (std::int64_t c = 0; c < inner; ++c) {
      for (std::int64_t s = 0; s < state; ++s)
        a_[static_cast<std::size_t>(s * inner + c)] = a[static_cast<std::size_t>(c * state + s)];
    }
    if (spec_.dt_norm_eps > 0.0f) {
      QUIRE_ASSIGN(dt_norm_, loader.vector(name + "dt_layernorm.weight", spec_.dt_rank));
      QUIRE_ASSIGN(b_norm_, loader.vector(name + "b_layernorm.weight", state));
      QUIRE_ASSIGN(c_norm_, loader.vector(name + "c_layernorm.weight", state));
    }
    return {};
  }

  void forward(Backend& backend, Workspace& workspace, const MixerContext& context,
               const float* input, Epilogue epilogue, float* output) const override {
    const std::int64_t rows = context.input.rows(), inner = spec_.inner;
    const std::size_t mark = workspace.mark();
    const std::span<const SequencePart> parts =
        recurrent::sequence_parts(context, workspace, state_offset, state_floats());
    Step step;
    step.xz = workspace.take<float>(rows * 2 * inner);
    step.x = workspace.take<float>(rows * inner);
    step.selection = workspace.take<float>(rows * x_proj_->outputs);
    step.dt_low = workspace.take<float>(rows * spec_.dt_rank);
    step.dt = workspace.take<float>(rows * inner);
    backend.linear(input, rows, *in_proj_, step.xz, Epilogue::kStore);
    conv_.forward(backend, parts, {step.xz, 2 * inner}, step.x);
    backend.linear(step.x, rows, *x_proj_, step.selection, Epilogue::kStore);
    recurrent::spread(backend, rows, rows * x_proj_->outputs,
                      [&](std::int64_t r) { prepare_selection(step, r); });
    backend.linear(step.dt_low, rows, *dt_proj_, step.dt, Epilogue::kStore);
    scan(backend, parts, step, rows);
    backend.linear(step.x, rows, *out_proj_, output, epilogue);
    workspace.release_to(mark);
  }

  std::int64_t scratch_floats_per_row() const override {
    return 4 * std::int64_t{spec_.inner} + x_proj_->outputs + spec_.dt_rank +
           recurrent::kPartFloatsPerRow;
  }
  std::int64_t state_floats() const override {
    return conv_.state_floats() + std::int64_t{spec_.state} * spec_.inner;
  }

 private:
  struct Step {
    float* xz;         // [rows, x | z]
    float* x;          // [rows, inner] after the convolution; the scan's result takes its place
    float* selection;  // [rows, dt_rank | B | C]
    float* dt_low;     // [rows, dt_rank]
    float* dt;         // [rows, inner], before softplus
  };

  // Norms, and the time step's low-rank part on its own.
  void prepare_selection(const Step& step, std::int64_t r) const {
    float* const row = step.selection + r * x_proj_->outputs;
    float* const dt_low = step.dt_low + r * spec_.dt_rank;
    if (dt_norm_.empty()) {
      std::copy(row, row + spec_.dt_rank, dt_low);
      return;
    }
    float* const b = row + spec_.dt_rank;
    float* const c = b + spec_.state;
    recurrent::rms_normalize(row, dt_norm_.data(), spec_.dt_rank, spec_.dt_norm_eps, dt_low);
    recurrent::rms_normalize(b, b_norm_.data(), spec_.state, spec_.dt_norm_eps, b);
    recurrent::rms_normalize(c, c_norm_.data(), spec_.state, spec_.dt_norm_eps, c);
  }

  void scan(Backend& backend, std::span<const SequencePart> parts, const Step& step,
            std::int64_t rows) const {
    const std::int64_t inner = spec_.inner, state = spec_.state, outputs = x_proj_->outputs;
    const std::int64_t blocks = (inner + recurrent::kMaxChannels - 1) / recurrent::kMaxChannels;
    const auto run_unit = [&](std::int64_t unit) {
      const SequencePart& part = parts[static_cast<std::size_t>(unit / blocks)];
      const std::int64_t channel = unit % blocks * recurrent::kMaxChannels, first = part.first_row;
      const float* const selection = step.selection + first * outputs + spec_.dt_rank;
      recurrent::MambaScan scan;
      scan.x = {step.x + first * inner + channel, inner};
      scan.dt = {step.dt + first * inner + channel, inner};
      scan.z = {step.xz + first * 2 * inner + inner + channel, 2 * inner};
      scan.b = {selection, outputs};
      scan.c = {selection + state, outputs};
      scan.rows = part.rows;
      scan.channels = std::min(recurrent::kMaxChannels, inner - channel);
      scan.state_size = state;
      scan.a = {a_.data() + channel, inner};
      scan.d = d_.data() + channel;
      scan.state = {part.state + conv_.state_floats() + channel, inner};
      scan.y = {step.x + first * inner + channel, inner};
      recurrent::mamba_scan(scan);
    };
    recurrent::spread(backend, static_cast<std::int64_t>(parts.size()) * blocks,
                      rows * inner * state * 16, run_unit);
  }

  const MambaSpec spec_;
  std::unique_ptr<Linear> in_proj_, x_proj_, dt_proj_, out_proj_;
  ConvLayer conv_;
  std::vector<float> a_;                          // [state][inner]
  std::vector<float> d_;                          // [inner]
  std::vector<float> dt_norm_, b_norm_, c_norm_;  // empty: no norms
};

}  // namespace

Result<std::unique_ptr<Mixer>> load_mamba(WeightLoader& loader, const std::string& prefix,
                                          std::int64_t hidden, const MambaSpec& spec) {
  auto mixer = std::make_unique<MambaMixer>(spec);
  QUIRE_TRY(mixer->load(loader, prefix + spec.name + ".", hidden));
  return mixer;
}

}  // namespace quire
