// See utf8.h: the rule is Unicode's "substitution of maximal subparts", which Python's and Rust's
// lossy decoders follow too.
#include "text/utf8.h"

#include <cstdint>

namespace quire {
namespace {

struct Lead {
  std::size_t size = 0;      // bytes of the character; 0: no character begins with this byte
  std::uint8_t low = 0x80;   // range of the second byte: no overlong forms, no surrogates,
  std::uint8_t high = 0xBF;  // nothing above U+10FFFF
};

Lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

}  // namespace

std::size_t append_utf8(std::string_view bytes, std::string& out) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Lead lead = lead_of(static_cast<std::uint8_t>(bytes[at]));
    std::size_t good = 1;  // bytes from `at` that may be one character
    while (good < lead.size && at + good < bytes.size()) {
      const auto byte = static_cast<std::uint8_t>(bytes[at + good]);
      const bool fits = good == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xC0) == 0x80;
      if (!fits) break;
      ++good;
    }
    if (lead.size != 0 && good == lead.size) {
      out += bytes.substr(at, good);
    } else if (lead.size != 0 && at + good == bytes.size()) {
      return good;
    } else {
      out += kReplacementCharacter;
    }
    at += good;
  }
  return 0;
}

}  // namespace quire
