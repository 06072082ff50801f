// An HTTP/1.1 server behind plain types: keep-alive, pipelining in order, chunked bodies, limits
// and timeouts. Owns its io threads. Every connection runs on a strand of its own; a handler is
// called on it and must not block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/http/message.h"

namespace quire {

// One request's way back to its client. send, begin_stream, write, end and post may be called on
// any thread (calls of one thread keep their order); the rest on the connection's strand: inside
// the handler or a posted function.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Added to whatever reply follows.
  virtual void add_header(std::string name, std::string value) = 0;
  // Called with the status once the reply's head is written.
  virtual void on_reply(std::function<void(int status)> callback) = 0;

  virtual void send(HttpResponse response) = 0;      // the whole answer
  virtual void begin_stream(HttpResponse head) = 0;  // head.body is ignored
  virtual void write(std::string data) = 0;          // a piece of a stream
  virtual void end() = 0;                            // of a stream

  virtual void post(
      std::function<void()> task) = 0;  // runs on the strand; dropped when the server has stopped
  // Called once when the client goes away before the reply is complete (at once when it has
  // already).
  virtual void on_gone(std::function<void()> callback) = 0;
  virtual std::size_t backlog_bytes() const = 0;  // written but not yet taken by the socket
  // Called once when the backlog is empty (at once when it is already).
  virtual void on_drained(std::function<void()> callback) = 0;
};

using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<Exchange>)>;

struct HttpOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;  // 0: any free one
  int io_threads = 1;
  std::uint32_t header_limit_bytes = 64u << 10;  // over it: 431
  std::uint64_t body_limit_bytes = 32u << 20;    // over it: 413
  double header_timeout_s = 30;  // from a request's first byte to the end of its headers: 408
  double body_timeout_s = 60;    // without a byte of the body: 408
  double idle_timeout_s = 75;    // between requests
  double write_timeout_s = 120;  // without a byte taken by the client
  // Body of replies that the server makes itself (malformed requests, limits).
  std::function<std::string(int status, const std::string& message)> error_body;
};

// Whether a server could listen there now: an error names the flag.
Status check_address(const std::string& host, std::uint16_t port);

class HttpServer {
 public:
  static Result<std::unique_ptr<HttpServer>> start(HttpOptions options, HttpHandler handler);
  ~HttpServer();  // stop()

  std::uint16_t port() const;
  // Takes no more connections; closes idle ones; the rest close after their reply.
  void begin_drain();
  // Waits until no reply is under way; false when the limit passed first.
  bool wait_drained(double timeout_s);
  // Closes everything and joins the io threads. Idempotent.
  void stop();

  struct Impl;

 private:
  explicit HttpServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace quire
