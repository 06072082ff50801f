// Tokenizers from a model file's own vocabulary: byte-level BPE with each named pre-tokenizer, and
// SentencePiece with byte fallback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/test_vocab.h"
#include "text/tokenizer.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Tokenizer> load(const VocabSpec& spec) {
  auto tokenizer = Tokenizer::from_vocab(spec);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

// What each token of `text` stands for, joined by '|': shows where text was cut.
std::string cuts(const Tokenizer& tokenizer, std::string_view text, bool add = false) {
  const auto ids = tokenizer.encode(text, add);
  EXPECT_TRUE(ids) << ids.error().message;
  std::string joined;
  for (const TokenId id : *ids) {
    if (!joined.empty()) joined += '|';
    joined += tokenizer.token_bytes(id);
  }
  return joined;
}

std::vector<std::pair<std::string, std::string>> digit_merges() {
  return {{"1", "1"}, {"11", "11"}, {"11", "1"}};
}

TEST(TokenizerVocab, MergesInOrderOfRank) {
  const auto tokenizer = load(test::byte_level_spec({{"b", "c"}, {"a", "b"}, {"a", "bc"}}));
  EXPECT_EQ(cuts(*tokenizer, "abc"), "abc");
  EXPECT_EQ(cuts(*tokenizer, "abab"), "ab|ab");
  EXPECT_EQ(cuts(*tokenizer, "abd bc"), "ab|d| |bc");
}

TEST(TokenizerVocab, PreTokenizersCutDigitsInTheirOwnWay) {
  const std::pair<const char*, const char*> cases[] = {
      {"gpt-2", "1111|11"},         {"llama-bpe", "111|111"},
      {"llama3", "111|111"},        {"llama-v3", "111|111"},
      {"qwen2", "1|1|1|1|1|1"},     {"smollm", "1|1|1|1|1|1"},
      {"starcoder", "1|1|1|1|1|1"}, {"command-r", "1|1|1|1|1|1"},
      {"deepseek-llm", "1111|11"},  {"deepseek-coder", "1|1|1|1|1|1"},
      {"deepseek-v3", "111|111"},   {"falcon", "111|111"},
      {"tekken", "1|1|1|1|1|1"},    {"gpt-4o", "111|111"},
      {"default", "111|111"},       {"bloom", "1111|11"},
      {"viking", "1|1|1|1|1|1"},    {"chatglm-bpe", "111|111"},
      {"dbrx", "111|111"},          {"stablelm2", "1|1|1|1|1|1"},
      {"olmo", "1111|11"}};
  for (const auto& [pre, expected] : cases) {
    const auto tokenizer = load(test::byte_level_spec(digit_merges(), {}, pre));
    EXPECT_EQ(cuts(*tokenizer, "111111"), expected) << pre;
  }
}

TEST(TokenizerVocab, EveryKnownPreTokenizerLoadsAndLosesNothing) {
  const std::string text = "Hello WORLD's  naïve\t漢字かな 1234 x_y\r\n\r\n  ¡🙂! (a.b),ไทย한국어 ";
  for (const char* pre : {"default",
                          "gpt-2",
                          "phi-2",
                          "llama-bpe",
                          "llama3",
                          "llama-v3",
                          "falcon3",
                          "falcon-h1",
                          "pixtral",
                          "midm-2.0",
                          "lfm2",
                          "smollm",
                          "qwen2",
                          "qwen35",
                          "deepseek-r1-qwen",
                          "megrez",
                          "deepseek-llm",
                          "deepseek-coder",
                          "deepseek-v3",
                          "hunyuan",
                          "hunyuan-dense",
                          "falcon",
                          "mpt",
                          "starcoder",
                          "refact",
                          "command-r",
                          "stablelm2",
                          "olmo",
                          "dbrx",
                          "smaug-bpe",
                          "tekken",
                          "gpt-4o",
                          "llama4",
                          "kimi-k2",
                          "chatglm-bpe",
                          "glm4",
                          "bloom",
                          "poro-chat",
                          "gpt3-finnish",
                          "exaone",
                          "exaone4",
                          "exaone-moe",
                          "minerva-7b",
                          "viking",
                          "codeshell",
                          "jais",
                          "jais-2",
                          "jina-v1-en",
                          "jina-v2-code",
                          "jina-v2-es",
                          "jina-v2-de",
                          "chameleon",
                          "trillion",
                          "granite-docling",
                          "bailingmoe",
                          "seed-coder",
                          "tiny_aya",
                          "minimax-m2",
                          "grok-2",
                          "mellum",
                          "mellum2",
                          "roberta-bpe",
                          "modern-bert",
                          "gigachat",
                          "a.x-4.0",
                          "solar-open",
                          ""}) {
    const auto tokenizer = Tokenizer::from_vocab(test::byte_level_spec({}, {}, pre));
    ASSERT_TRUE(tokenizer) << pre << ": " << tokenizer.error().message;
    const auto ids = (*tokenizer)->encode(text, false);
    ASSERT_TRUE(ids) << pre << ": " << ids.error().message;
    EXPECT_EQ((*tokenizer)->decode(*ids, false), text) << pre;
  }
}

TEST(TokenizerVocab, AnUnknownPreTokenizerIsRefusedByName) {
  const auto tokenizer = Tokenizer::from_vocab(test::byte_level_spec({}, {}, "frobnicate"));
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kBadFile);
  EXPECT_THAT(tokenizer.error().message, HasSubstr("\"frobnicate\""));
}

TEST(TokenizerVocab, ControlTokensAreSpecialAndUserDefinedOnesAreNot) {
  VocabSpec spec = test::byte_level_spec({}, {"<|im_start|>", "<|im_end|>", "<|endoftext|>"});
  spec.tokens.push_back("<tool_call>");
  spec.types.push_back(VocabSpec::TokenType::kUserDefined);
  spec.eos = 257;
  const auto tokenizer = load(spec);
  EXPECT_THAT(*tokenizer->encode("<|im_start|>a<tool_call><|im_end|>", false),
              ElementsAre(256, 'a', 259, 257));
  EXPECT_TRUE(tokenizer->is_special(256));
  EXPECT_FALSE(tokenizer->is_special(259));
  EXPECT_EQ(tokenizer->decode({256, 'a', 259, 257}, true), "a<tool_call>");
  EXPECT_THAT(tokenizer->special().end_ids, ElementsAre(257, 258));
  EXPECT_EQ(tokenizer->special().eos_token, "<|im_end|>");
}

TEST(TokenizerVocab, WithoutTypesTheTokensWithARoleAreSpecial) {
  VocabSpec spec = test::byte_level_spec({}, {"<eot>", "<start>"});
  spec.types.clear();
  spec.eos = 256;
  spec.bos = 257;
  const auto tokenizer = load(spec);
  EXPECT_TRUE(tokenizer->is_special(256));
  EXPECT_TRUE(tokenizer->is_special(257));
  EXPECT_THAT(*tokenizer->encode("a<eot>", false), ElementsAre('a', 256));
  EXPECT_THAT(tokenizer->special().end_ids, ElementsAre(256));
}

TEST(TokenizerVocab, BosAsTheFileOrThePreTokenizerSays) {
  VocabSpec spec = test::byte_level_spec({}, {"<bos>", "<eos>"});
  spec.bos = 256;
  spec.eos = 257;
  EXPECT_THAT(*load(spec)->encode("a", true), ElementsAre('a'));
  spec.add_bos = true;
  EXPECT_THAT(*load(spec)->encode("a", true), ElementsAre(256, 'a'));
  EXPECT_THAT(*load(spec)->encode("<bos>a", true), ElementsAre(256, 'a'));
  EXPECT_THAT(*load(spec)->encode("a", false), ElementsAre('a'));
  spec.add_eos = true;
  EXPECT_THAT(*load(spec)->encode("a", true), ElementsAre(256, 'a', 257));
  spec = test::byte_level_spec({}, {"<bos>"}, "llama-bpe");
  spec.bos = 256;
  EXPECT_THAT(*load(spec)->encode("a", true), ElementsAre(256, 'a'));
  spec.add_bos = false;
  EXPECT_THAT(*load(spec)->encode("a", true), ElementsAre('a'));
}

TEST(TokenizerVocab, BadVocabulariesAreRefused) {
  const auto message = [](const VocabSpec& spec) {
    const auto tokenizer = Tokenizer::from_vocab(spec);
    EXPECT_FALSE(tokenizer);
    if (tokenizer) return std::string();
    EXPECT_EQ(tokenizer.error().code, ErrorCode::kBadFile);
    return tokenizer.error().message;
  };
  EXPECT_THAT(message({}), HasSubstr("no tokens"));
  VocabSpec spec = test::byte_level_spec({});
  spec.eos = 256;
  EXPECT_THAT(message(spec), HasSubstr("eos"));
  spec = test::byte_level_spec({});
  spec.types.pop_back();
  EXPECT_THAT(message(spec), HasSubstr("255 token types"));
  spec = test::byte_level_spec({});
  spec.merges = {"ab"};
  EXPECT_THAT(message(spec), HasSubstr("merge 0"));
  spec.merges = {"a zz"};
  EXPECT_THAT(message(spec), HasSubstr("zz"));
  spec = test::byte_level_spec({});
  spec.tokens[3] = "\xFF";
  EXPECT_THAT(message(spec), HasSubstr("token 3"));
  spec = test::sentencepiece_spec({"a"});
  spec.scores.pop_back();
  EXPECT_THAT(message(spec), HasSubstr("scores"));
}

TEST(TokenizerVocab, SentencePieceMergesByScore) {
  const auto tokenizer = load(
      test::sentencepiece_spec({"▁t", "he", "▁the", "▁", "t", "h", "e", "in", "▁in", "i", "n"}));
  EXPECT_EQ(cuts(*tokenizer, "the in"), " the| in");
  EXPECT_EQ(cuts(*tokenizer, "then"), " the|n");
  EXPECT_EQ(cuts(*tokenizer, "the", true), "<s>| the");
  EXPECT_EQ(cuts(*tokenizer, "<s>the", true), "<s>| the");
}

TEST(TokenizerVocab, SentencePieceFallsBackToBytes) {
  const auto tokenizer = load(test::sentencepiece_spec({"▁", "a"}));
  const auto ids = tokenizer->encode("a漢\n", false);
  ASSERT_TRUE(ids);
  EXPECT_THAT(*ids, ElementsAre(259, 260, 3 + 0xE6, 3 + 0xBC, 3 + 0xA2, 3 + 0x0A));
  EXPECT_EQ(tokenizer->decode(*ids, true), " a漢\n");
}

TEST(TokenizerVocab, SentencePieceSpacePrefixCanBeOff) {
  VocabSpec spec = test::sentencepiece_spec({"▁", "a"});
  spec.add_space_prefix = false;
  spec.add_bos = false;
  EXPECT_THAT(*load(spec)->encode("a a", true), ElementsAre(260, 259, 260));
}

TEST(TokenizerVocab, SentencePieceSpecialTokens) {
  const auto tokenizer = load(test::sentencepiece_spec({"▁", "a"}));
  EXPECT_EQ(tokenizer->special().unk, 0);
  EXPECT_EQ(tokenizer->special().unk_token, "<unk>");
  EXPECT_THAT(tokenizer->special().end_ids, ElementsAre(2));
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_FALSE(tokenizer->is_special(3 + 0x0A));
  EXPECT_EQ(tokenizer->token_bytes(3 + 0x0A), "\n");
  EXPECT_EQ(tokenizer->token_text(3 + 0x0A), "<0x0A>");
}

// A vocabulary padded with copies keeps its size; text becomes the first of equal tokens.
TEST(TokenizerVocab, EqualTokensKeepTheirIds) {
  const auto tokenizer = load(test::sentencepiece_spec({"▁", "a", "b", "ab", "▁ab", "ab", "b"}));
  EXPECT_EQ(tokenizer->vocab_size(), 259u + 7u);
  EXPECT_EQ(tokenizer->token_id("b"), 261);
  EXPECT_THAT(*tokenizer->encode("ab", false), ElementsAre(263));
  EXPECT_THAT(*tokenizer->encode("b", false), ElementsAre(259, 261));
}

}  // namespace
}  // namespace quire
