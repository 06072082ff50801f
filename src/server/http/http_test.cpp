// HTTP/1.1 behaviour on raw sockets.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/parse.hpp>
#include <thread>

#include "server/fake_parts.h"
#include "server/http/http_server.h"
#include "server/http/request_text.h"
#include "server/raw_client.h"

namespace quire {
namespace {

const std::string kSmall = R"({"prompt": "x", "max_tokens": 2})";

bool wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 6000; ++i) {  // a minute: only what never comes fails
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(Http, KeepAliveAlsoAfterErrorsAndStreams) {
  FakeServer server;
  RawClient client(server.server->port());
  client.post("/v1/completions", "{bad");
  EXPECT_EQ(client.read().status, 400);
  client.get("/nope");
  EXPECT_EQ(client.read().status, 404);
  client.post("/v1/completions", R"({"prompt": "x", "stream": true})");
  EXPECT_NE(client.read().body.find("[DONE]"), std::string::npos);
  client.get("/health");
  EXPECT_EQ(client.read().status, 200);
}

TEST(Http, PipelinedRequestsAreAnsweredInOrder) {
  FakeServer server;
  RawClient client(server.server->port());
  client.send(
      "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\nPOST /v1/completions HTTP/1.1\r\nHost: "
      "x\r\nContent-Type: "
      "application/json\r\nContent-Length: " +
      std::to_string(kSmall.size()) + "\r\n\r\n" + kSmall +
      "GET /nope HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(client.read().status, 404);
}

TEST(Http, ChunkedBodyExpectAndPieces) {
  FakeServer server;
  RawClient client(server.server->port());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: "
      "application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const char c : kSmall) client.send(std::string("1\r\n") + c + "\r\n");
  client.send("0\r\n\r\n");
  EXPECT_EQ(client.read().status, 200);
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: "
      "100-continue\r\nContent-Length: " +
      std::to_string(kSmall.size()) + "\r\n\r\n");
  EXPECT_EQ(client.read().status, 100);
  client.send(kSmall);
  EXPECT_EQ(client.read().status, 200);
  for (const char c : std::string("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"))
    client.send(std::string(1, c));
  EXPECT_EQ(client.read().status, 200);
}

TEST(Http, HeadAndOldVersionAndClose) {
  FakeServer server;
  RawClient head(server.server->port());
  head.send("HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(head.read(true).status, 200);
  head.get("/health", "Connection: close\r\n");
  EXPECT_EQ(head.read().status, 200);
  EXPECT_TRUE(head.at_end());
  RawClient old(server.server->port());
  old.send(
      "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: "
      "32\r\n\r\n"
      R"({"prompt": "x", "stream": true })");
  const auto reply = old.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.count("transfer-encoding"), 0U);
  EXPECT_NE(reply.body.find("[DONE]"), std::string::npos);
}

TEST(Http, MalformedRequestsGet400) {
  FakeServer server;
  for (const char* raw :
       {"NOT HTTP AT ALL\r\n\r\n", "GET /health HTTP/1.1\r\nBad Header Line\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
        "GET /health HTTP/1.1\r\n\r\n", "GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"}) {
    RawClient client(server.server->port());
    client.send(raw);
    const auto reply = client.read();
    EXPECT_EQ(reply.status, 400) << raw;
    EXPECT_TRUE(boost::json::parse(reply.body).at("error").is_object());
    EXPECT_TRUE(client.at_end());
  }
}

TEST(Http, LimitsAreToldBeforeTheConnectionCloses) {
  FakeServer server;
  {
    RawClient client(server.server->port());
    client.get("/health", "X-Big: " + std::string(1000000, 'a') + "\r\n");
    EXPECT_EQ(client.read().status, 431);
  }
  RawClient client(server.server->port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n");
  client.send(std::string(5000000, ' '));
  const auto reply = client.read();
  EXPECT_EQ(reply.status, 413);
  EXPECT_TRUE(boost::json::parse(reply.body).at("error").is_object());
}

TEST(Http, WrongContentTypeIs415) {
  FakeServer server;
  RawClient client(server.server->port());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: "
      "2\r\n\r\n{}");
  EXPECT_EQ(client.read().status, 415);
  client.send(
      "POST /v1/completions HTTP/1.1\r\nhOsT: x\r\nCONTENT-type: Application/JSON; "
      "charset=utf-8\r\ncontent-LENGTH: " +
      std::to_string(kSmall.size()) + "\r\n\r\n" + kSmall);
  EXPECT_EQ(client.read().status, 200);
}

TEST(Http, Cors) {
  FakeServer server;
  RawClient client(server.server->port());
  client.send(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: "
      "http://example.com\r\nAccess-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization,content-type\r\n\r\n");
  const auto preflight = client.read();
  EXPECT_EQ(preflight.status, 200);
  EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), "*");
  EXPECT_NE(preflight.headers.at("access-control-allow-methods").find("POST"), std::string::npos);
  EXPECT_EQ(preflight.headers.at("access-control-allow-headers"), "authorization,content-type");
  client.get("/v1/models", "Origin: http://example.com\r\n");
  EXPECT_EQ(client.read().headers.at("access-control-allow-origin"), "*");

  ServerOptions options;
  options.cors.origins = {"http://good"};
  options.cors.allow_credentials = true;
  FakeServer strict(options);
  RawClient other(strict.server->port());
  other.get("/v1/models", "Origin: http://bad\r\n");
  EXPECT_EQ(other.read().headers.count("access-control-allow-origin"), 0U);
  other.get("/v1/models", "Origin: http://good\r\n");
  EXPECT_EQ(other.read().headers.at("access-control-allow-origin"), "http://good");
}

TEST(Http, ApiKeysGuardV1Only) {
  ServerOptions options;
  options.api_keys = {"one", "two"};
  FakeServer server(options);
  RawClient client(server.server->port());
  const auto status = [&](std::string_view path, const std::string& authorization) {
    client.get(path, authorization.empty() ? "" : "Authorization: " + authorization + "\r\n");
    return client.read().status;
  };
  EXPECT_EQ(status("/v1/models", ""), 401);
  for (const char* bad :
       {"Bearer wrong", "Bearer", "Basic one", "one", "Bearer onex", "Bearer  one"}) {
    EXPECT_EQ(status("/v1/models", bad), 401) << bad;
  }
  EXPECT_EQ(status("/v1/models", "Bearer one"), 200);
  EXPECT_EQ(status("/v1/models", "bEaReR two"), 200);
  for (const char* path : {"/health", "/metrics", "/version"}) EXPECT_EQ(status(path, ""), 200);
  client.post("/v1/completions", "{bad");
  const auto reply = client.read();
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(boost::json::parse(reply.body).at("error").at("type").as_string(),
            "AuthenticationError");
}

TEST(Http, AGoneClientAbortsItsRequest) {
  FakeServer server;
  server.generator.hold();
  for (const char* body :
       {R"({"prompt": "x", "stream": true})", R"({"prompt": "x"})", R"({"prompt": ["x", "y"]})"}) {
    const std::size_t before = server.generator.num_aborted();
    RawClient client(server.server->port());
    client.post("/v1/completions", body);
    ASSERT_TRUE(wait_until([&] { return server.generator.running() > 0; }));
    client.close();
    EXPECT_TRUE(wait_until([&] { return server.generator.running() == 0; })) << body;
    EXPECT_GT(server.generator.num_aborted(), before);
  }
  // Half-closed counts as gone, too.
  RawClient client(server.server->port());
  client.post("/v1/completions", R"({"prompt": "x"})");
  ASSERT_TRUE(wait_until([&] { return server.generator.running() > 0; }));
  client.shut_write();
  EXPECT_TRUE(wait_until([&] { return server.generator.running() == 0; }));
  RawClient alive(server.server->port());
  alive.get("/health");
  EXPECT_EQ(alive.read().status, 200);
}

TEST(Http, TakenPortAndBadAddressAreErrors) {
  FakeServer server;
  ServerOptions options;
  options.served_model_names = {"tiny"};
  options.port = server.server->port();
  const auto taken = ApiServer::start(options, {&server.generator, &server.text, &server.metrics});
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().param, "--port");
  EXPECT_NE(taken.error().message.find(std::to_string(options.port)), std::string::npos);
  options.port = 0;
  options.host = "203.0.113.7";
  const auto foreign =
      ApiServer::start(options, {&server.generator, &server.text, &server.metrics});
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().param, "--host");
}

TEST(Http, ShutdownFinishesWhatRuns) {
  FakeServer server;
  server.generator.hold();
  RawClient idle(server.server->port()), busy(server.server->port());
  idle.get("/health");
  EXPECT_EQ(idle.read().status, 200);
  busy.post("/v1/completions", R"({"prompt": "x"})");
  ASSERT_TRUE(wait_until([&] { return server.generator.running() == 1; }));
  std::thread stopper([&] { EXPECT_TRUE(server.server->shutdown(10)); });
  EXPECT_TRUE(idle.at_end());
  EXPECT_FALSE(RawClient(server.server->port()).connected());
  server.generator.release();
  const auto reply = busy.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("connection"), "close");
  stopper.join();
}

TEST(Http, ShutdownAbortsAfterItsLimit) {
  FakeServer server;
  server.generator.hold();
  RawClient busy(server.server->port());
  busy.post("/v1/completions", R"({"prompt": "x"})");
  ASSERT_TRUE(wait_until([&] { return server.generator.running() == 1; }));
  EXPECT_FALSE(server.server->shutdown(0.05));
  EXPECT_EQ(server.generator.num_aborted(), 1U);
}

// A bare server with short limits.
std::unique_ptr<HttpServer> quick_server(HttpHandler handler, HttpOptions options = {}) {
  options.port = 0;
  options.header_timeout_s = options.body_timeout_s = options.idle_timeout_s =
      options.write_timeout_s = 0.2;
  return std::move(HttpServer::start(options, std::move(handler)).value());
}

TEST(Http, SlowRequestsTimeOut) {
  const auto server =
      quick_server([](HttpRequest, std::shared_ptr<Exchange> exchange) { exchange->send({}); });
  RawClient idle(server->port()), header(server->port()), body(server->port());
  header.send("GET / HT");
  body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_EQ(header.read().status, 408);
  EXPECT_EQ(body.read().status, 408);
  EXPECT_TRUE(idle.at_end());
}

// Else the bytes of the body would be taken for the next request.
TEST(Http, AnUnknownTransferCodingIsRefused) {
  std::atomic<int> num_seen = 0;
  const auto server = quick_server([&](HttpRequest, std::shared_ptr<Exchange> exchange) {
    ++num_seen;
    exchange->send({});
  });
  RawClient client(server->port());
  client.send(
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n"
      "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read().status, 400);
  EXPECT_TRUE(client.at_end());
  EXPECT_EQ(num_seen, 0);
}

TEST(Http, AClientThatDoesNotReadIsLetGo) {
  std::atomic<bool> gone = false;
  const auto server = quick_server([&](HttpRequest, std::shared_ptr<Exchange> exchange) {
    exchange->on_gone([&] { gone = true; });
    exchange->begin_stream({});
    exchange->write(std::string(64 << 20, 'x'));
    EXPECT_GT(exchange->backlog_bytes(), 1U << 20);
  });
  RawClient client(server->port());
  client.get("/");
  EXPECT_TRUE(wait_until([&] { return gone.load(); }));
}

TEST(Http, ManyConnectionsAndThreads) {
  HttpOptions options;
  options.io_threads = 3;
  const auto server = quick_server(
      [](HttpRequest request, std::shared_ptr<Exchange> exchange) {
        // Answered from another thread, in pieces.
        std::thread([exchange, body = request.body] {
          exchange->begin_stream({});
          for (const char c : body) exchange->write(std::string(1, c));
          exchange->end();
        }).detach();
      },
      options);
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      RawClient client(server->port());
      for (int n = 0; n < 50; ++n) {
        const std::string body = fmt::format("{} of {}", n, i);
        client.post("/", body);
        EXPECT_EQ(client.read().body, body);
      }
    });
  }
  for (auto& client : clients) client.join();
}

TEST(RequestText, Paths) {
  EXPECT_EQ(path_of("/a/b?c=d#e"), "/a/b");
  EXPECT_EQ(path_of("/v1/models/a%2Fb%zz%4"), "/v1/models/a/b%zz%4");
  EXPECT_EQ(path_of("http://host:1/x"), "/x");
  EXPECT_EQ(path_of("http://host"), "/");
  EXPECT_TRUE(constant_time_equal("abc", "abc"));
  EXPECT_FALSE(constant_time_equal("abc", "abd"));
}

}  // namespace
}  // namespace quire
