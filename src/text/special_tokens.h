// Which tokens of a vocabulary have a role: bos, eos, and all that end a turn.
#pragma once

#include <string_view>
#include <vector>

#include "base/ids.h"

namespace quire {

// True for the spellings by which model families mark the end of a turn, a text or an answer.
bool is_end_token_text(std::string_view text);

struct MarkedToken {
  TokenId id;
  std::string_view text;
};
// Ids of those of `marked` (the vocabulary's control and added tokens) that end a turn, ascending.
// `always` are ids that end one whatever their spelling, e.g. the stated eos.
std::vector<TokenId> find_end_ids(const std::vector<MarkedToken>& marked,
                                  const std::vector<TokenId>& always);

}  // namespace quire
