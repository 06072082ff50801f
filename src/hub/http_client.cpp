#include "hub/http_client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <optional>
#include <vector>

#include "hub/model_ref.h"

namespace quire {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using beast::error_code;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

constexpr std::size_t kChunkBytes = 256 * 1024;
constexpr std::size_t kMaxBodyBytes = 64 << 20;  // of an answer that is kept in memory
constexpr std::uint32_t kMaxHeaderBytes = 64 * 1024;

std::string describe(const error_code& error) {
  if (error == beast::error::timeout) return "no answer in time";
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error == asio::error::eof || error == asio::ssl::error::stream_truncated)
    return "the connection was cut";
  return error.message();
}

// The name that the server picks its certificate by; addresses are not sent (RFC 6066).
void set_server_name(TlsStream& stream, std::string host) {
  error_code error;
  asio::ip::make_address(host, error);
  if (error)  // the macro SSL_set_tlsext_host_name, which has a C cast
    SSL_ctrl(stream.native_handle(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
             host.data());
}

}  // namespace

struct HttpClient::Impl {
  explicit Impl(const HttpOptions& given) : options(given) {}
  Status make_tls();  // reads the certificates, at the first connection that needs them

  // Starts one asynchronous operation and runs it to its end, or to the stream's time limit.
  template <class Start>
  error_code wait(Start&& start) {
    error_code result = asio::error::operation_aborted;
    start([&result](error_code error, auto&&...) { result = error; });
    io.restart();
    io.run();
    return result;
  }
  beast::tcp_stream& lowest() { return secure ? secure->next_layer() : *plain; }
  void set_time_limit() {
    lowest().expires_after(
        std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_s * 1000)));
  }
  template <class F>
  auto with_stream(F&& f) {
    return secure ? f(*secure) : f(*plain);
  }
  void close() {
    secure.reset();
    plain.reset();
    origin.clear();
    buffer.clear();
  }

  Result<std::string> connect(const Url& url);
  std::string open_tunnel(const Url& url, const Url& proxy);
  Result<std::string> shake_hands(const Url& url);
  Result<HttpReply> exchange(const std::string& method, const Url& url, const Headers& headers,
                             const BodySink* sink);
  Result<bool> read_body(http::response_parser<http::buffer_body>& parser, HttpReply& reply,
                         const BodySink* sink);

  HttpOptions options;
  asio::io_context io;
  std::optional<asio::ssl::context> tls;
  std::unique_ptr<beast::tcp_stream> plain;  // one of the two is open
  std::unique_ptr<TlsStream> secure;
  std::string origin;  // of the open connection; empty: none
  bool is_proxied = false;
  beast::flat_buffer buffer;  // bytes read beyond the last message
};

Status HttpClient::Impl::make_tls() {
  if (tls) return {};
  tls.emplace(asio::ssl::context::tls_client);
  error_code error;
  tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1,
                   error);
  tls->set_verify_mode(asio::ssl::verify_peer, error);
  if (options.ca_file.empty()) {
    tls->set_default_verify_paths(error);
  } else {
    tls->load_verify_file(options.ca_file, error);
  }
  if (!error) return {};
  tls.reset();
  return make_error(ErrorCode::kInvalidArgument, "cannot read the certificates of {}: {}",
                    options.ca_file.empty() ? "the system" : options.ca_file, error.message());
}

// Empty text: connected; else why not (worth a new try).
Result<std::string> HttpClient::Impl::connect(const Url& url) {
  if (url.is_tls) QUIRE_TRY(make_tls());
  close();
  QUIRE_ASSIGN(const std::optional<Url> proxy, proxy_for(options.proxy, url));
  const Url& peer = proxy ? *proxy : url;
  tcp::resolver resolver(io);
  tcp::resolver::results_type addresses;
  error_code error = asio::error::operation_aborted;
  resolver.async_resolve(peer.host, peer.port,
                         [&](error_code e, tcp::resolver::results_type found) {
                           error = e;
                           addresses = std::move(found);
                         });
  io.restart();
  io.run();
  if (error) return fmt::format("cannot find {}: {}", peer.host, error.message());

  if (url.is_tls) {
    secure = std::make_unique<TlsStream>(io, *tls);
  } else {
    plain = std::make_unique<beast::tcp_stream>(io);
  }
  set_time_limit();
  lowest().async_connect(addresses, [&](error_code e, const tcp::endpoint&) { error = e; });
  io.restart();
  io.run();
  if (error) return fmt::format("cannot connect to {}: {}", peer.authority(), describe(error));
  lowest().socket().set_option(tcp::no_delay(true), error);
  is_proxied = proxy.has_value();
  if (url.is_tls && proxy) {
    if (std::string failure = open_tunnel(url, *proxy); !failure.empty()) return failure;
  }
  if (url.is_tls) {
    QUIRE_ASSIGN(std::string failure, shake_hands(url));
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
  set_time_limit();
  error_code error = wait([&](auto handler) { http::async_write(lowest(), request, handler); });
  http::response_parser<http::empty_body> parser;
  parser.skip(true);
  if (!error)
    error = wait([&](auto handler) { http::async_read(lowest(), buffer, parser, handler); });
  const unsigned status = error ? 0 : parser.get().result_int();
  buffer.clear();
  if (status == 200) return {};
  return fmt::format("no way to {} through the proxy {}: {}", server, proxy.authority(),
                     error ? describe(error) : fmt::format("HTTP {}", status));
}

Result<std::string> HttpClient::Impl::shake_hands(const Url& url) {
  set_server_name(*secure, url.host);
  secure->set_verify_callback(asio::ssl::host_name_verification(url.host));
  set_time_limit();
  const error_code error =
      wait([&](auto handler) { secure->async_handshake(asio::ssl::stream_base::client, handler); });
  if (!error) return std::string();
  if (const long verdict = SSL_get_verify_result(secure->native_handle()); verdict != X509_V_OK)
    return make_error(
        ErrorCode::kInvalidArgument,
        "the certificate of {} is not trusted: {} (for a company's own authority, set "
        "SSL_CERT_FILE)",
        url.host, X509_verify_cert_error_string(verdict));
  return fmt::format("no TLS connection to {}: {}", url.authority(), describe(error));
}

// False when the sink has enough.
Result<bool> HttpClient::Impl::read_body(http::response_parser<http::buffer_body>& parser,
                                         HttpReply& reply, const BodySink* sink) {
  std::vector<char> chunk(kChunkBytes);
  while (!parser.is_done()) {
    parser.get().body().data = chunk.data();
    parser.get().body().size = chunk.size();
    parser.get().body().more = true;
    set_time_limit();
    error_code error = wait([&](auto handler) {
      with_stream([&](auto& stream) { http::async_read_some(stream, buffer, parser, handler); });
    });
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
      reply.failure = describe(error);
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
  set_time_limit();
  error_code error = wait([&](auto handler) {
    with_stream([&](auto& stream) { http::async_write(stream, request, handler); });
  });
  if (error) {
    reply.failure = describe(error);
    return reply;
  }
  http::response_parser<http::buffer_body> parser;
  parser.header_limit(kMaxHeaderBytes);
  parser.body_limit(boost::none);
  parser.skip(method == "HEAD");
  set_time_limit();
  error = wait([&](auto handler) {
    with_stream([&](auto& stream) { http::async_read_header(stream, buffer, parser, handler); });
  });
  if (error) {
    reply.failure = describe(error);
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
