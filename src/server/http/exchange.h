// A connection's side of Exchange. Holds its connection weakly: a closed one drops what is sent.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/http/connection.h"

namespace quire {

class ConnectionExchange : public Exchange,
                           public std::enable_shared_from_this<ConnectionExchange> {
 public:
  ConnectionExchange(const std::shared_ptr<Connection>& connection, bool head_only, bool http_1_0);

  void add_header(std::string name, std::string value) override;
  void on_reply(std::function<void(int)> callback) override { on_reply_ = std::move(callback); }
  void send(HttpResponse response) override;
  void begin_stream(HttpResponse head) override;
  void write(std::string data) override;
  void end() override;
  void post(std::function<void()> task) override;
  void on_gone(std::function<void()> callback) override;
  std::size_t backlog_bytes() const override;
  void on_drained(std::function<void()> callback) override;

  // For the connection, on its strand.
  void gone();
  void drained();

 private:
  void on_strand(std::function<void(Connection&)> task);
  void start_reply(Connection& connection, HttpResponse& response);
  void finish(Connection& connection);

  std::weak_ptr<Connection> connection_;
  std::shared_ptr<ConnectionHost> host_;  // keeps the strand's context alive
  boost::asio::any_io_executor strand_;
  const bool head_only_, http_1_0_;
  bool started_ = false, done_ = false, gone_ = false;
  std::vector<std::pair<std::string, std::string>> headers_;
  std::function<void(int)> on_reply_;
  std::function<void()> on_gone_, on_drained_;
};

}  // namespace quire
