#include "server/protocol/common_request.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "server/protocol/structured_fields.h"

namespace quire {
namespace {

namespace json = boost::json;
using R = CommonRequest;

constexpr double kMaxTimeoutS = 86400 * 30;

constexpr std::size_t kMaxBadWords = 128, kMaxBreakers = 64, kMaxLogprobIds = 128;
constexpr std::size_t kMaxRequestIdBytes = 256;
constexpr double kMaxChoices = 16384;  // vLLM's limit of n
constexpr std::int32_t kMaxBeams = 256;
constexpr double kMaxLengthPenalty = 100;

constexpr unsigned kAll = kOpenAi | kVllm | kLlamaCpp;
constexpr std::string_view kLogitBiasSchema = R"({"type": "object",
    "propertyNames": {"pattern": "^[0-9]+$"}, "additionalProperties": {"type": "number"}})";

std::span<const Field<StreamOptions>> stream_option_fields() {
  static constexpr std::array kTable{
      bool_field<&StreamOptions::include_usage>("include_usage")
          .is(kOpenAi | kVllm, "false", "A last chunk with usage and no choices"),
      bool_field<&StreamOptions::continuous_usage>("continuous_usage_stats")
          .is(kVllm, "false", "Usage in every chunk, with `include_usage`"),
  };
  return kTable;
}

std::span<const Field<RepetitionRule>> repetition_fields() {
  static constexpr std::array kTable{
      integer_field<&RepetitionRule::max_pattern_size>("max_pattern_size", 0, kMaxInt32)
          .must()
          .is(kVllm, "", "Longest pattern looked for, in tokens; 0: off"),
      integer_field<&RepetitionRule::min_pattern_size>("min_pattern_size", 1, kMaxInt32)
          .is(kVllm, "1", "Shortest pattern looked for"),
      integer_field<&RepetitionRule::min_count>("min_count", 2, kMaxInt32)
          .is(kVllm, "2", "Times that the pattern stands at the end, one after the other"),
  };
  return kTable;
}

Status read_logit_bias(R& request, const json::value& value, const Field<R>& field) {
  const auto* object = value.if_object();
  if (object == nullptr) {
    return field_error(field.name,
                       "`logit_bias` must be an object of token ids and numbers, but it is {}",
                       json_kind(value));
  }
  for (const auto& member : *object) {
    const std::string_view key(member.key().data(), member.key().size());
    TokenId id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc{} || end != key.data() + key.size() || id < 0 || key.front() == '-') {
      return field_error(field.name, "`logit_bias` has the key \"{}\", which is not a token id",
                         key);
    }
    QUIRE_ASSIGN(const double bias, read_number(member.value(), fmt::format("logit_bias.{}", key),
                                                -kAnyNumber, kAnyNumber, false));
    request.logit_bias.emplace_back(id, static_cast<float>(std::clamp(bias, -100.0, 100.0)));
  }
  return {};
}

Status read_early_stopping(R& request, const json::value& value, const Field<R>& field) {
  if (value.is_string() && value.get_string() == "never") {
    request.early_stopping = EarlyStopping::kExact;
  } else if (value.is_bool()) {
    request.early_stopping = value.get_bool() ? EarlyStopping::kFirst : EarlyStopping::kHeuristic;
  } else {
    return field_error(field.name,
                       "`early_stopping` must be true, false or \"never\", but it is {}",
                       json_kind(value));
  }
  return {};
}

std::span<const Field<CommonRequest>> sampling_fields() {
  static constexpr std::array kTable{
      number_field<&R::temperature>("temperature", 0, 2)
          .is(kAll, "1", "Sharpness of the draw; 0 takes the likeliest token"),
      number_field<&R::top_p>("top_p", 0, 1, true)
          .is(kAll, "1", "Draws from the smallest best set that holds this share"),
      integer_field<&R::top_k>("top_k", -1, kMaxInt32)
          .is(kVllm | kLlamaCpp, "0", "Draws from the k best tokens; 0 or -1: all"),
      number_field<&R::min_p>("min_p", 0, 1)
          .is(kVllm | kLlamaCpp, "0",
              "Drops tokens under this share of the best one's probability"),
      number_field<&R::typical_p>("typical_p", 0, 1, true)
          .is(kLlamaCpp, "1", "Locally typical sampling: keeps this share around the entropy"),
      number_field<&R::presence_penalty>("presence_penalty", -2, 2)
          .is(kAll, "0", "Taken off the logit of each token that was generated"),
      number_field<&R::frequency_penalty>("frequency_penalty", -2, 2)
          .is(kAll, "0", "Taken off for each time that a token was generated"),
      number_field<&R::repetition_penalty>("repetition_penalty", 0, kAnyNumber, true)
          .is(kVllm, "1", "Divides positive logits of tokens in prompt and output"),
      number_field<&R::dry_multiplier>("dry_multiplier", 0, 1e6)
          .is(kLlamaCpp, "0", "DRY: weight of the penalty on continuing a repeat; 0: off"),
      number_field<&R::dry_base>("dry_base", 1, 1e6)
          .is(kLlamaCpp, "1.75", "DRY: growth of the penalty with each token of the repeat"),
      integer_field<&R::dry_allowed_length>("dry_allowed_length", 0, kMaxInt32)
          .is(kLlamaCpp, "2", "DRY: repeats from this many tokens on are penalised"),
      integer_field<&R::dry_penalty_last_n>("dry_penalty_last_n", -1, kMaxInt32)
          .is(kLlamaCpp, "-1", "DRY: tokens looked at; -1: all, 0: none"),
      strings_field<&R::dry_sequence_breakers>("dry_sequence_breakers", kMaxBreakers)
          .is(kLlamaCpp, R"(["\n", ":", "\"", "*"])", "DRY: texts that repeats end at"),
      number_field<&R::xtc_probability>("xtc_probability", 0, 1)
          .is(kLlamaCpp, "0", "XTC: chance that the likeliest tokens are left out of a draw"),
      number_field<&R::xtc_threshold>("xtc_threshold", 0, 1)
          .is(kLlamaCpp, "0.1", "XTC: all tokens this likely but the last are left out"),
      integer_field<&R::seed>("seed", -kMaxInt64, kMaxInt64)
          .is(kAll, "null", "Same seed, same text; -1 or absent: a fresh one"),
      integer_field<&R::n>("n", 1, kMaxChoices).is(kOpenAi | kVllm, "1", "Answers per prompt"),
      integer_field<&R::best_of>("best_of", 1, kMaxChoices)
          .is(kOpenAi, "null", "Answers made per prompt, of which the best `n` are given"),
      custom_field<R>("logit_bias", kLogitBiasSchema, &read_logit_bias)
          .is(kOpenAi | kVllm, "null", "Added to logits, by token id; clamped to -100..100"),
      integers_field<&R::allowed_token_ids>("allowed_token_ids", 0, kMaxInt32)
          .items(1, SIZE_MAX)
          .is(kVllm, "null", "Only these tokens may come"),
      strings_field<&R::bad_words>("bad_words", kMaxBadWords)
          .is(kVllm, "[]", "Words that must not come"),
      bool_field<&R::use_beam_search>("use_beam_search")
          .is(kVllm, "false", "Beam search with `best_of` (or `n`) beams in place of draws"),
      number_field<&R::length_penalty>("length_penalty", -kMaxLengthPenalty, kMaxLengthPenalty)
          .is(kVllm, "1", "Beams are ranked by their sum over length^this"),
      custom_field<R>("early_stopping", R"({"enum": [true, false, "never"]})", &read_early_stopping)
          .is(kVllm, R"("never")", "When beam search ends"),
  };
  return kTable;
}

std::span<const Field<CommonRequest>> end_fields() {
  static constexpr std::array kTable{
      integer_field<&R::max_tokens>("max_tokens", 0, kMaxInt32)
          .is(kAll, "",
              "Tokens to generate at most; absent: 16 (completions), or what fits (chat)"),
      integer_field<&R::min_tokens>("min_tokens", 0, kMaxInt32)
          .is(kVllm, "0", "No end before this many tokens"),
      strings_field<&R::stop>("stop", 4).is(kAll, "[]", "Texts that end the answer"),
      integers_field<&R::stop_token_ids>("stop_token_ids", 0, kMaxInt32)
          .is(kVllm, "[]", "Tokens that end the answer"),
      bool_field<&R::include_stop_str_in_output>("include_stop_str_in_output")
          .is(kVllm, "false", "Show what ended the answer"),
      bool_field<&R::ignore_eos>("ignore_eos")
          .is(kVllm | kLlamaCpp, "false", "Go on after the model's end token"),
      object_field<&R::repetition, &repetition_fields>("repetition_detection")
          .is(kVllm, "null", "Ends an answer that repeats itself (finish_reason \"repetition\")"),
  };
  return kTable;
}

std::span<const Field<CommonRequest>> output_fields() {
  static constexpr std::array kTable{
      bool_field<&R::stream>("stream").is(kAll, "false", "Answer as server-sent events"),
      object_field<&R::stream_options, &stream_option_fields>("stream_options")
          .is(kOpenAi | kVllm, "null", "Only with `stream`"),
      integer_field<&R::stream_interval>("stream_interval", 1, kMaxInt32)
          .is(kVllm, "1",
              "Tokens of a chunk, but for the first and the last; at least the server's"),
      integer_field<&R::prompt_logprobs>("prompt_logprobs", -1, kMaxInt32)
          .is(kVllm, "null", "Log-probabilities of prompt tokens, this many each; -1: all"),
      integers_field<&R::logprob_token_ids>("logprob_token_ids", 0, kMaxInt32)
          .items(1, kMaxLogprobIds)
          .is(kVllm, "null", "Log-probabilities of these tokens in place of the likeliest"),
      bool_field<&R::echo>("echo").is(kOpenAi | kVllm, "false", "Show the prompt first"),
      bool_field<&R::skip_special_tokens>("skip_special_tokens")
          .is(kVllm, "true", "Leave special tokens out of the text"),
      bool_field<&R::spaces_between_special_tokens>("spaces_between_special_tokens")
          .is(kVllm, "true", "Spaces between special tokens that are shown"),
      bool_field<&R::return_token_ids>("return_token_ids")
          .is(kVllm, "false", "Show token ids of prompt and answer"),
      bool_field<&R::return_token_offsets>("return_token_offsets")
          .is(kVllm, "false", "Show where tokens stand in the text; at .../render alone"),
      bool_field<&R::return_tokens_as_token_ids>("return_tokens_as_token_ids")
          .is(kVllm, "false", "Spell tokens of log-probabilities as `token_id:N`"),
  };
  return kTable;
}

std::span<const Field<CommonRequest>> request_fields() {
  static constexpr std::array kTable{
      string_field<&R::model>("model").is(kAll, "", "Absent: the first name served"),
      integer_field<&R::truncate_prompt_tokens>("truncate_prompt_tokens", -1, kMaxInt32)
          .is(kVllm, "null", "Keep this many prompt tokens at most; -1: what fits"),
      choice_field<&R::truncation_side>("truncation_side", "left|right")
          .is(kVllm, "\"left\"", "The side that is cut off"),
      bool_field<&R::add_special_tokens>("add_special_tokens")
          .is(kVllm, "", "Begin with the model's start token; absent: true, in chats false"),
      string_field<&R::request_id>("request_id")
          .items(0, kMaxRequestIdBytes)
          .is(kVllm, "", "Part of the answer's id, and in the log; absent: random"),
      string_field<&R::cache_salt>("cache_salt")
          .items(1, SIZE_MAX)
          .is(kVllm, "null", "Prefixes are shared with requests of the same salt alone"),
      integer_field<&R::priority>("priority", -kMaxInt64, kMaxInt64)
          .is(kVllm, "0", "Lower comes sooner; needs --scheduling-policy priority"),
      number_field<&R::timeout_s>("timeout", 0, kMaxTimeoutS, true)
          .is(0, "null", "Seconds for the whole answer, from the request's arrival; then 504"),
      string_field<&R::user>("user").is(kOpenAi | kVllm, "null",
                                        "Users take turns under --fair-by user"),
      ignored_field<R>("metadata", FieldKind::kObject)
          .is(kOpenAi, "null", "Accepted; nothing is stored that it could be found by"),
      ignored_field<R>("service_tier", FieldKind::kChoice, "auto|default")
          .is(kOpenAi | kVllm, "\"auto\"", "There is one tier"),
      ignored_field<R>("safety_identifier", FieldKind::kString)
          .is(kOpenAi, "null", "Accepted; nothing changes"),
      ignored_field<R>("prompt_cache_key", FieldKind::kString)
          .is(kOpenAi, "null", "Accepted; equal prefixes are found without it"),
      ignored_field<R>("session_id", FieldKind::kString)
          .is(kVllm, "null", "Accepted; there is one engine to go to"),
      unsupported_field<R>("prompt_embeds").is(kVllm, "null", "Prompts as embeddings"),
      unsupported_field<R>("kv_transfer_params").is(kVllm, "null", "Prefill on another server"),
      unsupported_field<R>("ec_transfer_params").is(kVllm, "null", "Encoding on another server"),
      unsupported_field<R>("vllm_xargs").is(kVllm, "null", "For plug-ins"),
      unsupported_field<R>("watermarking").is(kVllm, "false", "Marked text"),
  };
  return kTable;
}

}  // namespace

std::span<const Field<CommonRequest>> common_fields() {
  static const std::vector<Field<R>> kTable = [] {
    std::vector<Field<R>> all;
    for (const auto part :
         {request_fields(), sampling_fields(), end_fields(), output_fields(), structured_fields()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return kTable;
}

// It stands in the answer's id and in the log.
Status check_request_id(const std::string& id) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::any_of(id.begin(), id.end(), is_control))
    return field_error("request_id", "`request_id` must not hold control characters");
  return {};
}

Status check_best_of(const CommonRequest& request) {
  if (request.num_candidates() < request.n) {
    return field_error("best_of", "`best_of` must be at least `n` = {}, but it is {}", request.n,
                       *request.best_of);
  }
  if (request.stream && request.num_candidates() > request.n) {
    return field_error("best_of",
                       "`best_of` = {} is not possible with `stream` = true: which {} of them are "
                       "the best is known at the end only",
                       *request.best_of, request.n);
  }
  return {};
}

// Beams are ranked by what the model itself says.
Status check_beam_search(const CommonRequest& request) {
  if (!request.use_beam_search) {
    if (request.length_penalty.value_or(1) == 1 &&
        request.early_stopping.value_or(EarlyStopping::kHeuristic) == EarlyStopping::kHeuristic) {
      return {};
    }
    const char* name =
        request.length_penalty.value_or(1) == 1 ? "early_stopping" : "length_penalty";
    return field_error(name, "`{}` needs `use_beam_search` = true", name);
  }
  if (request.num_candidates() > kMaxBeams) {
    return field_error(request.best_of ? "best_of" : "n",
                       "beam search takes at most {} beams, but {} were asked for", kMaxBeams,
                       request.num_candidates());
  }
  const std::array<std::pair<const char*, bool>, 10> kNotWithBeams{{
      {"presence_penalty", request.presence_penalty != 0},
      {"frequency_penalty", request.frequency_penalty != 0},
      {"repetition_penalty", request.repetition_penalty.value_or(1) != 1},
      {"logit_bias", !request.logit_bias.empty()},
      {"allowed_token_ids", request.allowed_token_ids.has_value()},
      {"bad_words", !request.bad_words.empty()},
      {request.grammar_field.c_str(), request.grammar.has_value()},
      {"dry_multiplier", request.dry_multiplier != 0},
      {"logprob_token_ids", !request.logprob_token_ids.empty()},
      {"repetition_detection", request.repetition.max_pattern_size != 0},
  }};
  for (const auto& [name, given] : kNotWithBeams) {
    if (given) return field_error(name, "`{}` is not possible with `use_beam_search` = true", name);
  }
  return {};
}

Status check_common(const CommonRequest& request) {
  QUIRE_TRY(check_request_id(request.request_id));
  QUIRE_TRY(check_best_of(request));
  QUIRE_TRY(check_beam_search(request));
  if (request.stream_options && !request.stream) {
    return field_error("stream_options", "`stream_options` may only be given with `stream` = true");
  }
  if (request.stream && request.prompt_logprobs) {
    return field_error("prompt_logprobs", "`prompt_logprobs` is not possible with `stream` = true");
  }
  if (request.truncate_prompt_tokens == 0) {
    return field_error(
        "truncate_prompt_tokens",
        "`truncate_prompt_tokens` must be at least 1, or -1 for the model's limit, but it is 0");
  }
  if (request.repetition.min_pattern_size > request.repetition.max_pattern_size &&
      request.repetition.max_pattern_size > 0) {
    return field_error("repetition_detection.min_pattern_size",
                       "`repetition_detection.min_pattern_size` must be at most "
                       "`max_pattern_size` = {}, but it is {}",
                       request.repetition.max_pattern_size, request.repetition.min_pattern_size);
  }
  if (request.max_tokens && request.min_tokens > *request.max_tokens) {
    return field_error("min_tokens", "`min_tokens` must be at most `max_tokens` = {}, but it is {}",
                       *request.max_tokens, request.min_tokens);
  }
  return {};
}

}  // namespace quire
