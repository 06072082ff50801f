#include "server/http/http_server.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "server/http/connection.h"

namespace quire {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Shared with every connection, so that it lives as long as the last of them.
struct HttpServer::Impl : ConnectionHost, std::enable_shared_from_this<HttpServer::Impl> {
  Impl(HttpOptions options, HttpHandler handler)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        io_(std::max(1, options_.io_threads)) {}

  const HttpOptions& options() const override { return options_; }
  const HttpHandler& handler() const override { return handler_; }
  bool draining() const override { return draining_; }
  bool stopped() const override { return stopped_; }

  void busy_changed(int delta) override {
    std::lock_guard lock(mutex_);
    num_busy_ += delta;
    if (num_busy_ == 0) idle_.notify_all();
  }
  void closed(Connection* connection) override {
    std::lock_guard lock(mutex_);
    connections_.erase(connection);
  }

  Status listen();
  void accept();
  void on_accept(const error_code& error, tcp::socket socket);
  std::vector<std::shared_ptr<Connection>> connections();
  void close_acceptor();

  HttpOptions options_;
  HttpHandler handler_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  tcp::acceptor acceptor_{asio::make_strand(io_)};
  asio::steady_timer retry_{acceptor_.get_executor()};
  std::uint16_t port_ = 0;
  std::atomic<bool> draining_ = false, stopped_ = false;
  std::vector<std::thread> threads_;

  std::mutex mutex_;
  std::condition_variable idle_;
  int num_busy_ = 0;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections_;
};

namespace {
// Binds the acceptor; with `listen`, connections may come.
Status open_acceptor(tcp::acceptor& acceptor, const std::string& host, std::uint16_t port,
                     bool listen) {
  error_code error;
  tcp::resolver resolver(acceptor.get_executor());
  const auto found = resolver.resolve(
      host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return field_error(
        "--host",
        "cannot find the address \"{}\" ({}): use 127.0.0.1, 0.0.0.0 or an address of this machine",
        host, error.message());
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error && listen) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return {};
  if (error == asio::error::address_in_use) {
    return field_error(
        "--port",
        "port {} of {} is taken by another server: stop that one or choose another --port", port,
        host);
  }
  if (error == asio::error::access_denied) {
    return field_error(
        "--port", "port {} may not be used by this user: choose a --port of 1024 or more", port);
  }
  return field_error(
      "--host",
      "cannot listen on {}:{} ({}): use an address of this machine, such as 127.0.0.1 or 0.0.0.0",
      host, port, error.message());
}

}  // namespace

Status check_address(const std::string& host, std::uint16_t port) {
  asio::io_context io;
  tcp::acceptor acceptor(io);
  return open_acceptor(acceptor, host, port, false);
}

Status HttpServer::Impl::listen() {
  QUIRE_TRY(open_acceptor(acceptor_, options_.host, options_.port, true));
  error_code ignored;
  port_ = acceptor_.local_endpoint(ignored).port();
  return {};
}

void HttpServer::Impl::accept() {
  acceptor_.async_accept(asio::make_strand(io_),
                         [self = shared_from_this()](const error_code& error, tcp::socket socket) {
                           self->on_accept(error, std::move(socket));
                         });
}

void HttpServer::Impl::on_accept(const error_code& error, tcp::socket socket) {
  if (!acceptor_.is_open()) return;
  if (error) {
    log_warning("cannot take a connection: {}", error.message());
    retry_.expires_after(std::chrono::milliseconds(100));  // most likely out of file descriptors
    retry_.async_wait([self = shared_from_this()](const error_code& cancelled) {
      if (!cancelled && self->acceptor_.is_open()) self->accept();
    });
    return;
  }
  auto connection = std::make_shared<Connection>(std::move(socket), shared_from_this());
  {
    std::lock_guard lock(mutex_);
    connections_.emplace(connection.get(), connection);
  }
  connection->start();
  accept();
}

std::vector<std::shared_ptr<Connection>> HttpServer::Impl::connections() {
  std::vector<std::shared_ptr<Connection>> out;
  std::lock_guard lock(mutex_);
  for (const auto& [pointer, weak] : connections_) {
    if (auto connection = weak.lock()) out.push_back(std::move(connection));
  }
  return out;
}

void HttpServer::Impl::close_acceptor() {
  asio::post(acceptor_.get_executor(), [self = shared_from_this()] {
    error_code ignored;
    self->acceptor_.close(ignored);
    self->retry_.cancel();
  });
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpOptions options, HttpHandler handler) {
  auto impl = std::make_shared<Impl>(std::move(options), std::move(handler));
  QUIRE_TRY(impl->listen());
  impl->accept();
  for (int i = 0; i < std::max(1, impl->options_.io_threads); ++i) {
    impl->threads_.emplace_back([raw = impl.get()] { raw->io_.run(); });
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() { stop(); }

std::uint16_t HttpServer::port() const { return impl_->port_; }

void HttpServer::begin_drain() {
  impl_->draining_ = true;
  impl_->close_acceptor();
  for (const auto& connection : impl_->connections()) connection->drain();
}

bool HttpServer::wait_drained(double timeout_s) {
  std::unique_lock lock(impl_->mutex_);
  return impl_->idle_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                               [&] { return impl_->num_busy_ == 0; });
}

void HttpServer::stop() {
  if (impl_->threads_.empty()) return;
  begin_drain();
  for (const auto& connection : impl_->connections()) connection->abort();
  impl_->stopped_ = true;
  impl_->work_.reset();
  for (auto& thread : impl_->threads_) thread.join();
  impl_->threads_.clear();
}

}  // namespace quire
