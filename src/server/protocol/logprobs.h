// Log-probabilities in the shapes of the API: the legacy lists of completions, the content list of
// chats, and vLLM's prompt_logprobs.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "server/text_service.h"

namespace quire {

// Invalid UTF-8 as U+FFFD, as Python's errors="replace" does.
std::string replace_invalid_utf8(std::string_view bytes);
bool valid_utf8(std::string_view bytes);

// How tokens are spelled in log-probabilities.
struct TokenSpelling {
  const TextService* text = nullptr;
  bool as_ids = false;  // "token_id:123"
};

// The legacy shape: parallel lists. text_offset counts characters from the start of the choice's
// text.
class LegacyLogprobs {
 public:
  // next_offset: characters before the first token; kept across the chunks of a stream.
  LegacyLogprobs(TokenSpelling spelling, std::size_t* next_offset)
      : spelling_(spelling), next_offset_(next_offset) {}
  // logprobs null: the first token of a prompt, which has none.
  void add(TokenId id, std::string_view bytes, const TokenLogprobs* logprobs);
  boost::json::object take();

 private:
  TokenSpelling spelling_;
  std::size_t* next_offset_;
  boost::json::array tokens_, token_logprobs_, top_logprobs_, text_offset_;
};

// One entry of a chat's logprobs.content; exactly top_count alternatives.
boost::json::object chat_logprob(TokenSpelling spelling, const OutputToken& token,
                                 std::int32_t top_count);

// [null, {"id": {"logprob", "rank", "decoded_token"}, ...}, ...]: one entry per prompt token.
boost::json::array prompt_logprobs_json(const TextService& text,
                                        const std::vector<TokenLogprobs>& logprobs);

}  // namespace quire
