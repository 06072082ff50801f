// The table of forms: marks, spaces and line breaks as the families' chat templates have them.
#include "dialect/call_form.h"

#include <algorithm>
#include <vector>

namespace quire {
namespace {

using Kind = CallForm::Kind;

struct FamilyForms {
  std::vector<std::string_view> names;
  std::vector<CallForm> forms;  // the first whose hint the template holds
};

std::vector<FamilyForms> families_of_objects() {
  return {
      {{"hermes", "ernie45", "qwen25", "smollm3"},
       {{.call_begin = "<tool_call>\n", .call_end = "\n</tool_call>", .separator = "\n"}}},
      {{"longcat"},
       {{.call_begin = "<longcat_tool_call>\n",
         .call_end = "\n</longcat_tool_call>",
         .separator = "\n"}}},
      {{"llama3_json", "llama4_json"}, {{.separator = "; ", .arguments_key = "parameters"}}},
      {{"xlam"}, {{.kind = Kind::kList}}},
      {{"mistral"},
       {{.kind = Kind::kNamed,
         .hint = "[ARGS]",
         .call_begin = "[TOOL_CALLS]",
         .name_end = "[ARGS]"},
        {.kind = Kind::kList, .begin = "[TOOL_CALLS]"}}},
      {{"granite", "granite-20b-fc"},
       {{.hint = "<function_call>", .call_begin = "<function_call> ", .separator = " "},
        {.kind = Kind::kList, .begin = "<|tool_call|>"}}},
      {{"phi4_mini_json", "phi4"},
       {{.kind = Kind::kList, .hint = "functools[", .begin = "functools"},
        {.kind = Kind::kList, .begin = "<|tool_call|>", .end = "<|/tool_call|>"}}},
      {{"hunyuan_a13b", "jamba"},
       {{.kind = Kind::kList, .begin = "<tool_calls>", .end = "</tool_calls>"}}},
      {{"internlm"},
       {{.call_begin = "<|action_start|><|plugin|>\n",
         .call_end = "<|action_end|>",
         .separator = "\n",
         .arguments_key = "parameters"}}},
      {{"cohere_command", "cohere"},
       {{.kind = Kind::kList,
         .begin = "<|START_ACTION|>",
         .end = "<|END_ACTION|>",
         .name_key = "tool_name",
         .arguments_key = "parameters",
         .number_key = "tool_call_id"}}},
  };
}

std::vector<FamilyForms> families_of_names() {
  return {
      {{"deepseek_v3", "deepseek_v31"},
       {{.kind = Kind::kNamed,
         .hint = "```json",
         .begin = "<｜tool▁calls▁begin｜>",
         .end = "<｜tool▁calls▁end｜>",
         .call_begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
         .call_end = "\n```<｜tool▁call▁end｜>",
         .separator = "\n",
         .name_end = "\n```json\n"},
        {.kind = Kind::kNamed,
         .begin = "<｜tool▁calls▁begin｜>",
         .end = "<｜tool▁calls▁end｜>",
         .call_begin = "<｜tool▁call▁begin｜>",
         .call_end = "<｜tool▁call▁end｜>",
         .name_end = "<｜tool▁sep｜>"}}},
      {{"kimi_k2"},
       {{.kind = Kind::kNamed,
         .begin = "<|tool_calls_section_begin|>",
         .end = "<|tool_calls_section_end|>",
         .call_begin = "<|tool_call_begin|>functions.",
         .call_end = "<|tool_call_end|>",
         .name_end = ":{index}<|tool_call_argument_begin|>"}}},
      {{"openai", "gpt_oss"}, {{.kind = Kind::kHarmony}}},
      {{"pythonic", "llama4_pythonic"},
       {{.kind = Kind::kPython, .begin = "[", .end = "]", .separator = ", "}}},
      {{"lfm2"},
       {{.kind = Kind::kPython,
         .begin = "<|tool_call_start|>[",
         .end = "]<|tool_call_end|>",
         .separator = ", "}}},
      {{"olmo3"},
       {{.kind = Kind::kPython,
         .begin = "<function_calls>\n",
         .end = "\n</function_calls>",
         .separator = "\n"}}},
      {{"gemma3", "gemma"},
       {{.kind = Kind::kPython, .begin = "```tool_code\n", .end = "\n```", .separator = "\n"}}},
      {{"functiongemma"},
       {{.kind = Kind::kBareKeys,
         .call_begin = "<start_function_call>call:",
         .call_end = "<end_function_call>",
         .quote = "<escape>"}}},
      {{"gemma4"},
       {{.kind = Kind::kBareKeys,
         .call_begin = "<|tool_call>call:",
         .call_end = "<tool_call|>",
         .quote = "<|\"|>"}}},
  };
}

std::vector<FamilyForms> families_of_tags() {
  return {
      {{"qwen3_coder", "qwen3_xml"},
       {{.kind = Kind::kTags,
         .call_begin = "<tool_call>\n<function=",
         .call_end = "</function>\n</tool_call>",
         .separator = "\n",
         .name_end = ">\n",
         .key_begin = "<parameter=",
         .key_end = ">\n",
         .value_end = "\n</parameter>\n"}}},
      {{"seed_oss"},
       {{.kind = Kind::kTags,
         .call_begin = "<seed:tool_call>\n<function=",
         .call_end = "</function>\n</seed:tool_call>",
         .separator = "\n",
         .name_end = ">\n",
         .key_begin = "<parameter=",
         .key_end = ">",
         .value_end = "</parameter>\n"}}},
      {{"glm45", "glm47", "glm4_moe"},
       {{.kind = Kind::kTags,
         .hint = "</arg_key><arg_value>",
         .call_begin = "<tool_call>",
         .call_end = "</tool_call>",
         .key_begin = "<arg_key>",
         .key_end = "</arg_key><arg_value>",
         .value_end = "</arg_value>"},
        {.kind = Kind::kTags,
         .call_begin = "<tool_call>",
         .call_end = "</tool_call>",
         .separator = "\n",
         .name_end = "\n",
         .key_begin = "<arg_key>",
         .key_end = "</arg_key>\n<arg_value>",
         .value_end = "</arg_value>\n"}}},
      {{"minimax_m2"},
       {{.kind = Kind::kTags,
         .begin = "<minimax:tool_call>\n",
         .end = "\n</minimax:tool_call>",
         .call_begin = "<invoke name=\"",
         .call_end = "</invoke>",
         .separator = "\n",
         .name_end = "\">\n",
         .key_begin = "<parameter name=\"",
         .key_end = "\">",
         .value_end = "</parameter>\n"}}},
  };
}

const std::vector<FamilyForms>& families() {
  static const auto kFamilies = [] {
    auto out = families_of_objects();
    for (auto& more : {families_of_names(), families_of_tags()})
      out.insert(out.end(), more.begin(), more.end());
    return out;
  }();
  return kFamilies;
}

}  // namespace

const CallForm* call_form(std::string_view tool_parser, std::string_view template_source) {
  for (const auto& family : families()) {
    if (std::find(family.names.begin(), family.names.end(), tool_parser) == family.names.end())
      continue;
    for (const auto& form : family.forms)
      if (template_source.find(form.hint) != std::string_view::npos) return &form;
  }
  return nullptr;
}

}  // namespace quire
