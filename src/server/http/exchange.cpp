#include "server/http/exchange.h"

#include <fmt/format.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <iterator>

namespace quire {

ConnectionExchange::ConnectionExchange(const std::shared_ptr<Connection>& connection,
                                       bool head_only, bool http_1_0)
    : connection_(connection),
      host_(connection->host_),
      strand_(connection->socket_.get_executor()),
      head_only_(head_only),
      http_1_0_(http_1_0) {}

void ConnectionExchange::add_header(std::string name, std::string value) {
  headers_.emplace_back(std::move(name), std::move(value));
}

// Runs the task on the strand (now, when already there) unless the reply is over or the client is
// gone.
void ConnectionExchange::on_strand(std::function<void(Connection&)> task) {
  if (host_->stopped()) return;
  boost::asio::dispatch(strand_, [self = shared_from_this(), task = std::move(task)] {
    auto connection = self->connection_.lock();
    if (self->done_ || self->gone_ || !connection) return;
    task(*connection);
  });
}

void ConnectionExchange::start_reply(Connection& connection, HttpResponse& response) {
  started_ = true;
  response.headers.insert(response.headers.end(), std::make_move_iterator(headers_.begin()),
                          std::make_move_iterator(headers_.end()));
  if (connection.host_->draining()) connection.keep_alive_ = false;
  if (on_reply_) std::exchange(on_reply_, nullptr)(response.status);
}

// The callbacks hold their owners, which hold this: let go of them.
void ConnectionExchange::finish(Connection& connection) {
  done_ = true;
  on_gone_ = nullptr;
  on_drained_ = nullptr;
  connection.finish_exchange();
}

void ConnectionExchange::send(HttpResponse response) {
  on_strand([this, response = std::move(response)](Connection& connection) mutable {
    if (started_) return;
    start_reply(connection, response);
    response.headers.emplace_back("Content-Length", std::to_string(response.body.size()));
    std::string out = connection.head_of(response, connection.keep_alive_);
    if (!head_only_) out += response.body;
    connection.append(out);
    finish(connection);
  });
}

void ConnectionExchange::begin_stream(HttpResponse head) {
  on_strand([this, head = std::move(head)](Connection& connection) mutable {
    if (started_) return;
    start_reply(connection, head);
    if (http_1_0_) {
      connection.keep_alive_ = false;  // the end of the connection is the end of the body
    } else {
      head.headers.emplace_back("Transfer-Encoding", "chunked");
    }
    connection.append(connection.head_of(head, connection.keep_alive_));
  });
}

void ConnectionExchange::write(std::string data) {
  if (data.empty()) return;
  on_strand([this, data = std::move(data)](Connection& connection) {
    if (head_only_) return;
    if (http_1_0_) {
      connection.append(data);
    } else {
      connection.append(fmt::format("{:x}\r\n{}\r\n", data.size(), data));
    }
  });
}

void ConnectionExchange::end() {
  on_strand([this](Connection& connection) {
    if (!head_only_ && !http_1_0_) connection.append("0\r\n\r\n");
    finish(connection);
  });
}

void ConnectionExchange::post(std::function<void()> task) {
  if (!host_->stopped()) boost::asio::post(strand_, std::move(task));
}

void ConnectionExchange::on_gone(std::function<void()> callback) {
  if (gone_) return callback();
  if (!done_) on_gone_ = std::move(callback);
}

std::size_t ConnectionExchange::backlog_bytes() const {
  auto connection = connection_.lock();
  if (!connection) return 0;
  return connection->out_pending_.size() + connection->out_writing_.size() -
         connection->out_offset_;
}

void ConnectionExchange::on_drained(std::function<void()> callback) {
  if (backlog_bytes() == 0) return callback();
  on_drained_ = std::move(callback);
}

void ConnectionExchange::gone() {
  if (done_ || gone_) return;
  gone_ = true;
  on_drained_ = nullptr;
  if (on_gone_) std::exchange(on_gone_, nullptr)();
}

void ConnectionExchange::drained() {
  if (on_drained_) std::exchange(on_drained_, nullptr)();
}

}  // namespace quire
