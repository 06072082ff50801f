// Stand-ins for the engine and the text layer: one token per byte, answers that repeat a script.
// For tests only.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/output_channel.h"
#include "server/api_server.h"
#include "server/generator.h"
#include "server/text_service.h"
#include "text/stop_matcher.h"
#include "text/test_vocab.h"

namespace quire {

// Token id b is the byte b; 256 is the end token "<end>". A chat is "role:content\n" per message.
class FakeText : public TextService {
 public:
  static constexpr TokenId kEnd = 256;
  FakeText() {
    for (int b = 0; b < 256; ++b) spelled_.push_back(std::string(1, static_cast<char>(b)));
    spelled_.push_back("<end>");
  }
  Result<std::vector<TokenId>> encode(std::string_view text, bool) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special_tokens,
                                      std::vector<TokenSpan>* spans) const override {
    spans->clear();
    for (std::uint32_t i = 0; i < text.size(); ++i) spans->push_back({i, i + 1});
    return encode(text, add_special_tokens);
  }
  std::string decode(const std::vector<TokenId>& ids, bool) const override {
    std::string out;
    for (const TokenId id : ids) out += token_bytes(id);
    return out;
  }
  std::string_view token_bytes(TokenId id) const override {
    return spelled_[static_cast<std::size_t>(id)];
  }
  std::string_view token_text(TokenId id) const override { return token_bytes(id); }
  std::size_t vocab_size() const override { return spelled_.size(); }
  std::size_t max_token_bytes() const override { return 1; }
  bool has_chat_template() const override { return true; }
  std::string_view chat_template_source() const override { return template_source; }
  std::optional<TokenId> special_token(std::string_view) const override { return std::nullopt; }
  Result<std::string> render(const ChatTemplate::Input& input, std::string_view) const override {
    return std::string(input.messages_json) + std::string(input.tools_json) +
           (input.add_generation_prompt ? "A:" + opening : "");
  }
  bool has_grammar(const GrammarSpec& spec) const override { return grammars_.is_ready(spec); }
  // By a real compiler over a byte-level vocabulary; remembers what was asked for.
  Result<std::shared_ptr<const Grammar>> compile_grammar(const GrammarSpec& spec) const override {
    std::unique_lock lock(mutex_);
    specs_.push_back(spec);
    compiled_.wait(lock, [this] { return !compiling_held_; });
    return grammars_.compile(spec);
  }
  std::vector<GrammarSpec> specs() const {
    std::lock_guard lock(mutex_);
    return specs_;
  }

  // Compiling takes until it is released.
  void hold_compiling(bool held) {
    std::lock_guard lock(mutex_);
    compiling_held_ = held;
    compiled_.notify_all();
  }

  std::string template_source;  // shows which parsers to use
  std::string opening;          // what the template adds to the assistant's turn

 private:
  std::vector<std::string> spelled_;
  std::unique_ptr<Tokenizer> tokenizer_ =
      std::move(Tokenizer::from_vocab(test::byte_level_spec({}, {"<end>"})).value());
  mutable GrammarCompiler grammars_{tokenizer_.get(), {kEnd}, 257};
  mutable std::mutex mutex_;
  mutable std::vector<GrammarSpec> specs_;
  mutable std::condition_variable compiled_;
  bool compiling_held_ = false;
};

// Answers each request on a thread of its own: the script's tokens, one delta each, until
// max_tokens. Choice c > 0 leaves out the script's first c tokens and has log-probabilities of
// -0.5 / (c + 1): the last one is the best. With hold(), requests stop after their first token
// until they are aborted or release() is called.
class FakeGenerator : public Generator {
 public:
  explicit FakeGenerator(std::string script = "hello world") : script_(std::move(script)) {}
  ~FakeGenerator() override {
    release();
    for (auto& thread : threads_) thread.join();
  }
  RequestId next_id() override { return RequestId(++last_id_); }
  Status submit(std::vector<Request> requests) override {
    if (refuse_) return make_error(ErrorCode::kUnavailable, "the queue is full");
    std::lock_guard lock(mutex_);
    submitter_niceness_ = getpriority(PRIO_PROCESS, 0);
    for (Request& request : requests) {
      ++running_;
      last_request_ = std::make_shared<Request>(request);
      threads_.emplace_back([this, request = std::move(request)]() mutable { run(request); });
    }
    return {};
  }
  // Of the thread that submitted last.
  int submitter_niceness() const {
    std::lock_guard lock(mutex_);
    return submitter_niceness_;
  }
  void abort_all() override {
    std::lock_guard lock(mutex_);
    aborting_ = true;
    changed_.notify_all();
  }
  void abort(RequestId id) override {
    std::lock_guard lock(mutex_);
    aborted_.push_back(id);
    changed_.notify_all();
  }
  EngineStats stats() const override {
    EngineStats out;
    out.scheduler.running = running_;
    out.step_in_flight = stuck_;
    out.step_started_s = now_s() - 1e6;
    return out;
  }
  bool reset_prefix_cache() override { return true; }

  void hold() { held_ = true; }
  void release() {
    std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  int running() const { return running_; }
  std::size_t num_aborted() {
    std::lock_guard lock(mutex_);
    return aborted_.size();
  }
  std::shared_ptr<Request> last_request() {
    std::lock_guard lock(mutex_);
    return last_request_;
  }
  void refuse() { refuse_ = true; }
  void fail_after(int tokens) { fail_after_ = tokens; }
  void get_stuck() { stuck_ = true; }

 private:
  bool is_aborted(RequestId id) const {
    return std::find(aborted_.begin(), aborted_.end(), id) != aborted_.end();
  }

  void run(const Request& request) {
    const std::uint32_t choice = request.sampling->choice;
    const std::string_view script =
        std::string_view(script_).substr(std::min<std::size_t>(choice, script_.size()));
    if (request.sampling->pooling != Pooling::kNone) {
      OutputDelta delta;
      delta.embedding = {3, 4, 12};
      delta.prompt_tokens = static_cast<std::int32_t>(request.prompt->size());
      delta.finish = FinishReason::kLength;
      --running_;
      request.channel->push(std::move(delta));
      return;
    }
    const auto limit = static_cast<std::size_t>(request.stop.max_tokens);
    StopMatcher stops(request.stop.stop_strings, request.stop.include_stop_str_in_output);
    for (std::size_t i = 0; i < limit; ++i) {
      OutputDelta delta;
      const bool end = i >= script.size();
      OutputToken token;
      token.id = end ? FakeText::kEnd : static_cast<unsigned char>(script[i]);
      token.text = end ? "" : std::string(1, script[i]);
      token.has_logprobs = request.sampling->logprobs >= 0;
      token.logprobs = scores(token.id, request.sampling->logprobs);
      if (choice > 0) token.logprobs.logprob /= static_cast<float>(choice + 1);
      StopMatcher::Step step = stops.push(token.text);
      delta.text = step.text;
      delta.stop_string = step.matched;
      delta.tokens.push_back(token);
      if (i == 0 && request.sampling->prompt_logprobs >= 0) {
        delta.has_prompt_logprobs = true;
        for (std::size_t p = 1; p < request.prompt->size(); ++p) {
          delta.prompt_logprobs.push_back(
              scores((*request.prompt)[p], request.sampling->prompt_logprobs));
        }
      }
      delta.prompt_tokens = static_cast<std::int32_t>(request.prompt->size());
      delta.completion_tokens = static_cast<std::int32_t>(i + 1);
      if (end || delta.stop_string) delta.finish = FinishReason::kStop;
      if (!delta.finish && i + 1 == limit) delta.finish = FinishReason::kLength;
      if (delta.finish && !delta.stop_string) delta.text += stops.flush();
      if (static_cast<int>(i) == fail_after_) {
        std::this_thread::sleep_for(
            std::chrono::milliseconds(100));  // what came before is on its way by then
        delta = OutputDelta{};
        delta.finish = FinishReason::kError;
        delta.error = Error{ErrorCode::kInternal, "the engine broke", ""};
      }
      const bool last = delta.finish.has_value();
      if (last) --running_;
      request.channel->push(std::move(delta));
      if (last) return;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !held_ || aborting_ || is_aborted(request.id); });
      if (is_aborted(request.id)) break;
      if (aborting_) {
        aborted_.push_back(request.id);
        OutputDelta last_words;
        last_words.finish = FinishReason::kAbort;
        --running_;
        request.channel->push(std::move(last_words));
        return;
      }
    }
    --running_;
  }
  static TokenLogprobs scores(TokenId id, std::int32_t count) {
    TokenLogprobs out;
    out.token = id;
    out.logprob = -0.5F;
    out.rank = 1;
    for (std::int32_t k = 0; k < count; ++k)
      out.top.emplace_back((id + k) % 128, -0.5F - static_cast<float>(k));
    return out;
  }

  std::string script_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<std::uint64_t> last_id_ = 0;
  std::atomic<int> running_ = 0, fail_after_ = -1;
  std::atomic<bool> held_ = false, aborting_ = false, refuse_ = false, stuck_ = false;
  int submitter_niceness_ = -1;
  std::vector<RequestId> aborted_;
  std::shared_ptr<Request> last_request_;
  std::vector<std::thread> threads_;
};

// A server on a free port with both.
struct FakeServer {
  explicit FakeServer(ServerOptions options = {}, std::string script = "hello world",
                      std::string template_source = {}, std::string opening = {})
      : generator(std::move(script)) {
    text.template_source = std::move(template_source);
    text.opening = std::move(opening);
    options.port = 0;
    if (options.served_model_names.empty()) options.served_model_names = {"tiny"};
    options.max_model_len = text.template_source.empty() ? 256 : 4096;
    options.eos_ids = {FakeText::kEnd};
    auto started = ApiServer::start(options, {&generator, &text, &metrics});
    server = std::move(started.value());
  }
  FakeText text;
  ServerMetrics metrics{MetricsOptions{"tiny", 256, {}}};
  FakeGenerator generator;
  std::unique_ptr<ApiServer> server;
};

}  // namespace quire
