// What /v1/completions and /v1/chat/completions have in common: sampling, ends, streaming. Values
// are range-checked when read; what depends on the model (vocabulary, context) is checked in
// prepare.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/beam_search.h"
#include "engine/repetition.h"
#include "server/protocol/field_table.h"
#include "text/grammar.h"

namespace quire {

struct StreamOptions {
  bool include_usage = false, continuous_usage = false;
};

struct CommonRequest {
  std::string model;
  std::optional<std::int32_t> max_tokens;
  std::int32_t min_tokens = 0;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int32_t> top_k;
  double presence_penalty = 0, frequency_penalty = 0;
  double typical_p = 1, xtc_probability = 0, xtc_threshold = 0.1;
  double dry_multiplier = 0, dry_base = 1.75;
  std::int32_t dry_allowed_length = 2, dry_penalty_last_n = -1;
  std::optional<std::vector<std::string>> dry_sequence_breakers;  // absent: llama.cpp's own
  std::optional<std::int64_t> seed;                               // -1 as absent
  std::int32_t n = 1;                                             // answers per prompt
  std::optional<std::int32_t> best_of;  // answers made per prompt, of which the best n are given
  bool use_beam_search = false;         // width: num_candidates()
  std::optional<double> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_token_ids;
  bool include_stop_str_in_output = false, ignore_eos = false;
  bool skip_special_tokens = true, spaces_between_special_tokens = true;
  std::vector<std::pair<TokenId, float>> logit_bias;  // clamped to [-100, 100]
  std::optional<std::vector<std::int32_t>> allowed_token_ids;
  std::vector<std::string> bad_words;
  std::optional<std::int32_t> prompt_logprobs;  // -1: the whole vocabulary
  std::vector<std::int32_t> logprob_token_ids;
  RepetitionRule repetition;
  bool stream = false, echo = false;
  std::optional<StreamOptions> stream_options;
  std::int32_t stream_interval = 1;
  bool include_usage() const { return stream_options && stream_options->include_usage; }
  bool continuous_usage() const { return stream_options && stream_options->continuous_usage; }
  std::optional<std::int32_t> truncate_prompt_tokens;  // -1: what the model takes
  std::string truncation_side;
  std::optional<bool> add_special_tokens;
  bool return_token_ids = false;
  bool return_token_offsets = false;
  std::optional<bool> return_tokens_as_token_ids;
  std::string request_id, cache_salt;
  std::optional<GrammarSpec> grammar;  // what the answer must fit
  std::string grammar_field;           // the field that says so, for errors
  std::int64_t priority = 0;           // smaller is more urgent
  std::optional<double> timeout_s;     // for the whole answer, from the request's arrival
  std::string user;                    // clients take turns by it under --fair-by user

  std::int32_t num_candidates() const { return best_of.value_or(n); }  // per prompt
};

std::span<const Field<CommonRequest>> common_fields();

// Rules between fields, e.g. min_tokens against max_tokens.
Status check_common(const CommonRequest& request);

}  // namespace quire
