// Calls written as Python: [f(a=1, b="x"), g()], between marks or bare at the beginning of a line.
// A call is one once its first argument, or the end of an empty list, has been read; each argument
// goes out when it is whole.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dialect/tool_parser.h"

namespace quire {

struct PythonicFormat {
  std::vector<std::string_view> begins, after;
  bool bare = false;  // also without a mark; only known functions
};

class PythonicCalls : public ToolParser {
 public:
  PythonicCalls(PythonicFormat format, std::shared_ptr<const ToolSet> tools);

 private:
  enum class Where { kOutside, kOpen, kName, kKey, kValue, kNext, kAfter };
  bool step() override;
  void cut() override;
  bool outside();
  bool open();
  bool name();
  bool key();
  bool value();
  bool next();
  bool after();
  bool not_a_call();
  void ensure_call();
  // Bytes of the literal at hand before the comma or bracket that ends it; false: not yet there.
  bool value_end(std::size_t* size);

  const PythonicFormat format_;
  std::vector<std::string_view> outside_marks_;
  Where where_ = Where::kOutside;
  bool marked_ = false, in_list_ = false, begun_ = false;
  std::string function_, key_;
  // How far the literal has been looked through.
  std::size_t seen_ = 0;
  int depth_ = 0;
  char quote_ = 0;
  bool escaped_ = false;
};

}  // namespace quire
