// `quire generate`: prompt in, text out.
#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "app/ask.h"
#include "app/commands.h"
#include "app/profile.h"
#include "base/log.h"

namespace quire {
namespace {

struct GenerateFlags {
  EngineFlags engine;
  AskOptions ask;
  std::string prompt, profile;
  bool verbose = false;
};

int run_generate(GenerateFlags flags) {
  set_log_level(flags.verbose ? LogLevel::kInfo : LogLevel::kWarning);
  if (Status status = check_ask(flags.ask); !status) return fail(status.error());
  if (flags.prompt.empty()) flags.prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
  const ProfileRun profile;
  if (Status status = ProfileRun::start(flags.profile, ProfileRun::Signals::kEndProcess); !status)
    return fail(status.error());
  flags.engine.max_num_seqs = 1;
  flags.ask.seed = flags.engine.seed;
  Result<LoadedModel> model = load_model(flags.engine);
  if (!model) return fail(model.error());
  Result<std::vector<TokenId>> prompt = model->tokenizer->encode(flags.prompt, true);
  if (!prompt) return fail(prompt.error());
  if (prompt->empty())
    return fail({ErrorCode::kInvalidArgument,
                 "the prompt is empty: give --prompt TEXT or text on stdin", ""});
  Result<std::unique_ptr<Engine>> engine = start_engine(*model, flags.engine, nullptr);
  if (!engine) return fail(engine.error());
  std::atomic<bool> cancel{false};  // nobody can read the rest
  const Result<AskResult> result = ask(
      **engine, *model, std::move(*prompt), flags.ask,
      [&cancel](std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        if (std::fflush(stdout) != 0) cancel = true;
      },
      &cancel);
  if (!result) return fail(result.error());
  std::fputc('\n', stdout);
  if (flags.verbose) {
    const double decode_s = result->total_s - result->first_token_s;
    std::fprintf(
        stderr, "prompt: %d tokens, %.1f tok/s; output: %d tokens, %.1f tok/s; finish: %s\n",
        result->prompt_tokens, result->prompt_tokens / result->first_token_s,
        result->completion_tokens, decode_s > 0 ? (result->completion_tokens - 1) / decode_s : 0.0,
        std::string(finish_reason_name(result->finish)).c_str());
  }
  return 0;
}

}  // namespace

Command add_generate(CLI::App& command) {
  auto flags = std::make_shared<GenerateFlags>();
  flags->ask.max_tokens = 128;
  add_engine_flags(command, flags->engine);
  command.add_option("-p,--prompt", flags->prompt, "The prompt (default: standard input)");
  command
      .add_option("-n,--max-tokens", flags->ask.max_tokens,
                  "Most tokens to generate; -1: to the end of the context")
      ->capture_default_str();
  command.add_option("--temperature", flags->ask.temperature, "0: greedy")->capture_default_str();
  command.add_option("--top-p", flags->ask.top_p)->capture_default_str();
  command.add_option("--top-k", flags->ask.top_k, "0: off")->capture_default_str();
  command.add_option("--stop", flags->ask.stop, "Text that ends the output (repeatable)");
  command.add_flag("--ignore-eos", flags->ask.ignore_eos, "Go on after the end token");
  add_profile_flag(command, &flags->profile);
  command.add_flag("--verbose", flags->verbose, "Show loading and tok/s");
  return [flags] { return run_generate(*flags); };
}

}  // namespace quire
