// Finds the first stop string in a growing text and holds back what could become one. The same
// object serves streams and whole answers, so both are cut at the same byte, however the text is
// cut in pieces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

class StopMatcher {
 public:
  // Empty stop strings are ignored.
  StopMatcher(std::vector<std::string> stops, bool include_stop_in_output);
  struct Step {
    std::string text;                    // safe to show now
    std::optional<std::string> matched;  // the stop string, when found: nothing comes after
  };
  // The match that is complete first wins (never waiting for a longer one keeps the cut independent
  // of the pieces); of those that end at the same byte, the one that starts first.
  Step push(std::string_view text);
  // No more text comes: returns what was held back.
  std::string flush();

 private:
  std::size_t held_back() const;

  std::vector<std::string> stops_;
  bool include_;
  bool done_ = false;
  std::string held_;  // a proper prefix of some stop string
};

}  // namespace quire
