// See stop_matcher.h. Runs on the output thread, once per token.
#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace quire {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop_in_output)
    : stops_(std::move(stops)), include_(include_stop_in_output) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

StopMatcher::Step StopMatcher::push(std::string_view text) {
  if (done_) return {};
  held_ += text;
  const std::string* found = nullptr;
  std::size_t begin = 0;
  std::size_t end = 0;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const std::size_t stop_end = at + stop.size();
    if (found == nullptr || stop_end < end || (stop_end == end && at < begin)) {
      found = &stop;
      begin = at;
      end = stop_end;
    }
  }
  Step step;
  if (found != nullptr) {
    done_ = true;
    step.matched = *found;
    step.text = held_.substr(0, include_ ? end : begin);
    held_.clear();
    return step;
  }
  const std::size_t shown = held_.size() - held_back();
  step.text = held_.substr(0, shown);
  held_.erase(0, shown);
  return step;
}

std::string StopMatcher::flush() {
  done_ = true;
  return std::exchange(held_, {});
}

// Bytes of the longest end of held_ that a stop string begins with.
std::size_t StopMatcher::held_back() const {
  const std::string_view text = held_;
  std::size_t longest = 0;
  for (const std::string_view stop : stops_) {
    for (std::size_t size = std::min(stop.size() - 1, text.size()); size > longest; --size) {
      if (text.ends_with(stop.substr(0, size))) {
        longest = size;
        break;
      }
    }
  }
  return longest;
}

}  // namespace quire
