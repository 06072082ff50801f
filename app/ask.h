// Runs one request on the engine and hands its text out as it comes: what `generate` and `chat`
// need.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "app/load.h"

namespace quire {

struct AskOptions {
  std::int32_t max_tokens = -1;  // -1: what is left of the context
  double temperature = 0.0;
  double top_p = 1.0;
  std::int32_t top_k = 0;
  std::uint64_t seed = 0;
  std::vector<std::string> stop;
  bool ignore_eos = false;
};

struct AskResult {
  std::int32_t prompt_tokens = 0, completion_tokens = 0;
  double first_token_s = 0, total_s = 0;  // since the request was made
  FinishReason finish = FinishReason::kStop;
};

// What can be told before a model is loaded.
Status check_ask(const AskOptions& options);

// on_text is called on this thread. Raising *cancel (from a signal handler) aborts the request.
Result<AskResult> ask(Engine& engine, const LoadedModel& model, std::vector<TokenId> prompt,
                      const AskOptions& options,
                      const std::function<void(std::string_view)>& on_text,
                      const std::atomic<bool>* cancel = nullptr);

}  // namespace quire
