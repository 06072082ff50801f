// Calls of functions in the form of a model's family, as pieces of a structural tag. For one
// request; tools_grammar.cpp puts them together.
#pragma once

#include <boost/json/array.hpp>

#include "dialect/call_form.h"
#include "server/protocol/call_schemas.h"
#include "server/protocol/tag_format.h"
#include "server/protocol/tools_request.h"

namespace quire {

class CallWriter {
 public:
  using Format = tag_format::Format;
  CallWriter(const CallForm& form, const ToolsInput& tools) : form_(form), tools_(tools) {}

  // Any one call between the marks of one. Arguments fit where the choice is forced or the function
  // strict. kUnsupported with the function's place when one can't be written. before: stands in
  // front of it.
  Result<Format> call(std::string_view before = {}) const;
  // Of kList: the whole list.
  Format list(bool parallel) const;
  // Of forms without a mark in front: per strict function what a call begins with, as a regular
  // expression, and what follows.
  struct Opening {
    std::string pattern;
    Format rest;
  };
  Result<std::vector<Opening>> openings() const;
  // Of harmony: a message that calls.
  Format message() const;

 private:
  bool offered(const ToolFunction& function) const;
  bool enforced(const ToolFunction& function) const;
  boost::json::value arguments_schema(const ToolFunction& function) const;
  boost::json::value objects_schema(const std::string& place) const;
  // Behind the mark that begins a call.
  Result<Format> named(const ToolFunction& function) const;
  Result<Format> with_tags(const ToolFunction& function) const;
  Result<Format> with_keys(const ToolFunction& function) const;
  Result<Format> tag_value(const ToolFunction& function, const Parameter& parameter) const;
  Result<Format> key_value(const Parameter& parameter) const;
  Result<Format> bare_text(const Parameter& parameter, std::string_view begin,
                           std::string_view end) const;

  const CallForm& form_;
  const ToolsInput& tools_;
};

}  // namespace quire
