// gpt-oss: an answer is several messages, each with a channel: analysis is reasoning, commentary
// with a recipient is a call, commentary without one and final are content.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "dialect/reply_parser.h"
#include "dialect/text_reader.h"
#include "dialect/tool_set.h"

namespace quire {

class HarmonyParser : public ReplyParser {
 public:
  // calls: false: what is addressed to a function is content. rest: reads the content; may be null.
  HarmonyParser(std::shared_ptr<const ToolSet> tools, bool calls, std::unique_ptr<ReplyParser> rest)
      : tools_(std::move(tools)), calls_(calls), rest_(std::move(rest)) {}
  void push(std::string_view text, Parsed* out) override;
  void finish(Parsed* out) override;

 private:
  enum class Where { kStart, kHeader, kReasoning, kContent, kCall, kBetween };
  bool step(Parsed* out);
  bool start();
  bool header(Parsed* out);
  bool body(Parsed* out);
  bool between();
  void begin_message(std::string_view header, Parsed* out);
  void end_message(Parsed* out);
  void content(std::string_view text, Parsed* out);

  std::shared_ptr<const ToolSet> tools_;
  bool calls_;
  std::unique_ptr<ReplyParser> rest_;
  TextReader reader_;
  Where where_ = Where::kStart;
  std::int32_t num_calls_ = 0;
  bool call_has_body_ = false;
  bool any_reasoning_ = false, any_content_ = false;
  bool message_begun_ = false;  // has shown something
};

}  // namespace quire
