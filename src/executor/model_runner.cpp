#include "executor/model_runner.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/trace.h"

namespace quire {
namespace {

// Rows of logits computed at once: bounds the logits' memory (64 rows of a 128k vocabulary are 32
// MiB).
constexpr std::int64_t kLogitsSlice = 64;

std::size_t float_bytes(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(float);
}

}  // namespace

ModelRunner::ModelRunner(std::unique_ptr<Backend> backend, std::unique_ptr<Model> model,
                         Options options)
    : backend_(std::move(backend)),
      model_(std::move(model)),
      first_snapshot_(options.max_num_seqs),
      sampler_(model_->vocab_size),
      pooler_(model_.get()) {
  const std::int64_t max_rows = options.max_num_batched_tokens;
  capacity_.geometry = options.geometry;
  capacity_.num_blocks = options.num_blocks;
  capacity_.vocab_size = model_->vocab_size;
  capacity_.model_bytes = model_->weight_bytes;
  for (std::size_t g = 0; g < options.num_blocks.size(); ++g)
    capacity_.kv_bytes += options.num_blocks[g] * options.geometry.block_bytes(g);
  capacity_.recurrent_state = model_->has_recurrent_state;
  if (model_->has_recurrent_state) {
    model_->reserve_slots(options.max_num_seqs + options.num_snapshots);
    capacity_.num_snapshots = options.num_snapshots;
    capacity_.state_bytes =
        model_->state_bytes_per_slot * (options.max_num_seqs + options.num_snapshots);
  }
  cache_ = backend_->make_kv_cache(options.geometry, options.num_blocks);
  workspace_ = std::make_unique<Workspace>(model_->workspace_bytes(max_rows, kLogitsSlice));
  backend_->reserve(max_rows, 0);
  hidden_ = Buffer(float_bytes(max_rows * model_->hidden_size));
  wanted_hidden_ = Buffer(float_bytes(kLogitsSlice * model_->hidden_size));
  logits_ = Buffer(float_bytes(kLogitsSlice * model_->vocab_size));
  slots_.resize(1);
}

void ModelRunner::warm_up() {
  // One token in the first block: its content is overwritten by whoever gets the block.
  StepPlan plan;
  plan.rows.push_back({SlotId{0}, 0, 1, 1, false, false});
  plan.token_ids.push_back(0);
  plan.block_table.assign(capacity_.num_blocks.size(), {0});
  plan.table_begin.assign(capacity_.num_blocks.size(), {0, 1});
  submit(plan);
  sample({});
  wait();
}

void ModelRunner::submit(const StepPlan& plan) {
  QUIRE_CHECK(!in_flight_, "a step is in flight already");
  in_flight_ = true;
  prepare(plan);
  if (plan.rows.empty()) return;
  const TraceSpan span(TraceKind::kForward, plan.num_tokens());
  model_->forward(input_, *cache_, *workspace_, hidden_.as<float>());
  copy_blocks(plan.fork_copies);
  save_states(plan);
  pool_rows(plan);
}

// Everything that comes before the forward pass.
void ModelRunner::prepare(const StepPlan& plan) {
  const TraceSpan span(TraceKind::kPrepare, plan.num_tokens());
  update_slots(plan);
  result_.step = plan.step;
  result_.rows.assign(plan.rows.size(), {});
  result_.forks.assign(plan.forks.size(), {});
  copy_blocks(plan.copies);
  load_states(plan);
  plan_ = &plan;
  if (plan.rows.empty()) return;
  build_input(plan);
  workspace_->reset();
}

void ModelRunner::sample(std::span<const TokenMask> masks) {
  QUIRE_CHECK(in_flight_, "no step is in flight");
  QUIRE_CHECK(masks.empty() || masks.size() == plan_->rows.size(), "{} masks for {} rows",
              masks.size(), plan_->rows.size());
  masks_ = masks;
  collect_wanted();
  run_logits();
}

// Embeddings of the prompts that ask for one.
void ModelRunner::pool_rows(const StepPlan& plan) {
  for (std::size_t r = 0; r < plan.rows.size(); ++r) {
    const StepPlan::Row& row = plan.rows[r];
    const SlotState& slot = slots_[static_cast<std::size_t>(row.slot.value)];
    if (slot.params == nullptr || slot.params->pooling == Pooling::kNone) continue;
    const Pooler::Chunk chunk{row.slot, slot.params->pooling, row.start_pos, row.num_tokens,
                              static_cast<std::int32_t>(slot.prompt->size())};
    result_.rows[r].embedding =
        pooler_.take(chunk, hidden_.as<float>() + row_begin_[r] * model_->hidden_size);
  }
}

void ModelRunner::copy_blocks(const std::vector<StepPlan::Copy>& copies) {
  copies_.clear();
  for (const StepPlan::Copy& copy : copies)
    copies_.push_back({copy.group, copy.source, copy.target, copy.tokens});
  if (!copies_.empty()) backend_->copy_blocks(copies_, *cache_);
}

void ModelRunner::load_states(const StepPlan& plan) {
  if (!capacity_.recurrent_state) return;
  for (const StepPlan::SlotCopy& copy : plan.slot_copies) {
    model_->copy_state(copy.source.value, copy.target.value);
  }
  for (const StepPlan::StateCopy& load : plan.state_loads) {
    model_->copy_state(first_snapshot_ + load.snapshot, load.slot.value);
  }
}

// To snapshots, and to the slots of choices that go on from a row.
void ModelRunner::save_states(const StepPlan& plan) {
  for (const StepPlan::StateCopy& save : plan.state_saves) {
    model_->copy_state(save.slot.value, first_snapshot_ + save.snapshot);
  }
  if (!capacity_.recurrent_state) return;
  for (const StepPlan::Fork& fork : plan.forks) {
    model_->copy_state(plan.rows[static_cast<std::size_t>(fork.row)].slot.value, fork.slot.value);
  }
}

void ModelRunner::wait(StepResult& result) {
  QUIRE_CHECK(in_flight_, "no step is in flight");
  in_flight_ = false;
  plan_ = nullptr;
  std::swap(result, result_);
}

void ModelRunner::update_slots(const StepPlan& plan) {
  for (const SlotId slot : plan.removed) {
    sampler_.remove_slot(slot);
    pooler_.remove_slot(slot);
    slots_[static_cast<std::size_t>(slot.value)] = {};
  }
  for (const StepPlan::AddedSlot& added : plan.added) {
    const auto index = static_cast<std::size_t>(added.slot.value);
    if (index >= slots_.size()) slots_.resize(index + 1);
    slots_[index] = {added.params, added.prompt, -1};
    sampler_.add_slot(added.slot, *added.params, *added.prompt, added.generated);
  }
}

void ModelRunner::build_input(const StepPlan& plan) {
  token_ids_ = plan.token_ids;
  positions_.clear();
  row_begin_.assign(1, 0);
  start_pos_.clear();
  prompt_tokens_.clear();
  slot_ids_.clear();
  for (const StepPlan::Row& row : plan.rows) {
    const std::int32_t begin = row_begin_.back();
    for (std::int32_t i = 0; i < row.num_tokens; ++i) {
      TokenId& token = token_ids_[static_cast<std::size_t>(begin) + static_cast<std::size_t>(i)];
      if (token == kTokenFromPreviousStep) {
        token = slots_[static_cast<std::size_t>(row.slot.value)].last_token;
        QUIRE_CHECK(token >= 0, "slot {} has drawn no token to go on with", row.slot.value);
      }
      positions_.push_back(row.start_pos + i);
    }
    row_begin_.push_back(begin + row.num_tokens);
    start_pos_.push_back(row.start_pos);
    const SlotState& slot = slots_[static_cast<std::size_t>(row.slot.value)];
    prompt_tokens_.push_back(slot.prompt ? static_cast<std::int32_t>(slot.prompt->size())
                                         : row.num_tokens);
    slot_ids_.push_back(row.slot.value);
  }
  QUIRE_CHECK(row_begin_.back() == plan.num_tokens(), "rows hold {} tokens, the plan {}",
              row_begin_.back(), plan.num_tokens());
  input_.token_ids = token_ids_;
  input_.positions = positions_;
  input_.prompt_tokens = prompt_tokens_;
  input_.slots = slot_ids_;
  input_.row_begin = row_begin_;
  input_.start_pos = start_pos_;
  input_.groups.clear();
  ++steps_;
  for (std::size_t g = 0; g < plan.block_table.size(); ++g)
    input_.groups.push_back(
        {row_begin_, start_pos_, plan.block_table[g], plan.table_begin[g], steps_});
}

const TokenMask& ModelRunner::mask_of(std::size_t plan_row) const {
  static const TokenMask kAll;
  return masks_.empty() ? kAll : masks_[plan_row];
}

// True for a row whose mask allows one token: it and its forks take that, without logits, unless
// log-probabilities are asked for.
bool ModelRunner::take_only(std::size_t plan_row) {
  const StepPlan::Row& row = plan_->rows[plan_row];
  const TokenId only = mask_of(plan_row).only;
  if (!row.sample || only < 0 || row.prompt_logprobs || sampler_.wants_logprobs(row.slot))
    return false;
  const auto forks = std::ranges::equal_range(plan_->forks, static_cast<std::int32_t>(plan_row), {},
                                              &StepPlan::Fork::row);
  for (const StepPlan::Fork& fork : forks) {
    if (sampler_.wants_logprobs(fork.slot)) return false;
  }
  const auto take = [&](SlotId slot, StepResult::Row& out) {
    sampler_.take(slot, only);
    slots_[static_cast<std::size_t>(slot.value)].last_token = only;
    out.token = only;
  };
  take(row.slot, result_.rows[plan_row]);
  for (auto fork = forks.begin(); fork != forks.end(); ++fork)
    take(fork->slot, result_.forks[static_cast<std::size_t>(fork - plan_->forks.cbegin())]);
  return true;
}

// Which rows of logits somebody wants.
void ModelRunner::collect_wanted() {
  wanted_.clear();
  for (std::size_t r = 0; r < plan_->rows.size(); ++r) {
    if (take_only(r)) continue;
    const StepPlan::Row& row = plan_->rows[r];
    if (row.prompt_logprobs) {
      // Row i speaks of the prompt token after it; the last prompt token's row speaks of the first
      // generated one.
      const auto prompt_size = static_cast<std::int32_t>(
          slots_[static_cast<std::size_t>(row.slot.value)].prompt->size());
      const std::int32_t told =
          std::min(row.num_tokens, prompt_size - 1 - row.start_pos) - row.logits_begin;
      if (told > 0) result_.rows[r].prompt_logprobs.resize(static_cast<std::size_t>(told));
    }
    for (std::int32_t i = row.logits_begin; i < row.num_tokens; ++i)
      wanted_.push_back({static_cast<std::int32_t>(r), row_begin_[r] + i, row.start_pos + i});
  }
}

// Logits of `count` wanted rows from `begin` on.
void ModelRunner::compute_logits(std::size_t begin, std::int64_t count) {
  const TraceSpan span(TraceKind::kLogits, count);
  const std::int64_t hidden = model_->hidden_size;
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(
        wanted_hidden_.as<float>() + i * hidden,
        hidden_.as<float>() + wanted_[begin + static_cast<std::size_t>(i)].input_row * hidden,
        float_bytes(hidden));
  }
  model_->logits(wanted_hidden_.as<float>(), count, *workspace_, logits_.as<float>());
}

void ModelRunner::run_logits() {
  const std::int64_t vocab = model_->vocab_size;
  for (std::size_t begin = 0; begin < wanted_.size(); begin += kLogitsSlice) {
    const auto count =
        static_cast<std::int64_t>(std::min<std::size_t>(kLogitsSlice, wanted_.size() - begin));
    compute_logits(begin, count);
    if (logits_hook_) {
      std::vector<std::int32_t> rows, positions;
      for (std::int64_t i = 0; i < count; ++i) {
        rows.push_back(wanted_[begin + static_cast<std::size_t>(i)].plan_row);
        positions.push_back(wanted_[begin + static_cast<std::size_t>(i)].position);
      }
      logits_hook_(*plan_, rows, positions, logits_.as<float>());
    }
    const TraceSpan span(TraceKind::kSample, count);
    const auto finish = [&](std::int64_t i) {
      finish_row(wanted_[begin + static_cast<std::size_t>(i)], logits_.as<float>() + i * vocab);
    };
    backend_->parallel_for(count, std::cref(finish));  // by reference: captures are not copied
  }
}

void ModelRunner::finish_row(const Wanted& wanted, float* logits) {
  const auto plan_row = static_cast<std::size_t>(wanted.plan_row);
  const StepPlan::Row& row = plan_->rows[plan_row];
  StepResult::Row& out = result_.rows[plan_row];
  SlotState& slot = slots_[static_cast<std::size_t>(row.slot.value)];
  const std::span<float> view(logits, static_cast<std::size_t>(model_->vocab_size));
  if (row.prompt_logprobs) {
    const auto index = static_cast<std::size_t>(wanted.position - row.start_pos - row.logits_begin);
    if (index < out.prompt_logprobs.size()) {
      const TokenId next = (*slot.prompt)[static_cast<std::size_t>(wanted.position) + 1];
      out.prompt_logprobs[index] = Sampler::logprobs_of(view, next, slot.params->prompt_logprobs);
    }
  }
  const bool last = wanted.position == row.start_pos + row.num_tokens - 1;
  if (!row.sample || !last) return;
  draw_forks(wanted.plan_row, view);
  draw(row.slot, view, plan_row, out);
}

void ModelRunner::draw(SlotId slot, std::span<float> logits, std::size_t plan_row,
                       StepResult::Row& out) {
  out.has_logprobs = sampler_.wants_logprobs(slot);
  out.token = sampler_.sample(slot, logits, mask_of(plan_row).bits,
                              out.has_logprobs ? &out.logprobs : nullptr);
  slots_[static_cast<std::size_t>(slot.value)].last_token = out.token;
}

// Each fork of the row draws from a copy of its logits. A grammar stands where the row's stands: at
// its start.
void ModelRunner::draw_forks(std::int32_t row, std::span<const float> logits) {
  const auto of_row = std::ranges::equal_range(plan_->forks, row, {}, &StepPlan::Fork::row);
  thread_local std::vector<float> own;
  for (auto fork = of_row.begin(); fork != of_row.end(); ++fork) {
    own.assign(logits.begin(), logits.end());
    const auto index = static_cast<std::size_t>(fork - plan_->forks.cbegin());
    draw(fork->slot, own, static_cast<std::size_t>(row), result_.forks[index]);
  }
}

}  // namespace quire
