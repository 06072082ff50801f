// See thinking_counter.h.
#include "dialect/thinking_counter.h"

#include <algorithm>

namespace quire {
namespace {

constexpr std::size_t kMaxMarkTokens = 32;

bool begins_with(const std::vector<TokenId>& mark, const std::vector<TokenId>& tokens) {
  return tokens.size() <= mark.size() && std::equal(tokens.begin(), tokens.end(), mark.begin());
}

}  // namespace

bool ThinkingCounter::ends_with(const std::vector<TokenId>& mark) const {
  return !mark.empty() && mark.size() <= recent_.size() &&
         std::equal(mark.rbegin(), mark.rend(), recent_.rbegin());
}

void ThinkingCounter::push(TokenId id, bool blank) {
  if (where_ == Where::kOutside && !marks_->anywhere) return;
  recent_.push_back(id);
  if (recent_.size() > kMaxMarkTokens) recent_.erase(recent_.begin());
  where_ == Where::kInside ? inside() : outside(blank);
}

void ThinkingCounter::inside() {
  ++count_;
  for (const auto& mark : marks_->ends) {
    if (!ends_with(mark)) continue;
    count_ -= static_cast<std::int32_t>(mark.size());
    where_ = Where::kOutside;
    recent_.clear();
    return;
  }
  // The model repeats the mark that the prompt ends with.
  for (const auto& mark : marks_->begins)
    if (recent_ == mark && count_ == static_cast<std::int32_t>(mark.size())) count_ = 0;
}

void ThinkingCounter::outside(bool blank) {
  for (const auto& mark : marks_->begins) {
    if (marks_->anywhere ? !ends_with(mark) : recent_ != mark) continue;
    where_ = Where::kInside;
    recent_.clear();
    return;
  }
  if (marks_->anywhere) return;
  if (blank && recent_.size() == 1) {
    recent_.clear();
  } else if (std::none_of(marks_->begins.begin(), marks_->begins.end(),
                          [&](const auto& mark) { return begins_with(mark, recent_); })) {
    where_ = Where::kOutside;
  }
}

}  // namespace quire
