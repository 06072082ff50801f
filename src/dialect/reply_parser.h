// Reads a model's answer while it grows: text goes in as it is generated, reasoning, content and
// calls come out. One per choice, on one thread at a time.
//
// What must hold for every parser: however the text is cut into pieces, the joined results are the
// same; nothing of the text is lost (what only looked like a call comes back as content, with its
// marks); a call that the end of the text cuts is given as far as it was written.
#pragma once

#include <string>
#include <string_view>

#include "dialect/parsed.h"

namespace quire {

class ReplyParser {
 public:
  virtual ~ReplyParser() = default;
  // Appends to *out what `text` makes certain.
  virtual void push(std::string_view text, Parsed* out) = 0;
  // No more text comes. Called once.
  virtual void finish(Parsed* out) = 0;
};

}  // namespace quire
