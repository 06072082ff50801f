// The beams of one request and what they have come to. Owned by the Scheduler, engine thread.
//
// A request of beam width w has w sequences: hosts, each able to hold one beam. A round ends when
// every beam has offered its next tokens; then hosts whose beam has no successor take over others'
// second and third ones. A host without a beam is parked: it holds neither blocks nor a slot; so is
// one whose blocks were taken away after it made its offer.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/beam_search.h"
#include "engine/request.h"

namespace quire {

struct Sequence;

struct BeamGroup {
  struct Hypothesis {
    double score = 0;
    std::vector<TokenId> tokens;  // generated, an end token included
    std::vector<TokenLogprobs> logprobs;
    FinishReason reason = FinishReason::kStop;
    std::optional<TokenId> stop_token;
  };

  BeamParams params;
  std::vector<Sequence*> hosts;   // of all choices, in order
  std::vector<Sequence*> active;  // those with a beam, best first
  std::vector<Sequence*> parked;
  std::vector<Hypothesis> complete;  // the best so far, at most `width`
};

// A host's part of a Sequence.
struct BeamHost {
  BeamGroup* group = nullptr;
  double logprob_sum = 0;               // of its beam
  std::vector<TokenLogprobs> logprobs;  // of the tokens that its beam has generated
  std::optional<TokenLogprobs> offer;   // the most likely next tokens, until the round ends
  bool chosen = false;                  // for a beam of the next round, while that is handed out
  bool abandoned = false;               // nobody waits for this choice any more
};

}  // namespace quire
