// Valid UTF-8 out of bytes that may be none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// Appends `bytes` to `out`, each longest invalid sequence as one U+FFFD. Bytes at the end that
// begin a character which may still become whole are left out; returns how many (0 to 3).
std::size_t append_utf8(std::string_view bytes, std::string& out);

}  // namespace quire
