// Stop strings: exact cut, nothing shown that a stop could begin with, nothing lost at the end, and
// the same result however the text is cut in pieces.
#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace quire {
namespace {

struct Outcome {
  std::string text;
  std::optional<std::string> matched;
};

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces,
            bool include = false) {
  StopMatcher matcher(stops, include);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    const StopMatcher::Step step = matcher.push(piece);
    outcome.text += step.text;
    if (step.matched) {
      outcome.matched = step.matched;
      break;
    }
  }
  outcome.text += matcher.flush();
  return outcome;
}

std::vector<std::string> bytes_of(const std::string& text) {
  std::vector<std::string> pieces;
  for (const char c : text) pieces.emplace_back(1, c);
  return pieces;
}

TEST(StopMatcher, CutsBeforeTheMatch) {
  const Outcome outcome = run({"wor"}, {"hello world"});
  EXPECT_EQ(outcome.text, "hello ");
  EXPECT_EQ(outcome.matched, "wor");
}

TEST(StopMatcher, KeepsTheStopWhenAskedTo) {
  EXPECT_EQ(run({"wor"}, {"hello world"}, true).text, "hello wor");
}

TEST(StopMatcher, FindsAStopSpreadOverPieces) {
  const Outcome outcome = run({"END"}, {"abcE", "N", "Dxyz"});
  EXPECT_EQ(outcome.text, "abc");
  EXPECT_EQ(outcome.matched, "END");
}

TEST(StopMatcher, ShowsNoPartOfAStop) {
  StopMatcher matcher({"<stop>"}, false);
  EXPECT_EQ(matcher.push("a<").text, "a");
  EXPECT_EQ(matcher.push("sto").text, "");
  EXPECT_EQ(matcher.push("p").text, "");
  const StopMatcher::Step step = matcher.push(">b");
  EXPECT_EQ(step.text, "");
  EXPECT_EQ(step.matched, "<stop>");
}

TEST(StopMatcher, HoldsBackNoMoreThanCouldBecomeAStop) {
  StopMatcher matcher({"aab"}, false);
  EXPECT_EQ(matcher.push("aaaa").text, "aa");
  EXPECT_EQ(matcher.push("c").text, "aac");
  EXPECT_EQ(matcher.push("x").text, "x");
}

TEST(StopMatcher, GivesHeldTextAtTheEnd) {
  StopMatcher matcher({"<stop>"}, false);
  EXPECT_EQ(matcher.push("1 < 2 <st").text, "1 < 2 ");
  EXPECT_EQ(matcher.flush(), "<st");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, ARepeatedBeginningHidesNothing) {
  EXPECT_EQ(run({"aaab"}, bytes_of("xaaaaab")).text, "xaa");
  EXPECT_EQ(run({"abac"}, bytes_of("ababac!")).text, "ab");
}

TEST(StopMatcher, TheFirstOfSeveralWins) {
  const Outcome outcome = run({"delta", "arl", "echo", "zzz"}, {"bravo charlie delta echo"});
  EXPECT_EQ(outcome.text, "bravo ch");
  EXPECT_EQ(outcome.matched, "arl");
}

TEST(StopMatcher, TheMatchThatIsCompleteFirstWinsInOnePieceAndInMany) {
  for (const auto& pieces : {std::vector<std::string>{"xabcdy"}, bytes_of("xabcdy")}) {
    const Outcome outcome = run({"abcd", "bc"}, pieces);
    EXPECT_EQ(outcome.text, "xa");
    EXPECT_EQ(outcome.matched, "bc");
  }
  const Outcome same_end = run({"bc", "abc"}, {"xabc"});
  EXPECT_EQ(same_end.text, "x");
  EXPECT_EQ(same_end.matched, "abc");
}

TEST(StopMatcher, NothingComesAfterAMatch) {
  StopMatcher matcher({"."}, false);
  EXPECT_EQ(matcher.push("a.b").text, "a");
  const StopMatcher::Step step = matcher.push("c.");
  EXPECT_EQ(step.text, "");
  EXPECT_FALSE(step.matched);
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, WithoutStopsTextGoesThrough) {
  StopMatcher matcher({}, false);
  EXPECT_EQ(matcher.push("anything").text, "anything");
  StopMatcher empty({""}, false);
  EXPECT_EQ(empty.push("anything").text, "anything");
  EXPECT_EQ(empty.flush(), "");
}

TEST(StopMatcher, PiecesDontMatter) {
  std::mt19937 random(7);
  const auto word = [&](int max_size) {
    std::string text(1 + random() % static_cast<unsigned>(max_size), 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> stops = {word(4), word(4), word(4)};
    const std::string text = word(30);
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      pieces.push_back(text.substr(at, 1 + random() % 4));
      at += pieces.back().size();
    }
    const bool include = round % 2 == 0;
    const Outcome whole = run(stops, {text}, include);
    const Outcome cut = run(stops, pieces, include);
    ASSERT_EQ(whole.text, cut.text) << text;
    ASSERT_EQ(whole.matched, cut.matched) << text;
    if (!whole.matched) {
      ASSERT_EQ(whole.text, text);
    }
  }
}

}  // namespace
}  // namespace quire
