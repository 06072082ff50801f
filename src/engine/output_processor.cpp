// Deltas from sequence updates; see output_processor.h.
#include "engine/output_processor.h"

#include <utility>

#include "base/log.h"
#include "engine/output_channel.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace quire {

OutputRequest::OutputRequest(const Request& request)
    : id(request.id),
      external_id(request.external_id),
      stop(request.stop),
      min_tokens(request.sampling->min_tokens),
      prompt_tokens(static_cast<std::int32_t>(request.prompt->size())),
      skip_special_tokens(request.skip_special_tokens),
      spaces_between_special_tokens(request.spaces_between_special_tokens),
      shown_special_tokens(request.shown_special_tokens),
      arrival_s(request.arrival_s),
      channel(request.channel) {}

struct OutputProcessor::Live {
  Live(OutputRequest r, const Tokenizer* tokenizer)
      : request(std::move(r)),
        detokenizer(tokenizer, request.skip_special_tokens, request.spaces_between_special_tokens,
                    request.shown_special_tokens),
        matcher(request.stop.stop_strings, request.stop.include_stop_str_in_output) {
    timings.prompt_tokens = request.prompt_tokens;
    timings.max_tokens = request.stop.max_tokens;
    timings.arrival_s = request.arrival_s;
  }
  OutputRequest request;
  Detokenizer detokenizer;
  StopMatcher matcher;
  RequestTimings timings;
  double last_token_s = 0;
};

OutputProcessor::OutputProcessor(const Tokenizer* tokenizer, EngineObserver* observer,
                                 EndSequence end_sequence)
    : tokenizer_(tokenizer), observer_(observer), end_sequence_(std::move(end_sequence)) {}
OutputProcessor::~OutputProcessor() = default;

void OutputProcessor::start(OutputRequest request) {
  const RequestId id = request.id;
  live_.insert_or_assign(id, std::make_unique<Live>(std::move(request), tokenizer_));
}

bool OutputProcessor::apply(SequenceUpdate update, double time_s) {
  const auto found = live_.find(update.id);
  if (found == live_.end()) return false;  // ended by a stop string or an abort: a surplus token
  Live& live = *found->second;

  OutputDelta delta;
  delta.prompt_logprobs = std::move(update.prompt_logprobs);
  delta.has_prompt_logprobs = update.has_prompt_logprobs;
  delta.embedding = std::move(update.embedding);
  delta.prompt_tokens = update.prompt_tokens;
  delta.cached_tokens = update.cached_tokens;
  for (std::size_t i = 0; i < update.tokens.size() && !delta.stop_string; ++i) {
    append_token(live, update, i, delta);
  }
  delta.completion_tokens = live.timings.generation_tokens;
  delta.finish = update.finish;
  delta.stop_token = update.stop_token;
  delta.error = std::move(update.error);
  if (update.finish && !delta.stop_string) append_rest(live, delta);
  if (delta.stop_string) {
    delta.finish = FinishReason::kStop;
    delta.stop_token.reset();
  }
  live.timings.cached_tokens = update.cached_tokens;
  live.timings.scheduled_s = update.scheduled_s;
  observe_tokens(live, update, time_s);

  const std::optional<FinishReason> finish = delta.finish;
  if (finish && !update.finish) end_sequence_(update.id, *finish);
  if (!live.request.channel->push(std::move(delta))) {
    log_warning("request {}: nobody reads its output, {} tokens; aborted", live.request.external_id,
                live.timings.generation_tokens);
    end_sequence_(update.id, FinishReason::kAbort);
    return abort(update.id, time_s);
  }
  if (!finish) return false;
  end(update.id, *finish, time_s);
  return true;
}

// Adds token i of the update, and its text unless it is an end token, which never shows, or a stop
// token that was not asked for.
void OutputProcessor::append_token(Live& live, SequenceUpdate& update, std::size_t i,
                                   OutputDelta& delta) const {
  const TokenId id = update.tokens[i];
  OutputToken token;
  token.id = id;
  token.text = std::string(tokenizer_->token_bytes(id));
  if (i < update.logprobs.size()) {
    token.has_logprobs = true;
    token.logprobs = std::move(update.logprobs[i]);
  }
  delta.tokens.push_back(std::move(token));
  ++live.timings.generation_tokens;

  const bool ends = update.finish == FinishReason::kStop && i + 1 == update.tokens.size() &&
                    !update.text_ends_with_token;
  const bool shown_stop_token = update.stop_token && live.request.stop.include_stop_str_in_output;
  if (ends && !shown_stop_token) return;
  std::string text = live.detokenizer.push(id);
  if (live.timings.generation_tokens <= live.request.min_tokens) {
    delta.text += text;  // too early for a stop string
    return;
  }
  StopMatcher::Step step = live.matcher.push(text);
  delta.text += step.text;
  delta.stop_string = std::move(step.matched);
}

// The end: text that was held back. An incomplete character becomes U+FFFD, which may complete a
// stop string.
void OutputProcessor::append_rest(Live& live, OutputDelta& delta) const {
  StopMatcher::Step step = live.matcher.push(live.detokenizer.flush());
  delta.text += step.text;
  delta.stop_string = std::move(step.matched);
  if (!delta.stop_string) delta.text += live.matcher.flush();
}

void OutputProcessor::observe_tokens(Live& live, const SequenceUpdate& update, double time_s) {
  if (update.tokens.empty()) return;
  RequestTimings& timings = live.timings;
  if (timings.first_token_s == 0) {
    timings.first_token_s = time_s;
    if (observer_ != nullptr) observer_->on_first_token(time_s - timings.arrival_s);
  } else if (observer_ != nullptr) {
    observer_->on_inter_token(time_s - live.last_token_s);
  }
  live.last_token_s = time_s;
}

bool OutputProcessor::abort(RequestId id, double time_s, std::optional<Error> error) {
  const auto found = live_.find(id);
  if (found == live_.end()) return false;
  const Live& live = *found->second;
  OutputDelta delta;
  delta.finish = FinishReason::kAbort;
  delta.error = std::move(error);
  delta.prompt_tokens = live.request.prompt_tokens;
  delta.completion_tokens = live.timings.generation_tokens;
  delta.cached_tokens = live.timings.cached_tokens;
  live.request.channel->push(std::move(delta));
  end(id, FinishReason::kAbort, time_s);
  return true;
}

void OutputProcessor::end(RequestId id, FinishReason reason, double time_s) {
  const auto found = live_.find(id);
  RequestTimings& timings = found->second->timings;
  timings.finished_s = time_s;
  timings.reason = reason;
  if (observer_ != nullptr) observer_->on_finished(timings);
  live_.erase(found);
}

}  // namespace quire
