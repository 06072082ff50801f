// What a model's answer is made of, once the marks of its family are read: reasoning, text for the
// user, calls of functions. Values only.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace quire {

// A piece of one call. The first piece of a call has its name; the arguments of all pieces joined
// are the JSON text of an object, or its beginning when the text was cut.
struct CallPiece {
  std::int32_t index = 0;  // of the call in the answer
  std::string name;        // empty in later pieces
  std::string arguments;
};

// What came out of some text; pieces of the same call that follow each other are joined.
struct Parsed {
  std::string reasoning, content;
  std::vector<CallPiece> calls;

  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
  void begin_call(std::int32_t index, std::string name) {
    calls.push_back({index, std::move(name), {}});
  }
  void add_arguments(std::int32_t index, std::string_view text) {
    if (text.empty()) return;
    if (calls.empty() || calls.back().index != index) calls.push_back({index, {}, {}});
    calls.back().arguments += text;
  }
};

}  // namespace quire
