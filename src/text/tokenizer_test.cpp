// Tokenizers from tokenizer.json: ids equal the reference's, special tokens, tables, bad input.
#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "base/source_path.h"
#include "text/special_tokens.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string read(const std::string& path) {
  std::ifstream file(source_path(path));
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::unique_ptr<Tokenizer> load_json(const std::string& json, const std::string& config) {
  auto tokenizer = Tokenizer::from_json(json, config);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

const Tokenizer& golden() {
  static const std::unique_ptr<Tokenizer> tokenizer = load_json(
      read("tests/golden/llama/tokenizer.json"), read("tests/golden/llama/tokenizer_config.json"));
  return *tokenizer;
}

// A byte-less vocabulary with SentencePiece's spelling; `more` goes into the JSON.
std::string small_json(const std::string& more) {
  return R"({"added_tokens":[
    {"id":0,"content":"<s>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false},
    {"id":1,"content":"</s>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false},
    {"id":7,"content":"▁▁","special":false,"single_word":false,"lstrip":false,"rstrip":false,"normalized":true}],
   "normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},
   "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
              {"type":"ByteFallback"},{"type":"Fuse"}]},
   "model":{"type":"BPE","vocab":{"<s>":0,"</s>":1,"a":2,"▁":3,"▁a":4,"<0xC3>":5,"<0xA9>":6},
            "merges":["▁ a"],"byte_fallback":true})" +
         more + "}";
}

constexpr const char* kBosTemplate =
    R"(,"post_processor":{"type":"TemplateProcessing",
        "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
        "pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":0}}],
        "special_tokens":{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]}}})";

TEST(TokenizerJson, IdsEqualTheReference) {
  const std::pair<const char*, std::vector<TokenId>> cases[] = {
      {"Hello, world!", {43, 296, 79, 82, 15, 265, 275, 487, 4}},
      {"The capital of France is Paris.", {304, 426, 404, 420, 292, 224, 450, 271, 17}},
      {"  two spaces and\ttab\n", {224, 260, 90, 82, 396, 457, 273, 280, 201, 87, 68, 69, 202}},
      {"niños 漢字 🙂",
       {81, 482, 113, 365, 224, 166, 124, 99, 165, 259, 249, 224, 176, 257, 251, 228}},
      {"", {}},
      {"<|im_start|>user\nhi<|im_end|>", {2, 88, 371, 202, 75, 76, 3}},
  };
  for (const auto& [text, ids] : cases) {
    for (const bool add : {false, true}) {
      const auto got = golden().encode(text, add);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(*got, ids) << text;
    }
    EXPECT_EQ(golden().decode(ids, false), text);
  }
}

TEST(TokenizerJson, KnowsItsSpecialTokens) {
  const SpecialTokens& special = golden().special();
  EXPECT_EQ(special.bos, 0);
  EXPECT_EQ(special.eos, 1);
  EXPECT_EQ(special.pad, 1);
  EXPECT_FALSE(special.unk);
  EXPECT_EQ(special.bos_token, "<s>");
  EXPECT_EQ(special.eos_token, "</s>");
  EXPECT_EQ(special.unk_token, "");
  EXPECT_THAT(special.end_ids, ElementsAre(1, 3));
  EXPECT_EQ(golden().vocab_size(), 512U);
  EXPECT_TRUE(golden().is_special(3));
  EXPECT_FALSE(golden().is_special(4));
  EXPECT_FALSE(golden().is_special(-1));
  EXPECT_FALSE(golden().is_special(512));
  EXPECT_EQ(golden().token_id("<|im_end|>"), 3);
  EXPECT_FALSE(golden().token_id("no such token"));
}

TEST(TokenizerJson, TokensGiveTheirTrueBytes) {
  const auto ids = golden().encode(" 漢", false);
  ASSERT_TRUE(ids);
  std::string bytes;
  for (const TokenId id : *ids) bytes += golden().token_bytes(id);
  EXPECT_EQ(bytes, " 漢");
  EXPECT_EQ(golden().token_bytes((*ids)[0]), " ");
  EXPECT_EQ(golden().token_text((*ids)[0]), "Ġ");
  EXPECT_EQ(golden().token_bytes((*ids)[1]).size(), 1U);  // part of a character stays a byte
  EXPECT_EQ(golden().token_bytes(3), "<|im_end|>");
  EXPECT_EQ(golden().token_bytes(512), "");
  EXPECT_EQ(golden().token_text(-7), "");
}

TEST(TokenizerJson, DecodeSkipsSpecialTokensWhenAsked) {
  EXPECT_EQ(golden().decode({2, 88, 3}, true), "u");
  EXPECT_EQ(golden().decode({2, 88, 3}, false), "<|im_start|>u<|im_end|>");
}

TEST(TokenizerJson, MetaspaceAndByteTokens) {
  const auto tokenizer = load_json(small_json(""), "");
  EXPECT_EQ(tokenizer->token_bytes(4), " a");
  EXPECT_EQ(tokenizer->token_bytes(5), "\xC3");
  const auto ids = tokenizer->encode("a aé", false);
  ASSERT_TRUE(ids);
  EXPECT_THAT(*ids, ElementsAre(2, 4, 5, 6));
  EXPECT_EQ(tokenizer->decode(*ids, true), "a aé");
}

TEST(TokenizerJson, AnAddedTokenOfSpacesIsDecodedAsSpaces) {
  const auto tokenizer = load_json(small_json(""), "");
  EXPECT_THAT(*tokenizer->encode("a  a", false), ElementsAre(2, 7, 2));
  EXPECT_EQ(tokenizer->decode({2, 7, 2}, true), "a  a");
}

// Characters, not bytes; what is added stands nowhere.
TEST(TokenizerJson, TellsWhereTokensStand) {
  auto spec = test::byte_level_spec({{"a", "b"}}, {"<s>"});
  spec.bos = 257;
  spec.add_bos = true;
  const auto tokenizer = Tokenizer::from_vocab(spec).value();
  const std::string text = "ab\u20acc";
  std::vector<TokenSpan> spans;
  const auto ids = tokenizer->encode(text, true, &spans).value();
  EXPECT_EQ(ids, tokenizer->encode(text, true).value());
  // The start token, "ab", three bytes of one character, "c".
  EXPECT_EQ(spans, (std::vector<TokenSpan>{{0, 0}, {0, 2}, {2, 3}, {2, 3}, {2, 3}, {3, 4}}));
}

TEST(TokenizerJson, NeverASecondBos) {
  const std::string config = R"({"bos_token":{"content":"<s>","lstrip":false},"eos_token":"</s>"})";
  const auto tokenizer = load_json(small_json(kBosTemplate), config);
  EXPECT_THAT(*tokenizer->encode("a", true), ElementsAre(0, 2));
  EXPECT_THAT(*tokenizer->encode("<s>a", true), ElementsAre(0, 2));
  EXPECT_THAT(*tokenizer->encode("<s>a", false), ElementsAre(0, 2));
  EXPECT_THAT(*tokenizer->encode("a", false), ElementsAre(2));
  EXPECT_EQ(tokenizer->special().bos, 0);
}

TEST(TokenizerJson, TheConfigDecidesOverThePostProcessor) {
  const std::string names = R"("bos_token":"<s>","eos_token":"</s>")";
  const auto without =
      load_json(small_json(kBosTemplate), "{" + names + R"(,"add_bos_token":false})");
  EXPECT_THAT(*without->encode("a", true), ElementsAre(2));
  const auto with =
      load_json(small_json(""), "{" + names + R"(,"add_bos_token":true,"add_eos_token":true})");
  EXPECT_THAT(*with->encode("a", true), ElementsAre(0, 2, 1));
  EXPECT_THAT(*with->encode("<s>a</s>", true), ElementsAre(0, 2, 1));
  EXPECT_THAT(*with->encode("", true), ElementsAre(0, 1));
  const auto by_class =
      load_json(small_json(""), "{" + names + R"(,"tokenizer_class":"LlamaTokenizerFast"})");
  EXPECT_THAT(*by_class->encode("a", true), ElementsAre(0, 2));
}

TEST(TokenizerJson, BadInputIsAnErrorNotACrash) {
  for (const char* json : {"", "{", "[]", "{}", R"({"model":{"type":"BPE"}})",
                           R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}})"}) {
    const auto tokenizer = Tokenizer::from_json(json, "");
    ASSERT_FALSE(tokenizer) << json;
    EXPECT_EQ(tokenizer.error().code, ErrorCode::kBadFile);
    EXPECT_THAT(tokenizer.error().message, HasSubstr("tokenizer.json"));
  }
  const auto config = Tokenizer::from_json(small_json(""), "{bad");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("tokenizer_config.json"));
}

// The library panics at a decoder that it can't read, and says so with a backtrace.
TEST(TokenizerJson, WhatTheLibraryPanicsAtIsAnErrorOfTheFileAndPrintsNothing) {
  std::string broken = read("tests/golden/llama/tokenizer.json");
  const auto at = broken.find("\"use_regex\": true", broken.find("\"decoder\""));
  ASSERT_NE(at, std::string::npos);
  broken.replace(at + 16, 1, "m");
  testing::internal::CaptureStderr();
  const auto tokenizer = Tokenizer::from_json(broken, "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_FALSE(tokenizer);
  EXPECT_THAT(tokenizer.error().message, HasSubstr("tokenizer.json: expected ident at line "));
}

TEST(TokenizerJson, TextThatIsNotUtf8IsRefused) {
  for (const std::string text : {"\xFF", "ok \xC3", "\xED\xA0\x80"}) {
    const auto ids = golden().encode(text, true);
    ASSERT_FALSE(ids);
    EXPECT_EQ(ids.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(ids.error().message, HasSubstr("UTF-8"));
  }
  EXPECT_TRUE(golden().encode(std::string_view("a\0b", 3), true));
}

TEST(TokenizerJson, AMegabyteOfOneCharacterIsDoneSoonAndWhole) {
  for (const char c : {' ', 'a', '\n', '1'}) {
    const std::string text(1 << 20, c);
    const auto ids = golden().encode(text, true);
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(golden().decode(*ids, true), text);
  }
}

TEST(TokenizerJson, ManyThreadsGetTheSameIds) {
  const auto expected = golden().encode("The capital of France is Paris. niños 漢字", false);
  ASSERT_TRUE(expected);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const auto ids = golden().encode("The capital of France is Paris. niños 漢字", false);
        if (!ids || *ids != *expected) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

TEST(SpecialTokens, EveryEndOfATurnIsFound) {
  const std::vector<MarkedToken> llama3 = {{128000, "<|begin_of_text|>"},
                                           {128001, "<|end_of_text|>"},
                                           {128008, "<|eom_id|>"},
                                           {128009, "<|eot_id|>"}};
  EXPECT_THAT(find_end_ids(llama3, {128009}), ElementsAre(128001, 128008, 128009));
  const std::vector<MarkedToken> coder = {
      {5, "<|im_end|>"}, {6, "<|file_sep|>"}, {4, "<|endoftext|>"}};
  EXPECT_THAT(find_end_ids(coder, {5}), ElementsAre(4, 5));
  const std::vector<MarkedToken> harmony = {{1, "<|end|>"}, {2, "<|return|>"}, {3, "<|call|>"}};
  EXPECT_THAT(find_end_ids(harmony, {}), ElementsAre(2, 3));
  EXPECT_THAT(find_end_ids({{1, "<|end|>"}}, {}), ElementsAre(1));
  EXPECT_THAT(find_end_ids({}, {7}), ElementsAre(7));
}

}  // namespace
}  // namespace quire
