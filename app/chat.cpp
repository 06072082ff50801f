// `quire chat`: an interactive conversation on the terminal. Ctrl-C stops the answer only; end of
// input, or Ctrl-C at the prompt, ends the program.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "app/ask.h"
#include "app/commands.h"
#include "base/log.h"

namespace quire {
namespace {

struct ChatFlags {
  EngineFlags engine;
  AskOptions ask;
  std::string system;
  bool verbose = false;
};

std::atomic<bool> g_interrupted{false};  // set by SIGINT while an answer runs
void on_interrupt(int) { g_interrupted = true; }

void set_interrupt(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigaction(SIGINT, &action, nullptr);
}

// One turn: renders, asks, prints, and adds the answer to the messages.
Status answer(Engine& engine, const LoadedModel& model, const ChatFlags& flags,
              boost::json::array& messages) {
  ChatTemplate::Input input;
  const std::string messages_json = boost::json::serialize(messages);
  input.messages_json = messages_json;
  QUIRE_ASSIGN(const std::string rendered, model.chat_template->render(input));
  QUIRE_ASSIGN(std::vector<TokenId> prompt, model.tokenizer->encode(rendered, false));
  std::string text;
  g_interrupted = false;
  set_interrupt(on_interrupt);
  const Result<AskResult> result = ask(
      engine, model, std::move(prompt), flags.ask,
      [&](std::string_view piece) {
        text += piece;
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
      },
      &g_interrupted);
  set_interrupt(SIG_DFL);
  if (!result) return tl::unexpected(result.error());
  std::fputs(result->finish == FinishReason::kAbort ? " [stopped]\n" : "\n", stdout);
  if (flags.verbose)
    std::fprintf(stderr, "[%d prompt tokens, %d tokens, first after %.3f s, %.3f s in all]\n",
                 result->prompt_tokens, result->completion_tokens, result->first_token_s,
                 result->total_s);
  messages.push_back(boost::json::object{{"role", "assistant"}, {"content", text}});
  return {};
}

int run_chat(const ChatFlags& flags) {
  set_log_level(flags.verbose ? LogLevel::kInfo : LogLevel::kWarning);
  if (Status status = check_ask(flags.ask); !status) return fail(status.error());
  EngineFlags engine_flags = flags.engine;
  engine_flags.max_num_seqs = 1;
  Result<LoadedModel> model = load_model(engine_flags);
  if (!model) return fail(model.error());
  if (!model->chat_template)
    return fail(
        {ErrorCode::kUnsupported,
         "this model has no chat template: give one with --chat-template, or use `quire generate`",
         ""});
  Result<std::unique_ptr<Engine>> engine = start_engine(*model, engine_flags, nullptr);
  if (!engine) return fail(engine.error());
  boost::json::array messages;
  const auto begin_conversation = [&] {
    messages.clear();
    if (!flags.system.empty())
      messages.push_back(boost::json::object{{"role", "system"}, {"content", flags.system}});
  };
  begin_conversation();
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal)
    std::fputs("Type a message. /new starts over, /exit ends, Ctrl-C stops an answer.\n", stdout);
  std::string line;
  while (true) {
    if (terminal) std::fputs("> ", stdout);
    std::fflush(stdout);
    if (!std::getline(std::cin, line) || line == "/exit") break;
    if (line.empty()) continue;
    if (line == "/new") {
      begin_conversation();
      continue;
    }
    messages.push_back(boost::json::object{{"role", "user"}, {"content", line}});
    if (const Status status = answer(**engine, *model, flags, messages); !status) {
      fail(status.error());
      messages.pop_back();
    }
  }
  return 0;
}

}  // namespace

Command add_chat(CLI::App& command) {
  auto flags = std::make_shared<ChatFlags>();
  flags->ask.temperature = 0.7;
  flags->ask.top_p = 0.95;
  add_engine_flags(command, flags->engine);
  command.add_option("--system", flags->system, "System message");
  command
      .add_option("-n,--max-tokens", flags->ask.max_tokens,
                  "Most tokens of an answer; -1: to the end of the context")
      ->capture_default_str();
  command.add_option("--temperature", flags->ask.temperature, "0: greedy")->capture_default_str();
  command.add_option("--top-p", flags->ask.top_p)->capture_default_str();
  command.add_option("--top-k", flags->ask.top_k, "0: off")->capture_default_str();
  command.add_flag("--verbose", flags->verbose, "Show loading and times");
  return [flags] {
    flags->ask.seed = flags->engine.seed;
    return run_chat(*flags);
  };
}

}  // namespace quire
