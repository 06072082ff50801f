#include "hub/hub_client.h"

#include <algorithm>
#include <charconv>

#include "hub/model_ref.h"
#include "hub/retry.h"

namespace quire {
namespace {

constexpr int kMaxRedirects = 10;

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::int64_t parse_size(const std::string& text) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : -1;
}

// A server's words, fit for one line of a terminal.
std::string one_line(std::string text) {
  text.resize(std::min<std::size_t>(text.size(), 200));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

}  // namespace

HubClient::HubClient(const HubSettings& settings, std::string repo, std::stop_token stop)
    : settings_(settings),
      repo_(std::move(repo)),
      stop_(std::move(stop)),
      hub_({settings.timeout_s, settings.ca_file, settings.proxy}),
      store_({settings.timeout_s, settings.ca_file, settings.proxy}) {}

Result<HttpReply> HubClient::follow(const std::string& method, Url url, HttpClient::Headers headers,
                                    const BodySink* sink, bool leaves_hub) {
  const std::string origin = url.origin();
  if (!settings_.token.empty()) headers["Authorization"] = "Bearer " + settings_.token;
  for (int i = 0; i <= kMaxRedirects; ++i) {
    const bool is_hub = url.origin() == origin;
    QUIRE_ASSIGN(HttpReply reply, (is_hub ? hub_ : store_).request(method, url, headers, sink));
    if (!is_redirect(reply.status) || !reply.failure.empty()) return reply;
    QUIRE_ASSIGN(Url next, resolve_location(url, reply.header("location")));
    if (next.origin() != origin) {
      if (!leaves_hub) return reply;
      headers.erase("Authorization");
    }
    if (url.is_tls && !next.is_tls)
      return make_error(ErrorCode::kUnavailable,
                        "{}: {} redirects to an address without TLS, {}: refused", repo_, url.host,
                        next.host);
    url = std::move(next);
  }
  return make_error(ErrorCode::kUnavailable, "{}: {} redirects without end", repo_,
                    settings_.endpoint);
}

Result<Url> HubClient::file_url(const std::string& path, const std::string& commit) const {
  return parse_url(fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint, repo_, commit,
                               percent_encode(path, true)));
}

Result<RepoListing> HubClient::list(int attempts) {
  QUIRE_ASSIGN(const Url url,
               parse_url(fmt::format("{}/api/models/{}/revision/{}?blobs=true", settings_.endpoint,
                                     repo_, percent_encode(settings_.revision, false))));
  Retry retry(attempts, stop_);
  while (true) {
    QUIRE_ASSIGN(const HttpReply reply,
                 follow("GET", url, {{"Accept", "application/json"}}, nullptr, true));
    if (is_temporary(reply)) {
      if (retry.again(reply, repo_, false)) continue;
    } else if (reply.status == 200) {
      return parse_listing(reply.body, repo_);
    }
    return tl::unexpected(error_of(reply, ""));
  }
}

Status HubClient::fill_in(RepoFile& file, const std::string& commit) {
  QUIRE_ASSIGN(const Url url, file_url(file.path, commit));
  Retry retry(kAttempts, stop_);
  while (true) {
    QUIRE_ASSIGN(const HttpReply reply, follow("HEAD", url, {}, nullptr, false));
    if (is_temporary(reply) && retry.again(reply, file.path, false)) continue;
    if (is_temporary(reply) || (reply.status != 200 && !is_redirect(reply.status)))
      return tl::unexpected(error_of(reply, file.path));
    const bool is_linked = !reply.header("x-linked-etag").empty();
    const std::optional<std::string> blob =
        blob_name(reply.header(is_linked ? "x-linked-etag" : "etag"));
    file.size = parse_size(reply.header(is_linked ? "x-linked-size" : "content-length"));
    if (!blob || file.size < 0)
      return make_error(ErrorCode::kUnavailable, "{}: {} tells no usable ETag and size of {}",
                        repo_, settings_.endpoint, file.path);
    file.blob = *blob;
    return {};
  }
}

Result<HttpReply> HubClient::get(const RepoFile& file, const std::string& commit,
                                 std::int64_t first, std::int64_t end, const BodySink& sink) {
  QUIRE_ASSIGN(const Url url, file_url(file.path, commit));
  HttpClient::Headers headers;
  if (first > 0 || end < file.size) headers["Range"] = fmt::format("bytes={}-{}", first, end - 1);
  return follow("GET", url, std::move(headers), &sink, true);
}

Error HubClient::error_of(const HttpReply& reply, const std::string& file) const {
  const std::string page = settings_.endpoint + "/" + repo_;
  const std::string name = file.empty() ? repo_ : repo_ + ": " + file;
  const std::string code = reply.header("x-error-code");
  if (is_temporary(reply))
    return {ErrorCode::kUnavailable,
            fmt::format("{}: cannot be fetched from {}: {}", name, settings_.endpoint,
                        failure_text(reply)),
            {}};
  if (code == "RevisionNotFound")
    return {ErrorCode::kNotFound,
            fmt::format("{}: no revision \"{}\" (a branch, tag or commit); see {}", repo_,
                        settings_.revision, page),
            {}};
  if (code == "EntryNotFound" || (reply.status == 404 && !file.empty()))
    return {ErrorCode::kNotFound,
            fmt::format("{}: no such file in revision \"{}\"", name, settings_.revision),
            {}};
  if (code == "GatedRepo" || (reply.status == 403 && code.empty()) ||
      (reply.status == 401 && !file.empty())) {
    const std::string what =
        settings_.token.empty()
            ? "set HF_TOKEN (or --hf-token) to a token of that account"
            : "the token that is set (HF_TOKEN, --hf-token) must be of that account";
    return {ErrorCode::kUnauthorized,
            fmt::format("{}: HTTP {}, access is restricted: accept the licence at {} and {}", name,
                        reply.status, page, what),
            {}};
  }
  if (reply.status == 401 || code == "RepoNotFound" || (reply.status == 404 && code.empty())) {
    const std::string_view hint =
        !settings_.token.empty()
            ? "or the token that is set (HF_TOKEN, --hf-token) is not valid for it"
            : "or it is private: then set HF_TOKEN";
    return {ErrorCode::kNotFound,
            fmt::format("{}: HTTP {}, no such model at {}, {}", repo_, reply.status,
                        settings_.endpoint, hint),
            {}};
  }
  const std::string words = reply.header("x-error-message");
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: {} answers HTTP {}{}{}", name, settings_.endpoint, reply.status,
                      words.empty() ? "" : ": ", one_line(words)),
          {}};
}

}  // namespace quire
