// OpenAI's error object.
#pragma once

#include <string>

#include "base/result.h"
#include "server/http/message.h"

namespace quire {

// {"error": {"message", "type", "param", "code"}}; code is the HTTP status, but the string
// "context_length_exceeded" where a prompt or its answer does not fit the model.
std::string error_body(const Error& error);
// Same, for a status that no ErrorCode stands for.
std::string error_body(int status, const std::string& message);
HttpResponse error_response(const Error& error);

}  // namespace quire
