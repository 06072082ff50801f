// The past of a sequence; see token_history.h.
#include "sampling/token_history.h"

#include <algorithm>
#include <limits>

namespace quire {
namespace {

constexpr std::size_t kFirstEntries = 64;
constexpr std::size_t kAllTokens = std::numeric_limits<std::size_t>::max() / 2;

}  // namespace

std::size_t TokenPlaces::probe(TokenId token) const {
  const std::size_t mask = entries_.size() - 1;
  auto i = static_cast<std::size_t>(static_cast<std::uint32_t>(token) * 0x9E3779B1u) & mask;
  while (entries_[i].token != -1 && entries_[i].token != token) i = (i + 1) & mask;
  return i;
}

void TokenPlaces::grow() {
  const std::vector<Entry> old = std::move(entries_);
  entries_.assign(std::max(kFirstEntries, old.size() * 2), {-1, 0});
  for (const Entry& entry : old) {
    if (entry.token != -1) entries_[probe(entry.token)] = entry;
  }
}

std::int32_t TokenPlaces::find_or_add(TokenId token, std::int32_t next) {
  if (used_ * 2 >= entries_.size()) grow();
  Entry& entry = entries_[probe(token)];
  if (entry.token == -1) {
    entry = {token, next};
    ++used_;
  }
  return entry.place;
}

TokenHistory::TokenHistory(const SamplingParams& params, std::span<const TokenId> prompt,
                           std::span<const TokenId> generated) {
  counts_prompt_ = params.repetition_penalty != 1.0;
  counts_ = counts_prompt_ || params.frequency_penalty != 0 || params.presence_penalty != 0;
  for (const auto& word : params.bad_words) {
    if (!word.empty()) tail_limit_ = std::max(tail_limit_, word.size() - 1);
  }
  if (params.dry()) {
    dry_limit_ = params.dry_penalty_last_n < 0
                     ? kAllTokens
                     : static_cast<std::size_t>(params.dry_penalty_last_n);
  }
  num_tokens_ = static_cast<std::int64_t>(prompt.size());
  if (counts_prompt_) {
    for (const TokenId token : prompt) note(token, false);
  }
  const std::size_t kept = std::min(std::max(tail_limit_, dry_limit_), prompt.size());
  recent_.assign(prompt.end() - static_cast<std::ptrdiff_t>(kept), prompt.end());
  for (const TokenId token : generated) append(token);
}

void TokenHistory::note(TokenId token, bool generated) {
  const auto next = static_cast<std::int32_t>(seen_.size());
  const std::int32_t place = places_.find_or_add(token, next);
  if (place == next) seen_.push_back({token, 0});
  if (generated) ++seen_[static_cast<std::size_t>(place)].generated_count;
}

void TokenHistory::append(TokenId token) {
  ++num_tokens_;
  ++num_generated_;
  if (counts_) note(token, true);
  const std::size_t limit = std::max(tail_limit_, dry_limit_);
  if (limit == 0) return;
  if (recent_.size() >= 2 * limit)
    recent_.erase(recent_.begin(), recent_.end() - static_cast<std::ptrdiff_t>(limit));
  recent_.push_back(token);
}

void TokenHistory::apply_penalties(std::span<float> logits, const SamplingParams& params) const {
  if (!counts_) return;
  const auto repetition = static_cast<float>(params.repetition_penalty);
  const auto frequency = static_cast<float>(params.frequency_penalty);
  const auto presence = static_cast<float>(params.presence_penalty);
  for (const Seen& seen : seen_) {
    float& logit = logits[static_cast<std::size_t>(seen.token)];
    if (logit == -std::numeric_limits<float>::infinity()) continue;  // banned stays banned
    float x = logit > 0 ? logit / repetition : logit * repetition;
    if (seen.generated_count > 0) {
      x -= frequency * static_cast<float>(seen.generated_count);
      x -= presence;
    }
    logit = std::min(x, std::numeric_limits<float>::max());
  }
}

}  // namespace quire
