#include "hub/http_stream.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/error.hpp>
#include <chrono>
#include <optional>
#include <utility>

namespace quire {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using beast::error_code;
using TlsStream = asio::ssl::stream<beast::tcp_stream&>;

// One type for all operations.
struct Finish {
  error_code* error;
  std::size_t* num_bytes;
  void operator()(error_code result, std::size_t count = 0) const {
    *error = result;
    *num_bytes = count;
  }
};

// The name that the server picks its certificate by; addresses are not sent (RFC 6066).
void set_server_name(TlsStream& stream, std::string host) {
  error_code error;
  asio::ip::make_address(host, error);
  if (error)  // the macro SSL_set_tlsext_host_name, which has a C cast
    SSL_ctrl(stream.native_handle(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
             host.data());
}

}  // namespace

std::string describe_network_error(const error_code& error) {
  namespace http = beast::http;
  if (error == beast::error::timeout) return "no answer in time";
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error == asio::error::eof || error == asio::ssl::error::stream_truncated)
    return "the connection was cut";
  return error.message();
}

struct HttpStream::Impl {
  // Starts one asynchronous operation and runs it to its end, or to the stream's time limit.
  template <class Start>
  std::size_t wait(error_code& error, Start&& start) {
    std::size_t num_bytes = 0;
    error = asio::error::operation_aborted;
    if (plain)
      plain->expires_after(std::chrono::milliseconds(static_cast<std::int64_t>(timeout_s * 1000)));
    start(Finish{&error, &num_bytes});
    io.restart();
    io.run();
    return num_bytes;
  }

  double timeout_s;
  std::string ca_file;
  asio::io_context io = {};
  std::optional<asio::ssl::context> tls = std::nullopt;
  std::optional<beast::tcp_stream> plain = std::nullopt;
  std::optional<TlsStream> secure = std::nullopt;  // over plain, once hands are shaken
};

HttpStream::HttpStream(double timeout_s, std::string ca_file)
    : impl_(new Impl{timeout_s, std::move(ca_file)}) {}
HttpStream::~HttpStream() = default;

void HttpStream::close() {
  impl_->secure.reset();
  impl_->plain.reset();
}

Status HttpStream::make_tls() {
  std::optional<asio::ssl::context>& tls = impl_->tls;
  if (tls) return {};
  tls.emplace(asio::ssl::context::tls_client);
  error_code error;
  tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1,
                   error);
  tls->set_verify_mode(asio::ssl::verify_peer, error);
  if (impl_->ca_file.empty()) {
    tls->set_default_verify_paths(error);
  } else {
    tls->load_verify_file(impl_->ca_file, error);
  }
  if (!error) return {};
  tls.reset();
  return make_error(ErrorCode::kInvalidArgument, "cannot read the certificates of {}: {}",
                    impl_->ca_file.empty() ? "the system" : impl_->ca_file, error.message());
}

std::string HttpStream::connect(const Url& peer) {
  close();
  tcp::resolver resolver(impl_->io);
  tcp::resolver::results_type addresses;
  error_code error;
  impl_->wait(error, [&](Finish finish) {
    resolver.async_resolve(peer.host, peer.port,
                           [&addresses, finish](error_code e, tcp::resolver::results_type found) {
                             addresses = std::move(found);
                             finish(e);
                           });
  });
  if (error) return fmt::format("cannot find {}: {}", peer.host, error.message());
  impl_->plain.emplace(impl_->io);
  impl_->wait(error, [&](Finish finish) {
    impl_->plain->async_connect(addresses,
                                [finish](error_code e, const tcp::endpoint&) { finish(e); });
  });
  if (error)
    return fmt::format("cannot connect to {}: {}", peer.authority(), describe_network_error(error));
  impl_->plain->socket().set_option(tcp::no_delay(true), error);
  return {};
}

Result<std::string> HttpStream::shake_hands(const Url& url) {
  TlsStream& secure = impl_->secure.emplace(*impl_->plain, *impl_->tls);
  set_server_name(secure, url.host);
  secure.set_verify_callback(asio::ssl::host_name_verification(url.host));
  error_code error;
  impl_->wait(error, [&](Finish finish) {
    secure.async_handshake(asio::ssl::stream_base::client, finish);
  });
  if (!error) return std::string();
  if (const long verdict = SSL_get_verify_result(secure.native_handle()); verdict != X509_V_OK)
    return make_error(
        ErrorCode::kInvalidArgument,
        "the certificate of {} is not trusted: {} (for a company's own authority, set "
        "SSL_CERT_FILE)",
        url.host, X509_verify_cert_error_string(verdict));
  return fmt::format("no TLS connection to {}: {}", url.authority(), describe_network_error(error));
}

std::size_t HttpStream::read(asio::mutable_buffer buffer, error_code& error) {
  return impl_->wait(error, [&](Finish finish) {
    if (impl_->secure) {
      impl_->secure->async_read_some(buffer, finish);
    } else {
      impl_->plain->async_read_some(buffer, finish);
    }
  });
}

std::size_t HttpStream::write(error_code& error) {
  return impl_->wait(error, [&](Finish finish) {
    if (impl_->secure) {
      impl_->secure->async_write_some(asio::buffer(std::as_const(out_)), finish);
    } else {
      impl_->plain->async_write_some(asio::buffer(std::as_const(out_)), finish);
    }
  });
}

}  // namespace quire
