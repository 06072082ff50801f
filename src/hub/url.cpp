#include "hub/url.h"

#include <algorithm>

#include "hub/model_ref.h"

namespace quire {
namespace {

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

std::string Url::authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == (is_tls ? "443" : "80") ? name : name + ":" + port;
}
std::string Url::origin() const {
  return fmt::format("{}://{}:{}", is_tls ? "https" : "http", host, port);
}

Result<Url> parse_url(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return make_error(ErrorCode::kInvalidArgument, "\"{}\" is no http or https address: {}",
                      text.substr(0, 200), why);
  };
  Url url;
  const std::size_t scheme_end = text.find("://");
  if (scheme_end == text.npos) return bad("it starts with neither http:// nor https://");
  const std::string scheme = to_lower(text.substr(0, scheme_end));
  if (scheme != "http" && scheme != "https") return bad("the scheme is unknown");
  url.is_tls = scheme == "https";
  std::string_view rest = text.substr(scheme_end + 3);
  if (!is_printable(rest)) return bad("it has spaces or control characters");
  rest = rest.substr(0, rest.find('#'));
  const std::size_t path = rest.find_first_of("/?");
  std::string_view host = rest.substr(0, path);
  url.target = path == rest.npos ? "/" : std::string(rest.substr(path));
  if (url.target.front() == '?') url.target = "/" + url.target;
  if (host.find('@') != host.npos) return bad("a user name in it is not supported");
  std::string_view port;
  if (host.starts_with('[')) {
    const std::size_t close = host.find(']');
    if (close == host.npos) return bad("a bracket is open");
    if (host.substr(close + 1).starts_with(':')) port = host.substr(close + 2);
    host = host.substr(1, close - 1);
  } else if (const std::size_t colon = host.find(':'); colon != host.npos) {
    port = host.substr(colon + 1);
    host = host.substr(0, colon);
  }
  if (host.empty()) return bad("the host is missing");
  if (port.size() > 5 || port.find_first_not_of("0123456789") != port.npos)
    return bad("the port is no number");
  url.host = to_lower(host);
  url.port = port.empty() ? (url.is_tls ? "443" : "80") : std::string(port);
  return url;
}

Result<Url> resolve_location(const Url& base, std::string_view location) {
  if (location.starts_with("//"))
    return parse_url((base.is_tls ? "https:" : "http:") + std::string(location));
  if (location.find("://") != location.npos && location.find("://") < location.find_first_of("/?#"))
    return parse_url(location);
  std::string target(location.substr(0, location.find('#')));
  if (target.empty() || !is_printable(target))
    return make_error(ErrorCode::kUnavailable, "{} redirects to no address", base.host);
  if (!target.starts_with('/')) {
    const std::string path = base.target.substr(0, base.target.find('?'));
    target = path.substr(0, path.rfind('/') + 1) + target;
  }
  Url url = base;
  url.target = std::move(target);
  return url;
}

std::string percent_encode(std::string_view text, bool keep_slash) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~' || (c == '/' && keep_slash);
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace quire
