#include "hub/proxy.h"

#include "hub/model_ref.h"

namespace quire {
namespace {

// "host", ".domain" and "domain" (its hosts too), each with or without ":port".
bool is_excepted(std::string_view list, const Url& url) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    std::string entry = to_lower(list.substr(0, comma));
    list = comma == list.npos ? std::string_view() : list.substr(comma + 1);
    std::erase(entry, ' ');
    if (entry == "*") return true;
    if (entry.ends_with(":" + url.port)) entry.resize(entry.size() - url.port.size() - 1);
    if (entry.starts_with("*.")) entry.erase(0, 1);
    if (entry.starts_with('.')) entry.erase(0, 1);
    if (!entry.empty() && (url.host == entry || url.host.ends_with("." + entry))) return true;
  }
  return false;
}

}  // namespace

Result<std::optional<Url>> proxy_for(const ProxySettings& settings, const Url& url) {
  const std::string& text = url.is_tls ? settings.https : settings.http;
  if (text.empty() || is_excepted(settings.excepted, url)) return std::optional<Url>();
  const bool has_scheme = text.find("://") != std::string::npos;
  Result<Url> proxy = parse_url(has_scheme ? text : "http://" + text);
  if (!proxy || proxy->is_tls)
    // The text may hold a password: it is not shown.
    return make_error(ErrorCode::kInvalidArgument,
                      "{} is no address of a proxy: use http://HOST:PORT",
                      url.is_tls ? "HTTPS_PROXY" : "HTTP_PROXY");
  return std::optional<Url>(std::move(*proxy));
}

}  // namespace quire
