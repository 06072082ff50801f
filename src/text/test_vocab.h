// Small vocabularies for the text tests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/vocab_spec.h"

namespace quire::test {

inline std::string utf8(std::uint32_t code) {  // up to U+07FF
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

// GPT-2's character for a byte.
inline std::string byte_level(std::uint8_t byte) {
  static const std::vector<std::string> table = [] {
    std::vector<std::string> characters(256);
    std::uint32_t next = 0x100;
    for (std::uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      characters[b] = utf8(printable ? b : next++);
    }
    return characters;
  }();
  return table[byte];
}

// Ids 0..255 are the bytes, then one token per merge, then `control`.
inline VocabSpec byte_level_spec(const std::vector<std::pair<std::string, std::string>>& merges,
                                 const std::vector<std::string>& control = {},
                                 const std::string& pre = "gpt-2") {
  VocabSpec spec;
  spec.pre = pre;
  for (int b = 0; b < 256; ++b) spec.tokens.push_back(byte_level(static_cast<std::uint8_t>(b)));
  for (const auto& [left, right] : merges) {
    spec.merges.push_back(left + " " + right);
    spec.tokens.push_back(left + right);
  }
  spec.types.assign(spec.tokens.size(), VocabSpec::TokenType::kNormal);
  for (const std::string& text : control) {
    spec.tokens.push_back(text);
    spec.types.push_back(VocabSpec::TokenType::kControl);
  }
  return spec;
}

// <unk> 0, <s> 1, </s> 2, bytes 3..258, then pieces with the score of their place.
inline VocabSpec sentencepiece_spec(const std::vector<std::string>& pieces) {
  using Type = VocabSpec::TokenType;
  VocabSpec spec;
  spec.kind = VocabSpec::Kind::kSentencePiece;
  spec.tokens = {"<unk>", "<s>", "</s>"};
  spec.types = {Type::kUnknown, Type::kControl, Type::kControl};
  spec.scores = {0, 0, 0};
  constexpr char kHex[] = "0123456789ABCDEF";
  for (std::size_t b = 0; b < 256; ++b) {
    spec.tokens.push_back(std::string("<0x") + kHex[b >> 4] + kHex[b & 15] + ">");
    spec.types.push_back(Type::kByte);
    spec.scores.push_back(0);
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    spec.tokens.push_back(pieces[i]);
    spec.types.push_back(Type::kNormal);
    spec.scores.push_back(-static_cast<float>(i));
  }
  spec.unk = 0;
  spec.bos = 1;
  spec.eos = 2;
  return spec;
}

}  // namespace quire::test
