// Request bodies to JSON values, strictly: one document, valid UTF-8, finite numbers, no key twice,
// bounded nesting.
#pragma once

#include <boost/json/value.hpp>
#include <string_view>

#include "base/result.h"

namespace quire {

inline constexpr std::size_t kMaxJsonDepth = 64;

Result<boost::json::value> parse_json(std::string_view text);
// Of what parse_json has taken before, or of our own: whatever its depth.
boost::json::value parse_checked(std::string_view text);

// "a string", "an array", ... for messages.
std::string_view json_kind(const boost::json::value& value);

}  // namespace quire
