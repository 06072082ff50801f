// Counts the tokens of an answer's thinking by their ids, for its usage. Marks around the thinking
// do not count.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace quire {

// The marks of a family as tokens. No begins: there is no thinking to count.
struct ThinkingMarks {
  std::vector<std::vector<TokenId>> begins, ends;
  bool anywhere = false;  // thinking may begin after the first token too, and again (harmony)
  bool empty() const { return begins.empty(); }
};

class ThinkingCounter {
 public:
  // inside: the prompt has begun the thinking. The marks outlive the counter.
  ThinkingCounter(const ThinkingMarks* marks, bool inside)
      : marks_(marks), where_(inside ? Where::kInside : Where::kStart) {}
  // blank: the token is white space alone, which may stand before the thinking.
  void push(TokenId id, bool blank);
  std::int32_t count() const { return count_; }

 private:
  enum class Where { kStart, kInside, kOutside };
  bool ends_with(const std::vector<TokenId>& mark) const;
  void inside();
  void outside(bool blank);

  const ThinkingMarks* marks_;
  Where where_;
  std::vector<TokenId> recent_;  // since the last change, no more than a mark can be long
  std::int32_t count_ = 0;
};

}  // namespace quire
