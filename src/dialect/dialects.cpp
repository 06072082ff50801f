#include "dialect/dialects.h"

#include <algorithm>
#include <array>

#include "dialect/harmony.h"
#include "dialect/text_reader.h"
#include "dialect/tool_families.h"

namespace quire {
namespace {

using Marks = std::vector<std::string_view>;

struct ReasoningFamily {
  std::vector<std::string_view> names;
  ReasoningFormat format;
};

const std::vector<ReasoningFamily>& reasoning_families() {
  static const std::vector<ReasoningFamily> kFamilies{
      {{"qwen3", "glm45", "deepseek_v3", "kimi_k2", "ernie45", "olmo3", "step3", "nemotron_v3",
        "smollm3", "minimax_m2"},
       {{"<think>"}, {"</think>"}, {}}},
      {{"deepseek_r1"}, {{"<think>"}, {"</think>"}, {}, true}},
      {{"hunyuan_a13b"}, {{"<think>"}, {"</think>"}, {"<answer>", "</answer>"}}},
      {{"seed_oss"}, {{"<seed:think>"}, {"</seed:think>"}, {}}},
      {{"mistral"}, {{"[THINK]"}, {"[/THINK]"}, {}}},
      {{"granite"},
       {{"Here is my thought process:", "Here's my thought process:"},
        {"Here is my response:", "Here's my response:"},
        {}}},
      {{"cohere"},
       {{"<|START_THINKING|>"},
        {"<|END_THINKING|>"},
        {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}}},
      {{"gemma4"}, {{"<|channel>thought\n", "<|channel>thought"}, {"<channel|>"}, {}}},
  };
  return kFamilies;
}

// gpt-oss: its reader does reasoning and calls in one.
constexpr std::array<std::string_view, 2> kHarmonyReasoning{"openai_gptoss", "gpt_oss"};

// The whole answer is the arguments of one function.
class ArgumentsOnly : public ReplyParser {
 public:
  explicit ArgumentsOnly(std::string function) : function_(std::move(function)) {}
  void push(std::string_view text, Parsed* out) override {
    if (!begun_) {
      while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
      if (text.empty()) return;
      out->begin_call(0, function_);
      begun_ = true;
    }
    out->add_arguments(0, text);
  }
  void finish(Parsed* out) override {
    if (!begun_) out->begin_call(0, function_);
  }

 private:
  std::string function_;
  bool begun_ = false;
};

struct Hint {
  std::string_view text, name;
};
// The first that a template holds decides.
constexpr std::array<Hint, 26> kToolHints{{
    {"<|channel|>", "openai"},
    {"<｜tool▁calls▁begin｜>", "deepseek_v3"},
    {"<|tool_calls_section_begin|>", "kimi_k2"},
    {"[TOOL_CALLS]", "mistral"},
    {"<start_function_call>", "functiongemma"},
    {"<|tool_call>", "gemma4"},
    {"<minimax:tool_call>", "minimax_m2"},
    {"<seed:tool_call>", "seed_oss"},
    {"<arg_key>", "glm45"},
    {"<parameter=", "qwen3_coder"},
    {"<|tool_call_start|>", "lfm2"},
    {"<function_calls>", "olmo3"},
    {"<longcat_tool_call>", "longcat"},
    {"<|START_ACTION|>", "cohere_command"},
    {"<|action_start|>", "internlm"},
    {"functools[", "phi4_mini_json"},
    {"<|/tool_call|>", "phi4_mini_json"},
    {"<|/tool|>", "phi4_mini_json"},
    {"<|tool_call|>", "granite"},
    {"<tool_calls>", "hunyuan_a13b"},
    {"<tool_call>", "hermes"},
    {"func_name1(params_name1", "pythonic"},
    {"<|python_start|>", "llama4_json"},
    {"<|python_tag|>", "llama3_json"},
    {"\"parameters\": dictionary", "llama3_json"},
    {"\\\"parameters\\\": dictionary", "llama3_json"},
}};
constexpr std::array<Hint, 9> kReasoningHints{{
    {"<|channel|>", "openai_gptoss"},
    {"<|START_THINKING|>", "cohere"},
    {"<seed:think>", "seed_oss"},
    {"[THINK]", "mistral"},
    {"<|channel>", "gemma4"},
    {"Here is my thought process:", "granite"},
    {"<answer>", "hunyuan_a13b"},
    {"<think>", "qwen3"},
    {"</think>", "qwen3"},
}};

}  // namespace

Dialect dialect_of_template(std::string_view source) {
  const auto first_of = [&](const auto& hints) -> std::string {
    for (const Hint& hint : hints)
      if (source.find(hint.text) != std::string_view::npos) return std::string(hint.name);
    return {};
  };
  return {first_of(kToolHints), first_of(kReasoningHints)};
}

std::vector<std::string_view> tool_parser_names() {
  std::vector<std::string_view> out;
  for (const auto& family : tool_families())
    out.insert(out.end(), family.names.begin(), family.names.end());
  return out;
}
std::vector<std::string_view> reasoning_parser_names() {
  std::vector<std::string_view> out(kHarmonyReasoning.begin(), kHarmonyReasoning.end());
  for (const auto& family : reasoning_families())
    out.insert(out.end(), family.names.begin(), family.names.end());
  return out;
}
bool is_tool_parser(std::string_view name) { return tool_family(name) != nullptr; }
bool is_reasoning_parser(std::string_view name) {
  const auto names = reasoning_parser_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_harmony(const Dialect& dialect) {
  return tool_family(dialect.tools) == tool_family("openai") ||
         std::find(kHarmonyReasoning.begin(), kHarmonyReasoning.end(), dialect.reasoning) !=
             kHarmonyReasoning.end();
}

const ReasoningFormat* reasoning_format(std::string_view name) {
  for (const auto& family : reasoning_families()) {
    if (std::find(family.names.begin(), family.names.end(), name) != family.names.end())
      return &family.format;
  }
  return nullptr;
}

std::vector<std::string_view> marks_of(const Dialect& dialect) {
  Marks out;
  if (const ToolFamily* family = tool_family(dialect.tools)) out = family->marks;
  if (is_harmony(dialect)) {
    const Marks& harmony = tool_family("openai")->marks;
    out.insert(out.end(), harmony.begin(), harmony.end());
  }
  if (const ReasoningFormat* format = reasoning_format(dialect.reasoning)) {
    for (const Marks* marks : {&format->begins, &format->ends, &format->dropped})
      out.insert(out.end(), marks->begin(), marks->end());
    if (dialect.reasoning == "gemma4") out.push_back("<|channel>");
  }
  return out;
}

std::unique_ptr<ReplyParser> make_reply_parser(const ReplyOptions& options) {
  std::unique_ptr<ReplyParser> rest;
  if (options.forced == ReplyOptions::Forced::kArguments) {
    rest = std::make_unique<ArgumentsOnly>(options.forced_function);
  } else if (options.forced == ReplyOptions::Forced::kList) {
    rest = make_bare_list_parser(options.tools);
  }
  if (is_harmony(options.dialect)) {
    const bool calls = options.calls && !rest;
    return std::make_unique<HarmonyParser>(options.tools, calls, std::move(rest));
  }
  if (rest) {
    // a grammar decides
  } else if (const ToolFamily* family = tool_family(options.dialect.tools);
             family != nullptr && options.calls) {
    rest = family->make(options.tools);
  }
  const ReasoningFormat* format = reasoning_format(options.dialect.reasoning);
  if (format == nullptr && rest) return rest;
  static const ReasoningFormat kNoReasoning{{}, {}, {}};
  return std::make_unique<ReasoningSplitter>(format == nullptr ? kNoReasoning : *format,
                                             format != nullptr && options.begins_inside,
                                             std::move(rest));
}

}  // namespace quire
