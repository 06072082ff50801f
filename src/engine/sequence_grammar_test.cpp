// A grammar along a sequence, without an engine: thinking before it, that one's budget.
#include "engine/sequence_grammar.h"

#include <gtest/gtest.h>

#include "engine/engine_test_util.h"

namespace quire {
namespace {

using test::byte_tokenizer;

class SequenceGrammarTest : public testing::Test {
 protected:
  SequenceGrammarTest() {
    GrammarSpec spec;
    spec.kind = GrammarSpec::Kind::kRegex;
    spec.text = "[0-9]+";
    request_.grammar = compiler_.compile(spec).value();
    request_.stop.eos_ids = {test::kEos};
    request_.grammar_start = {'<', '/', 't', '>'};
  }
  // The tokens that may come next; "" when all may.
  static std::string allowed(SequenceGrammar& grammar) {
    grammar.fill();
    const TokenMask mask = grammar.mask();
    std::string out;
    for (TokenId id = 0; id < 256; ++id) {
      const auto word = static_cast<std::size_t>(id) / 32;
      if (word < mask.bits.size() && (mask.bits[word] >> (id % 32) & 1u) != 0)
        out += static_cast<char>(id);
    }
    EXPECT_EQ(out.size() == 1 && mask.only >= 0 ? out[0] : -1, mask.only);
    return out;
  }
  static void accept(SequenceGrammar& grammar, std::string_view text) {
    for (const char c : text) {
      allowed(grammar);
      grammar.accept(static_cast<unsigned char>(c));
    }
  }

  std::unique_ptr<Tokenizer> tokenizer_ = byte_tokenizer();
  GrammarCompiler compiler_{tokenizer_.get(), {test::kEos}, tokenizer_->vocab_size()};
  Request request_;
  const std::string digits_ = "0123456789";
};

TEST_F(SequenceGrammarTest, BeginsAfterTheThinking) {
  SequenceGrammar grammar(request_);
  EXPECT_EQ(allowed(grammar), "");
  accept(grammar, "so </ t</t");
  EXPECT_EQ(allowed(grammar), "");
  accept(grammar, ">");
  EXPECT_EQ(allowed(grammar), digits_);
  EXPECT_FALSE(grammar.error());
}

TEST_F(SequenceGrammarTest, TheFirstTokenMayBeginThinking) {
  request_.thinking.begin = {'#'};
  SequenceGrammar thinks(request_);
  EXPECT_EQ(allowed(thinks), "#" + digits_);
  accept(thinks, "#");
  EXPECT_EQ(allowed(thinks), "");
  accept(thinks, "x</t>");
  EXPECT_EQ(allowed(thinks), digits_);

  SequenceGrammar answers(request_);
  accept(answers, "1");
  EXPECT_EQ(allowed(answers), digits_);  // not '#': the thinking is over
  EXPECT_FALSE(answers.error());
}

TEST_F(SequenceGrammarTest, ABudgetEndsTheThinking) {
  request_.thinking.budget = 3;
  SequenceGrammar grammar(request_);
  accept(grammar, "ab");
  EXPECT_EQ(allowed(grammar), "");
  accept(grammar, "c");
  for (const char c : std::string("</t>")) {
    EXPECT_EQ(allowed(grammar), std::string(1, c));
    accept(grammar, std::string(1, c));
  }
  EXPECT_EQ(allowed(grammar), digits_);
}

TEST_F(SequenceGrammarTest, AnEndThatHasBegunIsGoneOnWith) {
  request_.thinking.budget = 3;
  SequenceGrammar grammar(request_);
  accept(grammar, "a</");
  EXPECT_EQ(allowed(grammar), "t");
  accept(grammar, "t>");
  EXPECT_EQ(allowed(grammar), digits_);
}

TEST_F(SequenceGrammarTest, ABudgetWithoutAGrammar) {
  request_.grammar = nullptr;
  request_.thinking.budget = 0;
  ASSERT_TRUE(SequenceGrammar::needed(request_));
  SequenceGrammar grammar(request_);
  EXPECT_EQ(allowed(grammar), "<");
  accept(grammar, "</t>");
  EXPECT_EQ(allowed(grammar), "");
  accept(grammar, "anything");
  EXPECT_FALSE(grammar.ended() || grammar.error() || grammar.complete_without_end());

  request_.thinking.begin = {'#'};
  SequenceGrammar may_think(request_);
  EXPECT_EQ(allowed(may_think), "");
  accept(may_think, "#");
  EXPECT_EQ(allowed(may_think), "<");
  SequenceGrammar does_not(request_);
  accept(does_not, "a");
  EXPECT_EQ(allowed(does_not), "");
  request_.grammar_start.clear();
  EXPECT_FALSE(SequenceGrammar::needed(request_));
}

// Marks of several tokens: "Think:" up to "</t>", whose ends may stand inside longer tokens.
class MarksOfSeveralTokensTest : public SequenceGrammarTest {
 protected:
  MarksOfSeveralTokensTest() {
    GrammarSpec spec;
    spec.kind = GrammarSpec::Kind::kStructuralTag;
    spec.text = R"({"format": {"type": "tag", "begin": ":", "content": {"type": "any_text"},
                    "end": ["</t>", "</T>"]}})";
    request_.thinking.text = compiler_.compile(spec).value();
    request_.thinking.begin = {'T', 'h', 'i', 'n', 'k'};
  }
  void answer_is(std::string_view pattern) {
    GrammarSpec spec;
    spec.kind = GrammarSpec::Kind::kRegex;
    spec.text = pattern;
    request_.grammar = compiler_.compile(spec).value();
  }
};

TEST_F(MarksOfSeveralTokensTest, TheBeginningIsDrawnWholeOrNotAtAll) {
  SequenceGrammar grammar(request_);
  EXPECT_EQ(allowed(grammar), digits_ + "T");
  accept(grammar, "T");
  EXPECT_EQ(allowed(grammar), "h");
  accept(grammar, "hink");
  EXPECT_EQ(allowed(grammar), ":");
  accept(grammar, ":");
  EXPECT_GT(allowed(grammar).size(), 128U);
  accept(grammar, "7 </t");
  EXPECT_NE(allowed(grammar).find('x'), std::string::npos);
  accept(grammar, "</T>");
  EXPECT_EQ(allowed(grammar), digits_);
  EXPECT_FALSE(grammar.error());
}

TEST_F(MarksOfSeveralTokensTest, AnAnswerMayBeginLikeThinking) {
  answer_is("Th(is|ink!)");
  SequenceGrammar answers(request_);
  accept(answers, "Th");
  EXPECT_EQ(allowed(answers), "i");
  accept(answers, "i");
  EXPECT_EQ(allowed(answers), "ns");
  accept(answers, "s");
  EXPECT_FALSE(answers.error() || answers.ended());
  SequenceGrammar thinks(request_);
  accept(thinks, "Think:!</t>");
  EXPECT_EQ(allowed(thinks), "T");
  accept(thinks, "Think!");
  EXPECT_FALSE(thinks.error());
}

TEST_F(MarksOfSeveralTokensTest, ABudget) {
  request_.thinking.budget = 4;
  SequenceGrammar grammar(request_);
  accept(grammar, "Think:a</");
  for (const char c : std::string("</t>")) {
    EXPECT_EQ(allowed(grammar), std::string(1, c));
    accept(grammar, std::string(1, c));
  }
  EXPECT_EQ(allowed(grammar), digits_);
  request_.thinking.budget = 0;  // none is begun
  SequenceGrammar none(request_);
  EXPECT_EQ(allowed(none), digits_);
  request_.thinking.begin.clear();  // the prompt has begun it, and the mark's last byte with it
  request_.thinking.budget = 1;
  request_.grammar = nullptr;
  SequenceGrammar alone(request_);
  EXPECT_EQ(allowed(alone), ":");
  accept(alone, ":</t>");
  EXPECT_EQ(allowed(alone), "");
  EXPECT_FALSE(alone.error());
}

}  // namespace
}  // namespace quire
