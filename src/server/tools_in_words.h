// For chat templates that know nothing of tools: the functions, the model's calls and their results
// are written into the messages, in the form that the Hermes parser reads.
#pragma once

#include <string>

#include "base/result.h"

namespace quire {

// Both are JSON lists, checked. Without tools only calls in earlier messages are written out.
Result<std::string> tools_in_messages(const std::string& messages_json,
                                      const std::string& tools_json);

}  // namespace quire
