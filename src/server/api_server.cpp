#include "server/api_server.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "server/api_server_impl.h"
#include "server/http/access.h"
#include "server/http/request_text.h"
#include "server/protocol/completion_request.h"
#include "server/protocol/embedding_request.h"
#include "server/protocol/error_body.h"
#include "server/protocol/json_parse.h"

namespace quire {
namespace {
constexpr double kLastWordsS = 1.0;  // for the errors of aborted requests to reach their clients
}

const std::vector<ApiServer::Impl::Route>& ApiServer::Impl::routes() {
  static const std::vector<Route> kRoutes{
      {{"/v1/models", "GET, HEAD", "What is served", nullptr, "ModelList"}, &Impl::models},
      {{"/v1/models/{id}", "GET, HEAD", "One model", nullptr, "Model"}, &Impl::model},
      {{"/v1/completions", "POST", "Continue prompts", &completion_fields, "CompletionResponse",
        true},
       &Impl::completions},
      {{"/v1/chat/completions", "POST", "Answer a conversation", &chat_fields,
        "ChatCompletionResponse", true},
       &Impl::chat},
      {{"/v1/embeddings", "POST", "Texts to vectors", &embedding_fields, "EmbeddingResponse"},
       &Impl::embeddings},
      {{"/v1/completions/render", "POST", "Tokens and settings that a completion would run with",
        &completion_fields, "RenderedList"},
       &Impl::render_completion},
      {{"/v1/chat/completions/render", "POST", "Tokens and settings that a chat would run with",
        &chat_fields, "Rendered"},
       &Impl::render_chat},
      {{"/tokenizer_info", "GET, HEAD", "About the tokenizer", nullptr, "Status"},
       &Impl::tokenizer_info},
      {{"/tokenize", "POST", "Text to token ids", &tokenize_fields, "TokenizeResponse"},
       &Impl::tokenize},
      {{"/detokenize", "POST", "Token ids to text", &detokenize_fields, "DetokenizeResponse"},
       &Impl::detokenize},
      {{"/health", "GET, HEAD", "Whether the engine works", nullptr, "Status"}, &Impl::health},
      {{"/ping", "GET, HEAD, POST", "Same as /health", nullptr, "Status"}, &Impl::health},
      {{"/version", "GET, HEAD", "The server's version", nullptr, "Version"}, &Impl::version},
      {{"/metrics", "GET, HEAD", "For Prometheus", nullptr, ""}, &Impl::metrics},
      {{"/metrics/", "GET, HEAD", "For Prometheus", nullptr, ""}, &Impl::metrics},
      {{"/load", "GET, HEAD", "Requests that run", nullptr, "Load"}, &Impl::load},
      {{"/reset_prefix_cache", "POST", "Forget cached prefixes", nullptr, "Status"},
       &Impl::reset_prefix_cache},
      {{"/start_profile", "POST", "Record from now on", nullptr, "Status"}, &Impl::start_profile},
      {{"/stop_profile", "POST", "Write the recording", nullptr, "Status"}, &Impl::stop_profile},
      {{"/openapi.json", "GET, HEAD", "This document", nullptr, "Status"}, &Impl::openapi},
      {{"/docs", "GET, HEAD", "This document as a page", nullptr, "Page"}, &Impl::docs},
  };
  return kRoutes;
}

std::string ApiServer::openapi(const ServerOptions& options) {
  std::vector<ApiOperation> operations;
  for (const Impl::Route& route : Impl::routes()) {
    if (!Impl::switched_off(options, route.path)) operations.push_back(route);
  }
  return openapi_document({QUIRE_VERSION, !options.api_keys.empty()}, operations);
}

// ---- routing ----------------------------------------------------------------------------------

std::string ApiServer::Impl::strip_root(const std::string& path) const {
  const auto& root = options.root_path;
  if (root.size() > 1 && path.compare(0, root.size(), root) == 0 && path.size() > root.size()) {
    return path.substr(root.back() == '/' ? root.size() - 1 : root.size());
  }
  return path;
}

bool ApiServer::Impl::switched_off(const ServerOptions& options, std::string_view path) {
  if (path == "/openapi.json" || path == "/docs") return options.disable_docs;
  if (path == "/start_profile" || path == "/stop_profile") return options.profile.empty();
  return path == "/tokenizer_info" && !options.enable_tokenizer_info;
}

const ApiServer::Impl::Route* ApiServer::Impl::find(std::string_view path) const {
  for (const auto& route : routes()) {
    const auto brace = route.path.find('{');
    if (switched_off(options, route.path)) continue;
    if (brace == std::string_view::npos
            ? path == route.path
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
  static constexpr std::array<std::string_view, 7> kMethods{"GET", "HEAD",   "POST", "OPTIONS",
                                                            "PUT", "DELETE", "PATCH"};
  const auto* known = std::find(kMethods.begin(), kMethods.end(), request.method);
  exchange->on_reply([this, handler = route == nullptr ? std::string_view("none") : route->path,
                      method = known == kMethods.end() ? std::string_view("other") : *known](
                         int status) { parts.metrics->on_http_request(handler, method, status); });
  if (options.enable_request_id_headers) {
    const auto given = request.header("x-request-id");
    if (given.empty()) request.headers.emplace_back("x-request-id", random_hex(16));
    exchange->add_header("X-Request-Id", std::string(request.header("x-request-id")));
  }
  if (auto preflight = preflight_answer(options.cors, request))
    return exchange->send(std::move(*preflight));
  for (auto& [name, value] : cors_headers(options.cors, request)) exchange->add_header(name, value);

  if (!options.api_keys.empty() && needs_key(request, request.path) &&
      !key_accepted(request.header("authorization"), options.api_keys)) {
    return exchange->send(error_response(
        {ErrorCode::kUnauthorized,
         "the API key is missing or wrong: send \"Authorization: Bearer KEY\"", ""}));
  }
  if (route == nullptr) {
    return exchange->send(error_response(
        {ErrorCode::kNotFound,
         fmt::format("there is no {} {}", request.method, request.path.substr(0, 200)), ""}));
  }
  // Methods are separated by ", ": a whole one matches.
  const std::string padded = fmt::format(", {}, ", route->methods);
  if (padded.find(fmt::format(", {}, ", request.method)) == std::string::npos) {
    const bool options_request = request.method == "OPTIONS";
    HttpResponse response =
        error_response({ErrorCode::kMethodNotAllowed,
                        fmt::format("{} is not possible with {}: use {}",
                                    request.path.substr(0, 200), request.method, route->methods),
                        ""});
    if (options_request) response = HttpResponse{};
    response.headers.emplace_back("Allow", std::string(route->methods) + ", OPTIONS");
    return exchange->send(std::move(response));
  }
  (this->*route->handle)(request, exchange);
}

// ---- life -------------------------------------------------------------------------------------

Result<std::unique_ptr<ApiServer>> ApiServer::start(ServerOptions options, Parts parts) {
  QUIRE_CHECK(parts.generator != nullptr && parts.text != nullptr && parts.metrics != nullptr,
              "a part is missing");
  QUIRE_TRY(check_options(&options, parts.text->vocab_size()));
  HttpOptions http;
  http.host = options.host;
  http.port = options.port;
  http.io_threads = options.io_threads;
  http.error_body = [](int status, const std::string& message) {
    return error_body(status, message);
  };
  auto dialect = make_chat_dialect(options, *parts.text);
  auto impl = std::make_unique<Impl>(std::move(options), parts, std::move(dialect));
  QUIRE_ASSIGN(impl->http,
               HttpServer::start(std::move(http), [raw = impl.get()](HttpRequest request,
                                                                     const ExchangePtr& exchange) {
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
  if (!impl_->all_answered) {
    // What still runs ends with an error that the client can read, before its connection closes.
    impl_->parts.generator->abort_all();
    impl_->http->wait_drained(kLastWordsS);
  }
  impl_->http->stop();
  impl_->pool.stop();
  impl_->compilers.stop();
  return impl_->all_answered;
}

}  // namespace quire
