// Where an answer's thinking begins and ends, in tokens: for grammars, which begin after it, and
// for its budget.
#pragma once

#include <string_view>

#include "engine/request.h"
#include "server/prepare.h"

namespace quire {

// Sets what of `parts` speaks of thinking, for an answer to this prompt. budget: -1 for none; one
// is refused where the model's family has no thinking that could be ended.
Status set_thinking(const ProtocolContext& context, std::string_view prompt, std::int32_t budget,
                    RequestTemplate* parts);

}  // namespace quire
