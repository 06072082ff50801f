// `quire bench-logits`: next-token logits of given tokens, for measuring what quantized arithmetic
// costs in quality. The tokens are cut into windows, each computed from an empty cache; rows of a
// window's second half are written, but for the last (llama.cpp's perplexity tool does the same).
#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/load.h"
#include "base/log.h"

namespace quire {
namespace {

struct LogitsFlags {
  EngineFlags engine;
  std::string tokens, out;
  int window = 512;
};

Result<std::vector<TokenId>> read_tokens(const LogitsFlags& flags, std::int64_t vocab_size) {
  std::ifstream in(flags.tokens, std::ios::binary | std::ios::ate);
  if (!in) return make_error(ErrorCode::kNotFound, "cannot read --tokens {}", flags.tokens);
  const auto window_bytes = static_cast<std::size_t>(flags.window) * sizeof(TokenId);
  const std::size_t bytes = static_cast<std::size_t>(in.tellg()) / window_bytes * window_bytes;
  std::vector<TokenId> tokens(bytes / sizeof(TokenId));
  if (tokens.empty())
    return make_error(ErrorCode::kInvalidArgument, "{} holds fewer than {} tokens (4 bytes each)",
                      flags.tokens, flags.window);
  in.seekg(0);
  in.read(reinterpret_cast<char*>(tokens.data()), static_cast<std::streamsize>(bytes));
  for (TokenId token : tokens) {
    if (token < 0 || token >= vocab_size)
      return make_error(ErrorCode::kInvalidArgument, "{}: token {} is not in 0 to {}", flags.tokens,
                        token, vocab_size - 1);
  }
  return tokens;
}

// One window from position 0 in the first blocks, its rows from the middle on.
StepPlan plan_window(const TokenId* tokens, int window, int block_size) {
  StepPlan plan;
  plan.rows.push_back({SlotId{0}, 0, window, window / 2, false, false});
  plan.token_ids.assign(tokens, tokens + window);
  const int blocks = (window + block_size - 1) / block_size;
  plan.block_table.emplace_back(static_cast<std::size_t>(blocks));
  std::iota(plan.block_table[0].begin(), plan.block_table[0].end(), 0);
  plan.table_begin.push_back({0, blocks});
  return plan;
}

int run_logits(const LogitsFlags& flags) {
  set_log_level(LogLevel::kWarning);
  EngineFlags engine = flags.engine;
  const int blocks = (flags.window + engine.block_size - 1) / engine.block_size;
  engine.num_gpu_blocks_override = blocks;
  engine.max_model_len = std::to_string(blocks * engine.block_size);
  engine.max_num_batched_tokens = flags.window;
  Result<LoadedModel> model = load_model(engine);
  if (!model) return fail(model.error());
  const std::int64_t vocab_size = model->config.vocab_size;
  const auto tokens = read_tokens(flags, vocab_size);
  if (!tokens) return fail(tokens.error());
  std::ofstream out(flags.out, std::ios::binary);
  ModelRunner& runner = *model->runner;
  runner.set_logits_hook([&](const StepPlan&, std::span<const std::int32_t>,
                             std::span<const std::int32_t> positions, const float* logits) {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] == flags.window - 1) continue;
      out.write(reinterpret_cast<const char*>(logits + static_cast<std::int64_t>(i) * vocab_size),
                static_cast<std::streamsize>(vocab_size) * std::streamsize{sizeof(float)});
    }
  });
  const auto window = static_cast<std::size_t>(flags.window);
  for (std::size_t begin = 0; begin < tokens->size(); begin += window) {
    const StepPlan plan = plan_window(tokens->data() + begin, flags.window, engine.block_size);
    runner.submit(plan);
    runner.sample({});
    runner.wait();
  }
  out.close();
  if (!out) return fail({ErrorCode::kInternal, "cannot write --out " + flags.out, {}, 0});
  return 0;
}

}  // namespace

Command add_bench_logits(CLI::App& command) {
  auto flags = std::make_shared<LogitsFlags>();
  add_engine_flags(command, flags->engine);
  command.add_option("--tokens", flags->tokens, "File of token ids, int32")->required();
  command.add_option("--out", flags->out, "File for logits, f32 [rows, vocabulary]")->required();
  command.add_option("--window", flags->window, "Tokens computed together, from an empty cache")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  return [flags] { return run_logits(*flags); };
}

}  // namespace quire
