// Small text jobs of the HTTP layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

std::string lower_case(std::string_view text);  // ASCII
std::string path_of(std::string_view target);   // without query and fragment, %XX undone; "*" stays
std::string http_date();                        // now, as a Date header has it
bool constant_time_equal(
    std::string_view a,
    std::string_view b);  // compares digests; time does not tell where they differ
std::string random_hex(std::size_t num_bytes);
std::uint64_t hash_text(std::string_view text);  // of a cryptographic digest; never 0

}  // namespace quire
