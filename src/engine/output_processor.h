// Turns what the scheduler decided about sequences into what clients read: text, stop strings,
// usage. Owned by the output thread.
//
// A token goes out with the step that drew it, even while its text is held back (an incomplete
// character, the start of a stop string). When a stop string is found, text is cut at the exact
// byte, and tokens, log-probabilities and usage end with the token that completes the match;
// whatever comes for that request later is dropped.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/ids.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "text/tokenizer.h"

namespace quire {

// What the output thread must know of a request.
struct OutputRequest {
  explicit OutputRequest(const Request& request);
  OutputRequest() = default;

  RequestId id;
  std::string external_id;
  StopRules stop;
  std::int32_t min_tokens = 0;
  std::int32_t prompt_tokens = 0;
  bool skip_special_tokens = true;
  bool spaces_between_special_tokens = true;
  std::shared_ptr<const std::vector<TokenId>> shown_special_tokens;
  double arrival_s = 0;
  std::shared_ptr<OutputChannel> channel;
};

class OutputProcessor {
 public:
  // Tells the engine that a sequence ends here though the scheduler goes on with it: kStop for a
  // stop string, kAbort for a reader that is too slow. Called before the last delta goes out: who
  // has read that finds the engine told.
  using EndSequence = std::function<void(RequestId, FinishReason)>;
  // tokenizer and observer outlive the processor; observer may be null.
  OutputProcessor(const Tokenizer* tokenizer, EngineObserver* observer, EndSequence end_sequence);
  ~OutputProcessor();

  void start(OutputRequest request);
  // Sends the request's next delta. True when it was the last. time_s: when the step's result was
  // there. Updates of unknown ids are dropped.
  bool apply(SequenceUpdate update, double time_s);
  // Sends the last delta, with the error that ended it if there is one. False when the request is
  // unknown (ended already).
  bool abort(RequestId id, double time_s, std::optional<Error> error = {});
  std::size_t num_live() const { return live_.size(); }

 private:
  struct Live;
  void append_token(Live& live, SequenceUpdate& update, std::size_t i, OutputDelta& delta) const;
  void append_rest(Live& live, OutputDelta& delta) const;
  void observe_tokens(Live& live, const SequenceUpdate& update, double time_s);
  void end(RequestId id, FinishReason reason, double time_s);

  const Tokenizer* tokenizer_;
  EngineObserver* observer_;
  EndSequence end_sequence_;
  std::unordered_map<RequestId, std::unique_ptr<Live>> live_;
};

}  // namespace quire
