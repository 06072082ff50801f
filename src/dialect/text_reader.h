// Text that has come and is not yet read, for parsers that decide only on what no later text can
// change.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

class TextReader {
 public:
  void append(std::string_view text);
  void end() { at_end_ = true; }
  bool at_end() const { return at_end_; }

  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  bool empty() const { return at_ == text_.size(); }
  // Removes n bytes and returns them; valid until the next append.
  std::string_view take(std::size_t n);

  // Of the text at hand: does it begin with `mark`? kMaybe: it may once more has come.
  enum class Match { kNo, kMaybe, kYes };
  Match starts_with(std::string_view mark) const;

  // The first place of any of `marks` (where two begin at the same byte, the longer). Before it has
  // come: found is false, and `before` are the bytes that no mark can begin in. Bytes are looked at
  // once for the same marks, however the text comes. The marks' text outlives the reader.
  struct Found {
    bool found = false;
    std::size_t before = 0;  // bytes in front of the mark
    std::size_t mark = 0;    // which one
  };
  Found find(std::span<const std::string_view> marks);
  Found find(std::string_view mark) { return find(std::span(&mark, 1)); }

 private:
  std::string text_;
  std::size_t at_ = 0;
  // Of rest(): no mark of these begins in the first `searched_` bytes; back to 0 with every take.
  std::size_t searched_ = 0;
  std::vector<std::string_view> searched_for_;
  bool at_end_ = false;
};

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
std::string_view trimmed(std::string_view text);

}  // namespace quire
