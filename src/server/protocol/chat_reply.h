// One choice of a chat answer as a message: what the parser of the model's family reads in the
// generated text, in OpenAI's form. Streams and whole answers use the same reader. Used on the
// connection's strand.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <vector>

#include "dialect/reply_parser.h"
#include "server/protocol/answer.h"

namespace quire {

class ChatReply {
 public:
  explicit ChatReply(const AnswerOptions& options);

  // Takes the choice's text; at its finish, the end of it.
  void read(Choice& choice);
  bool has_news() const { return !news_.empty(); }
  bool has_calls() const { return !ids_.empty(); }
  // The answer ended in the middle of its last call: its arguments are no whole object.
  bool cut_in_call() const;
  // What is new, as a stream's delta; `last`: empty rather than with an empty content.
  boost::json::object take_delta(bool last);
  // All of it, as a message with `echo` in front of its content.
  boost::json::object message(const std::string& role, const std::string& echo);

 private:
  void add(Parsed parsed);
  void finish(const Choice& choice);
  std::string new_id(std::size_t index, const std::string& name) const;

  std::shared_ptr<const ReplyOptions> options_;
  bool include_reasoning_, parallel_calls_;
  std::unique_ptr<ReplyParser> parser_;  // null: the text is content as it is
  Parsed news_;                          // not taken yet
  std::vector<std::string> ids_;         // of all calls so far
  std::string last_arguments_;           // of the last call, so far
  bool finished_ = false;
};

}  // namespace quire
