#include "server/protocol/tools_grammar.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace quire {
namespace {

ToolsInput tools_of(std::string_view text) {
  ToolsInput out;
  EXPECT_TRUE(read_tools(out, boost::json::parse(text)));
  return out;
}

TEST(ToolsGrammar, NamedIsTheFunctionsSchema) {
  auto tools = tools_of(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
          {"type": "function", "function": {"name": "g"}}])");
  tools.choice = ToolChoice::kNamed;
  tools.name = "f";
  EXPECT_EQ(tools_grammar(tools, true).text, R"({"type":"object"})");
  EXPECT_TRUE(tools_grammar(tools, true).disable_additional_properties);
  tools.name = "g";
  EXPECT_EQ(tools_grammar(tools, true).text,
            R"({"type":"object","properties":{},"additionalProperties":false})");
}

TEST(ToolsGrammar, RequiredIsAListOfCalls) {
  auto tools = tools_of(
      R"([{"type": "function", "function": {"name": "f"}},
          {"type": "function", "function": {"name": "g", "parameters": {"type": "object",
           "properties": {"a": {"$ref": "#/$defs/x"}, "$ref": {"$ref": "#"}},
           "$defs": {"x": {"type": "null"}}}}}])");
  tools.choice = ToolChoice::kRequired;
  const auto many = boost::json::parse(tools_grammar(tools, true).text);
  EXPECT_EQ(many.at("minItems").as_int64(), 1);
  EXPECT_FALSE(many.as_object().contains("maxItems"));
  const auto& second = many.at("items").at("anyOf").at(1).at("properties");
  EXPECT_EQ(second.at("name").at("enum").at(0).as_string(), "g");
  // References follow their schema to its new place.
  const auto& properties = second.at("parameters").at("properties");
  EXPECT_EQ(properties.at("a").at("$ref").as_string(),
            "#/items/anyOf/1/properties/parameters/$defs/x");
  EXPECT_EQ(properties.at("$ref").at("$ref").as_string(), "#/items/anyOf/1/properties/parameters");
  const auto one = boost::json::parse(tools_grammar(tools, false).text);
  EXPECT_EQ(one.at("maxItems").as_int64(), 1);
}

}  // namespace
}  // namespace quire
