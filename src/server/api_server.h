// The OpenAI-compatible server: routes, keys, CORS, the text pool and the HTTP server, wired to an
// engine. The app makes the parts, which must outlive it:
//
//   ServerMetrics metrics({model_name, max_model_len});
//   Engine engine(engine_options, std::move(executor), &tokenizer, &metrics);
//   EngineGenerator generator(&engine);
//   ModelTextService text(&tokenizer, chat_template.get());
//   auto server = ApiServer::start(options, {&generator, &text, &metrics});
//   ... on SIGTERM: (*server)->shutdown(timeout_s);
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/generator.h"
#include "server/metrics.h"
#include "server/server_options.h"
#include "server/text_service.h"

namespace quire {

class ApiServer {
 public:
  struct Parts {
    Generator* generator = nullptr;
    TextService* text = nullptr;
    ServerMetrics* metrics = nullptr;
  };
  // Listens and serves when it returns. A taken port or a bad address is an error that says what to
  // do.
  static Result<std::unique_ptr<ApiServer>> start(ServerOptions options, Parts parts);
  ~ApiServer();  // shutdown(0)

  // What GET /openapi.json answers with these options.
  static std::string openapi(const ServerOptions& options);

  std::uint16_t port() const;
  // Stops accepting, closes idle connections and waits until what runs is answered or the limit
  // passes; then the rest is aborted. True when all was answered. Idempotent.
  bool shutdown(double timeout_s);

 private:
  struct Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
