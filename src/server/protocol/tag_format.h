// The pieces of a structural tag's `format`, as JSON: what grammars of calls are put together from.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

#include "text/grammar.h"

namespace quire::tag_format {

using Format = boost::json::object;

Format text(std::string_view literal);  // special tokens in it are meant as such
Format sequence(boost::json::array elements);
Format sequence(std::initializer_list<Format> elements);
Format any_of(boost::json::array elements);  // of one: that
Format optional(Format content);
Format star(Format content);
Format schema(boost::json::value json_schema);
Format regex(std::string_view pattern);
Format any_text();
Format any_text_without(std::string_view pattern);
Format any_text_of(std::int32_t max_tokens);
Format text_up_to(std::string_view pattern);
Format tag(std::string_view begin, Format content, std::string_view end);
Format tag(std::string_view begin, Format content, boost::json::array ends);  // any of them
// Text that matches as a whole, up to and with `end`.
Format matching_text(std::string_view begin, std::string_view pattern, std::string_view end);
Format triggered(boost::json::array triggers, boost::json::array tags, bool stop_after_first);
// What another grammar says, as a part of one.
Format part(const GrammarSpec& spec);

std::string regex_escaped(std::string_view literal);
GrammarSpec spec(Format format);

}  // namespace quire::tag_format
