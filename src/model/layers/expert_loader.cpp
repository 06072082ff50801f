#include "model/layers/expert_loader.h"

#include <utility>

#include "model/layers/mlp.h"

namespace quire {
namespace {

// One tensor with the matrices of all experts, and their biases.
struct Stack {
  TensorView view;
  std::vector<float> biases;  // [experts, outputs], or empty
  std::int64_t outputs = 0, inputs = 0;
  bool transposed = false;  // each is stored [inputs, outputs]
  std::vector<std::int64_t>
      order;  // row i of the layer is the stored row order[i]; empty: as they are
};

Result<Stack> load_stack(WeightLoader& loader, const std::string& name, const MoeSpec& spec,
                         std::int64_t outputs, std::int64_t inputs, bool transposed) {
  Stack stack;
  stack.outputs = outputs;
  stack.inputs = inputs;
  stack.transposed = transposed;
  const std::string full = name + spec.expert_suffix;
  const std::int64_t rows = transposed ? inputs : outputs, columns = transposed ? outputs : inputs;
  // Some files have the experts below each other in one matrix.
  const bool flat = loader.rank(full) == 2;
  QUIRE_ASSIGN(stack.view, loader.view(full, flat ? Shape{spec.experts * rows, columns}
                                                  : Shape{spec.experts, rows, columns}));
  if (spec.expert_bias) {
    // "gate_up_proj_bias" beside a plain parameter, "….bias" beside "….weight".
    const std::string bias = name + (spec.expert_suffix.empty() ? "_bias" : ".bias");
    QUIRE_ASSIGN(stack.biases, loader.tensor(bias, Shape{spec.experts, outputs}));
  }
  return stack;
}

std::int32_t width_of(const MoeSpec& spec) {
  return spec.intermediate > 0 ? spec.intermediate : spec.expert.intermediate;
}

// Adds expert e's matrix and bias.
void append(const Stack& stack, std::int64_t e, std::vector<WeightMatrix>* matrices,
            std::vector<std::vector<float>>* biases) {
  WeightMatrix matrix;
  if (stack.transposed) {
    matrix = WeightMatrix::transposed(
        WeightMatrix::of_stack(stack.view, e, stack.inputs, stack.outputs));
  } else {
    matrix.view = WeightMatrix::of_stack(stack.view, e, stack.outputs, stack.inputs);
  }
  if (!stack.order.empty()) matrix = WeightMatrix::in_order(matrix.view, stack.order);
  matrices->push_back(std::move(matrix));
  std::vector<float> bias;
  for (std::int64_t i = 0; !stack.biases.empty() && i < stack.outputs; ++i) {
    const std::int64_t row = stack.order.empty() ? i : stack.order[static_cast<std::size_t>(i)];
    bias.push_back(stack.biases[static_cast<std::size_t>(e * stack.outputs + row)]);
  }
  biases->push_back(std::move(bias));
}

Result<std::unique_ptr<Linear>> pack_expert(WeightLoader& loader, const std::vector<Stack>& stacks,
                                            std::int64_t e) {
  std::vector<WeightMatrix> matrices;
  std::vector<std::vector<float>> biases;
  for (const Stack& stack : stacks) append(stack, e, &matrices, &biases);
  return loader.pack(matrices, biases);
}

Result<std::vector<std::unique_ptr<Mlp>>> load_stacked(WeightLoader& loader,
                                                       const std::string& prefix,
                                                       std::int64_t hidden, const MoeSpec& spec) {
  const MlpSpec& mlp = spec.expert;
  const std::int64_t width = width_of(spec);
  const bool transposed = spec.storage == ExpertStorage::kStackedTransposed;
  const std::string base = prefix + spec.expert_prefix + (spec.expert_prefix.empty() ? "" : ".");
  std::vector<Stack> up, down;
  const auto add = [&](std::vector<Stack>& stacks, const std::string& name, std::int64_t outputs,
                       std::int64_t inputs, bool stored_transposed) -> Status {
    QUIRE_ASSIGN(Stack stack,
                 load_stack(loader, base + name, spec, outputs, inputs, stored_transposed));
    stacks.push_back(std::move(stack));
    return {};
  };
  if (!mlp.fused_gate_up.empty()) {
    QUIRE_TRY(add(up, mlp.fused_gate_up, 2 * width, hidden, transposed));
    if (spec.interleaved_gate_up) {
      for (std::int64_t i = 0; i < 2 * width; ++i)
        up[0].order.push_back(i < width ? 2 * i : 2 * (i - width) + 1);
    }
  } else {
    if (mlp.gated) QUIRE_TRY(add(up, mlp.gate, width, hidden, transposed));
    QUIRE_TRY(add(up, mlp.up, width, hidden, transposed));
  }
  QUIRE_TRY(add(down, mlp.down, hidden, width, transposed || spec.down_transposed));
  QUIRE_ASSIGN(const ActivationArgs activation, load_activation(loader, prefix, mlp));
  std::vector<std::unique_ptr<Mlp>> experts;
  for (std::int64_t e = 0; e < spec.experts; ++e) {
    QUIRE_ASSIGN(std::unique_ptr<Linear> packed_up, pack_expert(loader, up, e));
    QUIRE_ASSIGN(std::unique_ptr<Linear> packed_down, pack_expert(loader, down, e));
    experts.push_back(
        std::make_unique<Mlp>(activation, std::move(packed_up), std::move(packed_down)));
  }
  for (const Stack& stack : up) loader.release(stack.view);
  for (const Stack& stack : down) loader.release(stack.view);
  return experts;
}

}  // namespace

Result<std::vector<std::unique_ptr<Mlp>>> load_experts(WeightLoader& loader,
                                                       const std::string& prefix,
                                                       std::int64_t hidden, const MoeSpec& spec) {
  if (spec.storage != ExpertStorage::kSeparate) return load_stacked(loader, prefix, hidden, spec);
  MlpSpec mlp = spec.expert;
  mlp.intermediate = width_of(spec);
  mlp.require_bias |= spec.expert_bias;
  std::vector<std::unique_ptr<Mlp>> experts;
  for (std::int32_t e = 0; e < spec.experts; ++e) {
    const std::string expert_prefix = prefix + spec.expert_prefix + "." + std::to_string(e) + ".";
    QUIRE_ASSIGN(std::unique_ptr<Mlp> expert, Mlp::load(loader, expert_prefix, hidden, mlp));
    experts.push_back(std::move(expert));
  }
  return experts;
}

}  // namespace quire
