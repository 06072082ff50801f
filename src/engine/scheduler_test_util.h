// A device for scheduler tests. Its "model" draws a hash of all tokens so far, and reads those
// tokens back from a KV memory through the block tables: so a wrong block, a stale prefix hit or a
// block reused too early changes the text. Without prefix hits it keeps the tokens per slot as
// well, as a model with recurrent state does: each comes once and in order, and position 0 starts
// anew. Of a group with a window only what the row's first query reaches is read; the first group
// has none.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/rows_apart_test_util.h"
#include "engine/scheduler.h"

namespace quire {

inline constexpr TokenId kFakeVocab = 1000;

// first, first + 1, ...
inline std::vector<TokenId> prompt_of(TokenId first, std::size_t n) {
  std::vector<TokenId> tokens(n);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline TokenId fake_next_token(std::span<const TokenId> tokens, std::uint32_t choice = 0) {
  std::uint64_t hash = 99 + choice;
  for (const TokenId token : tokens)
    hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x9e3779b97f4a7c15u + 1;
  return static_cast<TokenId>((hash >> 33) % kFakeVocab);
}

inline TokenLogprobs fake_logprobs(std::span<const TokenId> before, TokenId token) {
  return {token, -static_cast<float>(fake_next_token(before)), 1, {}};
}

// The most likely next tokens: a hash of all tokens so far draws them and their log-probabilities.
inline std::vector<std::pair<TokenId, float>> fake_top(std::span<const TokenId> tokens,
                                                       std::int32_t count) {
  std::vector<std::pair<TokenId, float>> top;
  float logprob = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const auto hash =
        static_cast<std::uint32_t>(fake_next_token(tokens, 1000 + static_cast<std::uint32_t>(i)));
    logprob -= 0.05f + static_cast<float>(hash % 100) / 64;
    const std::uint32_t token =
        static_cast<std::uint32_t>(fake_next_token(tokens)) + static_cast<std::uint32_t>(i) * 7;
    top.emplace_back(static_cast<TokenId>(token % kFakeVocab), logprob);
  }
  return top;
}

class FakeExecutor {
 public:
  explicit FakeExecutor(const KvCacheOptions& kv)
      : block_size_(static_cast<std::size_t>(kv.block_size)),
        recurrent_(kv.groups.empty() || kv.recurrent_state || !kv.enable_prefix_caching),
        snapshots_(static_cast<std::size_t>(kv.num_snapshots)) {
    for (const auto& group : kv.groups) {
      memory_.emplace_back(static_cast<std::size_t>(group.num_blocks) * block_size_, -1);
      windows_.push_back(group.window);
    }
  }

  StepResult run(const StepPlan& plan) {
    expect_decoding_rows_apart(plan, static_cast<std::int32_t>(block_size_));
    for (const SlotId slot : plan.removed) EXPECT_EQ(slots_.erase(slot), 1u);
    for (const auto& added : plan.added) {
      std::vector<TokenId> known = *added.prompt;
      known.insert(known.end(), added.generated.begin(), added.generated.end());
      Slot slot{added.prompt, added.params, {}, std::move(known)};
      EXPECT_TRUE(slots_.emplace(added.slot, std::move(slot)).second);
    }
    copy(plan.copies);
    for (const StepPlan::SlotCopy& slots : plan.slot_copies) {
      slots_.at(slots.target).state = slots_.at(slots.source).state;
    }
    for (const StepPlan::StateCopy& load : plan.state_loads) {
      slots_.at(load.slot).state = snapshots_.at(static_cast<std::size_t>(load.snapshot));
    }
    StepResult result;
    result.step = plan.step;
    std::vector<TokenId> ids = plan.token_ids;
    std::size_t first = 0;
    for (std::size_t r = 0; r < plan.rows.size(); ++r) {  // all rows store before any reads
      const auto n = static_cast<std::size_t>(plan.rows[r].num_tokens);
      const auto own = std::span(ids).subspan(first, n);
      if (own.back() == kTokenFromPreviousStep) own.back() = drawn_last(plan.rows[r].slot);
      store(plan, r, own);
      if (recurrent_) remember(plan.rows[r], own);
      first += n;
    }
    EXPECT_EQ(first, ids.size());
    std::set<SlotId> seen;
    for (std::size_t r = 0; r < plan.rows.size(); ++r) {
      EXPECT_TRUE(seen.insert(plan.rows[r].slot).second);
      result.rows.push_back(read(plan, r));
    }
    copy(plan.fork_copies);
    for (const StepPlan::StateCopy& save : plan.state_saves) {
      snapshots_.at(static_cast<std::size_t>(save.snapshot)) = slots_.at(save.slot).state;
    }
    for (const StepPlan::Fork& fork : plan.forks) {
      EXPECT_TRUE(seen.insert(fork.slot).second);
      result.forks.push_back(draw_fork(plan, fork));
    }
    return result;
  }

  std::size_t num_slots() const { return slots_.size(); }
  int num_unseen() const { return num_unseen_; }  // tokens that were planned before they were drawn
  // A test has put another token into the result than the one that was drawn.
  void replace_drawn(SlotId slot, TokenId token) { slots_.at(slot).known.back() = token; }

 private:
  struct Slot {
    std::shared_ptr<const std::vector<TokenId>> prompt;
    std::shared_ptr<const SamplingParams> params;
    std::vector<TokenId> state;
    std::vector<TokenId> known;  // what sampling knows: prompt and drawn tokens
  };

  TokenId drawn_last(SlotId id) {
    const Slot& slot = slots_.at(id);
    ++num_unseen_;
    EXPECT_GT(slot.known.size(), slot.prompt->size()) << "nothing was drawn yet";
    return slot.known.back();
  }

  void remember(const StepPlan::Row& row, std::span<const TokenId> tokens) {
    std::vector<TokenId>& state = slots_.at(row.slot).state;
    if (row.start_pos == 0) state.clear();
    EXPECT_EQ(state.size(), static_cast<std::size_t>(row.start_pos));
    state.insert(state.end(), tokens.begin(), tokens.end());
  }

  void copy(const std::vector<StepPlan::Copy>& copies) {
    for (const StepPlan::Copy& copy : copies) {
      std::vector<TokenId>& memory = memory_[static_cast<std::size_t>(copy.group)];
      const auto from = static_cast<std::size_t>(copy.source) * block_size_;
      const auto to = static_cast<std::size_t>(copy.target) * block_size_;
      for (std::size_t i = 0; i < block_size_; ++i) {  // what is not copied is not there
        memory.at(to + i) = i < static_cast<std::size_t>(copy.tokens) ? memory.at(from + i) : -1;
      }
    }
  }

  StepResult::Row draw_fork(const StepPlan& plan, const StepPlan::Fork& fork) {
    const auto row = static_cast<std::size_t>(fork.row);
    const StepPlan::Row& from = plan.rows.at(row);
    Slot& slot = slots_.at(fork.slot);
    slot.state = slots_.at(from.slot).state;
    const std::vector<TokenId> tokens =
        *slot.prompt;  // read() has compared it with the row's blocks
    EXPECT_EQ(*slots_.at(from.slot).prompt, *slot.prompt);
    EXPECT_EQ(from.start_pos + from.num_tokens, static_cast<std::int32_t>(tokens.size()));
    EXPECT_TRUE(from.sample);
    StepResult::Row result;
    draw(slot, tokens, result);
    return result;
  }

  static void draw(Slot& slot, std::span<const TokenId> tokens, StepResult::Row& result) {
    const bool beam = slot.params->logprobs > 1;              // its tokens are chosen elsewhere
    EXPECT_TRUE(beam || slot.known.size() == tokens.size());  // tests may put others in place
    result.token = fake_next_token(tokens, slot.params->choice);
    slot.known.push_back(result.token);
    result.has_logprobs = slot.params->logprobs >= 0;
    if (result.has_logprobs) result.logprobs = fake_logprobs(tokens, result.token);
    if (slot.params->logprobs > 1) {
      result.logprobs.top = fake_top(tokens, slot.params->logprobs);
    }
  }

  TokenId& cell(const StepPlan& plan, std::size_t g, std::size_t row, std::size_t pos) {
    const auto begin = static_cast<std::size_t>(plan.table_begin[g].at(row));
    const auto end = static_cast<std::size_t>(plan.table_begin[g].at(row + 1));
    const std::size_t entry = begin + pos / block_size_;
    EXPECT_LT(entry, end);
    const auto block = static_cast<std::size_t>(plan.block_table[g].at(entry));
    return memory_[g].at(block * block_size_ + pos % block_size_);
  }

  void store(const StepPlan& plan, std::size_t row, std::span<const TokenId> tokens) {
    EXPECT_FALSE(tokens.empty());
    for (std::size_t g = 0; g < memory_.size(); ++g) {
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        cell(plan, g, row, static_cast<std::size_t>(plan.rows[row].start_pos) + i) = tokens[i];
      }
    }
  }

  StepResult::Row read(const StepPlan& plan, std::size_t r) {
    const StepPlan::Row& row = plan.rows[r];
    const auto slot = slots_.find(row.slot);
    EXPECT_TRUE(slot != slots_.end());
    const auto end = static_cast<std::size_t>(row.start_pos + row.num_tokens);
    std::vector<TokenId> tokens;
    if (memory_.empty()) tokens = slot->second.state;
    for (std::size_t pos = 0; pos < end && !memory_.empty(); ++pos) {
      tokens.push_back(cell(plan, 0, r, pos));
      for (std::size_t g = 1; g < memory_.size(); ++g) {
        const auto from_start = static_cast<std::int32_t>(pos) - row.start_pos;
        if (windows_[g] > 0 && from_start <= -windows_[g]) continue;
        EXPECT_EQ(cell(plan, g, r, pos), tokens[pos]);
      }
    }
    if (recurrent_) {
      EXPECT_EQ(slot->second.state, tokens);
    }
    StepResult::Row result;
    if (row.prompt_logprobs) {
      const auto& prompt = *slot->second.prompt;
      for (auto p = static_cast<std::size_t>(row.start_pos + row.logits_begin); p < end; ++p) {
        if (p + 1 >= prompt.size()) break;
        result.prompt_logprobs.push_back(
            fake_logprobs(std::span(tokens).first(p + 1), prompt[p + 1]));
      }
    }
    if (row.sample) {
      EXPECT_LT(row.logits_begin, row.num_tokens);
      draw(slot->second, tokens, result);
    }
    return result;
  }

  std::size_t block_size_;
  bool recurrent_;
  std::vector<std::vector<TokenId>> snapshots_;  // the tokens of each
  std::vector<std::int32_t> windows_;            // by group
  std::vector<std::vector<TokenId>>
      memory_;  // [group][block * block_size + offset]: token stored there
  std::map<SlotId, Slot> slots_;
  int num_unseen_ = 0;
};

struct Output {
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs, prompt_logprobs;
  int num_prompt_logprobs_deliveries = 0;
  std::optional<FinishReason> finish;
  std::optional<TokenId> stop_token;
  std::int32_t cached_tokens = 0, completion_tokens = 0;
};

inline SchedulerOptions scheduler_options(std::vector<std::int32_t> num_blocks,
                                          std::int32_t block_size = 4) {
  SchedulerOptions options;
  options.max_model_len = 256;
  options.kv.block_size = block_size;
  for (const std::int32_t n : num_blocks) options.kv.groups.push_back({n, 0, false});
  return options;
}

inline Request make_request(std::uint64_t id, std::vector<TokenId> prompt, std::int32_t max_tokens,
                            SamplingParams sampling = {}) {
  Request request;
  request.id = RequestId(id);
  request.prompt = std::make_shared<const std::vector<TokenId>>(std::move(prompt));
  request.sampling = std::make_shared<const SamplingParams>(std::move(sampling));
  request.stop.max_tokens = max_tokens;
  return request;
}

// The i-th of several choices for the request's prompt.
inline Request make_choice(const Request& first, std::uint32_t choice) {
  Request request = first;
  request.id = RequestId(first.id.value + choice);
  request.family = first.id;
  SamplingParams sampling = *first.sampling;
  sampling.choice = choice;
  request.sampling = std::make_shared<const SamplingParams>(std::move(sampling));
  return request;
}

// What the request gives on an engine that does nothing else and forgets nothing.
inline Output expected_output(const Request& request, std::int32_t max_len) {
  Output output;
  std::vector<TokenId> tokens = *request.prompt;
  if (request.sampling->prompt_logprobs >= 0) {
    for (std::size_t p = 0; p + 1 < tokens.size(); ++p) {
      output.prompt_logprobs.push_back(
          fake_logprobs(std::span(tokens).first(p + 1), tokens[p + 1]));
    }
  }
  const auto in = [](const std::vector<TokenId>& ids, TokenId id) {
    return std::ranges::count(ids, id) > 0;
  };
  output.finish = FinishReason::kLength;
  while (static_cast<std::int32_t>(output.tokens.size()) < request.stop.max_tokens) {
    const TokenId next = fake_next_token(tokens, request.sampling->choice);
    tokens.push_back(next);
    output.tokens.push_back(next);
    if (static_cast<std::int32_t>(output.tokens.size()) >= request.sampling->min_tokens) {
      const bool eos = !request.stop.ignore_eos && in(request.stop.eos_ids, next);
      if (eos || in(request.stop.stop_token_ids, next)) {
        output.finish = FinishReason::kStop;
        if (!eos) output.stop_token = next;
        break;
      }
    }
    if (static_cast<std::int32_t>(tokens.size()) >= max_len) break;
  }
  return output;
}

// A scheduler, a device, and what came out of them.
class Rig {
 public:
  explicit Rig(const SchedulerOptions& options) : scheduler(options), executor(options.kv) {}

  StepPlan plan() { return scheduler.plan(0, {}); }
  void apply(const StepPlan& plan, const StepResult& result) {
    for (SequenceUpdate& update : scheduler.apply(plan, result, 0)) record(std::move(update));
    expect_intact();
  }
  // As the engine does it: with async scheduling the next step is planned, if it can be, before
  // this one's result is looked at.
  StepPlan step() {
    StepPlan current = ahead_ ? *std::exchange(ahead_, std::nullopt) : plan();
    if (scheduler.can_plan_ahead()) ahead_ = plan();
    apply(current, executor.run(current));
    if (!ahead_) return current;
    ++num_planned_ahead;
    if (ahead_->rows.empty()) {  // nothing to compute: it only tells of slots
      apply(*ahead_, executor.run(*ahead_));
      ahead_.reset();
    }
    return current;
  }
  // Until nothing is left to do.
  void run(int max_steps = 100000) {
    while (scheduler.has_work()) {
      ASSERT_GT(max_steps--, 0) << "no end in sight";
      ASSERT_FALSE(step().rows.empty()) << "work, but nothing planned";
    }
    while (ahead_) step();  // surplus tokens
    step();                 // tells the device which slots have ended
    EXPECT_EQ(executor.num_slots(), 0u);
    EXPECT_EQ(scheduler.stats().kv.used_blocks, 0);
  }
  void expect_intact() {
    const Status status = scheduler.check_integrity();
    ASSERT_TRUE(status) << status.error().message;
  }

  Scheduler scheduler;
  FakeExecutor executor;
  std::map<std::uint64_t, Output> outputs;  // by request id
  int num_planned_ahead = 0;

 private:
  void record(SequenceUpdate update) {
    Output& output = outputs[update.id.value];
    EXPECT_FALSE(output.finish) << "an update after the last one";
    EXPECT_EQ(update.first_token, output.tokens.empty() && !update.tokens.empty());
    output.tokens.insert(output.tokens.end(), update.tokens.begin(), update.tokens.end());
    output.logprobs.insert(output.logprobs.end(), update.logprobs.begin(), update.logprobs.end());
    if (update.has_prompt_logprobs) {
      ++output.num_prompt_logprobs_deliveries;
      output.prompt_logprobs = std::move(update.prompt_logprobs);
    }
    output.finish = update.finish;
    output.stop_token = update.stop_token;
    output.cached_tokens = update.cached_tokens;
    output.completion_tokens = update.completion_tokens;
  }

  std::optional<StepPlan> ahead_;
};

inline void expect_same(const Output& got, const Output& want, const Request& request) {
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.finish, want.finish);
  EXPECT_EQ(got.stop_token, want.stop_token);
  EXPECT_EQ(got.completion_tokens, static_cast<std::int32_t>(want.tokens.size()));
  EXPECT_EQ(got.num_prompt_logprobs_deliveries, request.sampling->prompt_logprobs >= 0 ? 1 : 0);
  ASSERT_EQ(got.prompt_logprobs.size(), want.prompt_logprobs.size());
  for (std::size_t i = 0; i < got.prompt_logprobs.size(); ++i) {
    EXPECT_EQ(got.prompt_logprobs[i].token, want.prompt_logprobs[i].token);
    EXPECT_EQ(got.prompt_logprobs[i].logprob, want.prompt_logprobs[i].logprob);
  }
  if (request.sampling->logprobs < 0) return;
  ASSERT_EQ(got.logprobs.size(), got.tokens.size());
  for (std::size_t i = 0; i < got.tokens.size(); ++i)
    EXPECT_EQ(got.logprobs[i].token, got.tokens[i]);
}

}  // namespace quire
