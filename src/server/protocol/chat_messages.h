// Checks the messages of a chat and brings them into the form that templates expect.
#pragma once

#include <boost/json/value.hpp>

#include "base/result.h"

namespace quire {

// Each message an object with a role; text parts become one string, joined by newlines; arguments
// of tool calls become objects; a null content becomes "". Other kinds of parts (images, audio) are
// refused.
Result<boost::json::array> normalize_messages(const boost::json::value& messages);

}  // namespace quire
