#include "server/api_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/generation_call.h"
#include "server/http/access.h"
#include "server/http/http_server.h"
#include "server/http/request_text.h"
#include "server/prepare.h"
#include "server/protocol/error_body.h"
#include "server/text_pool.h"

namespace quire {

namespace json = boost::json;
using ExchangePtr = std::shared_ptr<Exchange>;

namespace {

HttpResponse json_response(const json::value& value) {
  HttpResponse out;
  out.body = json::serialize(value);
  return out;
}

Status check_content_type(const HttpRequest& request) {
  const auto value = request.header("content-type");
  const auto media_type = lower_case(value.substr(0, value.find_first_of("; \t")));
  if (media_type == "application/json") return {};
  return make_error(ErrorCode::kUnsupportedMedia, "the content type must be application/json, but it is \"{}\"", value);
}

}  // namespace

struct ApiServer::Impl {
  Impl(ServerOptions server_options, Parts server_parts)
      : options(std::move(server_options)),
        parts(server_parts),
        seeds(options.seed),
        context{&options, parts.text, parts.generator, &seeds},
        pool(options.text_threads, options.text_queue_length) {}

  struct Route {
    std::string_view path;      // "{id}" at the end takes the rest
    std::string_view methods;   // for Allow
    void (Impl::*handle)(HttpRequest& request, const ExchangePtr& exchange);
  };
  static const std::array<Route, 13> kRoutes;

  void handle(HttpRequest request, const ExchangePtr& exchange);
  const Route* find(std::string_view path) const;
  std::string strip_root(const std::string& path) const;

  void models(HttpRequest& request, const ExchangePtr& exchange);
  void model(HttpRequest& request, const ExchangePtr& exchange);
  void completions(HttpRequest& request, const ExchangePtr& exchange);
  void chat(HttpRequest& request, const ExchangePtr& exchange);
  void tokenize(HttpRequest& request, const ExchangePtr& exchange);
  void detokenize(HttpRequest& request, const ExchangePtr& exchange);
  void health(HttpRequest& request, const ExchangePtr& exchange);
  void version(HttpRequest& request, const ExchangePtr& exchange);
  void metrics(HttpRequest& request, const ExchangePtr& exchange);
  void load(HttpRequest& request, const ExchangePtr& exchange);
  void reset_prefix_cache(HttpRequest& request, const ExchangePtr& exchange);

  using Prepare = Result<PreparedCall> (*)(const ProtocolContext&, std::string_view, const CallInfo&);
  using TextJob = Result<std::string> (*)(const ProtocolContext&, std::string_view);
  void generate(HttpRequest& request, const ExchangePtr& exchange, Prepare prepare);
  void text_answer(HttpRequest& request, const ExchangePtr& exchange, TextJob job);
  void on_pool(const ExchangePtr& exchange, std::function<void()> task);
  json::object model_card(const std::string& name) const;

  ServerOptions options;
  Parts parts;
  SeedSource seeds;
  ProtocolContext context;
  TextPool pool;
  const std::int64_t created = unix_time_s();
  std::atomic<bool> draining = false;
  std::atomic<std::int64_t> in_flight = 0;
  std::mutex shutdown_mutex;
  bool shut_down = false, all_answered = true;
  std::unique_ptr<HttpServer> http;
};

const std::array<ApiServer::Impl::Route, 13> ApiServer::Impl::kRoutes{{
    {"/v1/models", "GET, HEAD", &Impl::models},
    {"/v1/models/{id}", "GET, HEAD", &Impl::model},
    {"/v1/completions", "POST", &Impl::completions},
    {"/v1/chat/completions", "POST", &Impl::chat},
    {"/tokenize", "POST", &Impl::tokenize},
    {"/detokenize", "POST", &Impl::detokenize},
    {"/health", "GET, HEAD", &Impl::health},
    {"/ping", "GET, HEAD, POST", &Impl::health},
    {"/version", "GET, HEAD", &Impl::version},
    {"/metrics", "GET, HEAD", &Impl::metrics},
    {"/metrics/", "GET, HEAD", &Impl::metrics},
    {"/load", "GET, HEAD", &Impl::load},
    {"/reset_prefix_cache", "POST", &Impl::reset_prefix_cache},
}};

// ---- routing ----------------------------------------------------------------------------------

std::string ApiServer::Impl::strip_root(const std::string& path) const {
  const auto& root = options.root_path;
  if (root.size() > 1 && path.compare(0, root.size(), root) == 0 && path.size() > root.size()) {
    return path.substr(root.back() == '/' ? root.size() - 1 : root.size());
  }
  return path;
}

const ApiServer::Impl::Route* ApiServer::Impl::find(std::string_view path) const {
  for (const auto& route : kRoutes) {
    const auto brace = route.path.find('{');
    if (brace == std::string_view::npos ? path == route.path
                                        : path.size() > brace && path.substr(0, brace) == route.path.substr(0, brace)) {
      return &route;
    }
  }
  return nullptr;
}

void ApiServer::Impl::handle(HttpRequest request, const ExchangePtr& exchange) {
  request.path = strip_root(request.path);
  const Route* route = find(request.path);
  // Only known methods become labels: a client must not be able to make new ones without end.
  static constexpr std::array<std::string_view, 7> kMethods{"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"};
  const auto* known = std::find(kMethods.begin(), kMethods.end(), request.method);
  exchange->on_reply([this, handler = route == nullptr ? std::string_view("none") : route->path,
                      method = known == kMethods.end() ? std::string_view("other") : *known](int status) {
    parts.metrics->on_http_request(handler, method, status);
  });
  if (options.enable_request_id_headers) {
    const auto given = request.header("x-request-id");
    if (given.empty()) request.headers.emplace_back("x-request-id", random_hex(16));
    exchange->add_header("X-Request-Id", std::string(request.header("x-request-id")));
  }
  if (auto preflight = preflight_answer(options.cors, request)) return exchange->send(std::move(*preflight));
  for (auto& [name, value] : cors_headers(options.cors, request)) exchange->add_header(name, value);

  if (!options.api_keys.empty() && needs_key(request, request.path) &&
      !key_accepted(request.header("authorization"), options.api_keys)) {
    return exchange->send(error_response(
        {ErrorCode::kUnauthorized, "the API key is missing or wrong: send \"Authorization: Bearer KEY\"", ""}));
  }
  if (route == nullptr) {
    return exchange->send(error_response(
        {ErrorCode::kNotFound, fmt::format("there is no {} {}", request.method, request.path.substr(0, 200)), ""}));
  }
  // Methods are separated by ", ": a whole one matches.
  const std::string padded = fmt::format(", {}, ", route->methods);
  if (padded.find(fmt::format(", {}, ", request.method)) == std::string::npos) {
    const bool options_request = request.method == "OPTIONS";
    HttpResponse response = error_response(
        {ErrorCode::kMethodNotAllowed,
         fmt::format("{} is not possible with {}: use {}", request.path.substr(0, 200), request.method, route->methods),
         ""});
    if (options_request) response = HttpResponse{};
    response.headers.emplace_back("Allow", std::string(route->methods) + ", OPTIONS");
    return exchange->send(std::move(response));
  }
  (this->*route->handle)(request, exchange);
}

// ---- generation -------------------------------------------------------------------------------

void ApiServer::Impl::on_pool(const ExchangePtr& exchange, std::function<void()> task) {
  if (draining) {
    return exchange->send(error_response({ErrorCode::kUnavailable, "the server is shutting down", ""}));
  }
  if (!pool.submit(std::move(task))) {
    exchange->send(error_response(
        {ErrorCode::kUnavailable, "too many requests are waiting to be read: try again in a moment", ""}));
  }
}

void ApiServer::Impl::generate(HttpRequest& request, const ExchangePtr& exchange, Prepare prepare) {
  if (auto status = check_content_type(request); !status) return exchange->send(error_response(status.error()));
  CallInfo info;
  info.arrival_s = request.arrival_s;
  info.request_id = std::string(request.header("x-request-id").substr(0, 256));
  if (info.request_id.empty()) info.request_id = random_hex(16);
  ++in_flight;
  auto token = std::shared_ptr<void>(nullptr, [this](void*) { --in_flight; });
  auto body = std::make_shared<std::string>(std::move(request.body));
  on_pool(exchange, [this, exchange, prepare, info, body, token] {
    auto prepared = prepare(context, *body, info);
    if (!prepared) return exchange->send(error_response(prepared.error()));
    GenerationCall::start(exchange, parts.generator, std::move(prepared->answer), std::move(prepared->requests), token);
  });
}

void ApiServer::Impl::completions(HttpRequest& request, const ExchangePtr& exchange) {
  generate(request, exchange, &prepare_completion);
}
void ApiServer::Impl::chat(HttpRequest& request, const ExchangePtr& exchange) {
  generate(request, exchange, &prepare_chat);
}

void ApiServer::Impl::text_answer(HttpRequest& request, const ExchangePtr& exchange, TextJob job) {
  if (auto status = check_content_type(request); !status) return exchange->send(error_response(status.error()));
  auto body = std::make_shared<std::string>(std::move(request.body));
  on_pool(exchange, [this, exchange, job, body] {
    auto answer = job(context, *body);
    if (!answer) return exchange->send(error_response(answer.error()));
    HttpResponse response;
    response.body = std::move(*answer);
    exchange->send(std::move(response));
  });
}

void ApiServer::Impl::tokenize(HttpRequest& request, const ExchangePtr& exchange) {
  text_answer(request, exchange, &tokenize_answer);
}
void ApiServer::Impl::detokenize(HttpRequest& request, const ExchangePtr& exchange) {
  text_answer(request, exchange, &detokenize_answer);
}

// ---- the rest ---------------------------------------------------------------------------------

json::object ApiServer::Impl::model_card(const std::string& name) const {
  json::object permission{{"id", "modelperm-" + name},     {"object", "model_permission"},
                          {"created", created},            {"allow_create_engine", false},
                          {"allow_sampling", true},        {"allow_logprobs", true},
                          {"allow_search_indices", false}, {"allow_view", true},
                          {"allow_fine_tuning", false},    {"organization", "*"},
                          {"group", nullptr},              {"is_blocking", false}};
  return {{"id", name},
          {"object", "model"},
          {"created", created},
          {"owned_by", "quire"},
          {"root", options.model_root.empty() ? name : options.model_root},
          {"parent", nullptr},
          {"max_model_len", options.max_model_len},
          {"permission", json::array{std::move(permission)}}};
}

void ApiServer::Impl::models(HttpRequest&, const ExchangePtr& exchange) {
  json::array cards;
  for (const auto& name : options.served_model_names) cards.emplace_back(model_card(name));
  exchange->send(json_response(json::object{{"object", "list"}, {"data", std::move(cards)}}));
}

void ApiServer::Impl::model(HttpRequest& request, const ExchangePtr& exchange) {
  const std::string name = request.path.substr(std::string_view("/v1/models/").size());
  auto found = check_model(context, name);
  if (!found) return exchange->send(error_response(found.error()));
  exchange->send(json_response(model_card(*found)));
}

// Healthy means that the engine makes progress, not only that this thread answers.
void ApiServer::Impl::health(HttpRequest&, const ExchangePtr& exchange) {
  const EngineStats stats = parts.generator->stats();
  const double step_s = stats.step_in_flight ? now_s() - stats.step_started_s : 0;
  if (draining) {
    return exchange->send(error_response({ErrorCode::kUnavailable, "the server is shutting down", ""}));
  }
  if (step_s > options.stuck_step_s) {
    return exchange->send(error_response(
        {ErrorCode::kUnavailable, fmt::format("the engine has been in one step for {:.0f} s", step_s), ""}));
  }
  exchange->send(json_response(json::object{{"status", "ok"}}));
}

void ApiServer::Impl::version(HttpRequest&, const ExchangePtr& exchange) {
  exchange->send(json_response(json::object{{"version", QUIRE_VERSION}}));
}

void ApiServer::Impl::metrics(HttpRequest&, const ExchangePtr& exchange) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = parts.metrics->text(parts.generator->stats());
  exchange->send(std::move(response));
}

void ApiServer::Impl::load(HttpRequest&, const ExchangePtr& exchange) {
  exchange->send(json_response(json::object{{"server_load", in_flight.load()}}));
}

void ApiServer::Impl::reset_prefix_cache(HttpRequest&, const ExchangePtr& exchange) {
  exchange->send(json_response(json::object{{"success", parts.generator->reset_prefix_cache()}}));
}

// ---- life -------------------------------------------------------------------------------------

Result<std::unique_ptr<ApiServer>> ApiServer::start(ServerOptions options, Parts parts) {
  QUIRE_CHECK(parts.generator != nullptr && parts.text != nullptr && parts.metrics != nullptr, "a part is missing");
  if (options.served_model_names.empty()) {
    return field_error("--served-model-name", "there must be at least one name for the model");
  }
  HttpOptions http;
  http.host = options.host;
  http.port = options.port;
  http.io_threads = options.io_threads;
  http.error_body = [](int status, const std::string& message) { return error_body(status, message); };
  auto impl = std::make_unique<Impl>(std::move(options), parts);
  QUIRE_ASSIGN(impl->http, HttpServer::start(std::move(http), [raw = impl.get()](HttpRequest request, ExchangePtr exchange) {
    raw->handle(std::move(request), exchange);
  }));
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(impl)));
}

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ApiServer::~ApiServer() { shutdown(0); }

std::uint16_t ApiServer::port() const { return impl_->http->port(); }

bool ApiServer::shutdown(double timeout_s) {
  std::lock_guard lock(impl_->shutdown_mutex);
  if (impl_->shut_down) return impl_->all_answered;
  impl_->shut_down = true;
  impl_->draining = true;
  impl_->http->begin_drain();
  impl_->all_answered = impl_->http->wait_drained(timeout_s);
  impl_->http->stop();
  impl_->pool.stop();
  return impl_->all_answered;
}

}  // namespace quire
