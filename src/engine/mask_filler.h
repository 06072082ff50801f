// Makes the masks of a step on a thread of its own, while the forward pass runs. The thread starts
// with the first grammar. start and finish are called by the engine thread, in turns.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine/sequence_grammar.h"
#include "sampling/token_mask.h"

namespace quire {

class MaskFiller {
 public:
  MaskFiller() = default;
  ~MaskFiller();
  MaskFiller(const MaskFiller&) = delete;
  MaskFiller& operator=(const MaskFiller&) = delete;

  // One per row of the step, null where there is no grammar; empty: no row has one. They belong to
  // this thread until finish.
  void start(std::vector<std::shared_ptr<SequenceGrammar>> rows);
  // Waits for the masks: one per row, or none. They stay until the next start.
  std::span<const TokenMask> finish();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool filling_ = false, stop_ = false;                 // guarded
  std::vector<std::shared_ptr<SequenceGrammar>> rows_;  // of whose turn it is
  std::vector<TokenMask> masks_;
  std::thread thread_;
};

}  // namespace quire
