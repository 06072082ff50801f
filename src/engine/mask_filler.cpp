// See mask_filler.h.
#include "engine/mask_filler.h"

#include <utility>

#include "base/check.h"

namespace quire {

MaskFiller::~MaskFiller() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MaskFiller::start(std::vector<std::shared_ptr<SequenceGrammar>> rows) {
  masks_.clear();
  rows_ = std::move(rows);
  if (rows_.empty()) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  {
    std::lock_guard lock(mutex_);
    QUIRE_CHECK(!filling_, "the masks of a step are not finished");
    filling_ = true;
  }
  changed_.notify_all();
}

std::span<const TokenMask> MaskFiller::finish() {
  if (rows_.empty()) return {};
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !filling_; });
  }
  masks_.clear();
  for (const auto& row : rows_) masks_.push_back(row == nullptr ? TokenMask{} : row->mask());
  return masks_;
}

void MaskFiller::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return filling_ || stop_; });
    if (!filling_) return;
    lock.unlock();
    for (const auto& row : rows_) {
      if (row != nullptr) row->fill();
    }
    lock.lock();
    filling_ = false;
    changed_.notify_all();
  }
}

}  // namespace quire
