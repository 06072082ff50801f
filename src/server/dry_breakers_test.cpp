// Breakers of a small vocabulary: inside tokens, over their edges, and the cache.
#include "server/dry_breakers.h"

#include <gtest/gtest.h>

#include "server/fake_parts.h"

namespace quire {
namespace {

// Some tokens of more than one byte behind the bytes.
class WordText : public FakeText {
 public:
  std::string_view token_bytes(TokenId id) const override {
    return id < 257 ? FakeText::token_bytes(id) : words_[static_cast<std::size_t>(id - 257)];
  }
  std::size_t vocab_size() const override { return 257 + words_.size(); }

 private:
  std::vector<std::string> words_{"a:b", "x\n", "say EN", "END."};
};

using Tails = std::vector<std::vector<TokenId>>;

TEST(DryBreakers, StandInsideTokensAndOverTheirEdges) {
  const WordText text;
  DryBreakerCache cache;
  const auto simple = *cache.get(text, DryBreakerCache::defaults()).value();
  EXPECT_EQ(simple.size(), 6u);  // the four bytes, "a:b" and "x\n"
  for (const TokenId id : {int{':'}, int{'\n'}, int{'"'}, int{'*'}, 257, 258})
    EXPECT_EQ(simple.at(id), Tails{{}}) << id;
  const auto word = *cache.get(text, {"END"}).value();
  EXPECT_EQ(word.at('E'), (Tails{{'N', 'D'}}));
  EXPECT_EQ(word.at(259), (Tails{{'D'}}));
  EXPECT_EQ(word.at(260), Tails{{}});
  EXPECT_EQ(word.size(), 3u);
}

TEST(DryBreakers, AreKept) {
  const WordText text;
  DryBreakerCache cache;
  const auto first = cache.get(text, {":"}).value();
  EXPECT_EQ(cache.get(text, {":"}).value(), first);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(cache.get(text, {std::to_string(i)}));
  EXPECT_NE(cache.get(text, {":"}).value(), first);
}

}  // namespace
}  // namespace quire
