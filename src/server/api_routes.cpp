// What each route does.
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "base/trace.h"
#include "server/api_server_impl.h"
#include "server/docs_page.h"
#include "server/generation_call.h"
#include "server/http/request_text.h"
#include "server/protocol/error_body.h"
#include "server/protocol/logprobs.h"

namespace quire {

namespace json = boost::json;

namespace {

HttpResponse json_response(const json::value& value) {
  HttpResponse out;
  out.body = json::serialize(value);
  return out;
}

Status check_content_type(const HttpRequest& request) {
  const auto value = request.header("content-type");
  const auto media_type = lower_case(value.substr(0, value.find_first_of("; \t")));
  const auto coding = lower_case(request.header("content-encoding"));
  if (!coding.empty() && coding != "identity") {
    return make_error(ErrorCode::kUnsupportedMedia,
                      "the body must be sent as it is, but its content encoding is \"{}\"", coding);
  }
  if (media_type == "application/json") return {};
  return make_error(ErrorCode::kUnsupportedMedia,
                    "the content type must be application/json, but it is \"{}\"", value);
}

}  // namespace

// ---- generation -------------------------------------------------------------------------------

namespace {
void submit_or_refuse(TextPool& pool, const ExchangePtr& exchange, std::function<void()> task) {
  if (pool.submit(std::move(task))) return;
  exchange->send(
      error_response({ErrorCode::kUnavailable,
                      "too many requests are waiting to be read: try again in a moment", ""}));
}
}  // namespace

void ApiServer::Impl::on_pool(const ExchangePtr& exchange, std::function<void()> task) {
  if (draining) {
    return exchange->send(
        error_response({ErrorCode::kUnavailable, "the server is shutting down", ""}));
  }
  submit_or_refuse(pool, exchange, std::move(task));
}

void ApiServer::Impl::on_pools(const ExchangePtr& exchange, CompilingTask task) {
  on_pool(exchange, [this, exchange, task = std::move(task)] {
    bool lacks_grammar = false;
    ProtocolContext quick = context;
    quick.lacks_grammar = &lacks_grammar;
    const auto finish = task(quick);
    if (finish) return (*finish)();
    if (!lacks_grammar) return exchange->send(error_response(finish.error()));
    submit_or_refuse(compilers, exchange, [this, exchange, task] {
      const auto compiled = task(context);
      if (!compiled) return exchange->send(error_response(compiled.error()));
      submit_or_refuse(pool, exchange, *compiled);
    });
  });
}

void ApiServer::Impl::generate(HttpRequest& request, const ExchangePtr& exchange, Prepare prepare) {
  if (auto status = check_content_type(request); !status)
    return exchange->send(error_response(status.error()));
  CallInfo info;
  info.arrival_s = request.arrival_s;
  info.request_id = replace_invalid_utf8(request.header("x-request-id").substr(0, 256));
  if (info.request_id.empty()) info.request_id = random_hex(16);
  ++*in_flight;
  auto token = std::shared_ptr<void>(nullptr, [count = in_flight](void*) { --*count; });
  auto body = std::make_shared<std::string>(std::move(request.body));
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // keeps different users of a key apart
  const std::uint64_t client = hash_text(request.header("authorization"));
  on_pools(exchange, [=, this](const ProtocolContext& where) -> Result<Finish> {
    QUIRE_ASSIGN(auto prepared, prepare(where, *body, info));
    if (options.fair_by != FairBy::kNone) {
      for (Request& made : prepared.requests) made.client = made.client * kOdd + client;
    }
    auto call = std::make_shared<PreparedCall>(std::move(prepared));
    return [=, this] {
      GenerationCall::start(exchange, parts.generator, std::move(call->answer),
                            std::move(call->requests), token);
    };
  });
}

void ApiServer::Impl::completions(HttpRequest& request, const ExchangePtr& exchange) {
  generate(request, exchange, &prepare_completion);
}
void ApiServer::Impl::embeddings(HttpRequest& request, const ExchangePtr& exchange) {
  generate(request, exchange, &prepare_embedding);
}
void ApiServer::Impl::chat(HttpRequest& request, const ExchangePtr& exchange) {
  generate(request, exchange, &prepare_chat);
}

void ApiServer::Impl::text_answer(HttpRequest& request, const ExchangePtr& exchange, TextJob job) {
  if (auto status = check_content_type(request); !status)
    return exchange->send(error_response(status.error()));
  auto body = std::make_shared<std::string>(std::move(request.body));
  on_pools(exchange, [=](const ProtocolContext& where) -> Result<Finish> {
    QUIRE_ASSIGN(auto text, job(where, *body));
    return [exchange, text = std::move(text)] {
      HttpResponse response;
      response.body = text;
      exchange->send(std::move(response));
    };
  });
}

void ApiServer::Impl::tokenize(HttpRequest& request, const ExchangePtr& exchange) {
  text_answer(request, exchange, &tokenize_answer);
}
void ApiServer::Impl::detokenize(HttpRequest& request, const ExchangePtr& exchange) {
  text_answer(request, exchange, &detokenize_answer);
}

void ApiServer::Impl::render_completion(HttpRequest& request, const ExchangePtr& exchange) {
  text_answer(request, exchange, &render_completion_answer);
}
void ApiServer::Impl::render_chat(HttpRequest& request, const ExchangePtr& exchange) {
  text_answer(request, exchange, &render_chat_answer);
}
void ApiServer::Impl::tokenizer_info(HttpRequest&, const ExchangePtr& exchange) {
  HttpResponse response;
  response.body = tokenizer_info_answer(context);
  exchange->send(std::move(response));
}

// ---- the rest ---------------------------------------------------------------------------------

json::object ApiServer::Impl::model_card(const std::string& name) const {
  json::object permission{{"id", "modelperm-" + name},
                          {"object", "model_permission"},
                          {"created", created},
                          {"allow_create_engine", false},
                          {"allow_sampling", true},
                          {"allow_logprobs", true},
                          {"allow_search_indices", false},
                          {"allow_view", true},
                          {"allow_fine_tuning", false},
                          {"organization", "*"},
                          {"group", nullptr},
                          {"is_blocking", false}};
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
    return exchange->send(
        error_response({ErrorCode::kUnavailable, "the server is shutting down", ""}));
  }
  if (step_s > options.stuck_step_s) {
    return exchange->send(
        error_response({ErrorCode::kUnavailable,
                        fmt::format("the engine has been in one step for {:.0f} s", step_s), ""}));
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
  exchange->send(json_response(json::object{{"server_load", in_flight->load()}}));
}

void ApiServer::Impl::openapi(HttpRequest&, const ExchangePtr& exchange) {
  HttpResponse response;
  response.body = openapi_text;
  exchange->send(std::move(response));
}

void ApiServer::Impl::docs(HttpRequest&, const ExchangePtr& exchange) {
  HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  response.body = docs_page();
  exchange->send(std::move(response));
}

void ApiServer::Impl::reset_prefix_cache(HttpRequest&, const ExchangePtr& exchange) {
  exchange->send(json_response(json::object{{"success", parts.generator->reset_prefix_cache()}}));
}

void ApiServer::Impl::start_profile(HttpRequest&, const ExchangePtr& exchange) {
  start_trace(options.profile);
  exchange->send(json_response(json::object{{"status", "ok"}}));
}

// On the pool: the file may be large.
void ApiServer::Impl::stop_profile(HttpRequest&, const ExchangePtr& exchange) {
  on_pool(exchange, [exchange] {
    const Status status = finish_trace();
    exchange->send(status ? json_response(json::object{{"status", "ok"}})
                          : error_response(status.error()));
  });
}

}  // namespace quire
