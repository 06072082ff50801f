#include "base/edit_distance.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

TEST(EditDistance, CountsSteps) {
  EXPECT_EQ(edit_distance("abc", "abc"), 0);
  EXPECT_EQ(edit_distance("abc", "acb"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(EditDistance, NearestName) {
  constexpr std::string_view kKnown[] = {"llama", "gemma", "gemma2"};
  EXPECT_EQ(nearest_name("gemma3", kKnown), "gemma") << "the first of equals";
  EXPECT_EQ(nearest_name("lama", kKnown), "llama");
  EXPECT_EQ(nearest_name(std::string(1 << 20, 'x'), kKnown), "llama") << "only its beginning";
  struct Row {
    std::string_view name;
  };
  EXPECT_EQ(nearest_name("b", std::initializer_list<Row>{{"aa"}, {"b1"}}, &Row::name), "b1");
}

}  // namespace
}  // namespace quire
