// Calls as JSON between marks: {"name", "arguments"} objects or lists of them, or a name in front
// of its arguments. One reader for the families that differ in marks only.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "dialect/call_object.h"
#include "dialect/tool_parser.h"

namespace quire {

struct MarkedFormat {
  std::vector<std::string_view> begins = {};  // open a section, a list or a call
  std::vector<std::string_view> after = {};   // may follow a call: dropped there
  bool objects = true;                        // {"name": ...} after a mark
  bool bare = false;       // also without a mark at the beginning of a line; only known functions
  bool bare_list = false;  // also [{...}] there
  // For arguments behind a name: the function in what stands between mark and '{'; empty: none.
  std::string (*name_of)(std::string_view header) = nullptr;
};

class MarkedCalls : public ToolParser {
 public:
  MarkedCalls(MarkedFormat format, std::shared_ptr<const ToolSet> tools);

 private:
  enum class Where { kOutside, kOpen, kElement, kObject, kBetween, kArguments, kBroken, kAfter };
  bool step() override;
  void cut() override;
  bool outside();
  bool open();
  bool header();
  bool object();
  bool between();
  bool arguments_alone();
  bool broken();
  bool after();
  bool not_a_call();
  bool begin_object();
  bool end_object();
  bool take_begin(TextReader::Match* match);

  const MarkedFormat format_;
  std::vector<std::string_view> outside_marks_, ends_;
  Where where_ = Where::kOutside;
  bool bare_ = false;  // this attempt has no mark
  bool in_list_ = false;
  bool begun_ = false;  // the object being read is a call
  CallObject object_;
  JsonScanner scanner_;  // of arguments behind a name
};

}  // namespace quire
