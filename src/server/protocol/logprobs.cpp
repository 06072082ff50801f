#include "server/protocol/logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

namespace json = boost::json;

constexpr double kLowestLogprob = -9999.0;  // JSON has no -inf
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

double finite(float logprob) {
  return std::isfinite(logprob) ? std::max<double>(logprob, kLowestLogprob) : kLowestLogprob;
}

unsigned char byte_at(std::string_view bytes, std::size_t i) {
  return static_cast<unsigned char>(bytes[i]);
}

// Length of the well-formed character at the start of `bytes`; 0 when there is none. *bad: bytes
// that one replacement mark stands for then (the longest start of a character, at least one).
std::size_t character_length(std::string_view bytes, std::size_t* bad) {
  const unsigned char lead = byte_at(bytes, 0);
  *bad = 1;
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : (lead & 0xF0) == 0xE0        ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  if (length == 0) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (i >= bytes.size()) return 0;
    unsigned char low = 0x80, high = 0xBF;
    if (i == 1 && lead == 0xE0) low = 0xA0;
    if (i == 1 && lead == 0xED) high = 0x9F;
    if (i == 1 && lead == 0xF0) low = 0x90;
    if (i == 1 && lead == 0xF4) high = 0x8F;
    if (byte_at(bytes, i) < low || byte_at(bytes, i) > high) return 0;
    *bad = i + 1;
  }
  return length;
}

std::string spell_id(TokenId id) { return fmt::format("token_id:{}", id); }

// Bytes that are no text by themselves keep their value: "bytes:\xf0\x9f", as OpenAI spelled them.
std::string spell_legacy(TokenSpelling spelling, TokenId id, std::string_view bytes) {
  if (spelling.as_ids) return spell_id(id);
  if (valid_utf8(bytes)) return std::string(bytes);
  std::string out = "bytes:";
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

json::object chat_entry(TokenSpelling spelling, TokenId id, std::string_view bytes, float logprob) {
  json::array values;
  values.reserve(bytes.size());
  for (const char c : bytes) values.emplace_back(static_cast<unsigned char>(c));
  json::object entry;
  entry["token"] = spelling.as_ids ? spell_id(id) : replace_invalid_utf8(bytes);
  entry["logprob"] = finite(logprob);
  entry["bytes"] = std::move(values);
  return entry;
}

}  // namespace

bool valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    std::size_t bad = 0;
    const std::size_t length = character_length(bytes, &bad);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    std::size_t bad = 0;
    const std::size_t length = character_length(bytes, &bad);
    out += length == 0 ? kReplacement : bytes.substr(0, length);
    bytes.remove_prefix(length == 0 ? bad : length);
  }
  return out;
}

void LegacyLogprobs::add(TokenId id, std::string_view bytes, const TokenLogprobs* logprobs) {
  tokens_.emplace_back(spell_legacy(spelling_, id, bytes));
  const auto is_start = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  // A token that begins inside a character stands where that character does.
  const bool inside = !bytes.empty() && !is_start(bytes.front()) && *next_offset_ > 0;
  text_offset_.emplace_back(static_cast<std::int64_t>(*next_offset_ - (inside ? 1 : 0)));
  *next_offset_ += static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), is_start));
  if (logprobs == nullptr) {
    token_logprobs_.emplace_back(nullptr);
    top_logprobs_.emplace_back(nullptr);
    return;
  }
  token_logprobs_.emplace_back(finite(logprobs->logprob));
  json::object top;
  for (const auto& [other, logprob] : logprobs->top) {
    // The likelier one stays when two ids are spelled alike.
    top.emplace(spell_legacy(spelling_, other, spelling_.text->token_bytes(other)),
                finite(logprob));
  }
  top.emplace(spell_legacy(spelling_, id, bytes), finite(logprobs->logprob));
  top_logprobs_.emplace_back(std::move(top));
}

json::object LegacyLogprobs::take() {
  json::object out;
  out["text_offset"] = std::move(text_offset_);
  out["token_logprobs"] = std::move(token_logprobs_);
  out["tokens"] = std::move(tokens_);
  out["top_logprobs"] = std::move(top_logprobs_);
  return out;
}

json::object chat_logprob(TokenSpelling spelling, const OutputToken& token,
                          std::int32_t top_count) {
  json::object entry = chat_entry(spelling, token.id, token.text, token.logprobs.logprob);
  json::array top;
  for (const auto& [id, logprob] : token.logprobs.top) {
    if (static_cast<std::int32_t>(top.size()) >= top_count) break;
    top.emplace_back(chat_entry(spelling, id, spelling.text->token_bytes(id), logprob));
  }
  entry["top_logprobs"] = std::move(top);
  return entry;
}

json::array prompt_logprobs_json(const TextService& text,
                                 const std::vector<TokenLogprobs>& logprobs) {
  json::array out;
  out.emplace_back(nullptr);
  for (const auto& position : logprobs) {
    json::object entries;
    const auto add = [&](TokenId id, float logprob, std::int32_t rank) {
      json::object entry;
      entry["logprob"] = finite(logprob);
      entry["rank"] = rank;
      entry["decoded_token"] = replace_invalid_utf8(text.token_bytes(id));
      entries.emplace(std::to_string(id), std::move(entry));
    };
    add(position.token, position.logprob, position.rank);
    std::int32_t rank = 0;
    for (const auto& [id, logprob] : position.top) add(id, logprob, ++rank);
    out.emplace_back(std::move(entries));
  }
  return out;
}

}  // namespace quire
