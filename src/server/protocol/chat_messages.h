// Checks the messages of a chat and brings them into the form that templates expect.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

// Each message an object with a role; text parts become one string, joined by newlines; arguments
// of tool calls become objects; a null content becomes "". Other kinds of parts (images, audio) are
// refused.
Result<boost::json::array> normalize_messages(const boost::json::value& messages);
// Each role must be one of OpenAI's, or one that the chat template speaks of ('ipython'): another
// one is a mistake, which most templates would pass over or print.
Status check_roles(const std::vector<std::string>& roles, std::string_view template_source);

}  // namespace quire
