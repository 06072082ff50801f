// What the engine's threads and its callers share: two mailboxes, the statistics, and the set of
// live requests. Everything is guarded by its own lock; no lock is held while another is taken.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/mailbox.h"
#include "engine/output_processor.h"
#include "engine/scheduler.h"

namespace quire {

// To the engine thread.
struct AddRequests {
  std::vector<Request> requests;
};
struct AbortSequence {
  RequestId id;
};
struct FinishSequence {
  RequestId id;
};  // a stop string was found
struct ResetPrefixCache {
  std::promise<bool> done;
};
struct CheckIntegrity {
  std::promise<Status> done;
};
using EngineMessage =
    std::variant<AddRequests, AbortSequence, FinishSequence, ResetPrefixCache, CheckIntegrity>;

// To the output thread. A request's start comes before everything else about it.
struct StartOutput {
  OutputRequest request;
};
struct AbortOutput {
  RequestId id;
};
struct FailOutput {
  RequestId id;
  Error error;
};
struct StepOutput {
  std::vector<SequenceUpdate> updates;
  double time_s = 0;  // when the step's result was there
};
using OutputMessage = std::variant<StartOutput, AbortOutput, FailOutput, StepOutput>;

// Lists of updates that the output thread has read, for the engine thread to fill again: a step's
// tokens then cost no allocation.
class SpareUpdates {
 public:
  std::vector<SequenceUpdate> take() {
    std::lock_guard lock(mutex_);
    if (size_ == 0) return {};
    return std::move(spare_[--size_]);
  }
  void give(std::vector<SequenceUpdate> updates) {
    updates.clear();
    std::lock_guard lock(mutex_);
    if (size_ < spare_.size()) spare_[size_++] = std::move(updates);
  }

 private:
  std::mutex mutex_;
  std::array<std::vector<SequenceUpdate>, 8> spare_;
  std::size_t size_ = 0;
};

struct EngineShared {
  Mailbox<EngineMessage> inbox;
  Mailbox<OutputMessage> outbox;
  SpareUpdates spare_updates;

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable request_ended;
  EngineStats stats;
  std::size_t num_in_inbox = 0;      // requests that the scheduler has not seen
  std::int64_t tokens_in_inbox = 0;  // of their prompts
  std::int64_t rejected_by_requests = 0, rejected_by_tokens = 0;
  std::unordered_set<RequestId> live;  // submitted, last delta not sent
  bool draining = false;
};

}  // namespace quire
