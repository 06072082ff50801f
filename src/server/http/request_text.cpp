#include "server/http/request_text.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <array>
#include <cstring>
#include <ctime>

#include "base/check.h"

namespace quire {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest sha256(std::string_view text) {
  Digest digest;
  std::string bytes(text);
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string path_of(std::string_view target) {
  if (const auto scheme = target.find("://");
      scheme != std::string_view::npos && target.front() != '/') {
    const auto slash = target.find('/', scheme + 3);  // absolute form: http://host/path
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  target = target.substr(0, target.find_first_of("?#"));
  std::string out;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] == '%' && i + 2 < target.size() && hex_value(target[i + 1]) >= 0 &&
        hex_value(target[i + 2]) >= 0) {
      out.push_back(static_cast<char>(hex_value(target[i + 1]) * 16 + hex_value(target[i + 2])));
      i += 2;
    } else {
      out.push_back(target[i]);
    }
  }
  return out;
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  static constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed",
                                                    "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                     kMonths[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

bool constant_time_equal(std::string_view a, std::string_view b) {
  const Digest da = sha256(a), db = sha256(b);
  return CRYPTO_memcmp(da.data(), db.data(), da.size()) == 0;
}

std::string random_hex(std::size_t num_bytes) {
  std::string bytes(num_bytes, '\0');
  QUIRE_CHECK(
      RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(num_bytes)) == 1,
      "the system's random generator failed");
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::uint64_t hash_text(std::string_view text) {
  const Digest digest = sha256(text);
  std::uint64_t out = 0;
  std::memcpy(&out, digest.data(), sizeof(out));
  return out == 0 ? 1 : out;
}

}  // namespace quire
