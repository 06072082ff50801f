// A request while the engine works on it. Owned by the Scheduler; never leaves the engine thread.
//
// num_computed counts tokens whose K and V are in the cache or in a planned step. The last token is
// never computed before it is needed: computing it is what yields the next one.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "engine/beam_group.h"
#include "engine/policy.h"
#include "engine/request.h"
#include "engine/sequence_grammar.h"
#include "kv/kv_cache_manager.h"

namespace quire {

struct Sequence {
  explicit Sequence(Request r) : request(std::move(r)), tokens(*request.prompt) {
    num_prompt = static_cast<std::int32_t>(tokens.size());
    kv.salt = request.cache_salt;
    if (request.sampling->prompt_logprobs >= 0) {
      prompt_logprobs = std::make_shared<std::vector<TokenLogprobs>>();
    }
    if (SequenceGrammar::needed(request)) grammar = std::make_shared<SequenceGrammar>(request);
  }

  std::int32_t num_tokens() const { return static_cast<std::int32_t>(tokens.size()); }
  std::int32_t num_generated() const { return num_tokens() - num_prompt; }
  std::int32_t num_uncomputed() const { return num_tokens() - num_computed; }  // of known tokens
  // Only the prompt is wanted (echo with log-probabilities): it is computed, nothing is drawn.
  bool scoring_only() const { return request.stop.max_tokens == 0; }
  // Log-probabilities are kept for prompt tokens 1..n-1: entry p comes from position p's logits.
  std::int32_t num_prompt_logprobs_wanted() const {
    return request.sampling->prompt_logprobs >= 0 ? num_prompt - 1 : 0;
  }
  // Log-probabilities of prompt tokens, and embeddings of more than the last one, need what a
  // cached prefix has no more: every token must be computed.
  bool needs_whole_prompt() const {
    const Pooling pooling = request.sampling->pooling;
    return needs_prompt_logprobs() || pooling == Pooling::kMean || pooling == Pooling::kFirst;
  }
  bool needs_prompt_logprobs() const {
    return num_prompt_logprobs_planned < num_prompt_logprobs_wanted();
  }

  Request request;
  std::vector<TokenId> tokens;  // prompt, then generated
  std::int32_t num_prompt = 0;
  std::int32_t num_computed = 0;
  // Planned rows that draw a token of it and are not applied. With async scheduling they may
  // follow each other: then the token of each but the last is computed too, before it is known.
  std::int32_t num_drawing = 0;
  std::int32_t cached_tokens = 0;  // prefix hit at the first admission
  SequenceKv kv;
  std::shared_ptr<SequenceGrammar> grammar;  // null: none. Shared with a step's masks only
  Rank rank;
  SlotId slot = kNoSlot;   // executor's, while it runs
  bool started = false;    // a step of it was planned
  double scheduled_s = 0;  // when its first step was planned
  std::int32_t num_prompt_logprobs_planned = 0;
  // Collected so far, through chunks and preemptions; null when not wanted. Choices that went on
  // from one prompt share it.
  std::shared_ptr<std::vector<TokenLogprobs>> prompt_logprobs;
  bool prompt_shared =
      false;  // the end of its prompt is planned: other choices have gone on from it
  std::unique_ptr<BeamHost> beam;  // of beam search
  bool forked = false;             // it goes on from another choice's prompt
};

}  // namespace quire
