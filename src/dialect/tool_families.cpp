#include "dialect/tool_families.h"

#include <algorithm>

#include "dialect/gemma_calls.h"
#include "dialect/harmony.h"
#include "dialect/marked_calls.h"
#include "dialect/pythonic_calls.h"
#include "dialect/tag_calls.h"
#include "dialect/text_reader.h"

namespace quire {
namespace {

using Tools = std::shared_ptr<const ToolSet>;

// function<sep>NAME\n```json\n (V3) or NAME<sep> (V3.1).
std::string deepseek_name(std::string_view header) {
  constexpr std::string_view kSep = "<｜tool▁sep｜>";
  const auto at = header.find(kSep);
  if (at == std::string_view::npos) return {};
  std::string_view right = trimmed(header.substr(at + kSep.size()));
  if (const auto fence = right.find("```"); fence != std::string_view::npos)
    right = trimmed(right.substr(0, fence));
  return std::string(right.empty() ? trimmed(header.substr(0, at)) : right);
}
// functions.NAME:0<|tool_call_argument_begin|>
std::string kimi_name(std::string_view header) {
  constexpr std::string_view kBegin = "<|tool_call_argument_begin|>", kFunctions = "functions.";
  const auto at = header.find(kBegin);
  if (at == std::string_view::npos) return {};
  std::string_view name = trimmed(header.substr(0, at));
  if (name.starts_with(kFunctions)) name.remove_prefix(kFunctions.size());
  return std::string(name.substr(0, name.rfind(':')));
}
// NAME, NAME[ARGS] or NAME[CALL_ID]abc[ARGS]
std::string mistral_name(std::string_view header) {
  return std::string(trimmed(header.substr(0, header.find('['))));
}

const TagFormat kQwenTags{.begin = "<tool_call>",
                          .end = "</tool_call>",
                          .call_begin = "<function=",
                          .call_end = "</function>",
                          .name_ends = {">"},
                          .key_begin = "<parameter=",
                          .key_end = ">",
                          .value_begin = {},
                          .value_end = "</parameter>"};
TagFormat seed_tags() {
  TagFormat out = kQwenTags;
  out.begin = "<seed:tool_call>";
  out.end = "</seed:tool_call>";
  return out;
}
const TagFormat kGlmTags{.begin = "<tool_call>",
                         .end = "</tool_call>",
                         .call_begin = {},
                         .call_end = {},
                         .name_ends = {"\n", "<arg_key>", "</tool_call>"},
                         .take_name_end = false,
                         .key_begin = "<arg_key>",
                         .key_end = "</arg_key>",
                         .value_begin = "<arg_value>",
                         .value_end = "</arg_value>"};
const TagFormat kMinimaxTags{.begin = "<minimax:tool_call>",
                             .end = "</minimax:tool_call>",
                             .call_begin = "<invoke name=",
                             .call_end = "</invoke>",
                             .name_ends = {">"},
                             .key_begin = "<parameter name=",
                             .key_end = ">",
                             .value_begin = {},
                             .value_end = "</parameter>"};

std::unique_ptr<ReplyParser> marked(MarkedFormat format, Tools tools) {
  return std::make_unique<MarkedCalls>(std::move(format), std::move(tools));
}

}  // namespace

const std::vector<ToolFamily>& tool_families() {
  static const std::vector<ToolFamily> kFamilies{
      {{"hermes", "ernie45", "qwen25", "smollm3"},
       [](Tools t) {
         return marked({.begins = {"<tool_call>"}, .after = {"</tool_call>"}}, std::move(t));
       },
       {"<tool_call>", "</tool_call>"}},
      {{"longcat"},
       [](Tools t) {
         return marked({.begins = {"<longcat_tool_call>"}, .after = {"</longcat_tool_call>"}},
                       std::move(t));
       },
       {"<longcat_tool_call>", "</longcat_tool_call>"}},
      {{"llama3_json", "llama4_json"},
       [](Tools t) {
         return marked({.begins = {"<|python_tag|>", "<|python_start|>"},
                        .after = {"<|python_end|>"},
                        .bare = true},
                       std::move(t));
       },
       {"<|python_tag|>", "<|python_start|>", "<|python_end|>"}},
      {{"xlam"}, [](Tools t) { return make_bare_list_parser(std::move(t)); }, {}},
      {{"mistral"},
       [](Tools t) {
         return marked({.begins = {"[TOOL_CALLS]"}, .name_of = &mistral_name}, std::move(t));
       },
       {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}},
      {{"granite", "granite-20b-fc"},
       [](Tools t) {
         return marked({.begins = {"<|tool_call|>", "<tool_call>", "<function_call>"},
                        .after = {"</tool_call>", "</function_call>"},
                        .bare_list = true},
                       std::move(t));
       },
       {"<|tool_call|>", "<tool_call>", "</tool_call>"}},
      {{"phi4_mini_json", "phi4"},
       [](Tools t) {
         return marked({.begins = {"functools", "<|tool_call|>"}, .after = {"<|/tool_call|>"}},
                       std::move(t));
       },
       {"<|tool_call|>", "<|/tool_call|>"}},
      {{"hunyuan_a13b", "jamba"},
       [](Tools t) {
         return marked({.begins = {"<tool_calls>"}, .after = {"</tool_calls>"}}, std::move(t));
       },
       {"<tool_calls>", "</tool_calls>"}},
      {{"internlm"},
       [](Tools t) {
         return marked({.begins = {"<|action_start|>", "<|plugin|>"}, .after = {"<|action_end|>"}},
                       std::move(t));
       },
       {"<|action_start|>", "<|plugin|>", "<|action_end|>"}},
      {{"cohere_command", "cohere"},
       [](Tools t) {
         return marked({.begins = {"<|START_ACTION|>"}, .after = {"<|END_ACTION|>"}}, std::move(t));
       },
       {"<|START_ACTION|>", "<|END_ACTION|>"}},
      {{"deepseek_v3", "deepseek_v31"},
       [](Tools t) {
         return marked({.begins = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"},
                        .after = {"```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
                        .objects = false,
                        .name_of = &deepseek_name},
                       std::move(t));
       },
       {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>"}},
      {{"kimi_k2"},
       [](Tools t) {
         return marked({.begins = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"},
                        .after = {"<|tool_call_end|>", "<|tool_calls_section_end|>"},
                        .objects = false,
                        .name_of = &kimi_name},
                       std::move(t));
       },
       {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
        "<|tool_call_end|>", "<|tool_calls_section_end|>"}},
      {{"qwen3_coder", "qwen3_xml"},
       [](Tools t) { return std::make_unique<TagCalls>(kQwenTags, std::move(t)); },
       {"<tool_call>", "</tool_call>"}},
      {{"seed_oss"},
       [](Tools t) { return std::make_unique<TagCalls>(seed_tags(), std::move(t)); },
       {"<seed:tool_call>", "</seed:tool_call>"}},
      {{"glm45", "glm47", "glm4_moe"},
       [](Tools t) { return std::make_unique<TagCalls>(kGlmTags, std::move(t)); },
       {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"}},
      {{"minimax_m2"},
       [](Tools t) { return std::make_unique<TagCalls>(kMinimaxTags, std::move(t)); },
       {"<minimax:tool_call>", "</minimax:tool_call>"}},
      {{"pythonic", "llama4_pythonic"},
       [](Tools t) {
         return std::make_unique<PythonicCalls>(
             PythonicFormat{{"<|python_start|>"}, {"<|python_end|>"}, true}, std::move(t));
       },
       {"<|python_start|>", "<|python_end|>"}},
      {{"lfm2"},
       [](Tools t) {
         return std::make_unique<PythonicCalls>(
             PythonicFormat{{"<|tool_call_start|>"}, {"<|tool_call_end|>"}, false}, std::move(t));
       },
       {"<|tool_call_start|>", "<|tool_call_end|>"}},
      {{"olmo3"},
       [](Tools t) {
         return std::make_unique<PythonicCalls>(
             PythonicFormat{{"<function_calls>"}, {"</function_calls>"}, false}, std::move(t));
       },
       {"<function_calls>", "</function_calls>"}},
      {{"gemma3", "gemma"},
       [](Tools t) {
         return std::make_unique<PythonicCalls>(PythonicFormat{{"```tool_code"}, {"```"}, true},
                                                std::move(t));
       },
       {}},
      {{"functiongemma"},
       [](Tools t) {
         return std::make_unique<GemmaCalls>(
             GemmaFormat{"<start_function_call>", "<end_function_call>", "<escape>"}, std::move(t));
       },
       {"<start_function_call>", "<end_function_call>", "<escape>"}},
      {{"gemma4"},
       [](Tools t) {
         return std::make_unique<GemmaCalls>(GemmaFormat{"<|tool_call>", "<tool_call|>", "<|\"|>"},
                                             std::move(t));
       },
       {"<|tool_call>", "<tool_call|>", "<|\"|>"}},
      {{"openai", "gpt_oss"},
       [](Tools t) { return std::make_unique<HarmonyParser>(std::move(t), true, nullptr); },
       {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>",
        "<|constrain|>"}},
  };
  return kFamilies;
}

const ToolFamily* tool_family(std::string_view name) {
  for (const auto& family : tool_families()) {
    if (std::find(family.names.begin(), family.names.end(), name) != family.names.end())
      return &family;
  }
  return nullptr;
}

std::unique_ptr<ReplyParser> make_bare_list_parser(Tools tools) {
  return marked({.bare = true, .bare_list = true}, std::move(tools));
}

}  // namespace quire
