// Each row: a field's value and the word that the error must hold ("" when it must pass).
#include <gtest/gtest.h>

#include "server/protocol/chat_request.h"
#include "server/protocol/completion_request.h"

namespace quire {
namespace {

struct Case {
  const char* field;
  const char* value;
  const char* error;  // "" : accepted
};

// Both endpoints.
const Case kCommon[] = {
    {"max_tokens", "-1", "max_tokens"},
    {"max_tokens", "0", "max_tokens"},
    {"max_tokens", "\"many\"", "an integer"},
    {"max_tokens", "1.5", "1.5"},
    {"max_tokens", "[1]", "an array"},
    {"max_tokens", "null", ""},
    {"max_tokens", "8.0", ""},
    {"temperature", "-0.1", "-0.1"},
    {"temperature", "2.5", "at most 2"},
    {"temperature", "\"hot\"", "a number"},
    {"temperature", "0", ""},
    {"top_p", "0", "above 0"},
    {"top_p", "1.5", "1.5"},
    {"top_p", "1e-6", ""},
    {"top_k", "-5", "top_k"},
    {"top_k", "-1", ""},
    {"top_k", "\"x\"", "top_k"},
    {"min_p", "1.1", "min_p"},
    {"n", "0", "at least 1"},
    {"n", "\"two\"", "`n`"},
    {"n", "1", ""},
    {"n", "3", ""},
    {"n", "16385", "at most 16384"},
    {"best_of", "0", "best_of"},
    {"best_of", "5", ""},
    {"presence_penalty", "2.5", "presence_penalty"},
    {"frequency_penalty", "-2.5", "frequency_penalty"},
    {"repetition_penalty", "0", "repetition_penalty"},
    {"repetition_penalty", "100", ""},
    {"seed", "\"abc\"", "seed"},
    {"seed", "1180591620717411303424", "seed"},
    {"seed", "-1", ""},
    {"seed", "9223372036854775807", ""},
    {"stop", "[1, 2]", "stop[0]"},
    {"stop", "{\"a\": \"b\"}", "stop"},
    {"stop", "[\"a\", \"b\", \"c\", \"d\", \"e\"]", "at most 4"},
    {"stop", "\"\"", "empty"},
    {"stop", "[]", ""},
    {"stop", "[\"a\", \"b\", \"c\", \"d\"]", ""},
    {"stream", "\"maybe\"", "true or false"},
    {"stream", "1", "stream"},
    {"stream_options", "{\"include_usage\": true}", "stream"},
    {"request_id", "\"a\\nb\"", "control"},
    {"request_id", "\"job-1\"", ""},
    {"logit_bias", "{\"abc\": 1}", "abc"},
    {"logit_bias", "[1]", "logit_bias"},
    {"logit_bias", "{\"5\": \"x\"}", "logit_bias.5"},
    {"logit_bias", "{\"5\": 1e9}", ""},
    {"min_tokens", "-1", "min_tokens"},
    {"min_tokens", "100", "max_tokens"},
    {"stop_token_ids", "[\"a\"]", "stop_token_ids[0]"},
    {"allowed_token_ids", "[]", "allowed_token_ids"},
    {"truncate_prompt_tokens", "-5", "truncate_prompt_tokens"},
    {"truncate_prompt_tokens", "0", "truncate_prompt_tokens"},
    {"priority", "0", ""},
    {"priority", "-3", ""},
    {"priority", "1.5", "priority"},
    {"priority", "\"high\"", "priority"},
    {"timeout", "0.5", ""},
    {"timeout", "0", "timeout"},
    {"timeout", "-1", "timeout"},
    {"timeout", "\"1s\"", "timeout"},
    {"user", "5", "user"},
    {"cache_salt", "\"\"", "cache_salt"},
    {"response_format", "{\"type\": \"text\"}", ""},
    {"response_format", "{\"type\": \"json_object\"}", ""},
    {"response_format", "{}", "response_format"},
    {"response_format", "{\"type\": \"xml\"}", "\"xml\""},
    {"response_format", "{\"type\": \"json_schema\"}", "needs"},
    {"response_format", "{\"type\": \"json_schema\", \"json_schema\": {\"schema\": \"x\"}}",
     "must be an object"},
    {"response_format",
     "{\"type\": \"json_schema\", \"json_schema\": {\"schema\": {}, \"strict\": 1}}", "strict"},
    {"response_format",
     "{\"type\": \"json_schema\", \"json_schema\": {\"name\": \"a\", \"schema\": {}}}", ""},
    {"response_format", "\"text\"", "response_format"},
    {"structured_outputs", "{\"choice\": [\"a\"]}", ""},
    {"structured_outputs", "{}", "needs one of"},
    {"structured_outputs", "[]", "an object"},
    {"structured_outputs", "{\"choice\": []}", "at least one"},
    {"structured_outputs", "{\"choice\": [1]}", "structured_outputs.choice[0]"},
    {"structured_outputs", "{\"choice\": \"a\"}", "a list"},
    {"structured_outputs", "{\"regex\": \"a\", \"choice\": [\"a\"]}", "give one"},
    {"structured_outputs", "{\"regexp\": \"a\"}", "not known"},
    {"structured_outputs", "{\"json_object\": false}", "needs one of"},
    {"structured_outputs", "{\"json_object\": true, \"regex\": null}", ""},
    {"structured_outputs", "{\"json\": {}, \"whitespace_pattern\": 1}", "whitespace_pattern"},
    {"structured_outputs",
     "{\"json\": {}, \"whitespace_pattern\": \"\", \"disable_any_whitespace\": true}", "give one"},
    {"structured_outputs", "null", ""},
    {"guided_json", "{\"type\": \"string\"}", ""},
    {"guided_json", "1", "guided_json"},
    {"guided_choice", "[\"a\"]", ""},
    {"guided_regex", "[]", "guided_regex"},
    {"guided_whitespace_pattern", "\" \"", "needs `guided_json`"},
    {"use_beam_search", "false", ""},
    {"use_beam_search", "true", ""},
    {"use_beam_search", "1", "use_beam_search"},
    {"length_penalty", "1", ""},
    {"length_penalty", "0.5", "use_beam_search"},
    {"early_stopping", "false", ""},
    {"early_stopping", "true", "use_beam_search"},
    {"early_stopping", "\"soon\"", "early_stopping"},
    {"model", "5", "model"},
    {"typical_p", "0", "above 0"},
    {"typical_p", "0.9", ""},
    {"xtc_probability", "1.5", "at most 1"},
    {"xtc_threshold", "0.2", ""},
    {"dry_multiplier", "-1", "at least 0"},
    {"dry_base", "0.5", "at least 1"},
    {"dry_allowed_length", "2.5", "an integer"},
    {"dry_penalty_last_n", "-1", ""},
    {"dry_sequence_breakers", "[]", ""},
    {"dry_sequence_breakers", "[3]", "dry_sequence_breakers[0]"},
    {"logprob_token_ids", "[]", "at least 1"},
    {"logprob_token_ids", "[5]", "needs `logprobs`"},
    {"repetition_detection", "{\"max_pattern_size\": 4}", ""},
    {"repetition_detection", "[1]", "an object"},
    {"prompt_logprobs", "-2", "prompt_logprobs"},
    {"prompt_logprobs", "-1", ""},
    {"truncation_side", "\"middle\"", "left, right"},
    {"service_tier", "\"auto\"", ""},
    {"service_tier", "\"flex\"", "service_tier"},
    {"metadata", "{\"a\": \"b\"}", ""},
    {"metadata", "\"x\"", "metadata"},
    {"logit_bias", "{\"-0\": 1}", "-0"},
    {"user", "\"u\"", ""},
    {"not_a_field", "{\"x\": [1]}", ""},
};

template <class Parse>
void check(const Parse& parse, const std::string& base, const Case& c) {
  const std::string body = base + ", \"" + c.field + "\": " + c.value + "}";
  SCOPED_TRACE(body);
  const auto request = parse(body);
  if (std::string_view(c.error).empty()) {
    EXPECT_TRUE(request) << request.error().message;
    return;
  }
  ASSERT_FALSE(request);
  EXPECT_NE(request.error().message.find(c.error), std::string::npos) << request.error().message;
  EXPECT_NE(request.error().message.find(c.field), std::string::npos) << request.error().message;
  EXPECT_EQ(http_status(request.error().code), 400);
  EXPECT_FALSE(request.error().param.empty());
}

std::string without(const std::string& base, const Case& c) {
  return std::string_view(c.field) == "max_tokens" ? base : base + ", \"max_tokens\": 8";
}

TEST(CompletionRequest, Fields) {
  for (const auto& c : kCommon)
    check(parse_completion_request, without("{\"prompt\": \"x\"", c), c);
  const Case own[] = {{"logprobs", "-2", "logprobs"},  {"logprobs", "true", "logprobs"},
                      {"logprobs", "-1", ""},          {"logprobs", "0", ""},
                      {"suffix", "\"END\"", "suffix"}, {"suffix", "\"\"", ""},
                      {"echo", "\"x\"", "echo"}};
  for (const auto& c : own) check(parse_completion_request, "{\"prompt\": \"x\"", c);
}

TEST(CompletionRequest, Prompts) {
  for (const char* bad : {"null", "5", "{\"a\": 1}", "[[\"a\"]]", "[1, \"a\"]", "[\"a\", [1]]",
                          "[-1]", "[[]]", "[]", "[1.5]", "[99999999999999]", "[null]"}) {
    EXPECT_FALSE(parse_completion_request(fmt::format("{{\"prompt\": {}}}", bad))) << bad;
  }
  EXPECT_FALSE(parse_completion_request("{}"));
  EXPECT_FALSE(parse_completion_request("[]"));
  EXPECT_FALSE(parse_completion_request("null"));
  EXPECT_EQ(parse_completion_request("{\"prompt\": [\"a\", \"b\"]}")->prompts.size(), 2U);
  EXPECT_EQ(std::get<1>(parse_completion_request("{\"prompt\": [1, 2]}")->prompts.at(0)),
            (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(parse_completion_request("{\"prompt\": [[1, 2], [3]]}")->prompts.size(), 2U);
}

TEST(CompletionRequest, BestOfIsAtLeastN) {
  const auto parse = [](std::string_view fields) {
    return parse_completion_request(fmt::format(R"({{"prompt": "x", {}}})", fields));
  };
  EXPECT_EQ(parse(R"("n": 2, "best_of": 4)")->num_candidates(), 4);
  EXPECT_EQ(parse(R"("n": 2)")->num_candidates(), 2);
  EXPECT_TRUE(parse(R"("n": 2, "best_of": 2, "stream": true)"));
  for (const char* bad : {R"("n": 2, "best_of": 1)", R"("best_of": 2, "stream": true)"}) {
    const auto request = parse(bad);
    ASSERT_FALSE(request) << bad;
    EXPECT_EQ(request.error().param, "best_of");
  }
}

TEST(CompletionRequest, BeamSearchSaysWhatItCannotDo) {
  const auto parse = [](std::string_view fields) {
    return parse_completion_request(
        fmt::format(R"({{"prompt": "x", "use_beam_search": true, {}}})", fields));
  };
  const auto beams = parse(R"("n": 4, "length_penalty": 0.8, "early_stopping": "never")");
  ASSERT_TRUE(beams) << beams.error().message;
  EXPECT_EQ(beams->num_candidates(), 4);
  EXPECT_EQ(beams->early_stopping, EarlyStopping::kExact);
  EXPECT_EQ(parse(R"("early_stopping": true)")->early_stopping, EarlyStopping::kFirst);
  const std::pair<const char*, const char*> refused[] = {
      {"n", R"("n": 257)"},
      {"presence_penalty", R"("presence_penalty": 1)"},
      {"frequency_penalty", R"("frequency_penalty": 1)"},
      {"repetition_penalty", R"("repetition_penalty": 1.1)"},
      {"logit_bias", R"("logit_bias": {"5": 1})"},
      {"allowed_token_ids", R"("allowed_token_ids": [1])"},
      {"bad_words", R"("bad_words": ["x"])"},
      {"guided_regex", R"("guided_regex": "x")"}};
  for (const auto& [field, fields] : refused) {
    const auto request = parse(fields);
    ASSERT_FALSE(request) << fields;
    EXPECT_EQ(request.error().param, field);
  }
}

TEST(CompletionRequest, WhatTheAnswerMustFit) {
  const auto parse = [](const std::string& fields) {
    return parse_completion_request(R"({"prompt": "x", )" + fields + "}");
  };
  const auto grammar = [&](const std::string& fields) { return *parse(fields).value().grammar; };
  const std::string wrapped =
      R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true,
      "schema": {"type": "null", "title": 1}}})";
  EXPECT_EQ(grammar(wrapped).text, R"({"type":"null","title":1})");
  EXPECT_EQ(grammar(R"("response_format": {"type": "json_object", "schema": {"enum": [1]}})").text,
            R"({"enum":[1]})");
  EXPECT_EQ(grammar(R"("response_format": {"type": "json_object"})"), json_object_spec());
  EXPECT_FALSE(parse(R"("response_format": {"type": "text"})").value().grammar);
  const GrammarSpec spec =
      grammar(R"("structured_outputs": {"json": "{\"a\": 1}", "disable_any_whitespace": true})");
  EXPECT_EQ(spec.text, R"({"a":1})");
  EXPECT_TRUE(spec.disable_any_whitespace);
  const GrammarSpec guided =
      grammar(R"("guided_whitespace_pattern": " ", "guided_json": {"enum": [1]})");
  EXPECT_TRUE(guided.has_whitespace_pattern);
  EXPECT_EQ(guided.whitespace_pattern, " ");
  EXPECT_EQ(grammar(R"("guided_choice": ["a", "b"])").kind, GrammarSpec::Kind::kChoice);
  EXPECT_EQ(parse(R"("structured_outputs": {"regex": "a"})").value().grammar_field,
            "structured_outputs.regex");
  for (const std::string& more : {std::string(R"("guided_regex": "a")"),
                                  std::string(R"("structured_outputs": {"regex": "a"})")}) {
    const auto both = parse(wrapped + ", " + more);
    ASSERT_FALSE(both);
    EXPECT_NE(both.error().message.find("give one"), std::string::npos) << both.error().message;
  }
}

// What a response_format would leave unread is refused by its name.
TEST(CompletionRequest, NoConstraintIsIgnored) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type": "text", "json_schema": {"name": "n", "schema": {}}})", "json_schema"},
      {R"({"type": "text", "schema": {}})", "schema"},
      {R"({"type": "text", "format": {"type": "any_text"}})", "format"},
      {R"({"type": "json_object", "json_schema": {"name": "n", "schema": {}}})", "json_schema"},
      {R"({"type": "json_object", "triggers": ["a"]})", "triggers"},
      {R"({"type": "json_schema", "json_schema": {"schema": {}}, "schema": {}})", "schema"},
      {R"({"type": "json_schema", "schema": {}, "structures": []})", "structures"},
      {R"({"type": "json_object", "regex": "a"})", "regex"},
      {R"({"type": "json_schema", "schema": {}, "grammar": "a"})", "grammar"},
      {R"({"type": "structural_tag", "triggers": [], "structures": [], "json_schema": {}})",
       "json_schema"}};
  for (const auto& [value, member] : cases) {
    const auto request =
        parse_completion_request(fmt::format(R"({{"prompt": "x", "response_format": {}}})", value));
    ASSERT_FALSE(request) << value;
    EXPECT_EQ(request.error().param, fmt::format("response_format.{}", member)) << value;
  }
  EXPECT_TRUE(parse_completion_request(
      R"({"prompt": "x", "response_format": {"type": "text", "json_schema": null}})"));
}

// Options of JSON beside what is none.
TEST(CompletionRequest, OptionsOfJsonAreNotIgnored) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("whitespace_pattern": " ")", "whitespace_pattern"},
      {R"("disable_any_whitespace": true)", "disable_any_whitespace"},
      {R"("disable_additional_properties": true)", "disable_additional_properties"}};
  for (const auto& [option, name] : cases) {
    const auto request = parse_completion_request(
        fmt::format(R"({{"prompt": "x", "structured_outputs": {{"regex": "a", {}}}}})", option));
    ASSERT_FALSE(request) << option;
    EXPECT_EQ(request.error().param, fmt::format("structured_outputs.{}", name));
    EXPECT_TRUE(parse_completion_request(fmt::format(
        R"({{"prompt": "x", "structured_outputs": {{"json_object": true, {}}}}})", option)));
  }
  EXPECT_TRUE(parse_completion_request(
      R"({"prompt": "x", "structured_outputs": {"regex": "a", "disable_any_whitespace": false}})"));
}

TEST(CompletionRequest, TheNameOfASchemaIsOpenAis) {
  const auto parse = [](const std::string& name) {
    return parse_completion_request(
        R"({"prompt": "x", "response_format": {"type": "json_schema", "json_schema": {"name": )" +
        name + R"(, "schema": {}}}})");
  };
  const std::string longest(64, 'a');
  for (const std::string& good :
       {std::string("\"a-b_C9\""), "\"" + longest + "\"", std::string("null")})
    EXPECT_TRUE(parse(good)) << good;
  for (const std::string& bad : {std::string("\"\""), std::string("\"a b\""), std::string("5"),
                                 std::string("\"\u00e9\""), "\"a" + longest + "\""}) {
    const auto request = parse(bad);
    ASSERT_FALSE(request) << bad;
    EXPECT_EQ(request.error().param, "response_format.json_schema.name");
  }
}

TEST(CompletionRequest, RulesBetweenFields) {
  EXPECT_TRUE(parse_completion_request(R"({"prompt": "x", "echo": true, "max_tokens": 0})"));
  EXPECT_FALSE(
      parse_completion_request(R"({"prompt": "x", "stream": true, "prompt_logprobs": 1})"));
  const auto biased =
      parse_completion_request(R"({"prompt": "x", "logit_bias": {"5": 1e9, "7": -500}})");
  ASSERT_TRUE(biased);
  EXPECT_EQ(biased->logit_bias,
            (std::vector<std::pair<TokenId, float>>{{5, 100.0F}, {7, -100.0F}}));
  const auto stream = parse_completion_request(
      R"({"prompt": "x", "stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": true}})");
  ASSERT_TRUE(stream);
  EXPECT_TRUE(stream->include_usage() && stream->continuous_usage());
}

TEST(ChatRequest, Fields) {
  const std::string base = R"({"messages": [{"role": "user", "content": "x"}])";
  for (const auto& c : kCommon) check(parse_chat_request, without(base, c), c);
  const Case own[] = {{"logprobs", "\"yes please\"", "logprobs"},
                      {"top_logprobs", "2", "logprobs"},
                      {"top_logprobs", "-3", "top_logprobs"},
                      {"top_logprobs", "\"2x\"", "top_logprobs"},
                      {"tools", "[]", "tools"},
                      {"tools", "[{\"type\": \"function\"}]", "tools"},
                      {"tools",
                       "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
                       "{\"type\": \"integer\"}}}]",
                       "tools[0].function.parameters.type"},
                      {"tool_choice", "\"none\"", ""},
                      {"tool_choice", "\"auto\"", ""},
                      {"tool_choice", "\"required\"", "tools"},
                      {"tool_choice", "\"sometimes\"", "sometimes"},
                      {"tool_choice", "{\"type\": \"function\"}", "function"},
                      {"parallel_tool_calls", "1", "parallel_tool_calls"},
                      {"include_reasoning", "false", ""},
                      {"reasoning_effort", "\"low\"", ""},
                      {"reasoning_effort", "\"huge\"", "reasoning_effort"},
                      {"modalities", "[\"text\"]", ""},
                      {"modalities", "[\"audio\"]", "modalities"},
                      {"store", "false", ""},
                      {"store", "true", "store"},
                      {"session_id", "\"s\"", ""},
                      {"session_id", "1", "session_id"},
                      {"vllm_xargs", "{}", ""},
                      {"vllm_xargs", "{\"a\": 1}", "vllm_xargs"},
                      {"ec_transfer_params", "{\"a\": 1}", "ec_transfer_params"},
                      {"return_token_offsets", "false", ""},
                      {"return_token_offsets", "1", "return_token_offsets"},
                      {"return_mm_kwargs", "true", "return_mm_kwargs"},
                      {"audio", "{\"voice\": \"x\"}", "audio"},
                      {"verbosity", "\"medium\"", ""},
                      {"verbosity", "\"low\"", "verbosity"},
                      {"logprob_token_ids", "[3]", "logprob_token_ids"},
                      {"max_completion_tokens", "0", "max_completion_tokens"}};
  for (const auto& c : own) check(parse_chat_request, base, c);
}

TEST(ChatRequest, Messages) {
  for (
      const char* bad :
      {"null", "[]", "\"hi\"", "[1]", "[{}]", R"([{"content": "x"}])",
       R"([{"role": "user", "content": 5}])", R"([{"role": "user"}])",
       R"([{"role": "user", "content": [{"type": "no_such_part", "x": 1}]}])",
       R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}])",
       R"([{"role": "assistant", "content": null, "tool_calls": [{"function": {"arguments": "{}"}}]}])",
       R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}])"}) {
    EXPECT_FALSE(parse_chat_request(fmt::format("{{\"messages\": {}}}", bad))) << bad;
  }
  EXPECT_FALSE(parse_chat_request("{}"));
  // What no template would show is refused by its name; a refusal is what was said.
  for (const char* name : {"function_call", "audio"}) {
    const auto unread = parse_chat_request(fmt::format(
        R"({{"messages": [{{"role": "assistant", "content": "x", "{}": {{"name": "f"}}}}]}})",
        name));
    ASSERT_FALSE(unread);
    EXPECT_EQ(unread.error().param, fmt::format("messages[0].{}", name));
  }
  const auto refusal = parse_chat_request(
      R"({"messages": [{"role": "assistant", "content": null, "refusal": "no", "audio": null}]})");
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->chat.last_content, "no");
  const auto parts = parse_chat_request(
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})");
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->chat.messages_json, R"([{"role":"user","content":"a\nb"}])");
  const auto calls = parse_chat_request(
      R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": null, "tool_calls":
          [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
          {"role": "tool", "tool_call_id": "1", "content": "ok"}]})");
  ASSERT_TRUE(calls) << calls.error().message;
  EXPECT_NE(calls->chat.messages_json.find(R"("arguments":{"a":1})"), std::string::npos);
}

TEST(ChatRequest, NewerLimitWinsAndTemplateEndsExclude) {
  const std::string base = R"({"messages": [{"role": "assistant", "content": "x"}], )";
  EXPECT_EQ(
      parse_chat_request(base + R"("max_tokens": 9, "max_completion_tokens": 3})")->max_tokens, 3);
  EXPECT_EQ(parse_chat_request(base + R"("max_completion_tokens": 3})")->max_tokens, 3);
  EXPECT_FALSE(parse_chat_request(base + R"("max_tokens": 9}})"));
  const auto both = parse_chat_request(
      base + R"("add_generation_prompt": true, "continue_final_message": true})");
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().param, "continue_final_message");
  const auto effort =
      parse_chat_request(base + R"("reasoning_effort": "none", "chat_template_kwargs": {"a": 1}})");
  EXPECT_EQ(effort->chat.kwargs_json,
            R"({"a":1,"reasoning_effort":"none","enable_thinking":false})");
  const auto open = parse_chat_request(base + R"("continue_final_message": true})");
  ASSERT_TRUE(open);
  EXPECT_FALSE(open->chat.generation_prompt());
}

}  // namespace
}  // namespace quire
