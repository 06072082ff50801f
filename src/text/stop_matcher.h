// Finds the first stop string in a growing text and holds back what could become one. The same object
// serves streams and whole answers, so both are cut at the same byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

class StopMatcher {
 public:
  StopMatcher(std::vector<std::string> stops, bool include_stop_in_output);
  struct Step {
    std::string text;                     // safe to show now
    std::optional<std::string> matched;   // the stop string, when found: nothing comes after
  };
  // The earliest match in the text wins; of those that start at the same byte, the first in the list.
  Step push(std::string_view text);
  // No more text comes: returns what was held back.
  std::string flush();

 private:
  std::vector<std::string> stops_;
  bool include_;
  bool done_ = false;
  std::string held_;
};

}  // namespace quire
