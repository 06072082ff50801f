// `quire openapi`: the document that a server gives at /openapi.json, without a server.
#include <cstdio>

#include "app/commands.h"
#include "server/api_server.h"

namespace quire {

Command add_openapi(CLI::App&) {
  return [] {
    ServerOptions options;
    options.enable_tokenizer_info = true;
    std::puts(ApiServer::openapi(options).c_str());
    return 0;
  };
}

}  // namespace quire
