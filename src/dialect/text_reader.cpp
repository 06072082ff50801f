#include "dialect/text_reader.h"

#include <algorithm>

namespace quire {

void TextReader::append(std::string_view text) {
  constexpr std::size_t kKeepBytes = 4096;
  if (at_ > kKeepBytes && at_ > text_.size() / 2) {
    text_.erase(0, at_);
    at_ = 0;
  }
  text_ += text;
}

std::string_view TextReader::take(std::size_t n) {
  const std::string_view taken = rest().substr(0, n);
  at_ += taken.size();
  searched_ = 0;
  return taken;
}

TextReader::Match TextReader::starts_with(std::string_view mark) const {
  const std::string_view text = rest();
  if (text.starts_with(mark)) return Match::kYes;
  return !at_end_ && text.size() < mark.size() && mark.starts_with(text) ? Match::kMaybe
                                                                         : Match::kNo;
}

TextReader::Found TextReader::find(std::span<const std::string_view> marks) {
  const std::string_view text = rest();
  if (!std::equal(marks.begin(), marks.end(), searched_for_.begin(), searched_for_.end())) {
    searched_for_.assign(marks.begin(), marks.end());
    searched_ = 0;
  }
  for (std::size_t at = searched_; at < text.size(); ++at) {
    const std::string_view here = text.substr(at);
    Found out;
    std::size_t length = 0;
    bool maybe = false;
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const std::string_view mark = marks[i];
      if (here.front() != mark.front()) continue;
      if (here.starts_with(mark)) {
        if (mark.size() > length) out = {true, at, i}, length = mark.size();
      } else if (!at_end_ && here.size() < mark.size() && mark.starts_with(here)) {
        maybe = true;  // perhaps a longer one than what is found
      }
    }
    if (maybe) {
      searched_ = at;
      return {false, at, 0};
    }
    if (out.found) {
      searched_ = at;
      return out;
    }
  }
  searched_ = text.size();
  return {false, text.size(), 0};
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace quire
