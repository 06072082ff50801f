// A byte of switches, a chat template, a zero byte, and a list of messages as JSON (else one of our
// own). What compiles is rendered: it ends, gives valid UTF-8, twice the same, or is refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/chat_template.h"
#include "text/utf8.h"

namespace {

constexpr std::string_view kMessages = R"([
  {"role": "system", "content": "Be brief."},
  {"role": "user", "content": [{"type": "text", "text": " Hi \u00e9 "}]},
  {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
    {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": 1.5, "b": [true]}}}]},
  {"role": "tool", "tool_call_id": "1", "content": "42"},
  {"role": "user", "content": "<b>\"so?\"</b>\n"}])";
constexpr std::string_view kTools = R"([{"type": "function", "function": {"name": "f",
  "description": "A", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}}])";
constexpr std::string_view kDocuments = R"([{"title": "T", "text": "D"}])";
constexpr std::string_view kKwargs = R"({"enable_thinking": false, "x": {"y": [1, "z", null]}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t split = all.find('\0');
  quire::SpecialTokens special;
  special.bos_token = "<s>";
  special.eos_token = "</s>";
  const auto made = quire::ChatTemplate::create(all.substr(0, split), special);
  if (!made) {
    if (made.error().code == quire::ErrorCode::kInternal) std::abort();
    return 0;
  }
  quire::ChatTemplate::Input input;
  input.messages_json = split == std::string_view::npos ? kMessages : all.substr(split + 1);
  if ((data[0] & 1) != 0) input.tools_json = kTools;
  if ((data[0] & 2) != 0) input.documents_json = kDocuments;
  if ((data[0] & 4) != 0) input.kwargs_json = kKwargs;
  input.add_generation_prompt = (data[0] & 8) != 0;
  input.continue_final_message = (data[0] & 16) != 0;
  const auto text = (*made)->render(input);
  if (!text) {
    if (text.error().code == quire::ErrorCode::kInternal) std::abort();
    return 0;
  }
  std::string valid;
  if (quire::append_utf8(*text, valid) != 0 || valid != *text) std::abort();
  // But for the clock.
  if (all.find("now") == std::string_view::npos) {
    const auto again = (*made)->render(input);
    if (!again || *again != *text) std::abort();
  }
  return 0;
}
