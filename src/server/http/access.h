// Who may call: API keys and cross-origin rules. Pure functions of a request.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/message.h"
#include "server/server_options.h"

namespace quire {

// vLLM's scope: only these paths ask for a key, and never OPTIONS.
bool needs_key(const HttpRequest& request, std::string_view path);
// "Bearer KEY", the scheme in any case, one space. Takes the same time whichever key is near.
bool key_accepted(std::string_view authorization, const std::vector<std::string>& keys);

using Headers = std::vector<std::pair<std::string, std::string>>;
// Headers of a plain answer; empty when there is no Origin or it is not allowed.
Headers cors_headers(const CorsOptions& cors, const HttpRequest& request);
// The answer to a preflight; nullopt when the request is none.
std::optional<HttpResponse> preflight_answer(const CorsOptions& cors, const HttpRequest& request);

}  // namespace quire
