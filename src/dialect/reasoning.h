// Splits thinking from what follows it. Thinking stands at the beginning of an answer, between two
// marks; a template may have opened it in the prompt. White space around the thinking is dropped.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "dialect/reply_parser.h"
#include "dialect/text_reader.h"

namespace quire {

struct ReasoningFormat {
  std::vector<std::string_view> begins, ends;
  std::vector<std::string_view> dropped;  // marks around the answer proper
  bool always = false;                    // without a mark too, the answer begins with thinking
};

class ReasoningSplitter : public ReplyParser {
 public:
  // `rest` gets the text outside the thinking; null: that is content. inside: the prompt has opened
  // the thinking.
  ReasoningSplitter(ReasoningFormat format, bool inside, std::unique_ptr<ReplyParser> rest);
  void push(std::string_view text, Parsed* out) override;
  void finish(Parsed* out) override;

 private:
  enum class Where { kStart, kThinkingStart, kThinking, kAfter, kRest };
  bool step(Parsed* out);
  bool start(Parsed* out);
  bool thinking_start();
  bool thinking(Parsed* out);
  bool after();
  bool rest(Parsed* out);
  void pass(std::string_view text, Parsed* out);
  TextReader::Match at_begin(std::size_t* size) const;

  const ReasoningFormat format_;
  std::unique_ptr<ReplyParser> rest_;
  TextReader reader_;
  Where where_;
  std::string space_;  // before the thinking or inside it: dropped if a mark follows
};

// Where an answer to this prompt begins: inside the thinking when the prompt ends with an opening
// mark, or the format always thinks; after it when the prompt ends with the closing mark.
enum class ThinkingState { kMayBegin, kInside, kEnded };
ThinkingState thinking_state(const ReasoningFormat& format, std::string_view prompt);

}  // namespace quire
