#include "server/protocol/logprobs.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "server/fake_parts.h"

namespace quire {
namespace {

TEST(Utf8, ReplacesAsPythonDoes) {
  EXPECT_TRUE(valid_utf8("naïve 你好🎉"));
  EXPECT_EQ(replace_invalid_utf8("naïve 你好🎉"), "naïve 你好🎉");
  EXPECT_EQ(replace_invalid_utf8("a\xff\xfe"), "a\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(replace_invalid_utf8("\xf0\x9f\x8e"), "\xEF\xBF\xBD");
  EXPECT_EQ(replace_invalid_utf8("\xf0\x9fz"), "\xEF\xBF\xBDz");
  EXPECT_EQ(replace_invalid_utf8("\xed\xa0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(replace_invalid_utf8("\xc0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(LegacyLogprobs, OffsetsCountCharacters) {
  const FakeText text;
  std::size_t offset = 0;
  LegacyLogprobs lists({&text, false}, &offset);
  TokenLogprobs scores;
  scores.logprob = -1;
  scores.top = {{97, -0.5F}};
  lists.add(65, "A", nullptr);
  lists.add(1, "你", &scores);
  lists.add(2, "\xf0\x9f", &scores);
  lists.add(3, "\x8e\x89", &scores);
  lists.add(66, "B", &scores);
  const auto out = lists.take();
  EXPECT_EQ(boost::json::serialize(out.at("text_offset")), "[0,1,2,2,3]");
  EXPECT_EQ(offset, 4U);
  EXPECT_TRUE(out.at("token_logprobs").at(0).is_null());
  EXPECT_EQ(out.at("tokens").at(2).as_string(), "bytes:\\xf0\\x9f");
  EXPECT_EQ(boost::json::serialize(out.at("top_logprobs").at(4)), "{\"a\":-5E-1,\"B\":-1E0}");
}

TEST(ChatLogprobs, TrueBytesAndExactCount) {
  const FakeText text;
  OutputToken token;
  token.id = 0xe4;
  token.text = "\xe4";
  token.logprobs.logprob = -std::numeric_limits<float>::infinity();
  token.logprobs.top = {{97, -0.5F}, {98, -1.0F}, {99, -2.0F}};
  const auto entry = chat_logprob({&text, false}, token, 2);
  EXPECT_EQ(boost::json::serialize(entry.at("bytes")), "[228]");
  EXPECT_EQ(entry.at("token").as_string(), "\xEF\xBF\xBD");
  EXPECT_EQ(entry.at("logprob").as_double(), -9999.0);
  EXPECT_EQ(entry.at("top_logprobs").as_array().size(), 2U);
  EXPECT_EQ(chat_logprob({&text, true}, token, 0).at("token").as_string(), "token_id:228");
}

}  // namespace
}  // namespace quire
