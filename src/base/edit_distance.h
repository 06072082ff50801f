// How alike two names are spelled, for messages about a name that is not known.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>

namespace quire {

// Insertions, deletions, substitutions and swaps of neighbours that turn a into b. Time and memory
// grow with the product of the lengths.
int edit_distance(std::string_view a, std::string_view b);

// What is spelled most like `name` (its first 64 bytes: it may come from anywhere) among the names
// of `known`, which is not empty; the first of equals. name_of: gives an element's name.
template <class Range, class NameOf = std::identity>
std::string_view nearest_name(std::string_view name, const Range& known, NameOf name_of = {}) {
  const auto distance = [&](const auto& element) {
    return edit_distance(name.substr(0, 64), std::invoke(name_of, element));
  };
  return std::invoke(name_of, *std::min_element(std::begin(known), std::end(known),
                                                [&](const auto& a, const auto& b) {
                                                  return distance(a) < distance(b);
                                                }));
}

}  // namespace quire
