#include "dialect/reasoning.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

using Match = TextReader::Match;

std::size_t leading_spaces(std::string_view text) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_space) -
                                  text.begin());
}

}  // namespace

ReasoningSplitter::ReasoningSplitter(ReasoningFormat format, bool inside,
                                     std::unique_ptr<ReplyParser> rest)
    : format_(std::move(format)),
      rest_(std::move(rest)),
      where_(inside ? Where::kThinkingStart : Where::kStart) {}

void ReasoningSplitter::push(std::string_view text, Parsed* out) {
  reader_.append(text);
  while (step(out)) {
  }
}

void ReasoningSplitter::finish(Parsed* out) {
  reader_.end();
  while (step(out)) {
  }
  if (where_ == Where::kStart) pass(std::exchange(space_, {}), out);
  if (rest_) rest_->finish(out);
}

bool ReasoningSplitter::step(Parsed* out) {
  switch (where_) {
    case Where::kStart:
      return start(out);
    case Where::kThinkingStart:
      return thinking_start();
    case Where::kThinking:
      return thinking(out);
    case Where::kAfter:
      return after();
    case Where::kRest:
      return rest(out);
  }
  return false;
}

Match ReasoningSplitter::at_begin(std::size_t* size) const {
  Match out = Match::kNo;
  for (const auto mark : format_.begins) {
    const Match here = reader_.starts_with(mark);
    if (here == Match::kYes) {
      *size = mark.size();
      return here;
    }
    if (here == Match::kMaybe) out = here;
  }
  return out;
}

// Before the answer's first word: the opening mark, or there is no thinking.
bool ReasoningSplitter::start(Parsed* out) {
  space_ += reader_.take(leading_spaces(reader_.rest()));
  if (reader_.empty()) return false;
  std::size_t size = 0;
  const Match mark = at_begin(&size);
  if (mark == Match::kMaybe) return false;
  if (mark == Match::kYes) {
    reader_.take(size);
    space_.clear();
    where_ = Where::kThinkingStart;
    return true;
  }
  pass(std::exchange(space_, {}), out);
  where_ = Where::kRest;
  return true;
}

// Drops white space, and the opening mark when the model repeats what the prompt had.
bool ReasoningSplitter::thinking_start() {
  reader_.take(leading_spaces(reader_.rest()));
  if (reader_.empty()) return false;
  std::size_t size = 0;
  const Match mark = at_begin(&size);
  if (mark == Match::kMaybe) return false;
  if (mark == Match::kYes) {
    reader_.take(size);
    return true;
  }
  where_ = Where::kThinking;
  return true;
}

bool ReasoningSplitter::thinking(Parsed* out) {
  const auto found = reader_.find(format_.ends);
  if (found.before > 0) {
    const std::string_view text = reader_.take(found.before);
    std::size_t size = text.size();
    while (size > 0 && is_space(text[size - 1])) --size;
    if (size > 0) {
      out->reasoning += std::exchange(space_, {});
      out->reasoning += text.substr(0, size);
    }
    space_ += text.substr(size);
    return true;
  }
  if (!found.found) return false;
  reader_.take(format_.ends[found.mark].size());
  space_.clear();
  where_ = Where::kAfter;
  return true;
}

bool ReasoningSplitter::after() {
  reader_.take(leading_spaces(reader_.rest()));
  if (reader_.empty()) return false;
  where_ = Where::kRest;
  return true;
}

bool ReasoningSplitter::rest(Parsed* out) {
  if (format_.dropped.empty()) {
    if (!reader_.empty()) pass(reader_.take(reader_.rest().size()), out);
    return false;
  }
  const auto found = reader_.find(format_.dropped);
  if (found.before > 0) pass(reader_.take(found.before), out);
  if (!found.found) return false;
  reader_.take(format_.dropped[found.mark].size());
  where_ = Where::kAfter;
  return true;
}

void ReasoningSplitter::pass(std::string_view text, Parsed* out) {
  if (rest_) {
    rest_->push(text, out);
  } else {
    out->content += text;
  }
}

ThinkingState thinking_state(const ReasoningFormat& format, std::string_view prompt) {
  while (!prompt.empty() && is_space(prompt.back())) prompt.remove_suffix(1);
  const auto ends_with_any = [&](const std::vector<std::string_view>& marks) {
    return std::any_of(marks.begin(), marks.end(),
                       [&](std::string_view mark) { return prompt.ends_with(trimmed(mark)); });
  };
  if (ends_with_any(format.begins)) return ThinkingState::kInside;
  if (ends_with_any(format.ends)) return ThinkingState::kEnded;
  return format.always ? ThinkingState::kInside : ThinkingState::kMayBegin;
}

}  // namespace quire
