// Calls as tags around bare values: a function's name, then a key and a value per parameter. The
// types of the request's schema say which values are text. Values of text go out as they come.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dialect/tool_parser.h"

namespace quire {

struct TagFormat {
  std::string_view begin, end;              // around each call, or around all
  std::string_view call_begin, call_end;    // around one call; empty where begin and end do it
  std::vector<std::string_view> name_ends;  // the first one ends the name
  bool take_name_end = true;                // it is a mark of its own
  std::string_view key_begin, key_end, value_begin, value_end;
};

class TagCalls : public ToolParser {
 public:
  TagCalls(TagFormat format, std::shared_ptr<const ToolSet> tools);

 private:
  enum class Where { kOutside, kOpen, kName, kParams, kKey, kValueBegin, kText, kValue, kAfter };
  bool step() override;
  void cut() override;
  bool outside();
  bool open();
  bool name();
  bool params();
  bool key();
  bool value_begin();
  bool text_value();
  bool other_value();
  bool after();
  bool not_a_call();
  void end_call();

  const TagFormat format_;
  std::vector<std::string_view> outside_marks_;
  Where where_ = Where::kOutside;
  std::string function_, key_;
  ParamType type_ = ParamType::kUnknown;
  bool value_started_ = false;  // the line break at its beginning, which is no part of it, is past
};

}  // namespace quire
