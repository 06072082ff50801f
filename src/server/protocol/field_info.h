// What a request type's table says of each of its fields. The same rows are read by the parser
// (field_table.h), by /openapi.json (openapi.h) and by the table in docs/api-fields.md, so that
// none of them can drift from the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace quire {

enum class FieldKind {
  kBool,
  kInteger,
  kNumber,
  kString,
  kChoice,    // one of `choices`
  kIntegers,  // a list
  kStrings,   // a string or a list of them
  kObject,    // with the fields of `nested`, or any
  kAny,       // `schema` says what
  kNeutral    // known, not possible here: only a value that asks for nothing passes
};

// Which other servers take the field under this name.
enum Origin : unsigned { kOpenAi = 1, kVllm = 2, kLlamaCpp = 4 };

struct FieldInfo {
  std::string_view name;
  FieldKind kind = FieldKind::kAny;
  double min = 0, max = 0;                          // of numbers, and of each item of kIntegers
  bool above_min = false;                           // min itself is refused
  std::size_t min_items = 0, max_items = SIZE_MAX;  // of lists; of a string: characters
  std::string_view choices = {};                    // "a|b|c"
  std::string_view schema = {};                     // JSON Schema of a value, for kAny
  std::vector<FieldInfo> (*nested)() = nullptr;     // the fields of a kObject
  bool required = false;

  unsigned origins = 0;
  std::string_view fallback = {};  // what an absent field means, as JSON where it can be
  std::string_view note = {};      // one line for users
};

// "a|b|c" in its parts.
std::vector<std::string_view> split_choices(std::string_view choices);

}  // namespace quire
