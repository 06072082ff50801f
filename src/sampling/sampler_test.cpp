// Each processor, their order, log-probabilities and repeatability.
#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>

#include "sampling/logits_transforms.h"
#include "sampling/rng.h"
#include "sampling/row_math.h"
#include "sampling/token_history.h"

namespace quire {
namespace {

constexpr SlotId kSlot{0};

std::vector<float> random_row(std::size_t size, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> row(size);
  for (float& x : row) x = normal(rng);
  return row;
}

SamplingParams greedy() {
  SamplingParams p;
  p.temperature = 0;
  return p;
}

// One token of a fresh slot.
TokenId sample_once(const SamplingParams& p, std::vector<float> row,
                    std::vector<TokenId> prompt = {}, std::vector<TokenId> generated = {},
                    std::vector<std::uint32_t> mask = {}) {
  Sampler sampler(static_cast<std::int64_t>(row.size()));
  sampler.add_slot(kSlot, p, prompt, generated);
  return sampler.sample(kSlot, row, mask, nullptr);
}

TEST(Sampler, GreedyTakesTheLowestOfEquals) {
  EXPECT_EQ(sample_once(greedy(), {1, 3, 2, 3}), 1);
  SamplingParams p;
  p.temperature = 9e-6;
  p.seed = 4;
  EXPECT_EQ(sample_once(p, {1, 3, 2, 3}), 1);
}

TEST(Sampler, GrammarMaskAllowedIdsAndBias) {
  SamplingParams p = greedy();
  EXPECT_EQ(sample_once(p, {1, 3, 2, 3}, {}, {}, {0b1101u}), 3);
  p.allowed_token_ids = {2, 0, 2};
  EXPECT_EQ(sample_once(p, {1, 3, 2, 3}), 2);
  EXPECT_EQ(sample_once(p, {1, 3, 2, 3}, {}, {}, {0b1011u}), 0);
  p.logit_bias = {{0, 5.0f}, {1, 100.0f}};  // a bias does not lift a ban
  EXPECT_EQ(sample_once(p, {1, 3, 2, 3}), 0);
  p.logit_bias = {{0, -1e9f}};
  p.allowed_token_ids = {0};
  EXPECT_EQ(sample_once(p, {1, 3, 2, 3}), 0);
}

TEST(Sampler, GrammarMaskHoldsAgainstEveryOtherRule) {
  SamplingParams p = greedy();
  p.allowed_token_ids = {0};
  EXPECT_EQ(sample_once(p, {1, 3, 2, 3}, {}, {}, {0b0100u}), 2);
  p.allowed_token_ids = {2};
  p.bad_words = {{2}};
  p.min_tokens = 9;
  p.end_token_ids = {2};
  EXPECT_EQ(sample_once(p, {1, 3, 2, 3}, {}, {}, {0b1110u}), 2);
  EXPECT_EQ(sample_once(p, {1, 3, 2, 3}, {}, {}, {0b0010u}), 1);
}

TEST(Sampler, TokenTakenWithoutADrawCounts) {
  SamplingParams p = greedy();
  p.presence_penalty = 2;
  Sampler sampler(4);
  sampler.add_slot(kSlot, p, {});
  sampler.take(kSlot, 1);
  std::vector<float> row{1, 3, 2, 2.5f};
  EXPECT_EQ(sampler.sample(kSlot, row, {}, nullptr), 3);
}

TEST(Sampler, BitMaskBansWhatLiesBeyondIt) {
  std::vector<float> row(70, 1.0f);
  apply_bit_mask(row, std::vector<std::uint32_t>{~0u, 0x80000001u});
  for (std::size_t i = 0; i < row.size(); ++i) {
    EXPECT_EQ(row[i] == 1.0f, i <= 32 || i == 63) << i;
  }
}

TEST(Sampler, BadWords) {
  SamplingParams p = greedy();
  p.bad_words = {{1}, {7, 8, 3}, {2, 3}};
  EXPECT_EQ(sample_once(p, {0, 9, 2, 3}), 3);             // one token: always
  EXPECT_EQ(sample_once(p, {0, 9, 2, 3}, {7}, {8}), 2);   // prefix over the border of the prompt
  EXPECT_EQ(sample_once(p, {0, 9, 2, 3}, {5, 7, 8}), 2);  // in the prompt
  EXPECT_EQ(sample_once(p, {0, 9, 2, 3}, {}, {7, 8, 0}), 3);  // not at the tail
  EXPECT_EQ(sample_once(p, {0, 9, 2, 3}, {8}), 3);            // shorter than the word
  Sampler sampler(4);
  sampler.add_slot(kSlot, p, {}, {});
  std::vector<float> row = {0, 0, 9, 0};
  EXPECT_EQ(sampler.sample(kSlot, row, {}, nullptr), 2);
  row = {1, 0, 0, 9};
  EXPECT_EQ(sampler.sample(kSlot, row, {}, nullptr), 0);  // 2, 3 would complete a word
}

TEST(Sampler, MinTokensHoldsEndTokensBack) {
  SamplingParams p = greedy();
  p.min_tokens = 2;
  p.end_token_ids = {1};
  Sampler sampler(3);
  sampler.add_slot(kSlot, p, std::vector<TokenId>{0, 0, 0}, {});
  for (const TokenId expected : {2, 2, 1}) {
    std::vector<float> row = {0, 5, 3};
    EXPECT_EQ(sampler.sample(kSlot, row, {}, nullptr), expected);
  }
}

TEST(Sampler, PenaltiesFollowTheirDefinition) {
  SamplingParams p;
  p.repetition_penalty = 1.3;
  p.frequency_penalty = 0.4;
  p.presence_penalty = -0.7;
  const std::vector<TokenId> prompt = {3, 5, 3, 9}, generated = {5, 5, 11};
  const auto row = random_row(16, 8);
  auto got = row;
  TokenHistory(p, prompt, generated).apply_penalties(got, p);
  for (TokenId id = 0; id < 16; ++id) {
    const auto count = static_cast<float>(std::count(generated.begin(), generated.end(), id));
    const bool in_prompt = std::count(prompt.begin(), prompt.end(), id) > 0;
    float x = row[static_cast<std::size_t>(id)];
    if (in_prompt || count > 0) x = x > 0 ? x / 1.3f : x * 1.3f;
    if (count > 0) x = x - 0.4f * count + 0.7f;
    EXPECT_NEAR(got[static_cast<std::size_t>(id)], x, 1e-6f) << id;
  }
}

TEST(Sampler, FrequencyPenaltyLooksAtGeneratedTokensOnly) {
  SamplingParams p = greedy();
  p.frequency_penalty = 1;
  EXPECT_EQ(sample_once(p, {2.0f, 1.5f}, {0, 0, 0}, {}), 0);
  EXPECT_EQ(sample_once(p, {2.0f, 1.5f}, {}, {0}), 1);
}

TEST(Sampler, SurvivesRowsWithoutAnything) {
  const float nan = std::nanf("");
  for (const double temperature : {0.0, 1.0}) {
    SamplingParams p;
    p.temperature = temperature;
    EXPECT_EQ(sample_once(p, {nan, nan, nan}), 0);
    EXPECT_EQ(sample_once(p, {nan, 2, nan}), 1);
    EXPECT_EQ(sample_once(p, {nan, std::numeric_limits<float>::infinity(), 5}), 1);
    p.allowed_token_ids = {2, 1};
    EXPECT_EQ(sample_once(p, {nan, nan, nan}), 1);
    p.bad_words = {{1}};
    EXPECT_EQ(sample_once(p, {nan, nan, nan}), 2);
    p.bad_words = {{1}, {2}};
    EXPECT_EQ(sample_once(p, {9, 5, 6}), 1);  // every allowed one banned: the lowest allowed
    EXPECT_EQ(sample_once(p, {9, 5, 6}, {}, {}, {0b001u}), 0);  // a grammar is never left
  }
}

TEST(Sampler, LogprobsAreTheRawLogSoftmax) {
  for (const std::int32_t count : {0, 1, 5, 300}) {
    SamplingParams p = greedy();
    p.logprobs = count;
    p.logit_bias = {{7, 100.0f}};  // changes the choice, not the log-probabilities
    auto row = random_row(300, 12);
    row[40] = row[41];
    const auto raw = row;
    Sampler sampler(300);
    sampler.add_slot(kSlot, p, {}, {});
    ASSERT_TRUE(sampler.wants_logprobs(kSlot));
    TokenLogprobs got;
    ASSERT_EQ(sampler.sample(kSlot, row, {}, &got), 7);
    double total = 0;
    for (const float x : raw) total += std::exp(static_cast<double>(x));
    const auto expected = [&](TokenId id) {
      return static_cast<double>(raw[static_cast<std::size_t>(id)]) - std::log(total);
    };
    std::vector<TokenId> order(300);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
      return raw[static_cast<std::size_t>(a)] > raw[static_cast<std::size_t>(b)];
    });
    EXPECT_EQ(got.token, 7);
    EXPECT_NEAR(got.logprob, expected(7), 1e-6);
    EXPECT_EQ(got.rank, std::find(order.begin(), order.end(), 7) - order.begin() + 1);
    ASSERT_EQ(got.top.size(), static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < got.top.size(); ++i) {
      EXPECT_EQ(got.top[i].first, order[i]);
      EXPECT_NEAR(got.top[i].second, expected(order[i]), 1e-6);
    }
    EXPECT_EQ(Sampler::logprobs_of(raw, 41, 0).rank, Sampler::logprobs_of(raw, 40, 0).rank + 1);
  }
}

TEST(Sampler, LogprobsModes) {
  const auto row = random_row(60, 14);
  SamplingParams p;
  p.temperature = 0.6;
  p.top_k = 5;
  p.logprobs = 7;
  p.logit_bias = {{11, 3.0f}};
  std::vector<float> biased = row;
  biased[11] += 3.0f;
  std::vector<TokenId> best;
  top_ids(biased, 5, &best);
  for (const auto mode : {LogprobsMode::kRawLogits, LogprobsMode::kProcessedLogprobs,
                          LogprobsMode::kProcessedLogits}) {
    for (const double temperature : {0.6, 0.0}) {
      p.logprobs_mode = mode;
      p.temperature = temperature;
      Sampler sampler(60);
      sampler.add_slot(kSlot, p, {}, {});
      auto logits = row;
      TokenLogprobs got;
      const TokenId token = sampler.sample(kSlot, logits, {}, &got);
      EXPECT_EQ(got.token, token);
      const bool greedy = temperature == 0;  // no temperature, no filters
      if (mode == LogprobsMode::kRawLogits) {
        EXPECT_EQ(got.logprob, row[static_cast<std::size_t>(token)]);
        EXPECT_EQ(got.top[0].second, *std::max_element(row.begin(), row.end()));
        continue;
      }
      EXPECT_EQ(got.top[0].first, best[0]);
      double total = 0;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const bool kept = greedy || std::count(best.begin(), best.end(), static_cast<TokenId>(i));
        total += kept ? std::exp(static_cast<double>(biased[i]) / (greedy ? 1.0 : 0.6)) : 0;
      }
      const double log_total = mode == LogprobsMode::kProcessedLogits ? 0 : std::log(total);
      for (std::size_t i = 0; i < 5; ++i) {
        const auto x = static_cast<double>(biased[static_cast<std::size_t>(best[i])]);
        EXPECT_EQ(got.top[i].first, best[i]);
        EXPECT_NEAR(got.top[i].second, x / (greedy ? 1.0 : 0.6) - log_total, 1e-5);
      }
      EXPECT_EQ(got.top[5].second == kMinusInfinity, !greedy);
    }
  }
}

TEST(Sampler, LogprobTokenIdsStandInForTheTop) {
  const auto row = random_row(60, 15);
  SamplingParams p = greedy();
  p.logprobs = 4;
  p.logprob_token_ids = {50, 3, 44};
  Sampler sampler(60);
  sampler.add_slot(kSlot, p, {}, {});
  auto logits = row;
  TokenLogprobs got;
  sampler.sample(kSlot, logits, {}, &got);
  ASSERT_EQ(got.top.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(got.top[i].first, p.logprob_token_ids[i]);
    EXPECT_EQ(got.top[i].second, Sampler::logprobs_of(row, p.logprob_token_ids[i], 0).logprob);
  }
}

TEST(Sampler, LogprobsOfBrokenRows) {
  const float nan = std::nanf("");
  const std::vector<float> row = {nan, 1, nan};
  const TokenLogprobs got = Sampler::logprobs_of(row, 1, 3);
  EXPECT_EQ(got.logprob, 0.0f);
  EXPECT_EQ(got.top[0].first, 1);
  EXPECT_EQ(Sampler::logprobs_of(row, 0, 0).logprob, kMinusInfinity);
  const std::vector<float> all_nan = {nan, nan};
  EXPECT_EQ(Sampler::logprobs_of(all_nan, 1, 2).rank, 2);
  const std::vector<float> infinite = {std::numeric_limits<float>::infinity(), 0};
  EXPECT_EQ(Sampler::logprobs_of(infinite, 0, 1).logprob, 0.0f);
}

TEST(Sampler, DrawDependsOnSeedAndPositionOnly) {
  SamplingParams p;
  p.seed = 99;
  const auto row = random_row(500, 4);
  const std::vector<TokenId> prompt = {1, 2, 3};
  std::vector<TokenId> first;
  Sampler a(500);
  a.add_slot(SlotId{0}, p, prompt, {});
  for (int i = 0; i < 20; ++i) {
    auto copy = row;
    first.push_back(a.sample(SlotId{0}, copy, {}, nullptr));
  }
  // Another slot, another thread, added anew in the middle as after a preemption.
  std::vector<TokenId> second(first.begin(), first.begin() + 8);
  std::thread([&] {
    Sampler b(500);
    b.add_slot(SlotId{5}, p, prompt, second);
    for (int i = 8; i < 20; ++i) {
      auto copy = row;
      second.push_back(b.sample(SlotId{5}, copy, {}, nullptr));
    }
  }).join();
  EXPECT_EQ(first, second);
  p.seed = 100;
  a.remove_slot(SlotId{0});
  a.add_slot(SlotId{0}, p, prompt, {});
  std::vector<TokenId> other;
  for (int i = 0; i < 20; ++i) {
    auto copy = row;
    other.push_back(a.sample(SlotId{0}, copy, {}, nullptr));
  }
  EXPECT_NE(first, other);
}

TEST(Sampler, ChoicesOfOneSeedDrawApartAndTheFirstAsIfAlone) {
  const auto row = random_row(500, 4);
  const std::vector<TokenId> prompt = {1, 2, 3};
  std::vector<std::vector<TokenId>> drawn(3);
  Sampler sampler(500);
  for (std::uint32_t choice = 0; choice < 3; ++choice) {
    SamplingParams p;
    p.seed = 99;
    p.choice = choice;
    const SlotId slot(static_cast<std::int32_t>(choice));
    sampler.add_slot(slot, p, prompt, {});
    for (int i = 0; i < 20; ++i) {
      auto copy = row;
      drawn[choice].push_back(sampler.sample(slot, copy, {}, nullptr));
    }
  }
  EXPECT_NE(drawn[0], drawn[1]);
  EXPECT_NE(drawn[1], drawn[2]);
  EXPECT_EQ(random_bits(99, 5, 0), random_bits(99, 5, 0, 0));
  EXPECT_NE(random_bits(99, 5, 0), random_bits(99, 5, 0, 1));
}

TEST(SamplingParams, ValidationNamesTheField) {
  const auto field = [](auto change) {
    SamplingParams p;
    change(p);
    const Status status = validate_sampling_params(p, 100);
    return status ? std::string("ok") : status.error().param;
  };
  EXPECT_EQ(field([](SamplingParams&) {}), "ok");
  EXPECT_EQ(field([](SamplingParams& p) {
              p.top_k = -1;
              p.logprobs = 100;
              p.temperature = 2;
            }),
            "ok");
  EXPECT_EQ(field([](SamplingParams& p) { p.temperature = 2.5; }), "temperature");
  EXPECT_EQ(field([](SamplingParams& p) { p.temperature = std::nan(""); }), "temperature");
  EXPECT_EQ(field([](SamplingParams& p) { p.top_p = 0; }), "top_p");
  EXPECT_EQ(field([](SamplingParams& p) { p.top_k = -5; }), "top_k");
  EXPECT_EQ(field([](SamplingParams& p) { p.min_p = 1.1; }), "min_p");
  EXPECT_EQ(field([](SamplingParams& p) { p.presence_penalty = 2.5; }), "presence_penalty");
  EXPECT_EQ(field([](SamplingParams& p) { p.frequency_penalty = -2.5; }), "frequency_penalty");
  EXPECT_EQ(field([](SamplingParams& p) { p.repetition_penalty = 0; }), "repetition_penalty");
  EXPECT_EQ(field([](SamplingParams& p) { p.min_tokens = -1; }), "min_tokens");
  EXPECT_EQ(field([](SamplingParams& p) { p.logit_bias = {{100, 1.0f}}; }), "logit_bias");
  EXPECT_EQ(field([](SamplingParams& p) { p.allowed_token_ids = {-1}; }), "allowed_token_ids");
  EXPECT_EQ(field([](SamplingParams& p) { p.end_token_ids = {999}; }), "stop_token_ids");
  EXPECT_EQ(field([](SamplingParams& p) { p.bad_words = {{}}; }), "bad_words");
  EXPECT_EQ(field([](SamplingParams& p) { p.logprobs = 101; }), "logprobs");
  EXPECT_EQ(field([](SamplingParams& p) { p.typical_p = 0; }), "typical_p");
  EXPECT_EQ(field([](SamplingParams& p) { p.xtc_probability = 1.5; }), "xtc_probability");
  EXPECT_EQ(field([](SamplingParams& p) { p.xtc_threshold = -0.1; }), "xtc_threshold");
  EXPECT_EQ(field([](SamplingParams& p) { p.dry_multiplier = -1; }), "dry_multiplier");
  EXPECT_EQ(field([](SamplingParams& p) { p.dry_base = 0.5; }), "dry_base");
  EXPECT_EQ(field([](SamplingParams& p) { p.dry_allowed_length = -1; }), "dry_allowed_length");
  EXPECT_EQ(field([](SamplingParams& p) { p.dry_penalty_last_n = -2; }), "dry_penalty_last_n");
  EXPECT_EQ(field([](SamplingParams& p) { p.logprob_token_ids = {100}; }), "logprob_token_ids");
  EXPECT_EQ(field([](SamplingParams& p) { p.prompt_logprobs = -2; }), "prompt_logprobs");
}

}  // namespace
}  // namespace quire
