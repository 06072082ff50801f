// A tokenizer, an executor and a client for tests of the engine's threads.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/output_channel.h"
#include "engine/scheduler_test_util.h"
#include "text/tokenizer.h"

namespace quire::test {

inline std::string two_bytes(unsigned code) {  // UTF-8 of U+0080..U+07FF
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

inline constexpr TokenId kEos = 256;

// Ids 0..255 are the bytes, 256 is the special token "<eos>".
inline std::unique_ptr<Tokenizer> byte_tokenizer() {
  VocabSpec spec;
  spec.pre = "gpt-2";
  unsigned next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    const unsigned code = printable ? b : next++;
    spec.tokens.push_back(code < 0x80 ? std::string(1, static_cast<char>(code)) : two_bytes(code));
  }
  spec.types.assign(256, VocabSpec::TokenType::kNormal);
  spec.tokens.push_back("<eos>");
  spec.types.push_back(VocabSpec::TokenType::kControl);
  spec.eos = kEos;
  auto tokenizer = Tokenizer::from_vocab(spec);
  if (!tokenizer) ADD_FAILURE() << tokenizer.error().message;
  return std::move(*tokenizer);
}

// The scheduler tests' device behind the Executor interface. Can hold a step until the test lets it
// go.
class FakeDevice : public Executor {
 public:
  explicit FakeDevice(const KvCacheOptions& kv, double step_s = 0) : device_(kv), step_s_(step_s) {
    capacity_.vocab_size = kFakeVocab;
    for (const auto& group : kv.groups) capacity_.num_blocks.push_back(group.num_blocks);
  }
  const Capacity& capacity() const override { return capacity_; }
  std::uint64_t kv_regime(std::int64_t prompt_tokens) const override {
    return prompt_tokens > 20 ? 1 : 0;
  }
  void warm_up() override {}
  void submit(const StepPlan& plan) override { plan_ = &plan; }
  void sample(std::span<const TokenMask> masks) override { masks_ = masks; }
  void wait(StepResult& out) override {
    if (step_s_ > 0) std::this_thread::sleep_for(std::chrono::duration<double>(step_s_));
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !held_; });
    StepResult result = device_.run(*plan_);
    for (std::size_t i = 0; i < masks_.size(); ++i) {
      if (plan_->rows[i].sample && !masks_[i].bits.empty())
        result.rows[i].token = next_allowed(masks_[i], result.rows[i].token);
    }
    for (std::size_t f = 0; f < plan_->forks.size() && !masks_.empty(); ++f) {
      const TokenMask& mask = masks_[static_cast<std::size_t>(plan_->forks[f].row)];
      if (!mask.bits.empty())
        result.forks[f].token = next_allowed(mask, result.forks[f].token + static_cast<TokenId>(f));
    }
    out = std::move(result);
  }
  void hold(bool held) {
    {
      std::lock_guard lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }

 private:
  static TokenId next_allowed(const TokenMask& mask, TokenId token) {
    const auto count = static_cast<TokenId>(mask.bits.size() * 32);
    for (TokenId i = 0; i < count; ++i) {
      const auto id = static_cast<std::size_t>((token + i) % count);
      if ((mask.bits[id / 32] >> (id % 32) & 1) != 0) return static_cast<TokenId>(id);
    }
    ADD_FAILURE() << "nothing is allowed";
    return token;
  }

  FakeExecutor device_;
  double step_s_;
  Capacity capacity_;
  const StepPlan* plan_ = nullptr;
  std::span<const TokenMask> masks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
};

// One request's reader.
class Client {
 public:
  explicit Client(std::size_t byte_cap = 8u << 20)
      : channel_(std::make_shared<OutputChannel>([this] { wake(); }, byte_cap)) {}
  ~Client() { channel_->close(); }
  std::shared_ptr<OutputChannel> channel() const { return channel_; }

  // Everything up to the last delta, merged.
  OutputDelta read_all() {
    OutputDelta all;
    for (;;) {
      while (auto delta = channel_->take()) {
        all.text += delta->text;
        for (auto& token : delta->tokens) all.tokens.push_back(std::move(token));
        if (delta->has_prompt_logprobs) all.prompt_logprobs = std::move(delta->prompt_logprobs);
        all.prompt_tokens = delta->prompt_tokens;
        all.completion_tokens = delta->completion_tokens;
        if (delta->finish) {
          all.finish = delta->finish;
          all.error = delta->error;
          all.stop_string = delta->stop_string;
          all.stop_token = delta->stop_token;
          return all;
        }
      }
      std::unique_lock lock(mutex_);
      if (!ready_.wait_for(lock, std::chrono::seconds(30), [&] { return woken_; })) {
        ADD_FAILURE() << "no delta for 30 s";
        return all;
      }
      woken_ = false;
    }
  }
  // Waits until something has come, and takes it.
  OutputDelta read_some() {
    for (;;) {
      if (auto delta = channel_->take()) return std::move(*delta);
      std::unique_lock lock(mutex_);
      if (!ready_.wait_for(lock, std::chrono::seconds(30), [&] { return woken_; })) {
        ADD_FAILURE() << "no delta for 30 s";
        return {};
      }
      woken_ = false;
    }
  }

 private:
  void wake() {
    std::lock_guard lock(mutex_);
    woken_ = true;
    ready_.notify_all();
  }
  std::shared_ptr<OutputChannel> channel_;
  std::mutex mutex_;
  std::condition_variable ready_;
  bool woken_ = false;
};

}  // namespace quire::test
