// An http or https URL in parts, a redirect's target, and percent-encoding. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

struct Url {
  bool is_tls = false;
  std::string host;    // without brackets
  std::string port;    // "443"
  std::string target;  // path and query, starts with '/'

  std::string origin() const;     // "https://host:port": the same origin, the same connection
  std::string authority() const;  // of the Host header: the port only when it is not the default
};

Result<Url> parse_url(std::string_view text);
// The URL that a Location header names, seen from `base`.
Result<Url> resolve_location(const Url& base, std::string_view location);
// Percent-encodes everything but letters, digits and "-_.~"; '/' too, unless keep_slash.
std::string percent_encode(std::string_view text, bool keep_slash);

}  // namespace quire
