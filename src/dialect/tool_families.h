// The table of families by the way they write calls.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "dialect/reply_parser.h"
#include "dialect/tool_set.h"

namespace quire {

struct ToolFamily {
  std::vector<std::string_view> names;  // of --tool-call-parser
  std::function<std::unique_ptr<ReplyParser>(std::shared_ptr<const ToolSet>)> make;
  std::vector<std::string_view> marks;  // those that may be special tokens
};

const std::vector<ToolFamily>& tool_families();
// Null for a name that is none.
const ToolFamily* tool_family(std::string_view name);
// Calls without any mark: {"name", "parameters"} or a list of them; what a grammar makes.
std::unique_ptr<ReplyParser> make_bare_list_parser(std::shared_ptr<const ToolSet> tools);

}  // namespace quire
