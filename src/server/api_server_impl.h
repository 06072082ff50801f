// What ApiServer holds, shared by its two files: api_server.cpp (routing, start and end) and
// api_routes.cpp (what each route does). Handlers run on connections' strands; shutdown on the
// caller's thread.
#pragma once

#include <atomic>
#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "server/api_server.h"
#include "server/http/http_server.h"
#include "server/prepare.h"
#include "server/protocol/openapi.h"
#include "server/text_pool.h"

namespace quire {

using ExchangePtr = std::shared_ptr<Exchange>;

struct ApiServer::Impl {
  Impl(ServerOptions server_options, Parts server_parts, ChatDialect chat_dialect)
      : options(std::move(server_options)),
        parts(server_parts),
        seeds(options.seed),
        dialect(std::move(chat_dialect)),
        context{&options, parts.text, parts.generator, &seeds, &dry_breakers, &dialect},
        compilers(options.text_threads, options.text_queue_length, kCompilerNiceness),
        pool(options.text_threads, options.text_queue_length) {}
  ~Impl() {
    pool.stop();
    compilers.stop();
  }

  struct Route : ApiOperation {  // "{id}" at the end of a path takes the rest
    void (Impl::*handle)(HttpRequest& request, const ExchangePtr& exchange);
  };
  static const std::vector<Route>& routes();

  void handle(HttpRequest request, const ExchangePtr& exchange);
  const Route* find(std::string_view path) const;
  static bool switched_off(const ServerOptions& options, std::string_view path);
  std::string strip_root(const std::string& path) const;

  void models(HttpRequest& request, const ExchangePtr& exchange);
  void model(HttpRequest& request, const ExchangePtr& exchange);
  void completions(HttpRequest& request, const ExchangePtr& exchange);
  void embeddings(HttpRequest& request, const ExchangePtr& exchange);
  void chat(HttpRequest& request, const ExchangePtr& exchange);
  void tokenize(HttpRequest& request, const ExchangePtr& exchange);
  void detokenize(HttpRequest& request, const ExchangePtr& exchange);
  void health(HttpRequest& request, const ExchangePtr& exchange);
  void version(HttpRequest& request, const ExchangePtr& exchange);
  void metrics(HttpRequest& request, const ExchangePtr& exchange);
  void load(HttpRequest& request, const ExchangePtr& exchange);
  void reset_prefix_cache(HttpRequest& request, const ExchangePtr& exchange);
  void start_profile(HttpRequest& request, const ExchangePtr& exchange);
  void stop_profile(HttpRequest& request, const ExchangePtr& exchange);
  void render_completion(HttpRequest& request, const ExchangePtr& exchange);
  void render_chat(HttpRequest& request, const ExchangePtr& exchange);
  void tokenizer_info(HttpRequest& request, const ExchangePtr& exchange);
  void openapi(HttpRequest& request, const ExchangePtr& exchange);
  void docs(HttpRequest& request, const ExchangePtr& exchange);

  using Prepare = Result<PreparedCall> (*)(const ProtocolContext&, std::string_view,
                                           const CallInfo&);
  using TextJob = Result<std::string> (*)(const ProtocolContext&, std::string_view);
  void generate(HttpRequest& request, const ExchangePtr& exchange, Prepare prepare);
  void text_answer(HttpRequest& request, const ExchangePtr& exchange, TextJob job);
  void on_pool(const ExchangePtr& exchange, std::function<void()> task);
  // What comes after a task's last grammar: all that takes locks of the engine.
  using Finish = std::function<void()>;
  using CompilingTask = std::function<Result<Finish>(const ProtocolContext& context)>;
  // On the pool; when `task` lacks a grammar, again where compiling holds up nobody. Its finish is
  // on the pool always: a thread that stands back behind others holds no lock of theirs. Errors are
  // answered.
  void on_pools(const ExchangePtr& exchange, CompilingTask task);
  boost::json::object model_card(const std::string& name) const;

  ServerOptions options;
  Parts parts;
  const std::string openapi_text = ApiServer::openapi(options);
  SeedSource seeds;
  DryBreakerCache dry_breakers;
  ChatDialect dialect;
  ProtocolContext context;
  // The pool's tasks may go on in the compilers, and come back: both are stopped before one goes.
  TextPool compilers, pool;
  static constexpr int kCompilerNiceness = 10;
  const std::int64_t created = unix_time_s();
  std::atomic<bool> draining = false;
  // Shared with calls: the last of them may outlive the server by a moment.
  std::shared_ptr<std::atomic<std::int64_t>> in_flight =
      std::make_shared<std::atomic<std::int64_t>>(0);
  std::mutex shutdown_mutex;
  bool shut_down = false, all_answered = true;
  std::unique_ptr<HttpServer> http;
};

}  // namespace quire
