// One client's connection. Everything here runs on the connection's strand. A read is always
// pending, also while a request is being answered, so that a client that goes away is noticed at
// once; bytes that come early are kept.
//
// Confined to http/: the only header that names Asio and Beast.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "server/http/http_server.h"

namespace quire {

class Connection;

// What a connection needs of its server.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;
  virtual const HttpOptions& options() const = 0;
  virtual const HttpHandler& handler() const = 0;
  virtual bool draining() const = 0;
  virtual bool stopped() const = 0;          // nothing runs any more
  virtual void busy_changed(int delta) = 0;  // connections with a reply under way
  virtual void closed(Connection* connection) = 0;
};

class ConnectionExchange;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<ConnectionHost> host);
  ~Connection();
  // Any thread.
  void start();
  void drain();  // closes when idle, else after the reply
  void abort();  // closes now

 private:
  friend class ConnectionExchange;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void read_more();
  void on_read(const boost::system::error_code& error, std::size_t num_bytes);
  void parse();
  bool parse_some();  // false: nothing more to do with what is here
  bool on_header();
  void dispatch();
  void refuse(int status, const std::string& message);
  void refuse_bad(const boost::system::error_code& error);

  void append(std::string_view data);
  void flush();
  void on_written(const boost::system::error_code& error, std::size_t num_bytes);
  std::string head_of(const HttpResponse& response, bool keep_alive) const;
  void finish_exchange();
  void client_gone();
  void linger();
  void close();

  void update_busy();
  void update_timer();
  double deadline_s() const;
  void on_timer();

  boost::asio::ip::tcp::socket socket_;
  std::shared_ptr<ConnectionHost> host_;
  boost::asio::steady_timer timer_;
  double armed_s_ = std::numeric_limits<double>::infinity();  // when the timer fires

  std::array<char, 16 << 10> chunk_;
  std::string in_;                // read, not yet parsed
  std::optional<Parser> parser_;  // of the request that is arriving
  bool header_seen_ = false;
  double request_started_s_ = 0, last_read_s_ = 0, last_write_s_ = 0;
  bool reading_ = false, parsing_ = false, keep_alive_ = true;
  bool close_after_write_ = false, lingering_ = false, closed_ = false, busy_ = false;
  double linger_until_s_ = 0;

  std::shared_ptr<ConnectionExchange> exchange_;  // the request that is being answered
  std::string out_writing_, out_pending_;         // writes that meet a busy socket are joined
  std::size_t out_offset_ = 0;
  bool writing_ = false;
};

}  // namespace quire
