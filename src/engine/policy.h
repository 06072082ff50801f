// Who is served first. Every sequence has a rank; the smallest is the most urgent. It never changes
// after the first step, so that the order of all started sequences is total: the first of them is
// never preempted for another and always advances, then the next one, and nobody starves.
#pragma once

#include <compare>
#include <cstdint>

namespace quire {

enum class SchedulingPolicy : std::uint8_t {
  kFcfs,      // in the order of arrival (of turns, where clients take turns)
  kPriority,  // by the request's priority, smaller first; equal ones as under kFcfs
};

struct Rank {
  std::int64_t priority = 0;  // 0 under kFcfs
  std::uint64_t number = 0;   // of arrival; from the first step on, of starting
  friend auto operator<=>(const Rank&, const Rank&) = default;
};

}  // namespace quire
