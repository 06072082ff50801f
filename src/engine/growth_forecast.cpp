#include "engine/growth_forecast.h"

#include <algorithm>
#include <cmath>

namespace quire {

GrowthForecast::GrowthForecast(const KvCacheManager* kv, const AnswerLengths* lengths,
                               std::int32_t block_size, std::size_t num_groups,
                               std::int32_t max_model_len)
    : kv_(kv), lengths_(lengths), held_(num_groups) {
  // 1, 2, 3, 4, 6, 8, 12, 16, ... blocks.
  for (std::int64_t step = block_size, at = step; at < max_model_len + step; at += step) {
    ahead_tokens_.push_back(static_cast<std::int32_t>(at));
    if (at >= 4 * step) step *= 2;
  }
  sums_.resize(num_groups * ahead_tokens_.size());
}

void GrowthForecast::clear() {
  std::ranges::fill(sums_, Sum{});
  std::ranges::fill(held_, 0.0);
}

void GrowthForecast::add(const Sequence& sequence) {
  const std::int32_t generated = sequence.num_generated();
  const std::int32_t most = sequence.request.stop.max_tokens - generated;  // tokens still to come
  const double runs_now = lengths_->share_longer(generated);
  for (std::size_t g = 0; g < held_.size(); ++g) {
    held_[g] += sequence.kv.groups.empty() ? 0 : sequence.kv.groups[g].num_held();
  }
  for (std::size_t m = 0; m < ahead_tokens_.size(); ++m) {
    const std::int32_t ahead = ahead_tokens_[m];
    if (ahead - ahead_tokens_[0] >= most) return;  // it has ended by then, at the latest
    const double chance = lengths_->share_longer(generated + ahead) / runs_now;
    for (std::size_t g = 0; g < held_.size(); ++g) {
      const double held = sequence.kv.groups.empty() ? 0 : sequence.kv.groups[g].num_held();
      const double growth = kv_->missing_blocks(sequence.kv, g, sequence.num_computed,
                                                sequence.num_tokens() + std::min(ahead, most));
      Sum& sum = sums_[g * ahead_tokens_.size() + m];
      sum.held += chance * held;
      sum.growth += chance * growth;
      sum.variance += chance * (1 - chance) * (held + growth) * (held + growth);
    }
  }
}

bool GrowthForecast::fits(double deviations) const {
  for (std::size_t g = 0; g < held_.size(); ++g) {
    const double total = kv_->num_blocks(g), used = total - kv_->free_blocks(g);
    const double shared = held_[g] > 0 ? std::min(1.0, used / held_[g]) : 1;
    for (std::size_t m = 0; m < ahead_tokens_.size(); ++m) {
      const Sum& sum = sums_[g * ahead_tokens_.size() + m];
      const double mean = sum.held * shared + sum.growth;
      if (mean + deviations * std::sqrt(sum.variance) > total) return false;
    }
  }
  return true;
}

}  // namespace quire
