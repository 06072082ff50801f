// Finds breakers in a vocabulary; see dry_breakers.h.
#include "server/dry_breakers.h"

#include <algorithm>
#include <string_view>

namespace quire {
namespace {

// llama.cpp's limits: bytes of a breaker that count, tokens of what follows its first one.
constexpr std::size_t kMaxBytes = 40, kMaxTail = 20;
constexpr std::size_t kMaxEntries = 16;

Status add_breaker(const TextService& text, std::string_view breaker, DryBreakers* out) {
  const auto vocab_size = static_cast<TokenId>(text.vocab_size());
  for (TokenId id = 0; id < vocab_size; ++id) {
    const std::string_view bytes = text.token_bytes(id);
    if (bytes.find(breaker) != std::string_view::npos) {
      (*out)[id].emplace_back();
      continue;
    }
    const std::size_t longest = std::min(bytes.size(), breaker.size() - 1);
    for (std::size_t length = longest; length > 0; --length) {
      if (bytes.substr(bytes.size() - length) != breaker.substr(0, length)) continue;
      QUIRE_ASSIGN(auto tail, text.encode(breaker.substr(length), false));
      if (tail.size() > kMaxTail) tail.resize(kMaxTail);
      auto& tails = (*out)[id];
      if (std::ranges::find(tails, tail) == tails.end()) tails.push_back(std::move(tail));
    }
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const DryBreakers>> DryBreakerCache::get(
    const TextService& text, const std::vector<std::string>& breakers) {
  std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(entries_, breakers, &Entry::first);
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().second;
  }
  auto made = std::make_shared<DryBreakers>();
  for (const std::string& breaker : breakers) {
    const auto bytes = std::string_view(breaker).substr(0, kMaxBytes);
    if (!bytes.empty()) QUIRE_TRY(add_breaker(text, bytes, made.get()));
  }
  entries_.emplace_front(breakers, std::move(made));
  if (entries_.size() > kMaxEntries) entries_.pop_back();
  return entries_.front().second;
}

}  // namespace quire
