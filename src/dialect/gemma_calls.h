// Gemma's calls: call:f{key:value, ...} between marks, keys bare, texts between a mark of their
// own.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "dialect/tool_parser.h"

namespace quire {

struct GemmaFormat {
  std::string_view begin, end, quote;
};

class GemmaCalls : public ToolParser {
 public:
  GemmaCalls(GemmaFormat format, std::shared_ptr<const ToolSet> tools)
      : ToolParser(std::move(tools)), format_(format) {}

 private:
  enum class Where { kOutside, kOpen, kName, kKey, kValue, kText, kWord, kNext, kBroken, kAfter };
  bool step() override;
  void cut() override;
  bool outside();
  bool open();
  bool name();
  bool key();
  bool value();
  bool text_value();
  bool word();
  bool next();
  bool broken();
  bool after();
  bool not_a_call();
  bool close(char c);
  void separate();

  const GemmaFormat format_;
  Where where_ = Where::kOutside;
  std::string open_;   // '{' and '[' of the arguments
  bool first_ = true;  // nothing yet in the innermost of them
  bool text_is_key_ = false;
};

}  // namespace quire
