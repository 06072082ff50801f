// Turns engine deltas into one HTTP answer: a JSON body, or the events of a stream. One per
// request, used on its connection's strand. Both ways show the same text, tokens and counts.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dialect/dialects.h"
#include "dialect/thinking_counter.h"
#include "engine/request.h"
#include "server/protocol/logprobs.h"
#include "server/text_service.h"

namespace quire {

struct AnswerOptions {
  std::string id, model, role = "assistant";
  std::int64_t created = 0;  // Unix seconds
  bool stream = false, include_usage = false, continuous_usage = false;
  bool echo = false;
  std::string chat_echo;  // chat: text in front of the answer
  bool logprobs = false;  // of generated tokens (and of the prompt's with echo)
  std::int32_t top_logprobs = 0;
  bool prompt_logprobs = false;  // vLLM's shape
  bool return_token_ids = false, tokens_as_ids = false;
  bool cached_tokens = false;        // usage tells them
  std::int32_t stream_interval = 1;  // tokens of a chunk, but for the first and the last
  bool prompt_text = false;          // chat: show it
  // Chat: how the answer's text is read; null: it is content as it is.
  std::shared_ptr<const ReplyOptions> reply;
  // Chat: counts the tokens of the thinking; usage tells them.
  std::optional<ThinkingCounter> thinking;
  bool include_reasoning = true, parallel_tool_calls = true;
  bool score_only = false;  // max_tokens 0: the one token that the engine made is not shown
  // Choices stand in groups of `candidates` for one prompt; of each group the best `n` are shown.
  std::size_t n = 1, candidates = 1;
  bool ranked = false;  // the candidates come best first (beam search)
};

struct Choice {
  std::shared_ptr<const std::vector<TokenId>> prompt;
  std::string prompt_text;  // for echo
  // What has come so far; a stream lets go of what it has sent.
  std::string text;
  std::vector<OutputToken> tokens;
  std::vector<TokenLogprobs> prompt_logprobs;
  std::vector<float> embedding;
  std::optional<FinishReason> finish;
  std::optional<std::string> stop_string;
  std::optional<TokenId> stop_token;
  std::int32_t completion_tokens = 0, cached_tokens = 0;
  std::optional<ThinkingCounter> thinking;
  double logprob_sum = 0;       // of the tokens that came with log-probabilities
  bool started = false;         // a stream has sent its first chunk
  std::size_t next_offset = 0;  // characters of text before the next token
};

class Answer {
 public:
  Answer(AnswerOptions options, const TextService* text, std::vector<Choice> choices);
  virtual ~Answer() = default;

  // Takes a delta without an error. A stream's events for it are appended to *events.
  void on_delta(std::size_t choice, OutputDelta delta, std::string* events);
  bool complete() const;
  // After the last delta: usage, if asked, and [DONE].
  void end_stream(std::string* events) const;
  // The whole answer, when it is no stream.
  virtual std::string body();
  bool stream() const { return options_.stream; }
  std::size_t num_choices() const { return choices_.size(); }

 protected:
  // Mean log-probability per token: what the best of several candidates have most of.
  static double mean_logprob(const Choice& choice);
  // Events for what `choice` has collected; may decide that there is nothing worth one.
  virtual void emit(std::size_t index, Choice& choice, std::string* events) = 0;
  virtual boost::json::object choice_json(std::size_t index, Choice& choice) = 0;
  virtual std::string_view object_name() const = 0;  // "text_completion", ...
  virtual void add_to_body(boost::json::object&) {}

  void add_event(const boost::json::value& choice_value, const Choice& choice, std::string* events,
                 const boost::json::object* extra = nullptr) const;
  struct Usage {
    std::int64_t prompt = 0, completion = 0, cached = 0, reasoning = 0;
    void add_output(const Choice& choice);
    void add_prompt(const Choice& choice);
  };
  boost::json::object usage_json(const Usage& usage) const;
  boost::json::object total_usage() const;
  bool worth_an_event(const Choice& choice) const;
  bool too_soon(const Choice& choice) const;  // of stream_interval
  static boost::json::array ids_json(const std::vector<OutputToken>& tokens);
  static boost::json::array ids_json(const std::vector<TokenId>& ids);
  static void add_finish(const Choice& choice, boost::json::object& out);
  TokenSpelling spelling() const { return {text_, options_.tokens_as_ids}; }

  AnswerOptions options_;
  const TextService* text_;
  std::vector<Choice> choices_;

 private:
  void keep_best();
  const std::string& event_prefix() const;
  mutable std::string prefix_;  // of every event: id, object, created, model
};

std::unique_ptr<Answer> make_completion_answer(AnswerOptions options, const TextService* text,
                                               std::vector<Choice> choices);
std::unique_ptr<Answer> make_chat_answer(AnswerOptions options, const TextService* text,
                                         std::vector<Choice> choices);

struct EmbeddingShape {
  std::size_t dimensions = 0;  // 0: all
  bool normalize = true, base64 = false;
};
std::unique_ptr<Answer> make_embedding_answer(AnswerOptions options, EmbeddingShape wanted,
                                              const TextService* text, std::vector<Choice> choices);

// "data: ...\n\n"
std::string sse_event(std::string_view data);

}  // namespace quire
