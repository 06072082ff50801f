// Mutations of JSON texts that stay JSON, for libFuzzer: bytes alone rarely get past a parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace quire::fuzz {

// Changes data[keep..size) in place and returns the new size, at most max_size: half of the time a
// value of the JSON text is replaced, copied, wrapped, removed or gets a member called by one of
// `names`; else, and where the text is no JSON, bytes change. The first `keep` bytes choose what is
// done with the text: they change as bytes.
std::size_t mutate_json(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed,
                        std::size_t keep, std::span<const std::string> names);

}  // namespace quire::fuzz
