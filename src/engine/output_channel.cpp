// Merging deltas under a lock; see output_channel.h.
#include "engine/output_channel.h"

#include <iterator>
#include <utility>

namespace quire {
namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  if (to.empty()) {
    to = std::move(from);
  } else {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  }
}

std::size_t bytes_of(const TokenLogprobs& logprobs) {
  return sizeof(logprobs) + logprobs.top.size() * sizeof(logprobs.top[0]);
}

std::size_t bytes_of(const OutputDelta& delta) {
  std::size_t bytes = delta.text.size() + delta.embedding.size() * sizeof(float);
  for (const OutputToken& token : delta.tokens) {
    bytes += sizeof(OutputToken) + token.text.size() + bytes_of(token.logprobs);
  }
  for (const TokenLogprobs& logprobs : delta.prompt_logprobs) bytes += bytes_of(logprobs);
  return bytes;
}

void merge(OutputDelta& into, OutputDelta&& delta) {
  into.text += delta.text;
  append(into.tokens, std::move(delta.tokens));
  append(into.prompt_logprobs, std::move(delta.prompt_logprobs));
  append(into.embedding, std::move(delta.embedding));
  into.has_prompt_logprobs = into.has_prompt_logprobs || delta.has_prompt_logprobs;
  if (delta.finish) {
    into.finish = delta.finish;
    into.stop_string = std::move(delta.stop_string);
    into.stop_token = delta.stop_token;
    into.error = std::move(delta.error);
  }
  into.prompt_tokens = delta.prompt_tokens;
  into.completion_tokens = delta.completion_tokens;
  into.cached_tokens = delta.cached_tokens;
}

}  // namespace

OutputChannel::OutputChannel(std::function<void()> wake, std::size_t byte_cap)
    : wake_(std::move(wake)), byte_cap_(byte_cap) {}

bool OutputChannel::push(OutputDelta delta) {
  bool was_empty = false;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return true;
    const std::size_t bytes = bytes_of(delta);
    // The last delta always gets in, so that every request has an end.
    if (pending_ && bytes_ + bytes > byte_cap_ && !delta.finish) return false;
    was_empty = !pending_.has_value();
    bytes_ += bytes;
    if (was_empty) {
      pending_ = std::move(delta);
    } else {
      merge(*pending_, std::move(delta));
    }
  }
  if (was_empty && wake_) {
    std::lock_guard lock(wake_mutex_);
    if (!closed()) wake_();
  }
  return true;
}

std::optional<OutputDelta> OutputChannel::take() {
  std::lock_guard lock(mutex_);
  bytes_ = 0;
  return std::exchange(pending_, std::nullopt);
}

void OutputChannel::close() {
  std::lock_guard wake_lock(wake_mutex_);
  std::lock_guard lock(mutex_);
  closed_ = true;
  pending_.reset();
  bytes_ = 0;
}

bool OutputChannel::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace quire
