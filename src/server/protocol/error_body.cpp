#include "server/protocol/error_body.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "server/protocol/logprobs.h"

namespace quire {
namespace {

namespace json = boost::json;

// Messages quote what the client sent, which may be megabytes long, or a path that is no UTF-8.
constexpr std::size_t kMaxQuotedBytes = 2000;

constexpr double kMaxRetryAfterS = 3600;

std::string shown(std::string text) {
  if (text.size() > kMaxQuotedBytes) {
    std::size_t end = kMaxQuotedBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text.resize(end);
    text += "...";
  }
  return replace_invalid_utf8(text);
}

std::string make_body(const std::string& message, std::string_view type, const std::string& param,
                      json::value code) {
  json::object error;
  error["message"] = message.empty() ? "unknown error" : shown(message);
  error["type"] = json::string_view(type.data(), type.size());
  error["param"] = param.empty() ? json::value(nullptr) : json::value(shown(param));
  error["code"] = std::move(code);
  json::object body;
  body["error"] = std::move(error);
  return json::serialize(body);
}

}  // namespace

std::string error_body(const Error& error) {
  json::value code = http_status(error.code);
  if (error.code == ErrorCode::kContextLength) code = "context_length_exceeded";
  return make_body(error.message, error_type(error.code), error.param, std::move(code));
}

std::string error_body(int status, const std::string& message) {
  const ErrorCode code = status >= 500 ? ErrorCode::kInternal : ErrorCode::kInvalidArgument;
  return make_body(message, error_type(code), {}, status);
}

HttpResponse error_response(const Error& error) {
  HttpResponse response;
  response.status = http_status(error.code);
  response.body = error_body(error);
  if (error.code == ErrorCode::kUnavailable) {
    const double seconds = std::clamp(std::ceil(error.retry_after_s), 1.0, kMaxRetryAfterS);
    response.headers.emplace_back("Retry-After", std::to_string(static_cast<int>(seconds)));
  }
  if (error.code == ErrorCode::kUnauthorized)
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace quire
