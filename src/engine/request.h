// A request as the engine gets it, and what it gives back. Made on a text-pool thread, moved into
// the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/beam_search.h"
#include "engine/repetition.h"
#include "sampling/sampler.h"
#include "sampling/sampling_params.h"
#include "text/grammar.h"

namespace quire {

inline bool has_id(const std::vector<TokenId>& ids, TokenId id) {
  return std::ranges::find(ids, id) != ids.end();
}

class OutputChannel;

// When generation ends. Token rules are decided by the scheduler, strings by the output thread.
struct StopRules {
  std::int32_t max_tokens = 16;
  std::vector<TokenId> eos_ids;         // model's; not looked at with ignore_eos
  std::vector<TokenId> stop_token_ids;  // request's; stop_reason tells the id
  std::vector<std::string> stop_strings;
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  RepetitionRule repetition;
};

// Thinking before the answer, by its tokens. It ends after Request::grammar_start.
struct ThinkingRules {
  std::vector<TokenId>
      begin;                 // drawn first, they begin the thinking; none: the prompt has begun it
  std::int32_t budget = -1;  // most tokens of it: then its end is drawn; -1: no limit
  // Where tokens don't show its end (it may stand inside of them): what comes from `begin` to the
  // end. Null: it ends where grammar_start stands.
  std::shared_ptr<const Grammar> text;
};

struct Request {
  RequestId id;
  std::string external_id;  // "cmpl-...": for logs
  std::shared_ptr<const std::vector<TokenId>> prompt;
  std::shared_ptr<const SamplingParams> sampling;
  // Of several choices for one prompt (n, best_of): the request of the first one. They have the
  // same prompt and salt, and go on from one computation of it when they can. Set for the first
  // too.
  std::optional<RequestId> family;
  std::optional<BeamParams>
      beam;  // beam search: all choices of the family come to one Scheduler::add
  StopRules stop;
  // What the answer must fit; null: anything. It begins after the first grammar_start among the
  // generated tokens (the end of the thinking), at once when that is empty or nothing was thought.
  std::shared_ptr<const Grammar> grammar;
  std::vector<TokenId> grammar_start;
  ThinkingRules thinking;  // of no effect without a grammar_start
  bool skip_special_tokens = true;
  bool spaces_between_special_tokens = true;
  // Special tokens whose text is shown all the same: marks that the API layer reads. Null: none.
  std::shared_ptr<const std::vector<TokenId>> shown_special_tokens;
  std::uint64_t cache_salt = 0;  // hash of the user's salt; 0: none
  std::int64_t priority = 0;     // smaller is more urgent; looked at by SchedulingPolicy::kPriority
  std::uint64_t client = 0;      // clients take turns; 0: all are one
  double arrival_s = 0;          // now_s() when the request was read
  // Moments at which it ends without a whole answer: whatever it does then, or when it never ran.
  double deadline_s = 0, queue_deadline_s = 0;  // 0: none
  std::shared_ptr<OutputChannel> channel;
};

enum class FinishReason : std::uint8_t { kStop, kLength, kAbort, kError, kRepetition };
inline constexpr std::size_t kNumFinishReasons = 5;
std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", ...

// A generated token with its log-probabilities, ready for the API layer.
struct OutputToken {
  TokenId id = -1;
  std::string text;  // piece of text that this token stands for, as bytes (maybe not whole UTF-8)
  bool has_logprobs = false;
  TokenLogprobs logprobs;
};

struct OutputDelta {
  std::string text;  // valid UTF-8; may be empty
  std::vector<OutputToken> tokens;
  std::vector<TokenLogprobs> prompt_logprobs;  // first delta only: of prompt tokens 1..n-1
  bool has_prompt_logprobs = false;
  std::vector<float> embedding;            // not empty: of the prompt
  std::optional<FinishReason> finish;      // last delta
  std::optional<std::string> stop_string;  // the match, when a string ended it
  std::optional<TokenId> stop_token;       // when one of stop_token_ids ended it
  std::optional<Error> error;              // with kError
  std::int32_t prompt_tokens = 0;          // usage so far
  std::int32_t completion_tokens = 0;
  std::int32_t cached_tokens = 0;
};

}  // namespace quire
