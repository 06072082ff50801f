// `quire run-batch`: answers a file of requests in OpenAI's batch format, each as the server would.
// Lines are answered side by side and written in their order; a run that was cut off goes on where
// it ended. What a line draws depends on --seed and its number alone.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "app/batch_file.h"
#include "app/commands.h"
#include "app/load.h"
#include "app/server_parts.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/http/request_text.h"
#include "server/offline_call.h"

namespace quire {
namespace {

constexpr std::size_t kMaxCallers = 512;
// Answers that wait for an earlier line: beyond it callers wait too.
constexpr std::size_t kMaxAhead = 8192;

struct BatchFlags {
  EngineFlags engine;
  ServerOptions server;
  std::string input, output;
  std::string log_level = "info";
};

// Hands out lines with their numbers, blank ones left out.
class LineSource {
 public:
  LineSource(const std::string& path, std::size_t skip) : in_(path), skip_(skip) {}
  bool next(std::string* line, std::size_t* number) {
    std::lock_guard lock(mutex_);
    while (std::getline(in_, *line)) {
      if (line->find_first_not_of(" \t\r\n") == std::string::npos) continue;
      *number = count_++;
      if (*number >= skip_) return true;
    }
    return false;
  }

 private:
  std::mutex mutex_;
  std::ifstream in_;
  std::size_t skip_, count_ = 0;
};

struct Batch {
  OfflineCaller* caller;
  LineSource* lines;
  OrderedWriter* writer;
  std::uint64_t seed;
  std::atomic<std::size_t> answered{0}, failed{0};
};

// Odd constants of SplitMix64: near seeds and numbers give far results.
std::uint64_t seed_of_line(std::uint64_t seed, std::size_t number) {
  std::uint64_t x = seed + 0x9E3779B97F4A7C15u * (number + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::string answer_line(Batch& batch, const std::string& line, std::size_t number) {
  const std::string id = "batch_req_" + random_hex(12);
  std::string custom_id;
  const auto parsed = parse_batch_line(line, &custom_id);
  if (!parsed) {
    ++batch.failed;
    return error_line(id, custom_id,
                      fmt::format("line {}: {}", number + 1, parsed.error().message));
  }
  const std::string request_id = random_hex(12);
  const OfflineReply reply =
      batch.caller->call(parsed->url, parsed->body, request_id, seed_of_line(batch.seed, number));
  ++(reply.status == 200 ? batch.answered : batch.failed);
  return reply_line(id, custom_id, reply.status, request_id, reply.body);
}

void answer_lines(Batch& batch) {
  std::string line;
  std::size_t number = 0;
  while (!batch.writer->failed() && batch.lines->next(&line, &number)) {
    batch.writer->write(number, answer_line(batch, line, number));
    batch.writer->wait_within(number, kMaxAhead);
  }
}

Result<std::size_t> open_output(const BatchFlags& flags, std::ofstream* out) {
  std::error_code ignored;
  if (std::filesystem::is_directory(flags.input, ignored))
    return make_error(ErrorCode::kNotFound, "-i {}: is a folder, not a file", flags.input);
  if (!std::ifstream(flags.input))
    return make_error(ErrorCode::kNotFound, "-i {}: cannot be read", flags.input);
  QUIRE_ASSIGN(const std::size_t done, lines_done(flags.input, flags.output));
  out->open(flags.output, std::ios::binary | std::ios::app);
  if (!*out) return make_error(ErrorCode::kBadFile, "-o {}: cannot be written", flags.output);
  return done;
}

int run_batch(const BatchFlags& flags) {
  set_log_level(flags.log_level);
  if (Status status = check_flag_values(flags.server); !status) return fail(status.error());
  std::ofstream out;
  const Result<std::size_t> done = open_output(flags, &out);
  if (!done) return fail(done.error());
  if (*done > 0) log_info("{} has {} answers already: going on behind them", flags.output, *done);
  Result<LoadedModel> model = load_model(flags.engine);
  if (!model) return fail(model.error());
  ServerOptions options = flags.server;
  complete_options(options, flags.engine, *model);
  const ServedText text(*model);
  if (auto status = check_options(&options, text.vocab_size()); !status)
    return fail(status.error());
  Result<std::unique_ptr<Engine>> engine = start_engine(*model, flags.engine, nullptr);
  if (!engine) return fail(engine.error());

  EngineGenerator generator(engine->get());
  OfflineCaller caller(&options, &text, &generator);
  LineSource lines(flags.input, *done);
  OrderedWriter writer(&out, *done);
  Batch batch{&caller, &lines, &writer, flags.engine.seed};
  const double begin = now_s();
  // Each waits for its own line; twice as many as run, so that the engine never lacks one.
  std::vector<std::thread> callers;
  const auto count =
      std::min<std::size_t>(kMaxCallers, 2 * static_cast<std::size_t>(flags.engine.max_num_seqs));
  for (std::size_t i = 0; i < count; ++i) callers.emplace_back([&batch] { answer_lines(batch); });
  for (std::thread& thread : callers) thread.join();
  if (writer.failed()) {
    return fail({ErrorCode::kBadFile,
                 fmt::format("-o {}: writing failed; run again to go on", flags.output), ""});
  }
  log_info("{} lines answered, {} of them with an error, {:.1f} s", batch.answered + batch.failed,
           batch.failed.load(), now_s() - begin);
  return 0;
}

}  // namespace

Command add_run_batch(CLI::App& command) {
  auto flags = std::make_shared<BatchFlags>();
  add_engine_flags(command, flags->engine);
  add_protocol_flags(command, flags->server);
  command.add_option("-i,--input-file", flags->input, "Requests, one JSON object a line")
      ->required();
  command
      .add_option("-o,--output-file", flags->output,
                  "Answers in the same order; one that is there already is gone on with")
      ->required();
  command.add_option("--log-level", flags->log_level, "debug, info, warning, error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  return [flags] { return run_batch(*flags); };
}

}  // namespace quire
