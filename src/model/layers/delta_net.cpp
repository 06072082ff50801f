// Gated delta net (Yang et al., 2024) as Qwen3-Next has it: q, k and v through a causal
// convolution, q and k of unit length, a state [key_dim][value_dim] per value head that decays and
// is corrected by each token, an RMS norm gated by z. State: the convolution's last inputs, then S
// [value heads][key_dim][value_dim].
#include <algorithm>
#include <cmath>
#include <utility>

#include "model/layers/recurrent.h"
#include "model/layers/recurrent_common.h"

namespace quire {
namespace {

using recurrent::ConvLayer, recurrent::SequencePart;

constexpr float kUnitLengthEps = 1e-6f;

class DeltaNetMixer final : public Mixer {
 public:
  explicit DeltaNetMixer(const DeltaNetSpec& spec) : spec_(spec) {}

  Status load(WeightLoader& loader, const std::string& name, std::int64_t hidden) {
    const std::int64_t key_heads = spec_.key_heads, value_heads = spec_.value_heads;
    if (key_heads < 1 || value_heads % key_heads != 0) {
      return make_error(ErrorCode::kBadFile,
                        "gated delta net: {} value heads cannot share {} key heads", value_heads,
                        key_heads);
    }
    const std::int64_t channels = 2 * key_size() + value_size();
    QUIRE_ASSIGN(conv_, ConvLayer::load(loader, name + "conv1d", channels, spec_.conv, false));
    QUIRE_TRY(load_projection(loader, name, hidden));
    QUIRE_ASSIGN(beta_alpha_, loader.linear({{name + "in_proj_ba", 2 * value_heads, false, {}}},
                                            hidden, Bias::kIfPresent, Precision::kAsStored));
    QUIRE_ASSIGN(out_proj_, loader.linear({{name + "out_proj", hidden, false, {}}}, value_size()));
    QUIRE_ASSIGN(a_, recurrent::load_decay(loader, name, {Shape{value_heads}}));
    QUIRE_ASSIGN(dt_bias_, loader.vector(name + "dt_bias", value_heads));
    QUIRE_ASSIGN(norm_, loader.vector(name + "norm.weight", spec_.value_dim));
    return {};
  }

  void forward(Backend& backend, Workspace& workspace, const MixerContext& context,
               const float* input, Epilogue epilogue, float* output) const override {
    const std::int64_t rows = context.input.rows();
    const std::size_t mark = workspace.mark();
    const std::span<const SequencePart> parts =
        recurrent::sequence_parts(context, workspace, state_offset, state_floats());
    Step step;
    step.qkvz = workspace.take<float>(rows * qkvz_->outputs);
    step.beta_alpha = workspace.take<float>(rows * beta_alpha_->outputs);
    step.qkv = workspace.take<float>(rows * conv_.channels);
    step.mixed = workspace.take<float>(rows * value_size());
    backend.linear(input, rows, *qkvz_, step.qkvz, Epilogue::kStore);
    backend.linear(input, rows, *beta_alpha_, step.beta_alpha, Epilogue::kStore);
    conv_.forward(backend, parts, {step.qkvz, qkvz_->outputs}, step.qkv);
    recurrent::spread(backend, rows, rows * key_size() * 4,
                      [&](std::int64_t r) { normalize_keys(step, r); });
    scan(backend, parts, step, rows);
    recurrent::spread(backend, rows, rows * value_size() * 16,
                      [&](std::int64_t r) { normalize_output(step, r); });
    backend.linear(step.mixed, rows, *out_proj_, output, epilogue);
    workspace.release_to(mark);
  }

  std::int64_t scratch_floats_per_row() const override {
    return qkvz_->outputs + beta_alpha_->outputs + conv_.channels + value_size() +
           recurrent::kPartFloatsPerRow;
  }
  std::int64_t state_floats() const override {
    return conv_.state_floats() + value_size() * spec_.key_dim;
  }

 private:
  struct Step {
    float* qkvz;        // [rows, ...] in the file's order
    float* beta_alpha;  // [rows, per key head: beta of its value heads | alpha of its value heads]
    float* qkv;         // [rows, q | k | v] after the convolution
    float* mixed;       // [rows, value heads * value_dim]
  };
  std::int64_t key_size() const { return std::int64_t{spec_.key_heads} * spec_.key_dim; }
  std::int64_t value_size() const { return std::int64_t{spec_.value_heads} * spec_.value_dim; }

  // Hugging Face: one matrix, per key head q | k | v of its value heads | z of them. GGUF: q | k |
  // v, and z apart.
  Status load_projection(WeightLoader& loader, const std::string& name, std::int64_t hidden) {
    const std::int64_t group = spec_.value_heads / spec_.key_heads, dim = spec_.value_dim,
                       key = spec_.key_dim;
    if (loader.has(name + "in_proj_qkv.weight")) {
      QUIRE_ASSIGN(qkvz_, loader.linear({{name + "in_proj_qkv", conv_.channels, false, {}},
                                         {name + "in_proj_z", value_size(), false, {}}},
                                        hidden));
      conv_.add_columns(0, conv_.channels);
      for (std::int64_t h = 0; h < spec_.value_heads; ++h)
        z_columns_.push_back(conv_.channels + h * dim);
      return {};
    }
    QUIRE_ASSIGN(
        qkvz_,
        loader.linear({{name + "in_proj_qkvz", conv_.channels + value_size(), false, {}}}, hidden));
    const std::int64_t stride = 2 * (key + group * dim);
    for (std::int64_t h = 0; h < spec_.key_heads; ++h) conv_.add_columns(h * stride, key);
    for (std::int64_t h = 0; h < spec_.key_heads; ++h) conv_.add_columns(h * stride + key, key);
    for (std::int64_t h = 0; h < spec_.key_heads; ++h)
      conv_.add_columns(h * stride + 2 * key, group * dim);
    for (std::int64_t h = 0; h < spec_.value_heads; ++h)
      z_columns_.push_back(h / group * stride + 2 * key + (group + h % group) * dim);
    return {};
  }

  void normalize_keys(const Step& step, std::int64_t r) const {
    const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_.key_dim)));
    float* head = step.qkv + r * conv_.channels;
    for (std::int32_t h = 0; h < 2 * spec_.key_heads; ++h, head += spec_.key_dim)
      recurrent::l2_normalize(head, spec_.key_dim, kUnitLengthEps,
                              h < spec_.key_heads ? scale : 1.0f);
  }

  void normalize_output(const Step& step, std::int64_t r) const {
    float* head = step.mixed + r * value_size();
    for (const std::int64_t column : z_columns_) {
      recurrent::rms_normalize(head, norm_.data(), spec_.value_dim, spec_.norm_eps, head);
      recurrent::multiply_silu(head, step.qkvz + r * qkvz_->outputs + column, spec_.value_dim);
      head += spec_.value_dim;
    }
  }

  void scan(Backend& backend, std::span<const SequencePart> parts, const Step& step,
            std::int64_t rows) const {
    const std::int64_t dim = spec_.value_dim, key = spec_.key_dim,
                       group = spec_.value_heads / spec_.key_heads;
    const std::int64_t blocks = (dim + recurrent::kMaxChannels - 1) / recurrent::kMaxChannels;
    const std::int64_t units = spec_.value_heads * blocks, channels = conv_.channels,
                       ba = beta_alpha_->outputs;
    const auto run_unit = [&](std::int64_t unit) {
      const SequencePart& part = parts[static_cast<std::size_t>(unit / units)];
      const std::int64_t head = unit % units / blocks,
                         begin = unit % blocks * recurrent::kMaxChannels;
      const std::int64_t key_head = head / group, first = part.first_row;
      const float* const qkv = step.qkv + first * channels;
      const float* const beta = step.beta_alpha + first * ba + key_head * 2 * group + head % group;
      recurrent::DeltaScan scan;
      scan.q = {qkv + key_head * key, channels};
      scan.k = {qkv + key_size() + key_head * key, channels};
      scan.value = {qkv + 2 * key_size() + head * dim + begin, channels};
      scan.beta = {beta, ba};
      scan.alpha = {beta + group, ba};
      scan.rows = part.rows;
      scan.key_dim = key;
      scan.channels = std::min(recurrent::kMaxChannels, dim - begin);
      scan.a = a_[static_cast<std::size_t>(head)];
      scan.dt_bias = dt_bias_[static_cast<std::size_t>(head)];
      scan.state = {part.state + conv_.state_floats() + head * key * dim + begin, dim};
      scan.y = {step.mixed + first * value_size() + head * dim + begin, value_size()};
      recurrent::delta_scan(scan);
    };
    recurrent::spread(backend, static_cast<std::int64_t>(parts.size()) * units,
                      rows * value_size() * key * 4, run_unit);
  }

  const DeltaNetSpec spec_;
  std::unique_ptr<Linear> qkvz_, beta_alpha_, out_proj_;
  ConvLayer conv_;
  std::vector<std::int64_t> z_columns_;  // of each value head, in qkvz
  std::vector<float> a_, dt_bias_;       // [value heads]
  std::vector<float> norm_;              // [value_dim]
};

}  // namespace

Result<std::unique_ptr<Mixer>> load_delta_net(WeightLoader& loader, const std::string& prefix,
                                              std::int64_t hidden, const DeltaNetSpec& spec) {
  auto mixer = std::make_unique<DeltaNetMixer>(spec);
  QUIRE_TRY(mixer->load(loader, prefix + spec.name + ".", hidden));
  return mixer;
}

}  // namespace quire
