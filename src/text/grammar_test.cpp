// What grammars take, what they refuse, and how a matcher goes through them. The vocabulary has a
// token per byte and some longer ones.
#include "text/grammar.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <thread>

#include "text/test_vocab.h"

namespace quire {
namespace {

using Kind = GrammarSpec::Kind;

constexpr TokenId kMerged = 256;  // "ab", "abc", "{\""
constexpr TokenId kEnd = 259, kEot = 260, kOther = 261;

class GrammarTest : public testing::Test {
 protected:
  GrammarTest() {
    VocabSpec spec = test::byte_level_spec({{"a", "b"}, {"ab", "c"}, {"{", "\""}},
                                           {"<end>", "<eot>", "<other>"});
    tokenizer_ = Tokenizer::from_vocab(spec).value();
    compiler_ = std::make_unique<GrammarCompiler>(
        tokenizer_.get(), std::vector<TokenId>{kEnd, kEot}, tokenizer_->vocab_size());
  }

  std::unique_ptr<GrammarMatcher> matcher(const GrammarSpec& spec,
                                          const std::vector<TokenId>& stops = {},
                                          bool end_allowed = true) {
    auto grammar = compiler_->compile(spec);
    if (!grammar) {
      ADD_FAILURE() << spec.text << ": " << grammar.error().message;
      return nullptr;
    }
    return (*grammar)->matcher(stops, end_allowed).value();
  }
  static std::vector<std::uint32_t> mask(GrammarMatcher& m) {
    std::vector<std::uint32_t> words(m.num_mask_words());
    const auto allowed = m.fill_mask(words);
    if (!allowed) ADD_FAILURE() << allowed.error().message;
    return words;
  }
  static bool allows(const std::vector<std::uint32_t>& mask, TokenId id) {
    return (mask[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1) != 0;
  }
  // Whether the whole text, byte by byte, is an answer. The mask and accept agree on each byte.
  bool takes(const GrammarSpec& spec, std::string_view text) {
    const auto m = matcher(spec);
    if (!m) return false;
    for (const char c : text) {
      const auto id = static_cast<TokenId>(static_cast<unsigned char>(c));
      const bool allowed = allows(mask(*m), id);
      EXPECT_EQ(m->accept(id).value(), allowed) << text;
      if (!allowed) return false;
    }
    const bool may_end = m->accepting().value();
    EXPECT_EQ(allows(mask(*m), kEnd), may_end) << text;
    return may_end;
  }
  bool takes(Kind kind, std::string text, std::string_view answer) {
    GrammarSpec spec;
    spec.kind = kind;
    spec.text = std::move(text);
    return takes(spec, answer);
  }
  std::string refusal(Kind kind, std::string text) {
    GrammarSpec spec;
    spec.kind = kind;
    spec.text = std::move(text);
    const auto grammar = compiler_->compile(spec);
    if (grammar) return "none";
    EXPECT_EQ(grammar.error().code, ErrorCode::kInvalidArgument) << grammar.error().message;
    return grammar.error().message;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<GrammarCompiler> compiler_;
};

GrammarSpec regex(std::string text) {
  GrammarSpec spec;
  spec.kind = Kind::kRegex;
  spec.text = std::move(text);
  return spec;
}

TEST_F(GrammarTest, MatcherGoesToTheEnd) {
  const auto m = matcher(regex("abc?"));
  auto words = mask(*m);
  EXPECT_TRUE(allows(words, 'a') && allows(words, kMerged) && allows(words, kMerged + 1));
  EXPECT_FALSE(allows(words, 'b') || allows(words, kEnd) || allows(words, kOther));
  EXPECT_FALSE(m->accept('b').value());
  EXPECT_FALSE(m->accept(kEnd).value());
  EXPECT_TRUE(m->accept(kMerged).value());
  EXPECT_FALSE(m->complete());
  words = mask(*m);
  EXPECT_TRUE(allows(words, 'c') && allows(words, kEnd) && allows(words, kEot));
  EXPECT_FALSE(allows(words, 'a'));
  const auto other = m->fork().value();
  EXPECT_TRUE(m->accept('c').value());
  EXPECT_TRUE(m->complete() && !m->ended());
  words = mask(*m);
  EXPECT_TRUE(allows(words, kEnd) && allows(words, kEot));
  EXPECT_EQ(m->fill_mask(words)->count, 2u);
  EXPECT_TRUE(m->accept(kEot).value());
  EXPECT_TRUE(m->ended());
  EXPECT_EQ(m->fill_mask(words)->count, 0u);
  EXPECT_FALSE(m->accept(kEnd).value());
  // The fork is where it was forked.
  EXPECT_FALSE(other->complete());
  EXPECT_TRUE(other->accept(kEnd).value());
  EXPECT_TRUE(other->ended());
}

TEST_F(GrammarTest, OneAllowedTokenIsTold) {
  const auto m = matcher(regex("x[yz]"));
  std::vector<std::uint32_t> words(m->num_mask_words(), ~0u);
  EXPECT_EQ(m->fill_mask(words)->only, 'x');
  ASSERT_TRUE(m->accept('x').value());
  EXPECT_EQ(m->fill_mask(words)->only, -1);
}

TEST_F(GrammarTest, StopTokensOfTheRequestAndIgnoredEnds) {
  // A special stop token ends like an end token; one that is text does not.
  const auto stops = matcher(regex("ab*"), {kOther, 'b'});
  EXPECT_FALSE(allows(mask(*stops), kOther));
  ASSERT_TRUE(stops->accept('a').value());
  EXPECT_TRUE(allows(mask(*stops), kOther));
  EXPECT_TRUE(stops->accept('b').value());
  EXPECT_FALSE(stops->ended());
  EXPECT_TRUE(stops->accept(kOther).value());
  EXPECT_TRUE(stops->ended());

  const auto ignoring = matcher(regex("ab?"), {}, false);
  ASSERT_TRUE(ignoring->accept('a').value());
  EXPECT_FALSE(allows(mask(*ignoring), kEnd));
  ASSERT_TRUE(ignoring->accept('b').value());
  EXPECT_TRUE(ignoring->complete());
}

TEST_F(GrammarTest, TokensThatSpellTheSameAreAllAllowed) {
  // Byte fallback: "<0x41>" beside "A".
  const VocabSpec spec = test::sentencepiece_spec({"A",
                                                   "\xE2\x96\x81"
                                                   "A"});
  const auto tokenizer = Tokenizer::from_vocab(spec).value();
  GrammarCompiler compiler(tokenizer.get(), {2}, tokenizer->vocab_size());
  const auto m = compiler.compile(regex(" ?A")).value()->matcher({}, true).value();
  const auto words = mask(*m);
  EXPECT_TRUE(allows(words, 3 + 'A') && allows(words, 259) && allows(words, 260));
  EXPECT_TRUE(allows(words, 3 + ' '));
  EXPECT_FALSE(allows(words, 0) || allows(words, 1) || allows(words, 2));
  EXPECT_TRUE(m->accept(3 + 'A').value());
  EXPECT_TRUE(m->complete());
}

// So that an answer which fits is the same with a grammar as without, token by token: whatever way
// a fitting text is cut into tokens, edges of JSON inside them, the mask allows each.
TEST(GrammarMask, AllowsEveryWayToSpellAFittingText) {
  const VocabSpec spec = test::byte_level_spec({{"{", "\""},
                                                {"\"", ":"},
                                                {"a", "b"},
                                                {"ab", "c"},
                                                {"\"", ","},
                                                {"\",", "Ġ"},
                                                {"\",Ġ", "\""},
                                                {"1", "2"},
                                                {"12", "}"},
                                                {"\"", "}"},
                                                {"\"}", "]"},
                                                {"[", "{"},
                                                {"t", "r"},
                                                {"u", "e"},
                                                {"tr", "ue"},
                                                {"Ġ", "{"},
                                                {"\":", "Ġ"},
                                                {"\":Ġ", "\""}},
                                               {"<end>"});
  const auto tokenizer = Tokenizer::from_vocab(spec).value();
  const auto vocab_size = static_cast<TokenId>(tokenizer->vocab_size());
  const TokenId end = vocab_size - 1;
  GrammarCompiler compiler(tokenizer.get(), {end}, tokenizer->vocab_size());
  GrammarSpec schema;
  schema.text = R"({"type": "array", "items": {"type": "object", "properties": {
      "ab": {"type": "string"}, "n": {"enum": [12, true]}}, "additionalProperties": false}})";
  const auto grammar = compiler.compile(schema).value();
  std::mt19937_64 rng(7);
  std::set<TokenId> seen;
  for (int round = 0; round < 300; ++round) {
    std::string text = "[";
    for (std::uint64_t i = 0, count = 1 + rng() % 3; i < count; ++i) {
      text += i == 0 ? "{\"ab\": \"" : ", {\"ab\":\"";
      for (std::uint64_t c = rng() % 5; c > 0; --c) text += "abc ,:[1"[rng() % 8];
      text += rng() % 2 == 0 ? "\"}" : rng() % 2 == 0 ? "\", \"n\": 12}" : "\",\"n\":true}";
    }
    text += "]";
    const auto m = grammar->matcher({}, true).value();
    std::vector<std::uint32_t> words(m->num_mask_words());
    for (std::string_view rest = text; !rest.empty();) {
      std::vector<TokenId> fitting;
      for (TokenId id = 0; id < end; ++id)
        if (rest.starts_with(tokenizer->token_bytes(id))) fitting.push_back(id);
      ASSERT_TRUE(m->fill_mask(words));
      for (const TokenId id : fitting)
        ASSERT_TRUE(words[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1u)
            << text << " at " << rest << ": " << tokenizer->token_bytes(id);
      const TokenId next = fitting[rng() % fitting.size()];
      seen.insert(next);
      ASSERT_TRUE(m->accept(next).value());
      rest.remove_prefix(tokenizer->token_bytes(next).size());
    }
    ASSERT_TRUE(m->accepting().value()) << text;
  }
  EXPECT_GT(seen.size(), 25U);  // of which over a dozen have several bytes
}

TEST_F(GrammarTest, VocabularyWithoutAnEnd) {
  GrammarCompiler compiler(tokenizer_.get(), {}, tokenizer_->vocab_size());
  const auto m = compiler.compile(regex("ab?")).value()->matcher({}, true).value();
  ASSERT_TRUE(m->accept('a').value());
  EXPECT_FALSE(m->complete());
  EXPECT_TRUE(m->accepting().value());
  ASSERT_TRUE(m->accept('b').value());
  EXPECT_TRUE(m->complete());
}

TEST_F(GrammarTest, VocabularySmallerThanTheTokenizers) {
  GrammarCompiler compiler(tokenizer_.get(), {kEnd, kEot}, 'c');
  const auto m = compiler.compile(regex("[a-z]+")).value()->matcher({}, true).value();
  EXPECT_EQ(m->num_mask_words(), 4u);
  EXPECT_TRUE(m->accept('b').value());
  EXPECT_FALSE(m->accept('c').value_or(false));
}

TEST_F(GrammarTest, Regex) {
  EXPECT_TRUE(takes(Kind::kRegex, R"(\d{3}-\d{4})", "123-4567"));
  EXPECT_FALSE(takes(Kind::kRegex, R"(\d{3}-\d{4})", "123-456"));
  EXPECT_FALSE(takes(Kind::kRegex, R"(\d)", "\xD9\xA1"));  // an Arabic digit
  EXPECT_TRUE(
      takes(Kind::kRegex, R"(^(GET|POST) /[a-z]{1,6}\?id=[0-9a-f]{4}$)", "GET /abc?id=0f1e"));
  EXPECT_TRUE(takes(Kind::kRegex, "a|b/c", "b/c"));
  EXPECT_TRUE(takes(Kind::kRegex, "[^a]+", "\xE4\xBD\xA0\xE5\xA5\xBD\n"));
  EXPECT_TRUE(takes(Kind::kRegex, "[[a&&b]+", "[&a"));
  EXPECT_TRUE(takes(Kind::kRegex, R"(\<b\>\/)", "<b>/"));
  EXPECT_TRUE(takes(Kind::kRegex, "", ""));
  EXPECT_FALSE(takes(Kind::kRegex, "a.b", "a\nb"));
  EXPECT_NE(refusal(Kind::kRegex, "(unclosed").find("regular expression: unclosed group"),
            std::string::npos);
  EXPECT_NE(refusal(Kind::kRegex, "(?=a)b").find("look-around"), std::string::npos);
  EXPECT_NE(refusal(Kind::kRegex, R"((a)\1)").find("backreference"), std::string::npos);
  EXPECT_NE(refusal(Kind::kRegex, "ab\\"), "none");
}

TEST_F(GrammarTest, Choice) {
  const std::string choices = R"(["a", "ab", "a \"b\"\n", "é", ""])";
  for (const char* text : {"a", "ab", "a \"b\"\n", "é", ""})
    EXPECT_TRUE(takes(Kind::kChoice, choices, text)) << text;
  for (const char* text : {"b", "abc", "a ", "aa"})
    EXPECT_FALSE(takes(Kind::kChoice, choices, text)) << text;
  EXPECT_NE(refusal(Kind::kChoice, "[]").find("at least one"), std::string::npos);
}

TEST_F(GrammarTest, JsonSchema) {
  const std::string color = R"({"type": "object", "properties": {
      "color": {"type": "string", "enum": ["red", "green"]}, "ok": {"type": "boolean"}},
      "required": ["color", "ok"], "additionalProperties": false})";
  EXPECT_TRUE(takes(Kind::kJsonSchema, color, R"({"color":"red","ok":true})"));
  EXPECT_TRUE(takes(Kind::kJsonSchema, color, "{\n  \"color\": \"green\",\n  \"ok\": false\n}"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, color, R"({"color":"blue","ok":true})"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, color, R"({"color":"red"})"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, color, "{          \"color\":\"red\",\"ok\":true}"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, color, " {\"color\":\"red\",\"ok\":true}"));
  EXPECT_TRUE(takes(Kind::kJsonSchema, R"({"items": {"type": "integer"}, "type": "array",
      "minItems": 2.0, "maxItems": 3})",
                    "[1, -2,30]"));
  EXPECT_TRUE(takes(Kind::kJsonSchema, R"({"enum": ["你好 🎉"]})", "\"你好 🎉\""));
  EXPECT_TRUE(takes(Kind::kJsonSchema, "true", R"([{"a": null}])"));
  EXPECT_TRUE(takes(json_object_spec(), R"({"a": [1, {}]})"));
  EXPECT_FALSE(takes(json_object_spec(), "[1]"));
}

TEST_F(GrammarTest, References) {
  const std::string tree = R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object",
      "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
      "additionalProperties": false}}})";
  EXPECT_TRUE(takes(Kind::kJsonSchema, tree, R"({"kids":[{},{"kids":[]}]})"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, tree, R"({"kids":[1]})"));
  EXPECT_TRUE(takes(Kind::kJsonSchema, R"({"type": "object", "properties": {"l": {"type": "array",
      "items": {"type": "boolean"}}, "b": {"$ref": "#/properties/l/items"}}, "required": ["b"]})",
                    R"({"b":true})"));
}

TEST_F(GrammarTest, AReferenceToAnEnumIsThatEnum) {
  const std::string unit = R"({"type": "object", "properties": {"unit": {"$ref": "#/$defs/unit"}},
      "required": ["unit"], "$defs": {"unit": {"enum": ["C", "F"]}}})";
  EXPECT_TRUE(takes(Kind::kJsonSchema, unit, R"({"unit":"F"})"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, unit, R"({"unit":{}})"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, unit, R"({"unit":"K"})"));
}

TEST_F(GrammarTest, AReferenceMayPointAnywhereInTheSchema) {
  const std::string pair = R"({"type": "object", "properties": {
      "list": {"type": "array", "prefixItems": [{"type": "null"}, {"anyOf": [{"enum": [1]}]}]},
      "a/b~": {"type": "boolean"}, "x": {"$ref": "#/properties/list/prefixItems/1/anyOf/0"},
      "y": {"$ref": "#/properties/a~1b~0"}}, "required": ["x", "y"]})";
  EXPECT_TRUE(takes(Kind::kJsonSchema, pair, R"({"x":1,"y":false})"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, pair, R"({"x":2,"y":false})"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, pair, R"({"x":1,"y":0})"));
}

// In drafts up to 7 nothing beside "$ref" counts, neither limits nor a "$id" that would move the
// base of the reference.
TEST_F(GrammarTest, WhatStandsBesideAReferenceDependsOnTheDraft) {
  const auto schema = [](const char* draft) {
    return fmt::format(
        R"({{{}"$id": "http://x.example/", "$ref": "#/definitions/use", "definitions": {{
        "a": {{"$id": "/in/number", "type": "string"}}, "b": {{"$id": "number", "type": "number"}},
        "use": {{"type": "array", "minItems": 1, "items": {{"$id": "/in/", "$ref": "number"}}}}}}}})",
        draft);
  };
  const std::string old = schema(R"("$schema": "http://json-schema.org/draft-07/schema#", )");
  EXPECT_TRUE(takes(Kind::kJsonSchema, old, "[7]"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, old, R"(["a"])"));
  const std::string now = schema(R"("$schema": "https://json-schema.org/draft/2020-12/schema", )");
  EXPECT_FALSE(takes(Kind::kJsonSchema, now, "[7]"));
  EXPECT_TRUE(takes(Kind::kJsonSchema, now, R"(["a"])"));
  EXPECT_NE(refusal(Kind::kJsonSchema, schema(""))
                .find(R"("$ref" at "#/definitions/use/items" stands beside a "$id")"),
            std::string::npos);
  EXPECT_NE(refusal(Kind::kJsonSchema, R"({"items": {"id": "http://x.example/y", "items": {
                "$ref": "#/definitions/a"}}, "definitions": {"a": {"type": "null"}}})")
                .find(R"("$ref" at "#/items/items" stands within an "id")"),
            std::string::npos);

  const auto limited = [](const char* draft) {
    return fmt::format(
        R"({{"$schema": "{}", "items": {{"$ref": "#/definitions/text", "maxLength": 1}},
        "type": "array", "definitions": {{"text": {{"type": "string"}}}}}})",
        draft);
  };
  EXPECT_TRUE(
      takes(Kind::kJsonSchema, limited("https://json-schema.org/draft-06/schema"), R"(["ab"])"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, limited("https://json-schema.org/draft/2019-09/schema"),
                     R"(["ab"])"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, limited("http://x.example/mine"), R"(["ab"])"));
}

// A keyword that the named draft does not know would be passed over by whoever checks the answer.
TEST_F(GrammarTest, KeywordsOfOtherDrafts) {
  const std::string draft7 = R"({"$schema": "http://json-schema.org/draft-07/schema#", )";
  EXPECT_NE(refusal(Kind::kJsonSchema, draft7 + R"("prefixItems": [{"type": "null"}]})")
                .find(R"("prefixItems" at "#" is not in the draft)"),
            std::string::npos);
  EXPECT_FALSE(takes(Kind::kJsonSchema, draft7 + R"("const": 5})", "6"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, draft7 + R"("$defs": {}, "items": {"const": 5}})", "[6]"));
  EXPECT_NE(refusal(Kind::kJsonSchema,
                    R"({"$schema": "http://json-schema.org/draft-04/schema#", "const": 5})")
                .find(R"("const" at "#" is not in the draft)"),
            std::string::npos);
  EXPECT_NE(refusal(Kind::kJsonSchema, R"({"items": [{}], "prefixItems": [{}]})")
                .find(R"("items" at "#" is a list)"),
            std::string::npos);
  const std::string both = R"({"type": "array", "prefixItems": [{"type": "null"}], "minItems": 1,
      "additionalItems": false})";
  EXPECT_TRUE(takes(Kind::kJsonSchema, both, "[null, 1]"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, both, "[1]"));
}

TEST_F(GrammarTest, DatesAreOnTheCalendar) {
  const auto takes_format = [this](const char* format, const char* text) {
    return takes(Kind::kJsonSchema, fmt::format(R"({{"type": "string", "format": "{}"}})", format),
                 fmt::format("\"{}\"", text));
  };
  for (const char* date : {"2024-02-29", "2000-02-29", "0004-02-29", "1999-02-28", "1900-12-31",
                           "0001-01-01", "9999-04-30"}) {
    EXPECT_TRUE(takes_format("date", date)) << date;
    EXPECT_TRUE(takes_format("date-time", fmt::format("{}T00:00:00Z", date).c_str())) << date;
  }
  for (const char* date : {"2023-02-29", "1900-02-29", "2024-02-30", "2024-04-31", "2024-13-01",
                           "0000-02-29", "0000-01-01", "2024-2-29", "12024-02-29"}) {
    EXPECT_FALSE(takes_format("date", date)) << date;
    EXPECT_FALSE(takes_format("date-time", fmt::format("{}T00:00:00Z", date).c_str())) << date;
  }
  EXPECT_TRUE(takes_format("time", "23:59:59.25+23:59"));
  EXPECT_TRUE(takes_format("time", "00:00:00z"));
  for (const char* time : {"23:59:60Z", "22:59:60Z", "24:00:00Z", "12:00:00", "12:00:00+24:00"}) {
    EXPECT_FALSE(takes_format("time", time)) << time;
    EXPECT_FALSE(takes_format("date-time", fmt::format("2020-01-01T{}", time).c_str())) << time;
  }
  // Beside a pattern of the schema's own, both must match.
  const std::string ends = R"({"type": "string", "format": "date", "pattern": "-29$"})";
  EXPECT_TRUE(takes(Kind::kJsonSchema, ends, "\"2024-02-29\""));
  EXPECT_FALSE(takes(Kind::kJsonSchema, ends, "\"2023-02-29\""));
  EXPECT_FALSE(takes(Kind::kJsonSchema, ends, "\"2024-02-28\""));
}

// What a token costs must not grow with what came before: 40,000 of them, half in one text, half
// in one list, would take hours if it did.
TEST_F(GrammarTest, LongAnswersDoNotSlowDown) {
  const auto m = matcher(json_object_spec());
  std::vector<std::uint32_t> words(m->num_mask_words());
  const auto follow = [&](std::string_view text) {
    for (const char c : text) {
      ASSERT_TRUE(m->fill_mask(words));
      ASSERT_TRUE(m->accept(static_cast<unsigned char>(c)).value());
    }
  };
  follow("{\"text\":\"");
  for (int i = 0; i < 2000; ++i) follow("word, 8\\n ");
  follow("\",\"list\":[[]");
  for (int i = 0; i < 2000; ++i) follow(",{\"a\":[1]}");
  follow("]}");
  EXPECT_TRUE(m->complete());
}

TEST_F(GrammarTest, BranchesThatExcludeEachOther) {
  // A tagged union as pydantic writes it.
  const std::string pets = R"({"oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
      "discriminator": {"propertyName": "kind"}, "$defs": {
      "Cat": {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
              "required": ["kind", "lives"], "additionalProperties": false},
      "Dog": {"type": "object", "properties": {"kind": {"const": "dog"}},
              "required": ["kind"], "additionalProperties": false}}})";
  EXPECT_TRUE(takes(Kind::kJsonSchema, pets, R"({"kind":"cat","lives":9})"));
  EXPECT_TRUE(takes(Kind::kJsonSchema, pets, R"({"kind":"dog"})"));
  EXPECT_FALSE(takes(Kind::kJsonSchema, pets, R"({"kind":"dog","lives":9})"));
}

TEST_F(GrammarTest, RefusedSchemasTellKeywordAndPath) {
  const auto expect = [this](const char* schema, const char* part) {
    EXPECT_NE(refusal(Kind::kJsonSchema, schema).find(part), std::string::npos)
        << schema << ": " << refusal(Kind::kJsonSchema, schema);
  };
  expect(R"({"properties": {"a/b": {"items": {"uniqueItems": true}}}})",
         R"("uniqueItems" at "#/properties/a~1b/items" can't be enforced)");
  expect(R"({"type": "nonsense"})", R"("type" at "#" is "nonsense")");
  expect(R"({"minLenght": 1})", R"("minLenght" at "#" is not a known keyword)");
  expect(R"({"$ref": "#/$defs/none"})", R"("$ref" at "#" refers to "#/$defs/none")");
  expect(R"({"$ref": "http://x.example/y"})", "not in this schema");
  expect(R"({"items": {"pattern": "(?<!x)y"}})", "\"pattern\" at \"#/items\"");
  expect(R"({"format": "regex"})", "these can: date,");
  expect(R"({"required": "a"})", "list of property names");
  expect(R"({"multipleOf": 0})", "above 0");
  for (const char* schema : {R"({"const": 9007199254740993})", R"({"minimum": 1e19})",
                             R"({"enum": ["a", {"n": [-9007199254740993]}]})"}) {
    expect(schema, "beyond 2^53 - 1");
  }
  expect(R"({"allOf": []})", "empty list");
  expect("\"text\"", "must be an object or a boolean");
  expect("false", "nothing fits");
  expect("{not json", "not JSON");
  expect(R"({"x-guidance": {"lenient": true}, "not": {}})", R"("not" at "#")");
  expect(R"({"default": {"not": {}}, "$ref": "#/default"})", R"("not" at "#/default")");
  // Found by the compiler, placed by us.
  expect(R"({"type": "object", "properties": {"n": {"type": "integer", "minimum": 5,
             "maximum": 4}}, "required": ["n"]})",
         "#/properties/n");
  expect(R"({"items": {"oneOf": [{"type": "string"}, {"pattern": "^a"}]}})",
         R"("oneOf" at "#/items" can't be enforced: a value could fit several of its branches)");
  EXPECT_EQ(
      refusal(Kind::kJsonSchema, R"({"items": {"oneOf": [{"type": "string"}, {"pattern": "^a"}]}})")
          .find("coerce"),
      std::string::npos)
      << "options of the compiler are none of ours";
}

TEST_F(GrammarTest, SchemasThatNestWithoutEndAreRefused) {
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += R"({"items":)";
  EXPECT_NE(refusal(Kind::kJsonSchema, deep + "{}" + std::string(100, '}')), "");
  std::string chain = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 20000; ++i)
    chain += fmt::format(R"("d{}": {{"$ref": "#/$defs/d{}"}}, )", i, i + 1);
  EXPECT_NE(refusal(Kind::kJsonSchema, chain + R"("d20000": {}}})").find("schema"),
            std::string::npos);
  std::string back = R"({"$ref": "#/$defs/d9000", "$defs": {"d0": {"type": "null"})";
  for (int i = 1; i <= 9000; ++i)
    back += fmt::format(R"(, "d{}": {{"$ref": "#/$defs/d{}"}})", i, i - 1);
  refusal(Kind::kJsonSchema, back + "}}");  // whatever it is, the process lives
  EXPECT_NE(refusal(Kind::kGrammar, "start: " + std::string(100000, '(')), "none");
  EXPECT_NE(refusal(Kind::kGrammar, "root ::= " + std::string(100000, '(')), "none");
  EXPECT_NE(refusal(Kind::kRegex, std::string(100000, '(')), "none");
}

TEST_F(GrammarTest, WhiteSpaceAndClosedObjects) {
  GrammarSpec spec;
  spec.text = R"({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]})";
  spec.disable_any_whitespace = true;
  EXPECT_TRUE(takes(spec, R"({"a":null})"));
  EXPECT_FALSE(takes(spec, R"({"a": null})"));
  EXPECT_TRUE(takes(spec, R"({"a":null,"b":1})"));
  spec.disable_additional_properties = true;
  EXPECT_FALSE(takes(spec, R"({"a":null,"b":1})"));
  spec.disable_any_whitespace = false;
  spec.has_whitespace_pattern = true;
  spec.whitespace_pattern = "_+";
  EXPECT_TRUE(takes(spec, R"({"a":___null})"));
  EXPECT_FALSE(takes(spec, R"({"a": null})"));
  spec.whitespace_pattern = "";
  EXPECT_TRUE(takes(spec, R"({"a":null})"));
  spec.whitespace_pattern = "(";
  EXPECT_FALSE(compiler_->compile(spec));
}

TEST_F(GrammarTest, Ebnf) {
  const std::string greeting =
      "root ::= greeting \" \" name # a comment\ngreeting ::= \"hello\"\n  | \"bye\"\n"
      "name ::= [a-c]{2,3} | \"x\"\n";
  EXPECT_TRUE(takes(Kind::kGrammar, greeting, "hello abc"));
  EXPECT_TRUE(takes(Kind::kGrammar, greeting, "bye x"));
  EXPECT_FALSE(takes(Kind::kGrammar, greeting, "bye a"));
  // Exact where greedy tokens would not be.
  EXPECT_TRUE(takes(Kind::kGrammar, "root ::= [a-z]* \"end\"", "abcend"));
  EXPECT_TRUE(takes(Kind::kGrammar, "root ::= \"(\" [a-z]* \"e\" root? \")\"", "(ae(e))"));
  EXPECT_TRUE(takes(Kind::kGrammar, "root ::= [a-z]* (\"(\" root \")\")?", "a(b())"));
  EXPECT_TRUE(takes(Kind::kGrammar, "root ::= \"\\x41\\n\" [^\\]\\n] . \"\" ", "A\nx\n"));
  EXPECT_TRUE(takes(Kind::kGrammar, "root ::= \"a\"?", ""));
  EXPECT_FALSE(takes(Kind::kGrammar, "root ::= \"(\" root \")\" | \"x\"", "((x)"));
  const auto expect = [this](const char* text, const char* part) {
    EXPECT_NE(refusal(Kind::kGrammar, text).find(part), std::string::npos)
        << text << ": " << refusal(Kind::kGrammar, text);
  };
  expect("root ::= missing", "\"missing\"");
  expect("root ::= \"a\"\nx ::= (", "line 2");
  expect("a ::= \"b\"", "no rule \"root\"");
  expect("root ::= [z-a]", "empty");
  expect("root ::= \"a\"\nroot ::= \"b\"", "twice");
  expect("root ::= \"a\"{3,2}", "no repetition");
}

TEST_F(GrammarTest, Lark) {
  const std::string sum = "start: term (\"+\" term)*\nterm: NUM | \"(\" start \")\"\nNUM: /[0-9]+/";
  EXPECT_TRUE(takes(Kind::kGrammar, sum, "1+(2+34)"));
  EXPECT_FALSE(takes(Kind::kGrammar, sum, "1+"));
  EXPECT_NE(refusal(Kind::kGrammar, "start: missing"), "none");
  EXPECT_NE(refusal(Kind::kGrammar, "this is no grammar ((("), "none");
  EXPECT_NE(refusal(Kind::kGrammar, ""), "none");
}

TEST_F(GrammarTest, StructuralTagWithTriggers) {
  const std::string tag = R"({"type": "structural_tag", "triggers": ["<f="], "structures": [
      {"begin": "<f=a>", "schema": {"type": "integer"}, "end": "</f>"},
      {"begin": "<f=b>", "schema": {"type": "boolean"}, "end": "</f>"}]})";
  const auto tags = [&](const char* text) { return takes(Kind::kStructuralTag, tag, text); };
  EXPECT_TRUE(tags("just text < f=a"));
  EXPECT_TRUE(tags(""));
  EXPECT_TRUE(tags("call <f=a>12</f> and <f=b>true</f>."));
  EXPECT_FALSE(tags("call <f=a>true</f>"));
  EXPECT_FALSE(tags("call <f=c>"));
  EXPECT_FALSE(tags("call <f=a>12"));
  EXPECT_FALSE(tags("call <f="));
}

TEST_F(GrammarTest, StructuralTagFormats) {
  const auto takes_format = [this](const char* format, const char* text) {
    return takes(Kind::kStructuralTag,
                 fmt::format(R"({{"type": "structural_tag", "format": {}}})", format), text);
  };
  const char* think = R"({"type": "sequence", "elements": [
      {"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "</t>"},
      {"type": "or", "elements": [{"type": "const_string", "value": "yes"},
                                  {"type": "regex", "pattern": "[0-9]+"},
                                  {"type": "grammar", "grammar": "root ::= \"(\" root? \")\""},
                                  {"type": "json_schema", "json_schema": {"type": "array"}}]}]})";
  EXPECT_TRUE(takes_format(think, "<t>so < so</t>yes"));
  EXPECT_TRUE(takes_format(think, "<t></t>42"));
  EXPECT_TRUE(takes_format(think, "<t>x</t>(())"));
  EXPECT_TRUE(takes_format(think, "<t>x</t>[1]"));
  EXPECT_FALSE(takes_format(think, "<t>x</t>no"));
  EXPECT_FALSE(takes_format(think, "yes"));
  const char* calls = R"({"type": "triggered_tags", "triggers": ["<f"], "at_least_one": true,
      "stop_after_first": true, "tags": [{"begin": "<f>", "end": ["</f>", "</e>"],
      "content": {"type": "const_string", "value": "x"}}]})";
  EXPECT_TRUE(takes_format(calls, "go <f>x</e>"));
  EXPECT_FALSE(takes_format(calls, "go"));
  EXPECT_FALSE(takes_format(calls, "<f>x</f>."));
  const char* list = R"({"type": "tags_with_separator", "separator": ",", "tags": [
      {"begin": "<", "end": ">", "content": {"type": "json_schema", "json_schema": {"type": "null"}}}]})";
  EXPECT_TRUE(takes_format(list, "<null>,<null>"));
  EXPECT_TRUE(takes_format(list, ""));
  EXPECT_FALSE(takes_format(list, "<null>,"));
  EXPECT_NE(refusal(Kind::kStructuralTag,
                    R"({"format": {"type": "sequence", "elements": [{"type": "odd"}]}})")
                .find("format.elements[0].type is \"odd\""),
            std::string::npos);
  EXPECT_NE(refusal(Kind::kStructuralTag, "{}").find("\"structures\""), std::string::npos);
}

TEST_F(GrammarTest, StructuralTagWithSpecialTokens) {
  const auto follow = [this](const char* format, const std::vector<TokenId>& ids) {
    GrammarSpec spec;
    spec.kind = Kind::kStructuralTag;
    spec.text = fmt::format(R"({{"format": {}}})", format);
    const auto m = matcher(spec);
    if (!m) return false;
    for (const TokenId id : ids) {
      const bool allowed = allows(mask(*m), id);
      EXPECT_EQ(m->accept(id).value(), allowed);
      if (!allowed) return false;
    }
    return m->accepting().value();
  };
  // The token alone is meant, not its text.
  const char* literal = R"({"type": "const_string", "value": "x<other>y"})";
  EXPECT_TRUE(follow(literal, {'x', kOther, 'y'}));
  EXPECT_FALSE(follow(literal, {'x', '<'}));
  EXPECT_FALSE(follow(literal, {'x', 'y'}));
  // Text goes on until the token comes.
  const char* tags = R"({"type": "triggered_tags", "triggers": ["<other>"], "tags": [
      {"begin": "<other>(", "content": {"type": "any_text"}, "end": "<other>"}]})";
  EXPECT_TRUE(follow(tags, {'a', 'b', kOther, '(', 'c', kOther, 'd'}));
  EXPECT_TRUE(follow(tags, {}));
  EXPECT_FALSE(follow(tags, {'a', kOther, 'b'}));
  EXPECT_FALSE(follow(tags, {'a', kOther, '('}));
  const char* most = R"({"type": "sequence", "elements": [
      {"type": "any_text", "max_tokens": 2}, {"type": "const_string", "value": "<other>"}]})";
  EXPECT_TRUE(follow(most, {kOther}));
  EXPECT_TRUE(follow(most, {'a', kMerged, kOther}));
  EXPECT_FALSE(follow(most, {'a', 'b', 'c'}));
  EXPECT_NE(refusal(Kind::kStructuralTag, R"({"format": {"type": "triggered_tags", "triggers":
      ["a<other>"], "tags": [{"begin": "a<other>", "content": {"type": "any_text"}, "end": "x"}]}})")
                .find("can only begin"),
            std::string::npos);
}

TEST_F(GrammarTest, StructuralTagRepetitionsAndPatterns) {
  const auto takes_format = [this](const char* format, const char* text) {
    return takes(Kind::kStructuralTag, fmt::format(R"({{"format": {}}})", format), text);
  };
  const char* list = R"({"type": "sequence", "elements": [
      {"type": "optional", "content": {"type": "const_string", "value": "-"}},
      {"type": "plus", "content": {"type": "const_string", "value": "a"}},
      {"type": "star", "content": {"type": "const_string", "value": "b"}}]})";
  EXPECT_TRUE(takes_format(list, "-aab"));
  EXPECT_TRUE(takes_format(list, "a"));
  EXPECT_FALSE(takes_format(list, "-b"));
  const char* calls = R"({"type": "sequence", "elements": [
      {"type": "star", "content": {"type": "sequence", "elements": [
        {"type": "text_up_to", "pattern": "\\[\\s*f\\("}, {"type": "regex", "pattern": "[0-9]"},
        {"type": "const_string", "value": ")]"}]}},
      {"type": "any_text", "without": "\\[\\s*f\\("}]})";
  EXPECT_TRUE(takes_format(calls, "so [ f(1)] and [f(2)], [g(x)]"));
  EXPECT_FALSE(takes_format(calls, "so [f(x)]"));
  const char* value = R"({"type": "tag", "begin": "<", "end": ">", "content":
      {"type": "any_text", "pattern": "[ab>]{2,3}"}})";
  EXPECT_TRUE(takes_format(value, "<ab>"));
  EXPECT_FALSE(takes_format(value, "<a>"));
  EXPECT_FALSE(takes_format(value, "<a>b>"));
  EXPECT_FALSE(takes_format(value, "<abab>"));
}

// What would not be read is refused by its place: it may say what the answer must fit.
TEST_F(GrammarTest, StructuralTagsHaveNoUnreadMembers) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"format": {"type": "any_text"}, "structures": []})", "structures"},
      {R"({"format": {"type": "any_text", "exclude": ["a"]}})", "exclude"},
      {R"({"format": {"type": "any_text", "pattern": "a"}})", "pattern"},
      {R"({"format": {"type": "tag", "begin": "<", "end": ">", "content":
           {"type": "any_text", "pattern": "a", "max_tokens": 3}}})",
       "pattern"},
      {R"({"format": {"type": "tag", "begin": "<", "end": ">", "content": {"type": "any_text"},
           "style": "x"}})",
       "style"},
      {R"({"format": {"type": "json_schema", "json_schema": {}, "style": "xml"}})", "style"},
      {R"({"format": {"type": "triggered_tags", "triggers": ["<"], "excludes": ["a"], "tags":
           [{"begin": "<", "content": {"type": "any_text"}, "end": ">"}]}})",
       "excludes"},
      {R"({"structures": [{"begin": "<", "schema": {}, "end": ">", "regex": "a"}],
           "triggers": ["<"]})",
       "regex"}};
  for (const auto& [tag, name] : cases) {
    EXPECT_NE(refusal(Kind::kStructuralTag, tag).find(fmt::format("has \"{}\", which can't", name)),
              std::string::npos)
        << tag << refusal(Kind::kStructuralTag, tag);
  }
  const char* excludes =
      R"({"format": {"type": "any_text", "excludes": ["ab", "c."], "pattern": null}})";
  EXPECT_TRUE(takes(Kind::kStructuralTag, excludes, "a bc x"));
  EXPECT_FALSE(takes(Kind::kStructuralTag, excludes, "x ab"));
  EXPECT_FALSE(takes(Kind::kStructuralTag, excludes, "c."));
}

TEST_F(GrammarTest, CompiledOnceAndBounded) {
  GrammarCompiler::Options options;
  options.max_grammars = 3;
  options.max_source_bytes = 100;
  GrammarCompiler compiler(tokenizer_.get(), {kEnd}, tokenizer_->vocab_size(), options);
  const auto first = compiler.compile(regex("a")).value();
  EXPECT_EQ(compiler.compile(regex("a")).value(), first);
  for (const char* text : {"b", "c", "d"}) ASSERT_TRUE(compiler.compile(regex(text)));
  EXPECT_NE(compiler.compile(regex("a")).value(), first);
  EXPECT_FALSE(compiler.compile(regex("(")));
  EXPECT_FALSE(compiler.compile(regex("(")));
  EXPECT_FALSE(compiler.compile(regex(std::string(101, 'a'))));
  EXPECT_LE(compiler.stats().kept, 3u);
  EXPECT_EQ(compiler.stats().found, 1);
  // The first one still works though it is no longer kept.
  EXPECT_TRUE(first->matcher({}, true).value()->accept('a').value());
}

TEST_F(GrammarTest, SharedByThreads) {
  const auto grammar = compiler_->compile(regex("(ab|c)+")).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const auto again = compiler_->compile(regex("(ab|c)+")).value();
        const auto m = again->matcher({}, true).value();
        for (const char c : {'a', 'b', 'c'}) EXPECT_TRUE(m->accept(c).value());
        EXPECT_TRUE(m->accepting().value());
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace quire
