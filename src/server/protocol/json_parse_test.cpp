#include "server/protocol/json_parse.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(ParseJson, AcceptsWholeDocuments) {
  const auto value = parse_json(" {\"a\": [1, -2.5, \"\\u4f60\\ud83c\\udf89\", null, true]} ");
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(value->at("a").at(2).as_string(), "你🎉");
  EXPECT_TRUE(parse_json("12"));
}

TEST(ParseJson, RefusesWhatIsNotStrictJson) {
  const std::vector<std::string> bad{"",
                                     "  ",
                                     "{bad",
                                     "{} trailing",
                                     "{\"a\": 1",
                                     "NaN",
                                     "[Infinity]",
                                     "[-Infinity]",
                                     "[1e999]",
                                     "[-1e999]",
                                     "[01]",
                                     "{\"a\": 1, \"a\": 2}",
                                     "{\"x\": {\"\\u0061\": 1, \"a\": 2}}",
                                     "\"\xff\xfe\"",
                                     "\"\xc3\"",
                                     "\"\xed\xa0\x80\"",
                                     "\"\xf5\x80\x80\x80\"",
                                     "\"\\ud800\"",
                                     "'a'",
                                     "[1,]",
                                     "// c\n1",
                                     std::string("{\"a\": \"\0\"}", 10)};
  for (const auto& text : bad) {
    const auto value = parse_json(text);
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(value.error().message.find("JSON"), std::string::npos);
  }
}

TEST(ParseJson, SameKeyInDifferentObjectsIsFine) {
  EXPECT_TRUE(parse_json("[{\"a\": 1}, {\"a\": 2, \"b\": {\"a\": 3}}, {\"ab\": 1, \"b\": 2}]"));
}

TEST(ParseJson, NestingIsBounded) {
  EXPECT_TRUE(parse_json(std::string(60, '[') + std::string(60, ']')));
  EXPECT_FALSE(parse_json(std::string(65, '[') + std::string(65, ']')));
  const auto deep = parse_json(std::string(100000, '['));
  ASSERT_FALSE(deep);
  EXPECT_NE(deep.error().message.find("64"), std::string::npos) << deep.error().message;
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(parse_json(objects));
}

}  // namespace
}  // namespace quire
