// Which proxy a request goes through, by the variables that every tool knows. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/url.h"

namespace quire {

struct ProxySettings {
  std::string https;     // proxy for https addresses: "http://host:port"; empty: none
  std::string http;      // for http addresses
  std::string excepted;  // NO_PROXY: hosts and domains that are asked directly; "*": all
};

// The proxy for this address, or nullopt. A proxy that is no http address is an error.
Result<std::optional<Url>> proxy_for(const ProxySettings& settings, const Url& url);

}  // namespace quire
