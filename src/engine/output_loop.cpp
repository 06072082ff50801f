// The output thread; see output_loop.h.
#include "engine/output_loop.h"

#include <pthread.h>

#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/trace.h"

namespace quire {

OutputLoop::OutputLoop(EngineShared* shared, const Tokenizer* tokenizer, EngineObserver* observer)
    : shared_(shared), processor_(tokenizer, observer, [shared](RequestId id, FinishReason reason) {
        if (reason == FinishReason::kAbort) {
          shared->inbox.push(AbortSequence{id});
        } else {
          shared->inbox.push(FinishSequence{id});
        }
      }) {}

void OutputLoop::run() {
  pthread_setname_np(pthread_self(), "output");
  std::vector<OutputMessage> messages;
  for (;;) {
    shared_->outbox.wait(messages);
    if (messages.empty()) return;
    for (OutputMessage& message : messages) {
      std::visit([this](auto& m) { handle(std::move(m)); }, message);
    }
  }
}

void OutputLoop::handle(StartOutput message) { processor_.start(std::move(message.request)); }

void OutputLoop::handle(AbortOutput message) {
  if (processor_.abort(message.id, now_s())) ended(message.id);
}

void OutputLoop::handle(FailOutput message) {
  if (processor_.abort(message.id, now_s(), std::move(message.error))) ended(message.id);
}

void OutputLoop::handle(StepOutput message) {
  const TraceSpan span(TraceKind::kOutput, static_cast<std::int64_t>(message.updates.size()));
  for (SequenceUpdate& update : message.updates) {
    const RequestId id = update.id;
    if (processor_.apply(std::move(update), message.time_s)) ended(id);
  }
  shared_->spare_updates.give(std::move(message.updates));
}

void OutputLoop::ended(RequestId id) {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->live.erase(id);
  }
  shared_->request_ended.notify_all();
}

}  // namespace quire
