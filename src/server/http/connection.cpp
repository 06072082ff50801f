#include "server/http/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/status.hpp>

#include "base/clock.h"
#include "server/http/exchange.h"
#include "server/http/request_text.h"

namespace quire {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// Bytes of later requests that are kept while one is being answered; then the client must wait.
constexpr std::size_t kMaxEarlyBytes = 256u << 10;
// How long bytes of a refused request are read and dropped, so that the client can read the reply.
constexpr double kLingerS = 10;

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, std::shared_ptr<ConnectionHost> host)
    : socket_(std::move(socket)), host_(std::move(host)), timer_(socket_.get_executor()) {
  last_read_s_ = last_write_s_ = now_s();
}

Connection::~Connection() { host_->closed(this); }

void Connection::start() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    error_code ignored;
    self->socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
    self->socket_.set_option(asio::socket_base::keep_alive(true), ignored);
    self->read_more();
    self->update_timer();
  });
}

void Connection::drain() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (!self->busy_ && !self->parser_) self->close();
  });
}

void Connection::abort() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->client_gone(); });
}

// ---- reading ---------------------------------------------------------------------------------

void Connection::read_more() {
  if (reading_ || closed_) return;
  if (exchange_ && in_.size() >= kMaxEarlyBytes) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(chunk_), [self = shared_from_this()](const error_code& error,
                                                                            std::size_t num_bytes) {
    self->on_read(error, num_bytes);
  });
}

void Connection::on_read(const error_code& error, std::size_t num_bytes) {
  reading_ = false;
  if (closed_) return;
  if (error) {
    if (exchange_ || lingering_ || error != asio::error::eof || !writing_) return client_gone();
    close_after_write_ = true;  // the client has said all; it still reads its last reply
    return;
  }
  last_read_s_ = now_s();
  if (!lingering_ && !close_after_write_) {
    if (in_.empty() && !parser_) request_started_s_ = last_read_s_;
    in_.append(chunk_.data(), num_bytes);
    parse();
  }
  read_more();
  update_timer();
}

void Connection::parse() {
  if (parsing_) return;
  parsing_ = true;
  while (parse_some()) {
  }
  parsing_ = false;
}

bool Connection::parse_some() {
  if (exchange_ || closed_ || close_after_write_) return false;
  if (!parser_) {
    in_.erase(0, in_.find_first_not_of("\r\n"));  // empty lines before a request are allowed
    if (in_.empty()) return false;
    parser_.emplace();
    parser_->eager(true);
    parser_->header_limit(host_->options().header_limit_bytes);
    parser_->body_limit(host_->options().body_limit_bytes);
    header_seen_ = false;
    request_started_s_ = now_s();
  }
  if (in_.empty()) return false;
  error_code error;
  const std::size_t used = parser_->put(asio::buffer(in_), error);
  in_.erase(0, used);
  if (error == http::error::need_more) error = {};
  if (error) {
    refuse_bad(error);
    return false;
  }
  if (parser_->is_header_done() && !header_seen_ && !on_header()) return false;
  if (parser_->is_done()) {
    dispatch();
    return true;
  }
  return used > 0 && !in_.empty();
}

// False: refused.
bool Connection::on_header() {
  header_seen_ = true;
  // Of another coding nobody knows where the body ends: its bytes would be read as requests.
  if (parser_->get().count(http::field::transfer_encoding) > 0 && !parser_->chunked()) {
    refuse(400, "malformed HTTP request: the only transfer coding taken is chunked");
    return false;
  }
  // RFC 9112, section 3.2: exactly one. Older clients know no such field.
  const auto hosts = parser_->get().count(http::field::host);
  if (hosts > 1 || (hosts == 0 && parser_->get().version() >= 11)) {
    refuse(400, fmt::format("malformed HTTP request: {} Host header",
                            hosts == 0 ? "HTTP/1.1 needs a" : "more than one"));
    return false;
  }
  const auto expect = parser_->get()[http::field::expect];
  if (!parser_->is_done() && boost::beast::iequals(expect, "100-continue")) {
    append("HTTP/1.1 100 Continue\r\n\r\n");
  }
  return true;
}

void Connection::dispatch() {
  auto message = parser_->release();
  parser_.reset();
  keep_alive_ = message.keep_alive();
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  request.path = path_of(request.target);
  for (const auto& field : message) {
    request.headers.emplace_back(
        lower_case(std::string_view(field.name_string().data(), field.name_string().size())),
        std::string(field.value()));
  }
  request.body = std::move(message.body());
  request.arrival_s = now_s();
  exchange_ = std::make_shared<ConnectionExchange>(shared_from_this(), request.method == "HEAD",
                                                   message.version() < 11);
  update_busy();
  host_->handler()(std::move(request), exchange_);
}

void Connection::refuse_bad(const error_code& error) {
  const HttpOptions& options = host_->options();
  if (error == http::error::header_limit) {
    return refuse(431, fmt::format("request headers are over the limit of {} bytes",
                                   options.header_limit_bytes));
  }
  if (error == http::error::body_limit) {
    return refuse(
        413, fmt::format("request body is over the limit of {} bytes", options.body_limit_bytes));
  }
  refuse(400, fmt::format("malformed HTTP request: {}", error.message()));
}

// Answers by itself and closes: what follows on this connection can't be told from the broken
// request.
void Connection::refuse(int status, const std::string& message) {
  parser_.reset();
  in_.clear();
  HttpResponse response;
  response.status = status;
  response.body =
      host_->options().error_body ? host_->options().error_body(status, message) : message;
  response.headers.emplace_back("Content-Length", std::to_string(response.body.size()));
  keep_alive_ = false;
  close_after_write_ = true;
  append(head_of(response, false) + response.body);
}

// ---- writing ---------------------------------------------------------------------------------

std::string Connection::head_of(const HttpResponse& response, bool keep_alive) const {
  const auto reason =
      http::obsolete_reason(http::int_to_status(static_cast<unsigned>(response.status)));
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nServer: quire\r\nDate: {}\r\n", response.status,
                                std::string_view(reason.data(), reason.size()), http_date());
  if (!response.content_type.empty())
    out += fmt::format("Content-Type: {}\r\n", response.content_type);
  for (const auto& [name, value] : response.headers) out += fmt::format("{}: {}\r\n", name, value);
  out += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return out;
}

void Connection::append(std::string_view data) {
  out_pending_ += data;
  flush();
  update_busy();
}

void Connection::flush() {
  if (writing_ || closed_) return;
  if (out_offset_ == out_writing_.size()) {
    if (out_pending_.empty()) return;
    out_writing_.clear();
    out_writing_.swap(out_pending_);
    out_offset_ = 0;
    last_write_s_ = now_s();
  }
  writing_ = true;
  socket_.async_write_some(
      asio::buffer(out_writing_.data() + out_offset_, out_writing_.size() - out_offset_),
      [self = shared_from_this()](const error_code& error, std::size_t num_bytes) {
        self->on_written(error, num_bytes);
      });
  update_timer();
}

void Connection::on_written(const error_code& error, std::size_t num_bytes) {
  writing_ = false;
  if (closed_) return;
  if (error) return client_gone();
  out_offset_ += num_bytes;
  last_write_s_ = now_s();
  flush();
  if (writing_) return;
  if (exchange_) {
    auto exchange = exchange_;
    exchange->drained();
  }
  update_busy();
  if (!writing_ && close_after_write_ && !exchange_) linger();
  update_timer();
}

void Connection::finish_exchange() {
  exchange_.reset();
  if (!keep_alive_ || host_->draining()) close_after_write_ = true;
  update_busy();
  if (close_after_write_ && !writing_) return linger();
  request_started_s_ = last_read_s_ = now_s();
  // On a turn of its own: the caller may be deep in a handler.
  if (!in_.empty() && !parsing_) {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
      self->parse();
      self->read_more();
      self->update_timer();
    });
  }
  update_timer();
}

// ---- ends ------------------------------------------------------------------------------------

void Connection::client_gone() {
  auto exchange = std::exchange(exchange_, nullptr);
  close();
  if (exchange) exchange->gone();
}

// All is written: say so, then drop what still comes until the client closes or the time is over.
// Closing at once could reset the connection and take the reply away from the client.
void Connection::linger() {
  if (lingering_ || closed_) return;
  lingering_ = true;
  linger_until_s_ = now_s() + kLingerS;
  in_.clear();
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  read_more();
  update_timer();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
  update_busy();
}

void Connection::update_busy() {
  const bool busy = !closed_ && (exchange_ || writing_ || !out_pending_.empty());
  if (busy == busy_) return;
  busy_ = busy;
  host_->busy_changed(busy ? 1 : -1);
}

// ---- timeouts --------------------------------------------------------------------------------

double Connection::deadline_s() const {
  const HttpOptions& options = host_->options();
  if (lingering_) return linger_until_s_;
  if (writing_) return last_write_s_ + options.write_timeout_s;
  if (exchange_) return std::numeric_limits<double>::infinity();
  if (parser_ && header_seen_) return last_read_s_ + options.body_timeout_s;
  if (parser_) return request_started_s_ + options.header_timeout_s;
  return last_read_s_ + options.idle_timeout_s;
}

// The timer is armed again only when it would fire too late; one that fires early looks again.
void Connection::update_timer() {
  if (closed_) return;
  const double deadline = deadline_s();
  if (deadline >= armed_s_) return;
  armed_s_ = deadline;
  const auto wait = std::chrono::duration<double>(std::max(0.0, deadline - now_s()));
  timer_.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(wait));
  timer_.async_wait([weak = weak_from_this()](const error_code& error) {
    if (error) return;
    if (auto self = weak.lock()) self->on_timer();
  });
}

void Connection::on_timer() {
  armed_s_ = std::numeric_limits<double>::infinity();
  if (closed_) return;
  if (now_s() < deadline_s()) return update_timer();
  if (parser_ && !exchange_ && !writing_ && !lingering_) {
    refuse(408, "the request did not arrive in time");
  } else {
    client_gone();
  }
}

}  // namespace quire
