#include "server/http/access.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/http/request_text.h"

namespace quire {
namespace {

constexpr std::string_view kAllMethods = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";
constexpr std::string_view kSimpleHeaders =
    "Accept, Accept-Language, Content-Language, Content-Type";

bool has(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::string join(const std::vector<std::string>& list) {
  std::string out;
  for (const auto& item : list) out += (out.empty() ? "" : ", ") + item;
  return out;
}

bool origin_allowed(const CorsOptions& cors, std::string_view origin) {
  return has(cors.origins, "*") || has(cors.origins, origin);
}

Headers origin_headers(const CorsOptions& cors, std::string_view origin) {
  Headers out;
  if (has(cors.origins, "*") && !cors.allow_credentials) {
    out.emplace_back("Access-Control-Allow-Origin", "*");
  } else {
    out.emplace_back("Access-Control-Allow-Origin", std::string(origin));
    out.emplace_back("Vary", "Origin");
  }
  if (cors.allow_credentials) out.emplace_back("Access-Control-Allow-Credentials", "true");
  return out;
}

bool under(std::string_view path, std::string_view prefix) {
  return path == prefix ||
         (path.substr(0, prefix.size()) == prefix && path.substr(prefix.size(), 1) == "/");
}

}  // namespace

bool needs_key(const HttpRequest& request, std::string_view path) {
  return request.method != "OPTIONS" &&
         (under(path, "/v1") || under(path, "/v2") || under(path, "/inference"));
}

bool key_accepted(std::string_view authorization, const std::vector<std::string>& keys) {
  const auto space = authorization.find(' ');
  if (space == std::string_view::npos || lower_case(authorization.substr(0, space)) != "bearer")
    return false;
  const std::string_view given = authorization.substr(space + 1);
  bool accepted = false;
  for (const auto& key : keys) accepted = constant_time_equal(given, key) || accepted;
  return accepted;
}

Headers cors_headers(const CorsOptions& cors, const HttpRequest& request) {
  const auto origin = request.header("origin");
  if (origin.empty() || !origin_allowed(cors, origin)) return {};
  return origin_headers(cors, origin);
}

std::optional<HttpResponse> preflight_answer(const CorsOptions& cors, const HttpRequest& request) {
  const auto origin = request.header("origin");
  const auto method = request.header("access-control-request-method");
  if (request.method != "OPTIONS" || origin.empty() || method.empty()) return std::nullopt;
  HttpResponse out;
  out.content_type = "text/plain; charset=utf-8";
  const bool any_method = has(cors.methods, "*");
  if (!origin_allowed(cors, origin) || (!any_method && !has(cors.methods, method))) {
    out.status = 400;
    out.body = "this origin or method is not allowed: see --allowed-origins and --allowed-methods";
    return out;
  }
  out.body = "OK";
  out.headers = origin_headers(cors, origin);
  out.headers.emplace_back("Access-Control-Allow-Methods",
                           any_method ? std::string(kAllMethods) : join(cors.methods));
  const auto wanted = request.header("access-control-request-headers");
  if (!has(cors.headers, "*")) {
    out.headers.emplace_back("Access-Control-Allow-Headers",
                             fmt::format("{}, {}", kSimpleHeaders, join(cors.headers)));
  } else {
    out.headers.emplace_back("Access-Control-Allow-Headers",
                             wanted.empty() ? std::string(kSimpleHeaders) : std::string(wanted));
  }
  out.headers.emplace_back("Access-Control-Max-Age", "600");
  return out;
}

}  // namespace quire
