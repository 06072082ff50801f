// Result<T>: a value, or an Error that says whose fault it is and what to do.
//
// Caller's fault (a bad file, flag or request) travels as Error; our own bug is a CHECK (check.h);
// pressure (no free block, queue full) is an ordinary return value.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace quire {

// Maps onto HTTP: see http_status().
enum class ErrorCode {
  kInvalidArgument,  // 400: a field or flag has a wrong type or value
  kContextLength,    // 400, code "context_length_exceeded": prompt (+ output) longer than the model
                     // takes
  kUnauthorized,     // 401
  kNotFound,         // 404: unknown model, route, file
  kMethodNotAllowed,  // 405
  kTooLarge,          // 413: body over the limit
  kUnsupportedMedia,  // 415
  kUnsupported,       // 400: known, but not built or not possible with this model
  kBadFile,           // 400/exit 1: a model file is malformed
  kUnavailable,       // 503: shutting down, queue full
  kTimeout,           // 504: the time that the request itself allowed has passed
  kInternal,          // 500
};

int http_status(ErrorCode code);
// OpenAI's `error.type` for a code, e.g. "BadRequestError", "NotFoundError".
std::string_view error_type(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;       // names the thing, the value, the limit, and what to do
  std::string param;         // dotted path of the request field or the flag's name; may be empty
  double retry_after_s = 0;  // of kUnavailable: when to try again; 0: not known
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

template <class... Args>
tl::unexpected<Error> make_error(ErrorCode code, fmt::format_string<Args...> format,
                                 Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...), {}});
}
// Same, naming the request field or flag at fault.
template <class... Args>
tl::unexpected<Error> field_error(std::string_view param, fmt::format_string<Args...> format,
                                  Args&&... args) {
  return tl::unexpected<Error>(Error{ErrorCode::kInvalidArgument,
                                     fmt::format(format, std::forward<Args>(args)...),
                                     std::string(param)});
}

}  // namespace quire

// Returns the error of a Status/Result expression from the enclosing function.
#define QUIRE_TRY(expr)                                        \
  do {                                                         \
    if (auto quire_status_ = (expr); !quire_status_)           \
      return tl::unexpected(std::move(quire_status_).error()); \
  } while (0)
#define QUIRE_CONCAT_(a, b) a##b
#define QUIRE_CONCAT(a, b) QUIRE_CONCAT_(a, b)
#define QUIRE_ASSIGN_(tmp, lhs, expr)                      \
  auto tmp = (expr);                                       \
  if (!tmp) return tl::unexpected(std::move(tmp).error()); \
  lhs = std::move(*tmp)
// QUIRE_ASSIGN(auto x, f()): x is f()'s value, or the function returns f()'s error.
#define QUIRE_ASSIGN(lhs, expr) QUIRE_ASSIGN_(QUIRE_CONCAT(quire_result_, __LINE__), lhs, expr)
