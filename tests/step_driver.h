// Drives a loaded model step by step, without threads: what the end-to-end tests share.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "app/load.h"
#include "base/source_path.h"
#include "engine/scheduler.h"

namespace quire {

// Loads or fails the test. Small defaults: 64 blocks of 32 tokens.
LoadedModel load_for_test(const std::string& relative, const std::string& dtype,
                          const EngineFlags& base = {});

// logits[position] = the row of logits at that position, for one sequence.
using LogitsByPosition = std::map<std::int32_t, std::vector<float>>;

// Runs the prompt in one step and returns every row of logits; then draws `greedy` tokens.
struct PlainRun {
  LogitsByPosition logits;
  std::vector<TokenId> tokens;
};
PlainRun run_plain(ModelRunner& runner, std::span<const TokenId> prompt, int greedy);

// One request to be followed among others.
struct FollowOptions {
  std::int32_t max_num_batched_tokens = 512;
  std::int32_t num_blocks = 64;
  std::int32_t block_size = 32;
  bool prefix_caching = true;
  std::int32_t num_snapshots = 64, snapshot_interval = 32;  // of recurrent state
  int others = 0;      // requests that join and leave meanwhile
  int lead_steps = 0;  // steps that the others run before the followed one comes
  std::uint64_t seed = 1;
  bool async = false;  // steps are planned ahead where they can be
};
struct Followed {
  LogitsByPosition logits;  // of the rows from which tokens were drawn
  std::vector<TokenId> tokens;
  std::int64_t preemptions = 0, planned_ahead = 0;
  std::int32_t cached_tokens = 0;
};
SchedulerOptions scheduler_options(const ModelRunner& runner, std::int32_t max_model_len,
                                   const FollowOptions& options);
// Scheduler and executor together, until everything has finished. Checks integrity after every
// step.
Followed run_followed(ModelRunner& runner, std::int32_t max_model_len, std::vector<TokenId> prompt,
                      const SamplingParams& sampling, int max_tokens, const FollowOptions& options);

// Of the tables of kernels that this machine can run, the reference first.
std::vector<std::string> kernel_table_names();
// 100 tokens of the tiny models' vocabularies.
std::vector<TokenId> long_prompt();
// The same tokens, and the same bits at every position whose logits both have.
void expect_same_bits(const Followed& want, const Followed& got, const std::string& what);

}  // namespace quire
