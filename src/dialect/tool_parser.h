// What the parsers of calls have in common: text around the calls, numbering, giving back what only
// looked like a call.
//
// White space that stands alone at the beginning of the answer or after a call is dropped if a call
// or the end follows; an answer without calls is untouched.
#pragma once

#include <memory>
#include <span>

#include "dialect/reply_parser.h"
#include "dialect/text_reader.h"
#include "dialect/tool_set.h"

namespace quire {

constexpr std::size_t kMaxNameBytes = 256;  // of a function, or of a parameter

class ToolParser : public ReplyParser {
 public:
  explicit ToolParser(std::shared_ptr<const ToolSet> tools) : tools_(std::move(tools)) {}
  void push(std::string_view text, Parsed* out) final;
  void finish(Parsed* out) final;

 protected:
  // Makes one decision about reader(). False: more text is needed, or none is left.
  virtual bool step() = 0;
  // The text has ended, step() has decided all it could: what was being read. What then is left in
  // reader() becomes content.
  virtual void cut() = 0;

  TextReader& reader() { return reader_; }
  const ToolSet& tools() const { return *tools_; }
  // Content for the user.
  void text(std::string_view content);
  // True at the beginning of a line, or with only white space before on it.
  bool line_is_blank() const { return line_blank_; }
  void begin_call(std::string name);  // forgets the attempt
  void arguments(std::string_view json);
  // Arguments that come one parameter at a time: its key, after which its value is given to
  // arguments(); and the end of the last one, or of none.
  void begin_parameter(std::string_view key);
  void end_parameters() { arguments(any_param_ ? "}" : "{}"); }
  // Removes n bytes that may belong to a call; give_back() makes them content.
  std::string_view attempt(std::size_t n);
  void give_back();
  void forget_attempt() { attempt_.clear(); }  // it was mere punctuation of calls
  // Takes the first of the marks that stands here, and with it the attempt. kMaybe: more text
  // tells.
  TextReader::Match take_mark(std::span<const std::string_view> marks);
  // attempt() of white space; true when something else follows.
  bool skip_space();

 private:
  void run(Parsed* out);

  std::shared_ptr<const ToolSet> tools_;
  TextReader reader_;
  Parsed* out_ = nullptr;  // during push and finish
  std::string attempt_;
  std::string held_space_;
  bool fresh_ = true;  // no text of the user since the beginning or the last call
  bool line_blank_ = true;
  bool any_param_ = false;  // of the call at hand, by begin_parameter
  std::int32_t num_calls_ = 0;
};

// A function's name as families write it bare: letters, digits, _ - . : /
bool is_function_name(std::string_view name);

}  // namespace quire
