#include "dialect/thinking_counter.h"

#include <gtest/gtest.h>

#include <string_view>

namespace quire {
namespace {

std::vector<TokenId> ids(std::string_view text) { return {text.begin(), text.end()}; }

// A token per byte.
std::int32_t count(const ThinkingMarks& marks, bool inside, std::string_view text) {
  ThinkingCounter counter(&marks, inside);
  for (const char c : text) counter.push(c, c == ' ' || c == '\n');
  return counter.count();
}

const ThinkingMarks kMarks{{ids("<t>")}, {ids("</t>"), ids("</think>")}};

TEST(ThinkingCounter, BetweenTheMarks) {
  EXPECT_EQ(count(kMarks, false, "<t>abc</t>answer"), 3);
  EXPECT_EQ(count(kMarks, false, "\n <t>ab</think>"), 2);
  EXPECT_EQ(count(kMarks, false, "<t></t>"), 0);
  EXPECT_EQ(count(kMarks, false, "<t>a<<//t></t>b"), 7);
  // At the beginning alone.
  EXPECT_EQ(count(kMarks, false, "x<t>abc</t>"), 0);
  EXPECT_EQ(count(kMarks, false, "<u><t>abc</t>"), 0);
  EXPECT_EQ(count(kMarks, false, "<t>a</t><t>bcd</t>"), 1);
}

TEST(ThinkingCounter, BegunByThePrompt) {
  EXPECT_EQ(count(kMarks, true, "abc</t>answer"), 3);
  EXPECT_EQ(count(kMarks, true, "<t>abc</t>answer"), 3);
  EXPECT_EQ(count(kMarks, true, "abc"), 3);  // cut inside
  EXPECT_EQ(count({}, true, ""), 0);
}

TEST(ThinkingCounter, InSeveralMessages) {
  ThinkingMarks marks{{ids("#a|")}, {ids("."), ids("!")}};
  marks.anywhere = true;
  EXPECT_EQ(count(marks, false, "#a|abc.s#c|calls!s#a|de.s#f|final"), 5);
  EXPECT_EQ(count(marks, false, "#f|final"), 0);
}

}  // namespace
}  // namespace quire
