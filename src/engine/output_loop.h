// The output thread: from the outbox through the OutputProcessor to the channels. Never blocks but
// to wait for more.
#pragma once

#include "engine/engine_shared.h"
#include "engine/output_processor.h"

namespace quire {

class OutputLoop {
 public:
  // All outlive the loop; observer may be null.
  OutputLoop(EngineShared* shared, const Tokenizer* tokenizer, EngineObserver* observer);
  // Until the outbox is closed and empty.
  void run();

 private:
  void handle(StartOutput message);
  void handle(AbortOutput message);
  void handle(FailOutput message);
  void handle(StepOutput message);
  void ended(RequestId id);

  EngineShared* shared_;
  OutputProcessor processor_;
};

}  // namespace quire
