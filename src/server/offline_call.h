// Answers requests as the server does, without HTTP: the same parsing, the same preparation, the
// same answers. For `quire run-batch`. Thread safe: each call blocks its own thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/chat_dialect.h"
#include "server/dry_breakers.h"
#include "server/generator.h"
#include "server/prepare.h"
#include "server/server_options.h"
#include "server/text_service.h"

namespace quire {

struct OfflineReply {
  int status = 200;
  std::string body;  // JSON
};

class OfflineCaller {
 public:
  // The parts outlive the caller; options have been checked (check_options).
  OfflineCaller(const ServerOptions* options, const TextService* text, Generator* generator)
      : options_(options),
        text_(text),
        generator_(generator),
        dialect_(make_chat_dialect(*options, *text)) {}
  // url: the path of a POST, such as "/v1/completions". seed: of what the request draws when it
  // names no seed of its own, so that an answer depends on its line alone.
  OfflineReply call(std::string_view url, std::string_view body, const std::string& request_id,
                    std::uint64_t seed);

 private:
  const ServerOptions* options_;
  const TextService* text_;
  Generator* generator_;
  const ChatDialect dialect_;
  DryBreakerCache dry_breakers_;
};

}  // namespace quire
