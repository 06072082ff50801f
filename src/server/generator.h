// The engine as the protocol layer sees it. Thread safe. A fake stands in for it in tests.
#pragma once

#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/request.h"

namespace quire {

class Generator {
 public:
  virtual ~Generator() = default;
  virtual RequestId next_id() = 0;
  virtual Status submit(std::vector<Request> requests) = 0;  // all of them, or none
  virtual void abort(RequestId id) = 0;
  virtual EngineStats stats() const = 0;
  virtual bool reset_prefix_cache() = 0;
  // The end: takes no more requests and aborts what runs; each gets its last delta.
  virtual void abort_all() = 0;
};

// Passes every call on to the engine, which must outlive it.
class EngineGenerator : public Generator {
 public:
  explicit EngineGenerator(Engine* engine) : engine_(engine) {}
  RequestId next_id() override { return engine_->next_id(); }
  Status submit(std::vector<Request> requests) override {
    return engine_->submit(std::move(requests));
  }
  void abort(RequestId id) override { engine_->abort(id); }
  EngineStats stats() const override { return engine_->stats(); }
  bool reset_prefix_cache() override { return engine_->reset_prefix_cache(); }
  void abort_all() override { engine_->drain(0); }

 private:
  Engine* engine_;
};

}  // namespace quire
