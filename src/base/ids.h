// Integers that must not be mixed up.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace quire {

// A token of the vocabulary. Plain int32 in arrays that cross to the executor.
using TokenId = std::int32_t;

template <class Tag, class Rep>
struct StrongId {
  Rep value{};
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : value(v) {}
  friend constexpr auto operator<=>(StrongId, StrongId) = default;
};

using BlockId = StrongId<struct BlockTag, std::int32_t>;  // physical KV block, 0-based; -1: none
using SlotId = StrongId<struct SlotTag, std::int32_t>;    // executor's per-sequence slot
using RequestId = StrongId<struct RequestTag, std::uint64_t>;  // process-wide, in order of arrival

inline constexpr BlockId kNoBlock{-1};
inline constexpr SlotId kNoSlot{-1};

}  // namespace quire

template <class Tag, class Rep>
struct std::hash<quire::StrongId<Tag, Rep>> {
  std::size_t operator()(quire::StrongId<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
