#include "server/protocol/error_body.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace quire {
namespace {

namespace json = boost::json;

std::string make_body(const std::string& message, std::string_view type, const std::string& param,
                      json::value code) {
  json::object error;
  error["message"] = message.empty() ? "unknown error" : message;
  error["type"] = json::string_view(type.data(), type.size());
  error["param"] = param.empty() ? json::value(nullptr) : json::value(param);
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
  if (error.code == ErrorCode::kUnavailable) response.headers.emplace_back("Retry-After", "1");
  if (error.code == ErrorCode::kUnauthorized)
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace quire
