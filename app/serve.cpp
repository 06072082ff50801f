// `quire serve`: loads a model, starts the engine and the HTTP server, and waits for a signal.
// SIGTERM or SIGINT: no new requests, what runs is finished (at most --shutdown-timeout), exit 0. A
// second signal ends at once.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "app/commands.h"
#include "app/flag_checks.h"
#include "app/load.h"
#include "app/profile.h"
#include "app/server_parts.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/api_server.h"
#include "server/http/http_server.h"

namespace quire {
namespace {

// What closing connections may take after --shutdown-timeout.
constexpr double kShutdownGraceS = 5;

struct ServeFlags {
  EngineFlags engine;
  ServerOptions server;
  double shutdown_timeout_s = 30;
  std::string allowed_origins, allowed_methods,
      allowed_headers;  // JSON lists or plain names, as vLLM takes them
  std::string log_level = "info";
};

// '["a", "b"]', 'a,b' or 'a'.
std::vector<std::string> parse_list(const std::string& text) {
  std::vector<std::string> items;
  std::string item;
  for (const char c : text + ",") {
    if (c == ',') {
      if (!item.empty()) items.push_back(item);
      item.clear();
    } else if (c != '[' && c != ']' && c != '"' && c != '\'' && c != ' ') {
      item += c;
    }
  }
  return items;
}

// The ending signals go to one thread of this class. While the model loads, and from the second
// signal on, they end the process at once; else the first one ends wait().
class EndSignals {
 public:
  EndSignals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);  // in this and every later thread
    std::signal(SIGPIPE, SIG_IGN);
    std::thread([this, set] {
      while (true) {
        int signal = 0;
        sigwait(&set, &signal);
        if (!serving_.exchange(false)) {
          log_warning("signal {}: ending at once", signal);
          ProfileRun::finish();
          _exit(0);
        }
        first_ = signal;
        first_.notify_all();
      }
    }).detach();
  }
  int wait() {
    serving_ = true;
    first_.wait(0);
    return first_;
  }

 private:
  std::atomic<bool> serving_{false};
  std::atomic<int> first_{0};
};

// Ends the process when shutting down hangs: some seconds after the limit, whatever still runs.
void end_after(double seconds) {
  std::thread([seconds] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    log_error("shutting down took longer than its limit: ending at once");
    ProfileRun::finish();
    _exit(0);
  }).detach();
}

void add_server_flags(CLI::App& command, ServeFlags& flags) {
  ServerOptions& server = flags.server;
  add_protocol_flags(command, server);
  command.add_option("--host", server.host, "Address to listen on; 0.0.0.0: all")
      ->capture_default_str();
  command.add_option("--port", server.port, "Port; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      .add_option("--api-key", server.api_keys,
                  "Key that clients must give; repeatable (also VLLM_API_KEY)")
      ->allow_extra_args(false);
  command.add_option("--root-path", server.root_path, "Path prefix that a proxy leaves in front");
  command.add_option("--allowed-origins", flags.allowed_origins,
                     "CORS origins, e.g. [\"https://a.example\"] (default: all)");
  command.add_option("--allowed-methods", flags.allowed_methods, "CORS methods (default: all)");
  command.add_option("--allowed-headers", flags.allowed_headers, "CORS headers (default: all)");
  command.add_flag("--allow-credentials", server.cors.allow_credentials, "CORS: allow credentials");
  command.add_flag("--enable-force-include-usage", server.enable_force_include_usage,
                   "End every stream with usage");
  command.add_flag("--enable-request-id-headers", server.enable_request_id_headers,
                   "Answer with X-Request-Id");
  command
      .add_option("--stream-interval", server.stream_interval,
                  "Tokens of a stream's chunk; the first and the last come at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_flag("--enable-tokenizer-info-endpoint", server.enable_tokenizer_info,
                   "Answer GET /tokenizer_info");
  command.add_flag("--disable-fastapi-docs", server.disable_docs, "No /openapi.json and no /docs");
  command.add_flag("--enable-offline-docs", server.offline_docs,
                   "Accepted: /docs is always offline");
  command.add_flag_function(
      "--disable-log-requests,--no-enable-log-requests,--disable-uvicorn-access-log",
      [](std::int64_t) {}, "Accepted: requests are not logged one by one");
  add_profile_flag(command, &server.profile);
  command.add_option("--io-threads", server.io_threads, "Threads of the HTTP server")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_option("--text-threads", server.text_threads, "Threads for templates and tokenizing")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      .add_option("--shutdown-timeout", flags.shutdown_timeout_s,
                  "Seconds that running requests get at the end")
      ->check(finite_range(0.0, 86400.0))
      ->capture_default_str();
  command.add_option("--log-level", flags.log_level, "debug, info, warning, error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
}

// Who may talk to the server.
void complete_access(ServerOptions& options, const ServeFlags& flags) {
  if (const char* key = std::getenv("VLLM_API_KEY"); key && *key && options.api_keys.empty())
    options.api_keys.push_back(key);
  if (!flags.allowed_origins.empty()) options.cors.origins = parse_list(flags.allowed_origins);
  if (!flags.allowed_methods.empty()) options.cors.methods = parse_list(flags.allowed_methods);
  if (!flags.allowed_headers.empty()) options.cors.headers = parse_list(flags.allowed_headers);
}

int run_serve(const ServeFlags& flags) {
  const double begin = now_s();
  set_log_level(flags.log_level);
  // Never destroyed: its thread lives as long as the process.
  static EndSignals& signals = *new EndSignals();
  const ProfileRun profile;
  if (Status status = ProfileRun::start(flags.server.profile, ProfileRun::Signals::kLeft); !status)
    return fail(status.error());
  if (Status status = check_flag_values(flags.server); !status) return fail(status.error());
  if (Status status = check_address(flags.server.host, flags.server.port); !status)
    return fail(status.error());
  Result<LoadedModel> model = load_model(flags.engine);
  if (!model) return fail(model.error());
  ServerOptions options = flags.server;
  complete_options(options, flags.engine, *model);
  complete_access(options, flags);

  const std::int32_t num_blocks = model->kv.num_blocks.empty() ? 0 : model->kv.num_blocks.front();
  MetricsOptions metrics_options;
  metrics_options.model_name = options.served_model_names.front();
  metrics_options.max_model_len = options.max_model_len;
  metrics_options.cache_config = {
      {"block_size", std::to_string(flags.engine.block_size)},
      {"num_gpu_blocks", std::to_string(num_blocks)},
      {"enable_prefix_caching", model->prefix_caching ? "True" : "False"},
      {"cache_dtype", flags.engine.kv_cache_dtype}};
  ServerMetrics metrics(metrics_options);
  Result<std::unique_ptr<Engine>> engine = start_engine(*model, flags.engine, &metrics);
  if (!engine) return fail(engine.error());
  EngineGenerator generator(engine->get());
  ServedText text(*model);
  Result<std::unique_ptr<ApiServer>> server =
      ApiServer::start(options, {&generator, &text, &metrics});
  if (!server) return fail(server.error());
  log_info("ready: http://{}:{}/v1 serves {} ({:.3f} s since the start)", options.host,
           (*server)->port(), options.served_model_names.front(), now_s() - begin);

  const int signal = signals.wait();
  log_info("{}: taking no new requests, finishing what runs (at most {} s)",
           signal == SIGTERM ? "SIGTERM" : "SIGINT", flags.shutdown_timeout_s);
  end_after(flags.shutdown_timeout_s + kShutdownGraceS);
  const bool answered = (*server)->shutdown(flags.shutdown_timeout_s);
  (*engine)->drain(0);
  log_info("{}", answered ? "all requests were answered; bye"
                          : "the time limit passed; what was left is aborted");
  return 0;
}

}  // namespace

Command add_serve(CLI::App& command) {
  auto flags = std::make_shared<ServeFlags>();
  add_engine_flags(command, flags->engine);
  add_scheduler_flags(command, flags->engine.scheduling);
  add_server_flags(command, *flags);
  return [flags] { return run_serve(*flags); };
}

}  // namespace quire
