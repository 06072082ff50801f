// What a client reads for given sequence updates: text, stop strings, hidden tokens, usage.
#include "engine/output_processor.h"

#include <gtest/gtest.h>

#include "engine/engine_test_util.h"
#include "engine/output_channel.h"

namespace quire {
namespace {

// What an update led to; the last two: the engine was told to end the sequence.
enum class Verdict { kGoOn, kDone, kFinishSequence, kAbortSequence };
using test::kEos;
constexpr RequestId kId{7};

struct Recorder : EngineObserver {
  std::vector<double> ttft, gaps;
  std::vector<RequestTimings> finished;
  void on_first_token(double ttft_s) override { ttft.push_back(ttft_s); }
  void on_inter_token(double gap_s) override { gaps.push_back(gap_s); }
  void on_finished(const RequestTimings& timings) override { finished.push_back(timings); }
  void on_step(std::int32_t, double) override {}
};

class OutputProcessorTest : public ::testing::Test {
 protected:
  void start(StopRules stop = {}, bool skip_special_tokens = true, std::int32_t min_tokens = 0,
             std::size_t byte_cap = 8u << 20) {
    channel_ = std::make_shared<OutputChannel>(std::function<void()>{}, byte_cap);
    OutputRequest request;
    request.id = kId;
    request.stop = std::move(stop);
    request.min_tokens = min_tokens;
    request.skip_special_tokens = skip_special_tokens;
    request.prompt_tokens = 5;
    request.arrival_s = 1;
    request.channel = channel_;
    processor_.start(std::move(request));
    count_ = 0;
  }

  // One update of one token.
  Verdict token(TokenId id, std::optional<FinishReason> finish = {},
                std::optional<TokenId> stop_token = {}) {
    SequenceUpdate update;
    update.id = kId;
    update.tokens = {id};
    update.logprobs = {{id, -0.5f, 1, {}}};
    update.finish = finish;
    update.stop_token = stop_token;
    update.prompt_tokens = 5;
    update.completion_tokens = ++count_;
    update.cached_tokens = 2;
    update.scheduled_s = 1.5;
    return apply(std::move(update), 2.0 + count_);
  }
  Verdict apply(SequenceUpdate update, double time_s) {
    told_.reset();
    if (!processor_.apply(std::move(update), time_s)) {
      EXPECT_FALSE(told_);
      return Verdict::kGoOn;
    }
    if (!told_) return Verdict::kDone;
    return told_ == FinishReason::kStop ? Verdict::kFinishSequence : Verdict::kAbortSequence;
  }
  Verdict letters(std::string_view text) {
    Verdict verdict = Verdict::kGoOn;
    for (const char c : text) verdict = token(static_cast<unsigned char>(c));
    return verdict;
  }
  OutputDelta take() { return channel_->take().value_or(OutputDelta{}); }

  std::unique_ptr<Tokenizer> tokenizer_ = test::byte_tokenizer();
  Recorder recorder_;
  std::optional<FinishReason> told_;
  OutputProcessor processor_{tokenizer_.get(), &recorder_,
                             [this](RequestId id, FinishReason reason) {
                               EXPECT_EQ(id, kId);
                               told_ = reason;
                             }};
  std::shared_ptr<OutputChannel> channel_;
  std::int32_t count_ = 0;
};

TEST_F(OutputProcessorTest, TokensGoOutWithTheirStepAndTextWhenWhole) {
  start();
  EXPECT_EQ(token(0xC3), Verdict::kGoOn);
  OutputDelta delta = take();
  EXPECT_EQ(delta.text, "");
  ASSERT_EQ(delta.tokens.size(), 1u);
  EXPECT_EQ(delta.tokens[0].text, "\xC3");
  EXPECT_TRUE(delta.tokens[0].has_logprobs);
  EXPECT_EQ(delta.completion_tokens, 1);
  EXPECT_EQ(delta.prompt_tokens, 5);
  EXPECT_EQ(delta.cached_tokens, 2);
  token(0xA9);
  EXPECT_EQ(take().text, "\xC3\xA9");
}

TEST_F(OutputProcessorTest, EndTokenIsHiddenAndHeldTextGiven) {
  StopRules stop;
  stop.stop_strings = {"abcd"};
  start(stop, false);
  letters("xabc");
  EXPECT_EQ(take().text, "x");
  EXPECT_EQ(token(kEos, FinishReason::kStop), Verdict::kDone);
  const OutputDelta delta = take();
  EXPECT_EQ(delta.text, "abc");
  EXPECT_EQ(delta.finish, FinishReason::kStop);
  EXPECT_FALSE(delta.stop_string);
  EXPECT_FALSE(delta.stop_token);
  EXPECT_EQ(delta.completion_tokens, 5);
  EXPECT_EQ(processor_.num_live(), 0u);
}

TEST_F(OutputProcessorTest, IncompleteCharacterAtTheEndBecomesReplacement) {
  start();
  letters("a");
  token(0xC3, FinishReason::kLength);
  const OutputDelta delta = take();
  EXPECT_EQ(delta.text, "a\xEF\xBF\xBD");
  EXPECT_EQ(delta.finish, FinishReason::kLength);
}

TEST_F(OutputProcessorTest, StopStringAcrossTokensCutsTextTokensAndUsage) {
  for (const bool include : {false, true}) {
    StopRules stop;
    stop.stop_strings = {"zzz", "lo w"};
    stop.include_stop_str_in_output = include;
    start(stop);
    EXPECT_EQ(letters("hello "), Verdict::kGoOn);
    EXPECT_EQ(token('w'), Verdict::kFinishSequence);
    EXPECT_EQ(letters("orld"), Verdict::kGoOn);  // surplus
    const OutputDelta delta = take();
    EXPECT_EQ(delta.text, include ? "hello w" : "hel");
    EXPECT_EQ(delta.tokens.size(), 7u);
    EXPECT_EQ(delta.completion_tokens, 7);
    EXPECT_EQ(delta.finish, FinishReason::kStop);
    EXPECT_EQ(delta.stop_string, "lo w");
    EXPECT_FALSE(channel_->take());
  }
}

TEST_F(OutputProcessorTest, StopStringInsideAnUpdateOfSeveralTokens) {
  StopRules stop;
  stop.stop_strings = {"b"};
  start(stop);
  SequenceUpdate update;
  update.id = kId;
  update.tokens = {'a', 'b', 'c'};
  update.finish = FinishReason::kLength;
  update.completion_tokens = 3;
  EXPECT_EQ(apply(update, 3), Verdict::kDone);
  const OutputDelta delta = take();
  EXPECT_EQ(delta.text, "a");
  EXPECT_EQ(delta.tokens.size(), 2u);
  EXPECT_EQ(delta.completion_tokens, 2);
  EXPECT_EQ(delta.finish, FinishReason::kStop);
}

TEST_F(OutputProcessorTest, StopStringWinsOverLengthOnTheSameToken) {
  StopRules stop;
  stop.stop_strings = {"b"};
  start(stop);
  letters("a");
  EXPECT_EQ(token('b', FinishReason::kLength), Verdict::kDone);
  EXPECT_EQ(take().finish, FinishReason::kStop);
}

TEST_F(OutputProcessorTest, NoStopStringBeforeMinTokens) {
  StopRules stop;
  stop.stop_strings = {"a"};
  start(stop, true, 2);
  EXPECT_EQ(letters("aa"), Verdict::kGoOn);
  EXPECT_EQ(token('a'), Verdict::kFinishSequence);
  EXPECT_EQ(take().text, "aa");
}

TEST_F(OutputProcessorTest, StopTokenTextIsShownOnRequestOnly) {
  for (const bool include : {false, true}) {
    StopRules stop;
    stop.stop_token_ids = {'!'};
    stop.include_stop_str_in_output = include;
    start(stop);
    letters("hi");
    EXPECT_EQ(token('!', FinishReason::kStop, '!'), Verdict::kDone);
    const OutputDelta delta = take();
    EXPECT_EQ(delta.text, include ? "hi!" : "hi");
    EXPECT_EQ(delta.tokens.size(), 3u);
    EXPECT_EQ(delta.stop_token, '!');
  }
}

TEST_F(OutputProcessorTest, SpecialTokensInTheMiddle) {
  for (const bool skip : {false, true}) {
    StopRules stop;
    stop.ignore_eos = true;
    start(stop, skip);
    letters("a");
    token(kEos);
    letters("b");
    EXPECT_EQ(take().text, skip ? "ab" : "a<eos>b");
  }
}

TEST_F(OutputProcessorTest, PromptOnlyRequest) {
  StopRules stop;
  stop.max_tokens = 0;
  start(stop);
  SequenceUpdate update;
  update.id = kId;
  update.prompt_logprobs.resize(4);
  update.has_prompt_logprobs = true;
  update.finish = FinishReason::kLength;
  update.prompt_tokens = 5;
  EXPECT_EQ(apply(update, 3), Verdict::kDone);
  const OutputDelta delta = take();
  EXPECT_TRUE(delta.has_prompt_logprobs);
  EXPECT_EQ(delta.prompt_logprobs.size(), 4u);
  EXPECT_EQ(delta.completion_tokens, 0);
  EXPECT_TRUE(recorder_.ttft.empty());
  EXPECT_EQ(recorder_.finished.size(), 1u);
}

TEST_F(OutputProcessorTest, AbortGivesALastDeltaOnce) {
  start();
  letters("ab");
  EXPECT_TRUE(processor_.abort(kId, 9));
  EXPECT_FALSE(processor_.abort(kId, 9));
  EXPECT_EQ(letters("cd"), Verdict::kGoOn);
  const OutputDelta delta = take();
  EXPECT_EQ(delta.text, "ab");
  EXPECT_EQ(delta.finish, FinishReason::kAbort);
  EXPECT_EQ(delta.completion_tokens, 2);
  EXPECT_EQ(delta.prompt_tokens, 5);
  EXPECT_FALSE(channel_->take());
}

TEST_F(OutputProcessorTest, SlowReaderIsAborted) {
  start({}, true, 0, 2000);
  Verdict verdict = Verdict::kGoOn;
  for (int i = 0; i < 100 && verdict == Verdict::kGoOn; ++i) verdict = letters("x");
  EXPECT_EQ(verdict, Verdict::kAbortSequence);
  const OutputDelta delta = take();
  EXPECT_EQ(delta.finish, FinishReason::kAbort);
  EXPECT_EQ(delta.text, std::string(delta.text.size(), 'x'));
  EXPECT_EQ(processor_.num_live(), 0u);
}

TEST_F(OutputProcessorTest, ObserverSeesTimes) {
  start();
  letters("abc");
  token(kEos, FinishReason::kStop);
  EXPECT_EQ(recorder_.ttft, std::vector<double>{2.0});
  EXPECT_EQ(recorder_.gaps, (std::vector<double>{1, 1, 1}));
  ASSERT_EQ(recorder_.finished.size(), 1u);
  const RequestTimings& t = recorder_.finished[0];
  EXPECT_EQ(t.prompt_tokens, 5);
  EXPECT_EQ(t.generation_tokens, 4);
  EXPECT_EQ(t.cached_tokens, 2);
  EXPECT_EQ(t.max_tokens, 16);
  EXPECT_EQ(t.arrival_s, 1);
  EXPECT_EQ(t.scheduled_s, 1.5);
  EXPECT_EQ(t.first_token_s, 3);
  EXPECT_EQ(t.finished_s, 6);
  EXPECT_EQ(t.reason, FinishReason::kStop);
}

}  // namespace
}  // namespace quire
