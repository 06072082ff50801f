#include "hub/hub_settings.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "hub/model_ref.h"
#include "hub/url.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// The first of these variables that is set and not empty.
std::string first_of(const GetVariable& get, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const std::optional<std::string> value = get(name); value && !value->empty()) return *value;
  }
  return {};
}

bool is_true(const std::string& value) {
  const std::string lower = to_lower(value);
  return lower == "1" || lower == "true" || lower == "yes" || lower == "on";
}

std::string trim(std::string text) {
  const char* blank = " \t\r\n";
  text.erase(text.find_last_not_of(blank) + 1);
  text.erase(0, text.find_first_not_of(blank));
  return text;
}

std::string expand_home(const std::string& path, const std::string& home) {
  return path == "~" || path.starts_with("~/") ? home + path.substr(1) : path;
}

std::string read_token_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return trim(std::string(std::istreambuf_iterator<char>(in), {}));
}

std::string find_token(const HubFlags& flags, const GetVariable& get, const fs::path& hf_home) {
  if (!trim(flags.token).empty()) return trim(flags.token);
  std::string token = trim(first_of(get, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (!token.empty() || is_true(first_of(get, {"HF_HUB_DISABLE_IMPLICIT_TOKEN"}))) return token;
  const std::string path = first_of(get, {"HF_TOKEN_PATH"});
  return read_token_file(path.empty() ? hf_home / "token" : fs::path(path));
}

}  // namespace

Result<HubSettings> read_hub_settings(const HubFlags& flags, const GetVariable& get) {
  HubSettings settings;
  const std::string home = first_of(get, {"HOME"});
  const std::string own_home = first_of(get, {"HF_HOME"});
  const std::string xdg = first_of(get, {"XDG_CACHE_HOME"});
  const fs::path cache_home =
      xdg.empty() ? fs::path(home) / ".cache" : fs::path(expand_home(xdg, home));
  const fs::path hf_home =
      own_home.empty() ? cache_home / "huggingface" : fs::path(expand_home(own_home, home));

  const std::string hub_cache = first_of(get, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  settings.cache_dir = !flags.download_dir.empty() ? expand_home(flags.download_dir, home)
                       : !hub_cache.empty()        ? expand_home(hub_cache, home)
                                                   : (hf_home / "hub").string();
  if (std::string endpoint = first_of(get, {"HF_ENDPOINT"}); !endpoint.empty()) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    if (const Result<Url> url = parse_url(endpoint); !url)
      return make_error(ErrorCode::kInvalidArgument, "HF_ENDPOINT: {}", url.error().message);
    settings.endpoint = endpoint;
  }
  settings.token = find_token(flags, get, hf_home);
  for (const char c : settings.token) {
    if (c <= 0x20 || c >= 0x7f)
      return make_error(
          ErrorCode::kInvalidArgument,
          "the hub's token (--hf-token, HF_TOKEN or its file) has a character that no token has");
  }
  if (!flags.revision.empty()) settings.revision = flags.revision;
  if (!is_revision(settings.revision))
    return field_error("--revision", "--revision '{}' is no branch, tag or commit",
                       settings.revision);
  settings.is_offline = is_true(first_of(get, {"HF_HUB_OFFLINE"})) ||
                        is_true(first_of(get, {"TRANSFORMERS_OFFLINE"}));
  settings.show_progress = !is_true(first_of(get, {"HF_HUB_DISABLE_PROGRESS_BARS"}));
  settings.ca_file = first_of(get, {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"});
  settings.proxy.https = first_of(get, {"https_proxy", "HTTPS_PROXY"});
  settings.proxy.http = first_of(get, {"http_proxy", "HTTP_PROXY"});
  settings.proxy.excepted = first_of(get, {"no_proxy", "NO_PROXY"});
  if (const std::string timeout = first_of(get, {"HF_HUB_DOWNLOAD_TIMEOUT"}); !timeout.empty()) {
    const double value = std::strtod(timeout.c_str(), nullptr);
    if (!(value > 0 && value < 86400))
      return make_error(ErrorCode::kInvalidArgument,
                        "HF_HUB_DOWNLOAD_TIMEOUT '{}' is no number of seconds", timeout);
    settings.timeout_s = value;
  }
  return settings;
}

Result<HubSettings> read_hub_settings(const HubFlags& flags) {
  return read_hub_settings(flags, [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  });
}

}  // namespace quire
