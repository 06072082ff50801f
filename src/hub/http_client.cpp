#include "hub/http_client.h"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <vector>

#include "hub/http_stream.h"
#include "hub/model_ref.h"

namespace quire {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;

constexpr std::size_t kChunkBytes = 256 * 1024;
constexpr std::size_t kMaxBodyBytes = 64 << 20;  // of an answer that is kept in memory
constexpr std::uint32_t kMaxHeaderBytes = 64 * 1024;

}  // namespace

struct HttpClient::Impl {
  explicit Impl(const HttpOptions& given)
      : options(given), stream(given.timeout_s, given.ca_file) {}
  void close() {
    stream.close();
    origin.clear();
    buffer.clear();
  }

  Result<std::string> connect(const Url& url);
  std::string open_tunnel(const Url& url, const Url& proxy);
  Result<HttpReply> exchange(const std::string& method, const Url& url, const Headers& headers,
                             const BodySink* sink);
  Result<bool> read_body(http::response_parser<http::buffer_body>& parser, HttpReply& reply,
                         const BodySink* sink);

  HttpOptions options;
  HttpStream stream;
  std::string origin;  // of the open connection; empty: none
  bool is_proxied = false;
  boost::beast::flat_buffer buffer;  // bytes read beyond the last message
};

// Empty text: connected; else why not (worth a new try).
Result<std::string> HttpClient::Impl::connect(const Url& url) {
  if (url.is_tls) QUIRE_TRY(stream.make_tls());
  close();
  QUIRE_ASSIGN(const std::optional<Url> proxy, proxy_for(options.proxy, url));
  if (std::string failure = stream.connect(proxy ? *proxy : url); !failure.empty()) return failure;
  is_proxied = proxy.has_value();
  if (url.is_tls && proxy) {
    if (std::string failure = open_tunnel(url, *proxy); !failure.empty()) return failure;
  }
  if (url.is_tls) {
    QUIRE_ASSIGN(std::string failure, stream.shake_hands(url));
    if (!failure.empty()) return failure;
  }
  origin = url.origin();
  return std::string();
}

// Asks the proxy for a plain connection to the server (RFC 9110, CONNECT).
std::string HttpClient::Impl::open_tunnel(const Url& url, const Url& proxy) {
  const std::string server = url.port == "443" ? url.authority() + ":443" : url.authority();
  http::request<http::empty_body> request(http::verb::connect, server, 11);
  request.set(http::field::host, server);
  request.set(http::field::user_agent, "quire/" QUIRE_VERSION);
  error_code error;
  http::write(stream, request, error);
  http::response_parser<http::buffer_body> parser;
  parser.skip(true);
  if (!error) http::read_header(stream, buffer, parser, error);
  const unsigned status = error ? 0 : parser.get().result_int();
  buffer.clear();
  if (status == 200) return {};
  return fmt::format("no way to {} through the proxy {}: {}", server, proxy.authority(),
                     error ? describe_network_error(error) : fmt::format("HTTP {}", status));
}

// False when the sink has enough.
Result<bool> HttpClient::Impl::read_body(http::response_parser<http::buffer_body>& parser,
                                         HttpReply& reply, const BodySink* sink) {
  std::vector<char> chunk(kChunkBytes);
  while (!parser.is_done()) {
    parser.get().body().data = chunk.data();
    parser.get().body().size = chunk.size();
    parser.get().body().more = true;
    error_code error;
    http::read_some(stream, buffer, parser, error);
    if (error == http::error::need_buffer) error = {};
    const std::span<const char> got(chunk.data(), chunk.size() - parser.get().body().size);
    if (sink) {
      QUIRE_ASSIGN(const bool more, got.empty() ? Result<bool>(true) : sink->write(got));
      if (!more) return false;
    } else {
      reply.body.append(got.begin(), got.end());
      if (reply.body.size() > kMaxBodyBytes)
        return make_error(ErrorCode::kTooLarge, "an answer is larger than {} MiB",
                          kMaxBodyBytes >> 20);
    }
    if (error) {
      reply.failure = describe_network_error(error);
      return true;
    }
  }
  return true;
}

Result<HttpReply> HttpClient::Impl::exchange(const std::string& method, const Url& url,
                                             const Headers& headers, const BodySink* sink) {
  HttpReply reply;
  const http::verb verb = method == "HEAD" ? http::verb::head : http::verb::get;
  // A proxy for plain HTTP is told the whole address.
  const bool is_whole = is_proxied && !url.is_tls;
  http::request<http::empty_body> request(
      verb, is_whole ? "http://" + url.authority() + url.target : url.target, 11);
  request.set(http::field::host, url.authority());
  request.set(http::field::user_agent, "quire/" QUIRE_VERSION);
  request.set(http::field::accept, "*/*");
  request.set(http::field::accept_encoding, "identity");
  for (const auto& [name, value] : headers) request.set(name, value);
  error_code error;
  http::write(stream, request, error);
  if (error) {
    reply.failure = describe_network_error(error);
    return reply;
  }
  http::response_parser<http::buffer_body> parser;
  parser.header_limit(kMaxHeaderBytes);
  parser.body_limit(boost::none);
  parser.skip(method == "HEAD");
  http::read_header(stream, buffer, parser, error);
  if (error) {
    reply.failure = describe_network_error(error);
    return reply;
  }
  reply.status = parser.get().result_int();
  for (const auto& field : parser.get())
    reply.headers.emplace(to_lower(std::string(field.name_string())), std::string(field.value()));
  const bool is_taken = sink && (reply.status == 200 || reply.status == 206);
  if (is_taken) QUIRE_TRY(sink->begin(reply));
  QUIRE_ASSIGN(const bool is_read, read_body(parser, reply, is_taken ? sink : nullptr));
  if (!is_read || !reply.failure.empty() || !parser.keep_alive()) close();
  return reply;
}

HttpClient::HttpClient(const HttpOptions& options) : impl_(std::make_unique<Impl>(options)) {}
HttpClient::~HttpClient() = default;

Result<HttpReply> HttpClient::request(const std::string& method, const Url& url,
                                      const Headers& headers, const BodySink* sink) {
  // A kept connection may have been closed by the server meanwhile: then once more on a new one.
  if (impl_->origin == url.origin()) {
    Result<HttpReply> reply = impl_->exchange(method, url, headers, sink);
    if (!reply) impl_->close();
    if (!reply || reply->status != 0) return reply;
  }
  QUIRE_ASSIGN(std::string failure, impl_->connect(url));
  if (!failure.empty()) {
    impl_->close();
    HttpReply reply;
    reply.failure = std::move(failure);
    return reply;
  }
  Result<HttpReply> reply = impl_->exchange(method, url, headers, sink);
  if (!reply || reply->status == 0) impl_->close();
  return reply;
}

}  // namespace quire
