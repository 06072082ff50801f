// Moments at which requests end unless they have ended or started by then. Engine thread.
#pragma once

#include <limits>
#include <set>
#include <utility>

#include "base/ids.h"

namespace quire {

class Deadlines {
 public:
  // at_s 0: none.
  void add(RequestId id, double at_s) {
    if (at_s > 0) by_time_.emplace(at_s, id);
  }
  void remove(RequestId id, double at_s) {
    if (at_s > 0) by_time_.erase({at_s, id});
  }
  // The first one that has passed, or false.
  bool take_passed(double now_s, RequestId* id) {
    if (by_time_.empty() || by_time_.begin()->first > now_s) return false;
    *id = by_time_.begin()->second;
    by_time_.erase(by_time_.begin());
    return true;
  }
  bool empty() const { return by_time_.empty(); }

 private:
  std::set<std::pair<double, RequestId>> by_time_;
};

}  // namespace quire
