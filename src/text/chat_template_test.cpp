// Chat templates: what Jinja2 and transformers give, minijinja must give too.
#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::HasSubstr;

constexpr const char* kOne = R"([{"role":"user","content":"hi"}])";

SpecialTokens special() {
  SpecialTokens tokens;
  tokens.bos_token = "<s>";
  tokens.eos_token = "</s>";
  return tokens;
}

Result<std::string> try_render(std::string_view source, ChatTemplate::Input input) {
  QUIRE_ASSIGN(const auto chat, ChatTemplate::create(source, special()));
  return chat->render(input);
}

std::string render(std::string_view source, ChatTemplate::Input input) {
  const auto text = try_render(source, input);
  EXPECT_TRUE(text) << text.error().message;
  return text.value_or("");
}

std::string render(std::string_view source, std::string_view messages = kOne) {
  return render(source, ChatTemplate::Input{.messages_json = messages});
}

std::string render_with(std::string_view source, std::string_view kwargs) {
  return render(source, ChatTemplate::Input{.messages_json = kOne, .kwargs_json = kwargs});
}

constexpr const char* kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

TEST(ChatTemplate, ChatMl) {
  EXPECT_EQ(render(kChatMl), "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(
      render(kChatMl, ChatTemplate::Input{.messages_json = kOne, .add_generation_prompt = false}),
      "<|im_start|>user\nhi<|im_end|>\n");
}

TEST(ChatTemplate, BlocksAreTrimmed) {
  EXPECT_EQ(render("{% if true %}\n  {% for m in messages %}\nx\n  {% endfor %}\n{% endif %}\ny\n"),
            "x\ny");
}

TEST(ChatTemplate, SpecialTokenNames) {
  EXPECT_EQ(render("{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token }}"),
            "<s>|</s>||");
  EXPECT_EQ(render("{{ bos_token + messages[0]['content'] + eos_token }}"), "<s>hi</s>");
}

TEST(ChatTemplate, ToolsAndDocumentsAreNoneWhenAbsent) {
  const char* source = "{{ tools is none }} {{ documents is none }} {{ tools is defined }}";
  EXPECT_EQ(render(source), "True True True");
  const ChatTemplate::Input input{.messages_json = kOne, .tools_json = R"([{"name":"f"}])"};
  EXPECT_EQ(render("{% for t in tools %}{{ t.name }}{% endfor %}", input), "f");
}

TEST(ChatTemplate, SlicesAndLoopControls) {
  const char* three = R"([{"role":"a"},{"role":"b"},{"role":"c"}])";
  EXPECT_EQ(render("{% for m in messages[::-1] %}{{ m.role }}{% endfor %}", three), "cba");
  EXPECT_EQ(
      render("{% for m in messages[1:] %}{{ m.role }}{% endfor %}{{ messages[-1].role }}", three),
      "bcc");
  EXPECT_EQ(render("{% for m in messages %}{% if m.role == 'b' %}{% break %}{% endif %}{{ m.role }}"
                   "{% endfor %}",
                   three),
            "a");
  EXPECT_EQ(
      render("{% for m in messages %}{% if m.role == 'b' %}{% continue %}{% endif %}{{ m.role }}"
             "{% endfor %}",
             three),
      "ac");
  EXPECT_EQ(render("{{ 'abc'[::-1] }}"), "cba");
}

TEST(ChatTemplate, NamespacesMacrosAndTests) {
  EXPECT_EQ(render("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
                   "{% endfor %}{{ ns.n }}"),
            "1");
  EXPECT_EQ(
      render("{% macro f(x, y='!') %}{{ x }}{{ y }}{% endmacro %}{{ f('a') }}{{ f('b', y='?') }}"),
      "a!b?");
  EXPECT_EQ(render("{{ messages[0] is mapping }} {{ 'a' is string }} {{ messages is iterable }} "
                   "{{ messages[0] is string }} {{ x is defined }}"),
            "True True True False False");
  EXPECT_EQ(
      render("{% for m in messages %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{% endfor %}"),
      "0TrueTrue");
}

TEST(ChatTemplate, PythonMethods) {
  EXPECT_EQ(render("{{ ' a '.strip() }}{{ 'aXb'.split('X')[1] }}{{ 'ab'.startswith('a') }}"
                   "{{ 'x'.upper() }}{{ 'aab'.replace('a', 'c') }}"),
            "abTrueXccb");
  EXPECT_EQ(
      render(
          "{{ 'a\n'.rstrip('\n') }}{{ 'abc'.removeprefix('ab') }}{{ 'abc'.removesuffix('bc') }}"),
      "aca");
  EXPECT_EQ(render("{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}"),
            "role=user;content=hi;");
  EXPECT_EQ(render("{{ messages[0].get('x', 'no') }}{{ messages[0].get('role') }}"), "nouser");
  EXPECT_EQ(render("{{ 'content' in messages[0] }}{{ messages|length }}"), "True1");
}

TEST(ChatTemplate, ToJsonIsJsonDumps) {
  const char* value = R"({"v":{"b":1,"a":[true,null,2.5,1e20],"n":"é漢 <&'\"\n"}})";
  EXPECT_EQ(render_with("{{ v | tojson }}", value),
            R"({"b": 1, "a": [true, null, 2.5, 1e+20], "n": "é漢 <&'\"\n"})");
  EXPECT_EQ(render_with("{{ v | tojson(indent=2) }}", R"({"v":{"b":[1,2],"a":{},"c":[]}})"),
            "{\n  \"b\": [\n    1,\n    2\n  ],\n  \"a\": {},\n  \"c\": []\n}");
  EXPECT_EQ(render_with("{{ v | tojson(separators=(',', ':')) }}", R"({"v":{"b":[1,2]}})"),
            R"({"b":[1,2]})");
  EXPECT_EQ(render_with("{{ v | tojson(sort_keys=true) }}", R"({"v":{"b":1,"a":2}})"),
            R"({"a": 2, "b": 1})");
  EXPECT_EQ(render_with("{{ v | tojson(ensure_ascii=true) }}", R"({"v":"é🙂"})"),
            R"("\u00e9\ud83d\ude42")");
  EXPECT_EQ(
      render_with("{{ v | tojson }}", R"({"v":[1.0,-0.0,1e-5,123456789.5,0.1,12345678901234567]})"),
      "[1.0, -0.0, 1e-05, 123456789.5, 0.1, 12345678901234567]");
}

TEST(ChatTemplate, ValuesPrintAsInPython) {
  EXPECT_EQ(render_with("{{ a }} {{ b }} {{ c }} {{ d }} {{ nothing }}",
                        R"({"a":true,"b":null,"c":[1,"x"],"d":{"k":"it's"}})"),
            R"(True None [1, 'x'] {'k': "it's"} )");
  EXPECT_EQ(render_with("{{ a | string }}{{ 2.0 }}", R"({"a":false})"), "False2.0");
}

TEST(ChatTemplate, FiltersKeepJinjasWays) {
  EXPECT_EQ(render("{{ 'a\n\nb\n' | indent(2) }}|{{ 'a\nb' | indent(1, true) }}"),
            "a\n\n  b\n| a\n b");
  EXPECT_EQ(render_with("{{ v | trim }} {{ v | join('-') }}", R"({"v":[1,true,"x"]})"),
            "[1, True, 'x'] 1-True-x");
  EXPECT_EQ(render("{{ messages | join(',', attribute='role') }} {{ ' a ' | trim }}|"), "user a|");
}

TEST(ChatTemplate, StripAndTrimTakePythonsWhitespace) {
  const char* value = R"({"v":"\u3000\u001c hi\u2028\u001f\u0085"})";
  EXPECT_EQ(render_with("[{{ v | trim }}][{{ v.strip() }}]", value), "[hi][hi]");
  EXPECT_EQ(render_with("{{ v.lstrip()[:2] }}{{ v.rstrip() | length }}", value), "hi5");
}

TEST(ChatTemplate, NoneIsNotIterable) {
  EXPECT_EQ(render("{{ tools is iterable }} {{ [] is iterable }} {{ 'a' is iterable }}"),
            "False True True");
}

TEST(ChatTemplate, CaseFiltersPrintAsPython) {
  EXPECT_EQ(render_with("{{ v | upper }} {{ v | lower }}", R"({"v":["a",true]})"),
            "['A', TRUE] ['a', true]");
}

TEST(ChatTemplate, ATokenThatTheModelLacksIsNotDefined) {
  EXPECT_EQ(render("{{ unk_token is defined }} {{ bos_token is defined }}"), "False True");
}

TEST(ChatTemplate, ReasoningIsFoundUnderEveryName) {
  const char* source =
      "{% for m in messages %}{{ m.reasoning_content }}|{{ m.thinking }};{% endfor %}";
  EXPECT_EQ(render(source, R"([{"reasoning":"a"},{"thinking":"b"},{"reasoning_content":"c"},
                  {"reasoning_content":null},{"thinking":"d","reasoning_content":"e"}])"),
            "a|a;b|b;c|c;None|;e|d;");
}

TEST(ChatTemplate, RaiseExceptionGivesItsText) {
  const auto text = try_render("{{ raise_exception('roles must alternate') }}",
                               ChatTemplate::Input{.messages_json = kOne});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(text.error().message, "roles must alternate");
  const auto inside =
      try_render("{% macro f() %}{{ raise_exception('deep') }}{% endmacro %}{{ f() }}",
                 ChatTemplate::Input{.messages_json = kOne});
  ASSERT_FALSE(inside);
  EXPECT_EQ(inside.error().message, "deep");
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  const auto chat = ChatTemplate::create("a\n{% if x %}\n{% endfor %}", special());
  ASSERT_FALSE(chat);
  EXPECT_EQ(chat.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(chat.error().message, HasSubstr(":3"));
  const auto text =
      try_render("a\n{{ missing.thing.more }}", ChatTemplate::Input{.messages_json = kOne});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(text.error().message, HasSubstr(":2"));
}

// The compiler recurses through these.
TEST(ChatTemplate, LongChainsAreCompiledOrRefusedByTheirSize) {
  const auto repeated = [](const char* text, int times) {
    std::string out;
    while (times-- > 0) out += text;
    return out;
  };
  const std::string sum = "{{ 1" + repeated("+1", 40000) + " }}";
  EXPECT_EQ(render(sum), "40001");
  EXPECT_TRUE(ChatTemplate::create("{{ a" + repeated(".a", 100000) + " }}", special()));
  const std::string branches = "{% if 0 %}" + repeated("{% elif 0 %}", 20000) + "{% endif %}";
  EXPECT_EQ(render(branches), "");
  const auto longer = ChatTemplate::create(std::string(300000, ' '), special());
  ASSERT_FALSE(longer);
  EXPECT_THAT(longer.error().message, HasSubstr("300000 bytes; the limit is 262144"));
}

TEST(ChatTemplate, BadJsonIsAnError) {
  for (const char* messages : {"[", "[{]", "\xFF"}) {
    const auto text = try_render(kChatMl, ChatTemplate::Input{.messages_json = messages});
    ASSERT_FALSE(text);
    EXPECT_THAT(text.error().message, HasSubstr("messages"));
  }
  const auto text =
      try_render(kChatMl, ChatTemplate::Input{.messages_json = kOne, .kwargs_json = "[1]"});
  EXPECT_FALSE(text);
}

TEST(ChatTemplate, KwargsAreVariablesButMessagesStay) {
  EXPECT_EQ(render_with("{{ enable_thinking }}{{ messages[0].content }}{{ bos_token }}",
                        R"({"enable_thinking":false,"messages":[],"bos_token":"B"})"),
            "FalsehiB");
}

TEST(ChatTemplate, StrftimeNow) {
  EXPECT_THAT(render("{{ strftime_now('%Y-%m-%d') }}"),
              ::testing::MatchesRegex("20..-[01].-[0123]."));
  EXPECT_EQ(render("{{ strftime_now('') }}{{ strftime_now('%%é') }}"), "%é");
}

TEST(ChatTemplate, GenerationTagsAreAccepted) {
  EXPECT_EQ(render("a{% generation %}b{% endgeneration %}c"), "abc");
  EXPECT_EQ(render("a {%- generation -%} b {%- endgeneration -%} c"), "abc");
  EXPECT_EQ(render("{% if add_generation_prompt %}generation{% endif %}"), "generation");
  const auto open = ChatTemplate::create("generation {%} x", SpecialTokens());
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().code, ErrorCode::kInvalidArgument) << open.error().message;
}

std::string render_open(std::string_view source, std::string_view messages) {
  return render(source, ChatTemplate::Input{.messages_json = messages,
                                            .add_generation_prompt = false,
                                            .continue_final_message = true});
}

TEST(ChatTemplate, TheFinalMessageIsLeftOpen) {
  const char* chat = R"([{"role":"user","content":"Sure"},{"role":"assistant","content":"Sure"}])";
  EXPECT_EQ(render_open(kChatMl, chat),
            "<|im_start|>user\nSure<|im_end|>\n<|im_start|>assistant\nSure");
  EXPECT_EQ(render_open(kChatMl, R"([{"role":"assistant","content":" Well, "}])"),
            "<|im_start|>assistant\n Well, ");
  const char* trimming = "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}";
  EXPECT_EQ(render_open(trimming, R"([{"role":"assistant","content":" Well, "}])"), "[Well,");
  const char* parts = "{% for m in messages %}[{{ m.content[0].text }}]{% endfor %}";
  EXPECT_EQ(render_open(parts, R"([{"role":"assistant","content":[{"type":"text","text":"Hm"}]}])"),
            "[Hm");
}

TEST(ChatTemplate, AFinalMessageThatIsNotShownIsAnError) {
  for (const char* messages :
       {R"([{"role":"assistant","content":"gone"}])", R"([{"role":"assistant"}])", "[]"}) {
    const auto text = try_render(
        "nothing", ChatTemplate::Input{.messages_json = messages, .continue_final_message = true});
    ASSERT_FALSE(text) << messages;
    EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(text.error().message, HasSubstr("continue_final_message"));
  }
}

TEST(ChatTemplate, ALoopWithoutEndIsRefused) {
  const auto text =
      try_render("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
                 ChatTemplate::Input{.messages_json = kOne});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(text.error().message, HasSubstr("fuel"));
}

// A text printed over and over, a template's own too, or doubled by printing it into a variable.
TEST(ChatTemplate, WhatIsPrintedHasALimit) {
  const std::string message = R"([{"role":"user","content":")" + std::string(100'000, 'x') + "\"}]";
  const ChatTemplate::Input input{.messages_json = message};
  EXPECT_EQ(render("{% for i in range(20) %}{{ messages[0].content }}{% endfor %}", input).size(),
            2'000'000u);
  std::string doubled = "{% set a %}{{ messages[0].content }}{% endset %}";
  for (int i = 0; i < 60; ++i) doubled += "{% set a %}{{ a }}{{ a }}{% endset %}";
  for (const std::string& source :
       {std::string("{% for i in range(9999) %}{{ messages[0].content }}{% endfor %}"),
        "{% for i in range(99999) %}" + std::string(200'000, 'y') + "{% endfor %}",
        doubled + "{{ a }}"}) {
    const auto text = try_render(source, input);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(text.error().message, HasSubstr("it prints more than 128 MB"));
  }
  EXPECT_EQ(render("{{ messages[0].content }}", input).size(), 100'000u) << "each time anew";
}

}  // namespace
}  // namespace quire
