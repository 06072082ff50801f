#include "base/result.h"

namespace quire {

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kContextLength:
    case ErrorCode::kUnsupported:
    case ErrorCode::kBadFile:
      return 400;
    case ErrorCode::kUnauthorized:
      return 401;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kMethodNotAllowed:
      return 405;
    case ErrorCode::kTooLarge:
      return 413;
    case ErrorCode::kUnsupportedMedia:
      return 415;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kTimeout:
      return 504;
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

std::string_view error_type(ErrorCode code) {
  switch (http_status(code)) {
    case 400:
    case 413:
    case 415:
      return "BadRequestError";
    case 401:
      return "AuthenticationError";
    case 404:
      return "NotFoundError";
    case 405:
      return "MethodNotAllowedError";
    case 503:
      return "ServiceUnavailableError";
    case 504:
      return "TimeoutError";
    default:
      return "InternalServerError";
  }
}

}  // namespace quire
