#include "server/generation_call.h"

#include <utility>

#include "server/protocol/error_body.h"

namespace quire {
namespace {

// With more than this waiting for the client, deltas stay in their channel, where they are merged
// and capped.
constexpr std::size_t kMaxBacklogBytes = 256u << 10;

Error error_of(const OutputDelta& delta) {
  if (delta.error) return *delta.error;
  Error error;
  error.code =
      delta.finish == FinishReason::kAbort ? ErrorCode::kUnavailable : ErrorCode::kInternal;
  error.message = delta.finish == FinishReason::kAbort
                      ? "the request was aborted: the server is shutting down, or the answer was "
                        "not read in time"
                      : "generation failed";
  return error;
}

}  // namespace

void GenerationCall::start(std::shared_ptr<Exchange> exchange, Generator* generator,
                           std::unique_ptr<Answer> answer, std::vector<Request> requests,
                           std::shared_ptr<void> token) {
  auto call = std::make_shared<GenerationCall>();
  call->exchange_ = std::move(exchange);
  call->generator_ = generator;
  call->answer_ = std::move(answer);
  call->token_ = std::move(token);
  auto shared = std::make_shared<std::vector<Request>>(std::move(requests));
  call->exchange_->post([call, shared] { call->begin(std::move(*shared)); });
}

void GenerationCall::begin(std::vector<Request> requests) {
  exchange_->on_gone([self = shared_from_this()] {
    self->over_ = true;
    self->abort_rest();
  });
  if (over_) return;
  if (requests.empty()) {
    std::string events;
    for (std::size_t i = 0; i < answer_->num_choices(); ++i) {
      OutputDelta end;
      end.finish = FinishReason::kLength;
      answer_->on_delta(i, std::move(end), &events);
    }
    return finish(std::move(events));
  }
  for (auto& request : requests) {
    request.channel = std::make_shared<OutputChannel>([weak = weak_from_this()] {
      if (auto self = weak.lock()) self->wake();
    });
    running_.push_back({request.id, request.channel, false});
  }
  if (auto status = generator_->submit(std::move(requests)); !status) {
    for (Running& running : running_) running.finished = true;  // none has begun
    fail(status.error());
  }
}

void GenerationCall::wake() {
  if (pump_posted_.exchange(true)) return;
  exchange_->post([self = shared_from_this()] { self->pump(); });
}

void GenerationCall::pump() {
  pump_posted_ = false;
  if (over_) return;
  if (streaming_ && exchange_->backlog_bytes() > kMaxBacklogBytes) {
    exchange_->on_drained([weak = weak_from_this()] {
      if (auto self = weak.lock()) self->wake();
    });
    return;
  }
  std::string events;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    if (!running_[i].finished && !take_from(i, &events)) return;
  }
  if (answer_->complete()) return finish(std::move(events));
  write(std::move(events));
}

bool GenerationCall::take_from(std::size_t index, std::string* events) {
  auto delta = running_[index].channel->take();
  if (!delta) return true;
  running_[index].finished = delta->finish.has_value();
  if (delta->error || delta->finish == FinishReason::kAbort ||
      delta->finish == FinishReason::kError) {
    const Error error = error_of(*delta);
    if (streaming_) {  // what came before the failure is still shown
      delta->finish.reset();
      answer_->on_delta(index, std::move(*delta), events);
      write(std::move(*events));
    }
    fail(error);
    return false;
  }
  answer_->on_delta(index, std::move(*delta), events);
  return true;
}

void GenerationCall::write(std::string events) {
  if (events.empty()) return;
  if (!std::exchange(streaming_, true)) {
    HttpResponse head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    exchange_->begin_stream(std::move(head));
  }
  exchange_->write(std::move(events));
}

void GenerationCall::finish(std::string events) {
  over_ = true;
  if (answer_->stream()) {
    answer_->end_stream(&events);
    write(std::move(events));
    exchange_->end();
  } else {
    HttpResponse response;
    response.body = answer_->body();
    exchange_->send(std::move(response));
  }
}

void GenerationCall::fail(const Error& error) {
  over_ = true;
  abort_rest();
  if (streaming_) {
    write(sse_event(error_body(error)) + sse_event("[DONE]"));
    exchange_->end();
  } else {
    exchange_->send(error_response(error));
  }
}

void GenerationCall::abort_rest() {
  for (auto& running : running_) {
    running.channel->close();
    if (!std::exchange(running.finished, true)) generator_->abort(running.id);
  }
}

}  // namespace quire
