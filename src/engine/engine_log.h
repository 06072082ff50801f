// The throughput line: every ten seconds while the engine is busy. Engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine.h"

namespace quire {

class EngineLog {
 public:
  explicit EngineLog(double period_s = 10) : period_s_(period_s) {}
  // After a step: the line when it is due. Rates are over the time since the last line, or since
  // work began.
  std::optional<std::string> line(const EngineStats& stats, double now_s);
  // Nothing to do: the next period begins with the next step.
  void idle() { busy_ = false; }

 private:
  void begin(const EngineStats& stats, double now_s);

  double period_s_;
  bool busy_ = false;
  double since_s_ = 0;
  std::int64_t prompt_tokens_ = 0, generation_tokens_ = 0, query_tokens_ = 0, hit_tokens_ = 0;
};

}  // namespace quire
