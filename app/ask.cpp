#include "app/ask.h"

#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "engine/output_channel.h"

namespace quire {
namespace {

// Wakes the asking thread; signals can't, so it also looks up ten times a second.
struct Wakeup {
  std::mutex mutex;
  std::condition_variable ready;
  bool set = false;
  void raise() {
    {
      std::lock_guard lock(mutex);
      set = true;
    }
    ready.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex);
    ready.wait_for(lock, std::chrono::milliseconds(100), [&] { return set; });
    set = false;
  }
};

std::shared_ptr<SamplingParams> sampling_params(const AskOptions& options) {
  auto sampling = std::make_shared<SamplingParams>();
  sampling->temperature = options.temperature;
  sampling->top_p = options.top_p;
  sampling->top_k = options.top_k;
  sampling->seed = options.seed;
  return sampling;
}

Result<Request> make_request(Engine& engine, const LoadedModel& model, std::vector<TokenId> prompt,
                             const AskOptions& options) {
  const auto prompt_tokens = static_cast<std::int64_t>(prompt.size());
  if (prompt_tokens >= model.max_model_len)
    return make_error(ErrorCode::kContextLength,
                      "the prompt has {} tokens; the context of {} leaves no room for an answer",
                      prompt_tokens, model.max_model_len);
  for (const TokenId id : prompt) {
    if (id >= model.config.vocab_size)
      return make_error(ErrorCode::kInvalidArgument,
                        "the prompt has token {}, but the model's embedding has {} rows", id,
                        model.config.vocab_size);
  }
  const std::int64_t room = model.max_model_len - prompt_tokens;
  auto sampling = sampling_params(options);
  sampling->end_token_ids = model.end_ids;
  QUIRE_TRY(validate_sampling_params(*sampling,
                                     static_cast<std::int64_t>(model.tokenizer->vocab_size())));
  Request request;
  request.id = engine.next_id();
  request.external_id = "local-" + std::to_string(request.id.value);
  request.prompt = std::make_shared<std::vector<TokenId>>(std::move(prompt));
  request.sampling = std::move(sampling);
  request.stop.max_tokens = static_cast<std::int32_t>(
      options.max_tokens < 0 ? room : std::min<std::int64_t>(options.max_tokens, room));
  request.stop.eos_ids = model.end_ids;
  request.stop.stop_strings = options.stop;
  request.stop.ignore_eos = options.ignore_eos;
  request.arrival_s = now_s();
  return request;
}

}  // namespace

Status check_ask(const AskOptions& options) {
  constexpr std::int64_t kAnyVocabulary = std::numeric_limits<std::int32_t>::max();
  return validate_sampling_params(*sampling_params(options), kAnyVocabulary);
}

Result<AskResult> ask(Engine& engine, const LoadedModel& model, std::vector<TokenId> prompt,
                      const AskOptions& options,
                      const std::function<void(std::string_view)>& on_text,
                      const std::atomic<bool>* cancel) {
  QUIRE_ASSIGN(Request request, make_request(engine, model, std::move(prompt), options));
  Wakeup wakeup;
  const auto channel = std::make_shared<OutputChannel>([&wakeup] { wakeup.raise(); });
  request.channel = channel;
  const RequestId id = request.id;
  const double begin = request.arrival_s;
  QUIRE_TRY(engine.submit(std::move(request)));
  AskResult result;
  bool aborted = false, finished = false;
  std::optional<Error> error;
  while (!finished) {
    wakeup.wait();
    if (cancel && cancel->load() && !std::exchange(aborted, true)) engine.abort(id);
    while (std::optional<OutputDelta> delta = channel->take()) {
      if (result.completion_tokens == 0 && delta->completion_tokens > 0)
        result.first_token_s = now_s() - begin;
      result.prompt_tokens = delta->prompt_tokens;
      result.completion_tokens = delta->completion_tokens;
      if (!delta->text.empty()) on_text(delta->text);
      if (delta->error) error = std::move(delta->error);
      if (delta->finish) {
        result.finish = *delta->finish;
        finished = true;
      }
    }
  }
  result.total_s = now_s() - begin;
  channel->close();
  if (error) return tl::unexpected(std::move(*error));
  return result;
}

}  // namespace quire
