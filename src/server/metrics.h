// Prometheus metrics under vLLM's names. Hears of requests and steps as the engine's observer
// (output and engine thread) and reads the engine's own counters when scraped (io thread). Thread
// safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace quire {

struct MetricsOptions {
  std::string model_name;
  std::int32_t max_model_len = 2048;  // bounds the token histograms
  std::map<std::string, std::string>
      cache_config;  // labels of vllm:cache_config_info, e.g. block_size
};

class ServerMetrics : public EngineObserver {
 public:
  explicit ServerMetrics(const MetricsOptions& options);
  ~ServerMetrics() override;

  void on_first_token(double ttft_s) override;
  void on_inter_token(double gap_s) override;
  void on_finished(const RequestTimings& timings) override;
  void on_step(std::int32_t num_tokens, double step_s) override;

  // An answered HTTP request; handler is the route, status_class e.g. "2xx".
  void on_http_request(std::string_view handler, std::string_view method, int status);
  // The text format, with the engine's counters as they are now.
  std::string text(const EngineStats& stats);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
