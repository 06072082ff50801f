#include "engine/answer_lengths.h"

#include <algorithm>
#include <bit>

namespace quire {

AnswerLengths::AnswerLengths() {
  recent_.reserve(kRemembered);
  estimate();
}

// Lengths 0..7 have a bucket each; then the leading bit and the three after it say which.
std::size_t AnswerLengths::bucket_of(std::int32_t num_tokens) {
  const auto n = static_cast<std::uint32_t>(std::max(0, num_tokens));
  if (n < kPerDoubling) return n;
  const auto exponent = static_cast<std::size_t>(std::bit_width(n)) - 4;  // 0 for 8..15
  return (exponent + 1) * kPerDoubling + ((n >> exponent) & 7u);
}

double AnswerLengths::bucket_begin(std::size_t bucket) {
  if (bucket < kPerDoubling) return static_cast<double>(bucket);
  const std::size_t exponent = bucket / kPerDoubling - 1;
  return static_cast<double>((kPerDoubling + bucket % kPerDoubling) << exponent);
}

void AnswerLengths::count(const Answer& answer, int direction) {
  const std::size_t bucket = bucket_of(answer.num_tokens);
  counts_[bucket] += direction;
  if (!answer.cut) ends_[bucket] += direction;
}

void AnswerLengths::record(std::int32_t num_tokens, bool cut) {
  const Answer answer{num_tokens, cut};
  if (recent_.size() < kRemembered) {
    recent_.push_back(answer);
  } else {
    count(recent_[next_], -1);
    recent_[next_] = answer;
    next_ = (next_ + 1) % kRemembered;
  }
  count(answer, 1);
  estimate();
}

void AnswerLengths::estimate() {
  auto at_risk = static_cast<double>(recent_.size());
  double prior = kPriorAnswers;
  survive_[0] = 1;
  for (std::size_t b = 0; b < kBuckets; ++b) {
    const double prior_after = kPriorAnswers * kUsualTokens / (kUsualTokens + bucket_begin(b + 1));
    const double ends = ends_[b] + prior - prior_after;
    survive_[b + 1] = survive_[b] * (1 - ends / (at_risk + prior));
    at_risk -= counts_[b];
    prior = prior_after;
  }
}

double AnswerLengths::share_longer(std::int32_t num_tokens) const {
  const std::int32_t at_least = std::max(0, num_tokens) + 1;
  const std::size_t bucket = bucket_of(at_least);
  // Within a bucket, ends are taken to be spread evenly.
  const double begin = bucket_begin(bucket), width = bucket_begin(bucket + 1) - begin;
  const double part = (at_least - begin) / width;
  return survive_[bucket] + part * (survive_[bucket + 1] - survive_[bucket]);
}

}  // namespace quire
