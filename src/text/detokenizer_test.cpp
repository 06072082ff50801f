// Text from tokens: never half a character in a piece, and the pieces joined are the whole.
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include "text/test_vocab.h"
#include "text/utf8.h"

namespace quire {
namespace {

std::unique_ptr<Tokenizer> byte_tokenizer() {
  auto tokenizer = Tokenizer::from_vocab(test::byte_level_spec({}, {"<|im_end|>"}));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

TEST(Utf8, ReplacesAsOtherLossyDecodersDo) {
  const auto decode = [](std::string_view bytes) {
    std::string text;
    if (append_utf8(bytes, text) != 0) text += "+";
    return text;
  };
  const std::string bad(kReplacementCharacter);
  EXPECT_EQ(decode("abc"), "abc");
  EXPECT_EQ(decode("\xC3\xA9"), "\xC3\xA9");
  EXPECT_EQ(decode("\xC3"), "+");
  EXPECT_EQ(decode("\xF0\x9F\x99"), "+");
  EXPECT_EQ(decode("\xF0\x9F\x99x"), bad + "x");                 // one per longest good part
  EXPECT_EQ(decode("\xC0\x80"), bad + bad);                      // overlong
  EXPECT_EQ(decode("\xE0\x80\x80"), bad + bad + bad);            // overlong
  EXPECT_EQ(decode("\xED\xA0\x80"), bad + bad + bad);            // surrogate
  EXPECT_EQ(decode("\xF4\x90\x80\x80"), bad + bad + bad + bad);  // above U+10FFFF
  EXPECT_EQ(decode("\x80z"), bad + "z");
  EXPECT_EQ(decode("\xFF"), bad);
  EXPECT_EQ(decode("\xF4\x8F\xBF\xBF"), "\xF4\x8F\xBF\xBF");
}

TEST(Detokenizer, HoldsBackHalfACharacter) {
  const auto tokenizer = byte_tokenizer();
  Detokenizer detokenizer(tokenizer.get(), true);
  EXPECT_EQ(detokenizer.push(0xF0), "");
  EXPECT_EQ(detokenizer.push(0x9F), "");
  EXPECT_EQ(detokenizer.push(0x99), "");
  EXPECT_EQ(detokenizer.push(0x82), "🙂");
  EXPECT_EQ(detokenizer.flush(), "");
}

TEST(Detokenizer, AnIncompleteEndIsOneReplacement) {
  const auto tokenizer = byte_tokenizer();
  Detokenizer detokenizer(tokenizer.get(), true);
  EXPECT_EQ(detokenizer.push('a'), "a");
  EXPECT_EQ(detokenizer.push(0xF0), "");
  EXPECT_EQ(detokenizer.push(0x9F), "");
  EXPECT_EQ(detokenizer.flush(), "\uFFFD");
  EXPECT_EQ(detokenizer.flush(), "");
}

TEST(Detokenizer, BadBytesAreReplacedAtOnce) {
  const auto tokenizer = byte_tokenizer();
  Detokenizer detokenizer(tokenizer.get(), true);
  EXPECT_EQ(detokenizer.push(0xE6), "");
  EXPECT_EQ(detokenizer.push('x'), "\uFFFDx");
  EXPECT_EQ(detokenizer.push(0xFF), "\uFFFD");
}

TEST(Detokenizer, SpecialTokensAreSkippedWhenAsked) {
  const auto tokenizer = byte_tokenizer();
  const TokenId end = *tokenizer->token_id("<|im_end|>");
  Detokenizer skipping(tokenizer.get(), true);
  EXPECT_EQ(skipping.push(end), "");
  Detokenizer showing(tokenizer.get(), false);
  EXPECT_EQ(showing.push(end), "<|im_end|>");
}

TEST(Detokenizer, IdsOutsideTheVocabularyGiveNothing) {
  const auto tokenizer = byte_tokenizer();
  Detokenizer detokenizer(tokenizer.get(), false);
  EXPECT_EQ(detokenizer.push(-1), "");
  EXPECT_EQ(detokenizer.push(1 << 30), "");
}

TEST(Detokenizer, PiecesJoinedAreTheWholeText) {
  const auto tokenizer = byte_tokenizer();
  const std::string text = "niños 漢字 🙂 \xFF\xE6\xBC e\u0301";
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<std::uint8_t>(c));
  Detokenizer detokenizer(tokenizer.get(), true);
  std::string joined;
  for (const TokenId id : ids) {
    const std::string piece = detokenizer.push(id);
    std::string valid;
    EXPECT_EQ(append_utf8(piece, valid), 0U);
    EXPECT_EQ(piece, valid);
    joined += piece;
  }
  joined += detokenizer.flush();
  EXPECT_EQ(joined, tokenizer->decode(ids, true));
  EXPECT_EQ(joined, "niños 漢字 🙂 \uFFFD\uFFFD e\u0301");
}

}  // namespace
}  // namespace quire
