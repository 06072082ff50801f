// `quire bench-engine`: the engine without HTTP, for side-by-side measurements. Prints one line of
// JSON: prompt processing of one sequence (`prefill` tokens), then `batch` sequences that decode
// `decode` tokens each. Prefix caching is off.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/load.h"
#include "app/profile.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/trace.h"

namespace quire {
namespace {

struct BenchFlags {
  EngineFlags engine;
  int prefill = 512, decode = 64, batch = 1, context = 64, repeat = 3;
  SamplingParams sampling;
  std::string profile;
  bool verbose = false;
};

// Drives the executor directly with plans: no threads in between.
class Driver {
 public:
  // Sequence s has the blocks from s * blocks_per_sequence on.
  Driver(ModelRunner& runner, std::int32_t block_size, std::int64_t vocab, int batch,
         int blocks_per_sequence, const SamplingParams& sampling)
      : runner_(runner),
        block_size_(block_size),
        vocab_(vocab),
        batch_(batch),
        blocks_per_sequence_(blocks_per_sequence) {
    auto params = std::make_shared<SamplingParams>(sampling);
    for (int s = 0; s < batch_; ++s)
      pending_.push_back({SlotId{s}, params, std::make_shared<std::vector<TokenId>>()});
  }
  // Seconds to compute `tokens` tokens of sequences [0, sequences) from position `start`.
  double step(int sequences, int start, int tokens) {
    StepPlan plan;
    plan.added = std::move(pending_);
    pending_.clear();
    plan.copies = std::move(copies_);
    copies_.clear();
    plan.slot_copies = std::move(slot_copies_);
    slot_copies_.clear();
    plan.block_table.resize(1);
    plan.table_begin.assign(1, {0});
    for (int s = 0; s < sequences; ++s) {
      plan.rows.push_back({SlotId{s}, start, tokens, tokens - 1, true, false});
      for (int i = 0; i < tokens; ++i)
        plan.token_ids.push_back(
            static_cast<TokenId>((s * 7919 + (start + i) * 104729 + 13) % vocab_));
      const int blocks = (start + tokens + block_size_ - 1) / block_size_;
      for (int b = 0; b < blocks; ++b) plan.block_table[0].push_back(s * blocks_per_sequence_ + b);
      plan.table_begin[0].push_back(static_cast<std::int32_t>(plan.block_table[0].size()));
    }
    const TraceSpan span(TraceKind::kStep, plan.num_tokens());
    const double begin = now_s();
    runner_.submit(plan);
    runner_.sample({});
    runner_.wait();
    return now_s() - begin;
  }
  // Puts `tokens` tokens of context into the cache of every sequence: computed once, in chunks,
  // then copied, so that each one reads memory of its own.
  void fill(int tokens, int chunk) {
    for (int start = 0; start < tokens; start += chunk)
      step(1, start, std::min(chunk, tokens - start));
    const int blocks = (tokens + block_size_ - 1) / block_size_;
    for (int s = 1; s < batch_; ++s) {
      slot_copies_.push_back({SlotId{0}, SlotId{s}});
      for (int b = 0; b < blocks; ++b)
        copies_.push_back(
            {0, b, s * blocks_per_sequence_ + b, std::min(block_size_, tokens - b * block_size_)});
    }
    step(1, tokens, 1);  // carries the copies; the first measured step overwrites its token
  }

 private:
  ModelRunner& runner_;
  int block_size_;
  std::int64_t vocab_;
  int batch_, blocks_per_sequence_;
  std::vector<StepPlan::AddedSlot> pending_;
  std::vector<StepPlan::Copy> copies_;  // for the next step
  std::vector<StepPlan::SlotCopy> slot_copies_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run_bench(const BenchFlags& flags) {
  set_log_level(flags.verbose ? LogLevel::kInfo : LogLevel::kWarning);
  const ProfileRun profile;
  if (Status status = ProfileRun::start(flags.profile, ProfileRun::Signals::kEndProcess); !status)
    return fail(status.error());
  EngineFlags engine = flags.engine;
  const int block = engine.block_size;
  const int per_sequence =
      (std::max(flags.prefill, flags.context + std::max(flags.decode, 1)) + block - 1) / block;
  engine.num_gpu_blocks_override = per_sequence * flags.batch;
  engine.max_model_len = std::to_string(per_sequence * block);
  engine.max_num_batched_tokens =
      std::max({engine.max_num_batched_tokens, flags.prefill, flags.batch});
  const int chunk = engine.max_num_batched_tokens;
  Result<LoadedModel> model = load_model(engine);
  if (!model) return fail(model.error());
  Driver driver(*model->runner, block, model->config.vocab_size, flags.batch, per_sequence,
                flags.sampling);
  std::vector<double> prefill, decode;
  for (int r = 0; r <= flags.repeat; ++r) {  // the first round warms up
    const double prefill_s = flags.prefill > 0 ? driver.step(1, 0, flags.prefill) : 1;
    if (flags.decode > 0) driver.fill(flags.context, chunk);
    double decode_s = 0;
    for (int i = 0; i < flags.decode; ++i)
      decode_s += driver.step(flags.batch, flags.context + i, 1);
    if (r == 0) continue;
    prefill.push_back(flags.prefill / prefill_s);
    if (flags.decode > 0) decode.push_back(flags.batch * flags.decode / decode_s);
  }
  std::printf(
      "{\"prefill_tokens\": %d, \"prefill_tok_s\": %.1f, \"batch\": %d, \"decode_tok_s\": %.1f}\n",
      flags.prefill, median(prefill), flags.batch, decode.empty() ? 0.0 : median(decode));
  return 0;
}

}  // namespace

Command add_bench_engine(CLI::App& command) {
  auto flags = std::make_shared<BenchFlags>();
  add_engine_flags(command, flags->engine);
  command.add_option("--prefill", flags->prefill, "Prompt tokens")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command.add_option("--decode", flags->decode, "Tokens per sequence")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command.add_option("--batch", flags->batch, "Sequences that decode together")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--context", flags->context, "Tokens in the cache before decoding")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  flags->sampling.temperature = 0;
  command.add_option("--temperature", flags->sampling.temperature, "0: greedy")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command.add_option("--top-p", flags->sampling.top_p)->check(CLI::Range(0.0, 1.0));
  command.add_option("--top-k", flags->sampling.top_k, "0: off")->check(CLI::Range(0, 1 << 24));
  command.add_option("--repeat", flags->repeat, "Rounds; medians are printed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_profile_flag(command, &flags->profile);
  command.add_flag("--verbose", flags->verbose, "Show loading");
  return [flags] { return run_bench(*flags); };
}

}  // namespace quire
