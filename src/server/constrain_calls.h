// The grammar of a chat's answer where its calls must fit their functions' schemas.
#pragma once

#include "server/prepare.h"

namespace quire {

enum class Constrained {
  kNo,           // but for what the request says by itself
  kCalls,        // in the family's form
  kBareCalls,    // forced ones as JSON alone: arguments of the named function, or a list
  kWholeAnswer,  // thinking and all
};
// Sets request.grammar for forced calls, for strict functions, and where the family's thinking can
// be ended by a grammar alone. Refuses what can't be enforced, at its place.
Result<Constrained> constrain_calls(const ProtocolContext& context, ChatRequest& request);

}  // namespace quire
