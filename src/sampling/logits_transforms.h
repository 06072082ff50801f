// What changes a row of logits before the draw: masks and bias; penalties are in token_history.h
// and dry.h. Each works in place on [vocab] f32; a banned token becomes minus infinity.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "sampling/sampling_params.h"

namespace quire {

// Bans ids whose bit (id % 32 of word id / 32) is not set. Ids beyond the mask are banned.
void apply_bit_mask(std::span<float> logits, std::span<const std::uint32_t> mask);

// Bans all but `allowed` (ascending, no id twice). No effect when empty.
void apply_allowed(std::span<float> logits, std::span<const TokenId> allowed);

// Bans `ids`.
void apply_banned(std::span<float> logits, std::span<const TokenId> ids);

// Bans the last token of each bad word whose other tokens are the end of `tail`; of one token:
// always.
void apply_bad_words(std::span<float> logits, std::span<const std::vector<TokenId>> bad_words,
                     std::span<const TokenId> tail);

// Adds each bias, clamped to [-100, 100].
void apply_bias(std::span<float> logits, std::span<const std::pair<TokenId, float>> bias);

}  // namespace quire
