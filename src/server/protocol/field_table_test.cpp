// Every row of every table says what it is; what the tables say is what the parsers do.
#include "server/protocol/field_table.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <set>

#include "server/fake_parts.h"
#include "server/prepare.h"
#include "server/protocol/completion_request.h"
#include "server/protocol/embedding_request.h"
#include "server/protocol/openapi.h"
#include "server/raw_client.h"

namespace quire {
namespace {

namespace json = boost::json;

const std::map<std::string, std::vector<FieldInfo>> kTables{
    {"completions", completion_fields()}, {"chat", chat_fields()},
    {"embeddings", embedding_fields()},   {"tokenize", tokenize_fields()},
    {"detokenize", detokenize_fields()},
};

TEST(FieldTables, EachRowIsWholeAndStandsOnce) {
  for (const auto& [table, fields] : kTables) {
    std::set<std::string_view> names;
    for (const FieldInfo& field : fields) {
      SCOPED_TRACE(table + ": " + std::string(field.name));
      EXPECT_TRUE(names.insert(field.name).second) << "stands twice";
      EXPECT_FALSE(field.note.empty()) << "says nothing of itself: add .is(...)";
      if (field.nested != nullptr) {
        for (const FieldInfo& inner : field.nested()) EXPECT_FALSE(inner.note.empty());
      }
      if (field.kind == FieldKind::kAny) {
        EXPECT_NO_THROW(json::parse(std::string(field.schema)).as_object()) << field.schema;
      }
      if (!field.fallback.empty()) {
        EXPECT_NO_THROW(json::parse(std::string(field.fallback))) << field.fallback;
      }
    }
  }
}

TEST(FieldTables, MessagesNameThePath) {
  const auto error = [](const char* body) { return parse_completion_request(body).error(); };
  EXPECT_EQ(
      error(R"({"prompt": "x", "stream": true, "stream_options": {"include_usage": 3}})").param,
      "stream_options.include_usage");
  EXPECT_EQ(error(R"({"prompt": "x", "repetition_detection": {"min_count": 1}})").param,
            "repetition_detection");
  EXPECT_EQ(error(R"({"prompt": "x", "repetition_detection":
                      {"max_pattern_size": 4, "min_count": 1}})")
                .param,
            "repetition_detection.min_count");
  EXPECT_EQ(error(R"({"prompt": "x", "repetition_detection":
                      {"max_pattern_size": 4, "min_pattern_size": 5}})")
                .param,
            "repetition_detection.min_pattern_size");
}

// Values just inside and just outside each row's limits, by its schema and by its parser.
TEST(FieldTables, ParsersKeepTheLimitsThatTheSchemaTells) {
  for (const FieldInfo& field : completion_fields()) {
    if (field.name == "prompt") continue;  // stands in every body here
    const auto accepted = [&](const std::string& value) {
      const std::string prompt = field.name == "prompt" ? "" : R"("prompt": "x", )";
      const std::string echo = field.name == "max_tokens" ? R"(, "echo": true)" : "";
      const std::string logprobs = field.name == "logprob_token_ids" ? R"(, "logprobs": 1)"
                                   : field.name == "length_penalty" ? R"(, "use_beam_search": true)"
                                                                    : "";
      const auto parsed = parse_completion_request(
          fmt::format(R"({{{}"{}": {}{}{}}})", prompt, field.name, value, echo, logprobs));
      if (!parsed) {
        EXPECT_EQ(parsed.error().param.rfind(field.name, 0), 0u) << parsed.error().message;
      }
      return parsed.has_value();
    };
    SCOPED_TRACE(std::string(field.name));
    const json::object schema = field_schema(field);
    if (field.kind == FieldKind::kInteger || field.kind == FieldKind::kNumber) {
      // Rules of their own: 0 is refused, or values need another field.
      if (field.name == "truncate_prompt_tokens" || field.name == "min_tokens" ||
          field.name == "thinking_token_budget")
        continue;
      if (const auto* low = schema.if_contains("minimum")) {
        EXPECT_TRUE(accepted(json::serialize(*low)));
        EXPECT_FALSE(accepted(fmt::format("{}", low->to_number<double>() - 1)));
      }
      if (const auto* low = schema.if_contains("exclusiveMinimum")) {
        EXPECT_FALSE(accepted(json::serialize(*low)));
      }
      if (const auto* high = schema.if_contains("maximum")) {
        EXPECT_TRUE(accepted(json::serialize(*high)));
        EXPECT_FALSE(accepted(fmt::format("{}", high->to_number<double>() + 1)));
      }
      EXPECT_FALSE(accepted("true"));
      EXPECT_FALSE(accepted("\"1\""));
    }
    if (field.kind == FieldKind::kIntegers) {
      EXPECT_EQ(accepted("[]"), field.min_items == 0);
      EXPECT_TRUE(accepted("[1]"));
      EXPECT_FALSE(accepted("[1.5]"));
      EXPECT_FALSE(accepted("[-1]"));
    }
    if (field.kind == FieldKind::kBool) {
      EXPECT_TRUE(accepted("true"));
      EXPECT_FALSE(accepted("1"));
    }
    if (field.kind == FieldKind::kChoice) {
      EXPECT_TRUE(accepted(fmt::format("\"{}\"", split_choices(field.choices).front())));
      EXPECT_FALSE(accepted("\"something else\""));
    }
    if (field.kind == FieldKind::kNeutral) {
      for (const char* neutral : {"null", "false", "0", "\"\"", "[]", "{}"})
        EXPECT_TRUE(accepted(neutral)) << neutral;
      EXPECT_FALSE(accepted("{\"a\": 1}"));
    }
    EXPECT_EQ(accepted("null"), !field.required);
  }
}

TEST(OpenApi, DescribesEveryRouteFromTheTables) {
  FakeServer server;
  RawClient client(server.server->port());
  client.get("/openapi.json");
  const auto reply = client.read();
  EXPECT_EQ(reply.status, 200);
  const json::object document = json::parse(reply.body).as_object();
  const json::object& schemas = document.at("components").at("schemas").as_object();
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/health"})
    EXPECT_TRUE(document.at("paths").as_object().contains(path)) << path;
  const json::object& request = schemas.at("CompletionsRequest").as_object();
  EXPECT_EQ(request.at("required"), json::array{"prompt"});
  for (const FieldInfo& field : completion_fields()) {
    EXPECT_EQ(request.at("properties").at(std::string(field.name)), field_schema(field));
  }
  // Every reference leads somewhere.
  const std::string text = reply.body;
  const std::string_view mark = "#\\/components\\/schemas\\/";
  const std::string_view plain = "#/components/schemas/";
  std::size_t references = 0;
  for (const auto m : {mark, plain}) {
    for (std::size_t at = text.find(m); at != std::string::npos; at = text.find(m, at + 1)) {
      const std::size_t begin = at + m.size();
      EXPECT_TRUE(schemas.contains(text.substr(begin, text.find('"', begin) - begin)));
      ++references;
    }
  }
  EXPECT_GT(references, 20u);
}

TEST(OpenApi, CanBeSwitchedOff) {
  ServerOptions options;
  options.disable_docs = true;
  FakeServer server(options);
  for (const char* path : {"/openapi.json", "/docs"}) {
    RawClient client(server.server->port());
    client.get(path);
    EXPECT_EQ(client.read().status, 404) << path;
  }
  FakeServer open;
  RawClient client(open.server->port());
  client.get("/docs");
  const auto page = client.read().body;
  EXPECT_NE(page.find("openapi.json"), std::string::npos);
  EXPECT_EQ(page.find("http://"), std::string::npos);  // nothing from elsewhere
  EXPECT_EQ(page.find("https://"), std::string::npos);
}

}  // namespace
}  // namespace quire
