// The engine's face: checks at the door, and the two threads behind it.
#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "base/check.h"
#include "engine/engine_loop.h"
#include "engine/engine_shared.h"
#include "engine/output_channel.h"
#include "engine/output_loop.h"

namespace quire {

namespace {

// Over the limit of the queue: when to come again, as fast as requests have started of late.
template <class... Args>
tl::unexpected<Error> queue_full(double retry_after_s, fmt::format_string<Args...> format,
                                 Args&&... args) {
  Error error{ErrorCode::kUnavailable, fmt::format(format, std::forward<Args>(args)...), {}};
  error.retry_after_s = std::max(1.0, retry_after_s);
  error.message += fmt::format("; try again in {:.0f} s", std::ceil(error.retry_after_s));
  return tl::unexpected(std::move(error));
}

}  // namespace

struct Engine::Impl {
  Impl(EngineOptions o, std::unique_ptr<Executor> e, const Tokenizer* tokenizer,
       EngineObserver* observer)
      : options(std::move(o)),
        executor(std::move(e)),
        engine_loop(options.scheduler, executor.get(), &shared, observer),
        output_loop(&shared, tokenizer, observer),
        output_thread([this] { output_loop.run(); }),
        engine_thread([this] { engine_loop.run(); }) {}

  Status check_fits(const Request& request) const;
  Status check_queue(const std::vector<Request>& requests);
  Status admit(const std::vector<Request>& requests);
  void abort(RequestId id);
  void abort_all();

  const EngineOptions options;
  const std::unique_ptr<Executor> executor;
  EngineShared shared;
  std::atomic<std::uint64_t> last_id{0};
  EngineLoop engine_loop;
  OutputLoop output_loop;
  std::thread output_thread, engine_thread;  // last: they use all of the above
};

Engine::Engine(EngineOptions options, std::unique_ptr<Executor> executor,
               const Tokenizer* tokenizer, EngineObserver* observer)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(executor), tokenizer, observer)) {}

Engine::~Engine() {
  {
    std::lock_guard lock(impl_->shared.mutex);
    impl_->shared.draining = true;
  }
  impl_->abort_all();
  impl_->shared.inbox.close();
  impl_->engine_thread.join();
  impl_->shared.outbox.close();  // what the engine thread has sent is still delivered
  impl_->output_thread.join();
}

RequestId Engine::next_id() { return RequestId{impl_->last_id.fetch_add(1) + 1}; }

Status Engine::Impl::check_fits(const Request& request) const {
  const auto num_prompt = static_cast<std::int32_t>(request.prompt->size());
  const std::int32_t limit = options.scheduler.max_model_len;
  if (num_prompt == 0) return field_error("prompt", "the prompt has no tokens; give at least one");
  const std::int32_t answer = request.stop.max_tokens > 0 ? 1 : 0;  // tokens of it at least
  if (num_prompt + answer > limit) {
    return make_error(ErrorCode::kContextLength,
                      "this model's maximum context length is {} tokens, but the prompt has {}: "
                      "shorten it to at most {}",
                      limit, num_prompt, limit - answer);
  }
  if (!engine_loop.could_fit(num_prompt + answer)) {
    std::int32_t fits = 0, too_long = num_prompt;
    while (too_long - fits > 1) {
      const std::int32_t length = fits + (too_long - fits) / 2;
      (engine_loop.could_fit(length + answer) ? fits : too_long) = length;
    }
    return make_error(ErrorCode::kContextLength,
                      "the prompt has {} tokens, but the KV cache can hold at most {} of them: "
                      "shorten the prompt or give the server more KV memory",
                      num_prompt, fits);
  }
  return {};
}

// Whether the queue takes more; under the lock.
Status Engine::Impl::check_queue(const std::vector<Request>& requests) {
  const SchedulerStats& stats = shared.stats.scheduler;
  const std::size_t queued = static_cast<std::size_t>(stats.waiting) + shared.num_in_inbox;
  const std::int64_t queued_tokens = stats.waiting_tokens + shared.tokens_in_inbox;
  // With nobody waiting and sequences to spare, what is in the inbox starts with the next step.
  const bool starts_at_once =
      stats.waiting == 0 && static_cast<std::size_t>(stats.running) + shared.num_in_inbox <
                                static_cast<std::size_t>(options.scheduler.max_num_seqs);
  if (starts_at_once) return {};
  const double per_s = shared.stats.starts_per_s;
  if (options.max_queued_requests > 0 && queued >= options.max_queued_requests) {
    ++shared.rejected_by_requests;
    const double too_many = static_cast<double>(queued - options.max_queued_requests + 1);
    return queue_full(too_many / per_s, "{} requests are waiting, the limit is {}", queued,
                      options.max_queued_requests);
  }
  std::int64_t new_tokens = 0;
  for (const Request& request : requests)
    new_tokens += static_cast<std::int64_t>(request.prompt->size());
  if (options.max_queued_tokens > 0 && queued > 0 &&
      queued_tokens + new_tokens > options.max_queued_tokens) {
    ++shared.rejected_by_tokens;
    const double too_many = static_cast<double>(
        std::min(queued_tokens, queued_tokens + new_tokens - options.max_queued_tokens));
    const double per_request =
        std::max(1.0, static_cast<double>(queued_tokens) / static_cast<double>(queued));
    return queue_full(too_many / per_request / per_s,
                      "prompts of {} tokens are waiting, with this one's {} more than the limit {}",
                      queued_tokens, new_tokens, options.max_queued_tokens);
  }
  return {};
}

// Counts the requests in, unless the engine is shutting down or the queue is full.
Status Engine::Impl::admit(const std::vector<Request>& requests) {
  std::lock_guard lock(shared.mutex);
  if (shared.draining)
    return make_error(ErrorCode::kUnavailable, "the server is shutting down; try another one");
  QUIRE_TRY(check_queue(requests));
  shared.num_in_inbox += requests.size();
  for (const Request& request : requests)
    shared.tokens_in_inbox += static_cast<std::int64_t>(request.prompt->size());
  for (const Request& request : requests) shared.live.insert(request.id);
  return {};
}

namespace {
// The user's salt and what else changes K and V; a regime of 0 leaves the salt as it is.
std::uint64_t mix_salt(std::uint64_t salt, std::uint64_t regime) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;  // Fibonacci hashing
  return regime == 0 ? salt : (salt ^ (regime * kGolden)) * kGolden + regime;
}
}  // namespace

Status Engine::submit(Request request) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  return submit(std::move(requests));
}

Status Engine::submit(std::vector<Request> requests) {
  for (const Request& request : requests) {
    QUIRE_CHECK(
        request.prompt != nullptr && request.sampling != nullptr && request.channel != nullptr,
        "request {} has no prompt, parameters or channel", request.id.value);
    QUIRE_TRY(impl_->check_fits(request));
  }
  QUIRE_TRY(impl_->admit(requests));
  for (Request& request : requests) {
    const auto prompt_tokens = static_cast<std::int64_t>(request.prompt->size());
    if (impl_->options.queue_timeout_s > 0)
      request.queue_deadline_s = request.arrival_s + impl_->options.queue_timeout_s;
    request.cache_salt = mix_salt(request.cache_salt, impl_->executor->kv_regime(prompt_tokens));
    // The output thread hears of it first: its start stands before its first update.
    impl_->shared.outbox.push(StartOutput{OutputRequest(request)});
  }
  impl_->shared.inbox.push(AddRequests{std::move(requests)});
  return {};
}

// The client gets its last delta at once; the sequence ends before the next step.
void Engine::Impl::abort(RequestId id) {
  shared.inbox.push(AbortSequence{id});
  shared.outbox.push(AbortOutput{id});
}

void Engine::Impl::abort_all() {
  std::vector<RequestId> ids;
  {
    std::lock_guard lock(shared.mutex);
    ids.assign(shared.live.begin(), shared.live.end());
  }
  for (const RequestId id : ids) abort(id);
}

void Engine::abort(RequestId id) { impl_->abort(id); }

EngineStats Engine::stats() const {
  std::lock_guard lock(impl_->shared.mutex);
  EngineStats stats = impl_->shared.stats;
  stats.scheduler.waiting += static_cast<std::int32_t>(impl_->shared.num_in_inbox);
  stats.rejected_by_requests = impl_->shared.rejected_by_requests;
  stats.rejected_by_tokens = impl_->shared.rejected_by_tokens;
  return stats;
}

bool Engine::drain(double timeout_s) {
  EngineShared& shared = impl_->shared;
  const auto none_left = [&shared] { return shared.live.empty(); };
  {
    std::unique_lock lock(shared.mutex);
    shared.draining = true;
    if (shared.request_ended.wait_for(lock, std::chrono::duration<double>(timeout_s), none_left))
      return true;
  }
  impl_->abort_all();
  std::unique_lock lock(shared.mutex);
  shared.request_ended.wait(lock, none_left);
  return false;
}

bool Engine::reset_prefix_cache() {
  ResetPrefixCache message;
  std::future<bool> done = message.done.get_future();
  return impl_->shared.inbox.push(std::move(message)) && done.get();
}

const Executor::Capacity& Engine::capacity() const { return impl_->executor->capacity(); }

Status Engine::check_integrity() {
  CheckIntegrity message;
  std::future<Status> done = message.done.get_future();
  if (!impl_->shared.inbox.push(std::move(message))) {
    return make_error(ErrorCode::kUnavailable, "the engine has stopped");
  }
  return done.get();
}

}  // namespace quire
