#include "server/protocol/common_request.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace quire {
namespace {

namespace json = boost::json;
using R = CommonRequest;

constexpr double kMaxInt32 = 2147483647;
constexpr double kMaxInt64 = 9.3e18;
constexpr double kAnyNumber = 1.7e308;
constexpr std::size_t kMaxBadWords = 128;
constexpr std::size_t kMaxRequestIdBytes = 256;
constexpr double kMaxChoices = 16384;  // vLLM's limit of n
constexpr std::int32_t kMaxBeams = 256;
constexpr double kMaxLengthPenalty = 100;

Status read_stream_options(R& request, const json::value& value, const Field<R>& field) {
  const auto* object = value.if_object();
  if (object == nullptr) {
    return field_error(field.name, "`stream_options` must be an object, but it is {}",
                       json_kind(value));
  }
  request.has_stream_options = true;
  static constexpr std::array kTable{bool_field<&R::include_usage>("include_usage"),
                                     bool_field<&R::continuous_usage>("continuous_usage_stats")};
  return read_fields<R>(*object, kTable, request);
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
    if (error != std::errc{} || end != key.data() + key.size() || id < 0) {
      return field_error(field.name, "`logit_bias` has the key \"{}\", which is not a token id",
                         key);
    }
    QUIRE_ASSIGN(const double bias, read_number(member.value(), fmt::format("logit_bias.{}", key),
                                                -kAnyNumber, kAnyNumber, false));
    request.logit_bias.emplace_back(id, static_cast<float>(std::clamp(bias, -100.0, 100.0)));
  }
  return {};
}

// Only `allowed` passes: more is known but not built.
Status read_only(const json::value& value, std::string_view name, double min, double allowed) {
  QUIRE_ASSIGN(const double number, read_number(value, name, min, kAnyNumber, false));
  if (number == allowed) return {};
  return field_error(name, "`{}` = {} is not supported yet by this version: use {}", name, number,
                     allowed);
}
Status read_priority(R&, const json::value& value, const Field<R>& field) {
  QUIRE_TRY(read_integer(value, field.name, -kMaxInt64, kMaxInt64));
  return read_only(value, field.name, -kMaxInt64, 0);
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
Status read_thinking_budget(R&, const json::value& value, const Field<R>& field) {
  return read_only(value, field.name, -1, -1);
}

Status read_cache_salt(R& request, const json::value& value, const Field<R>& field) {
  QUIRE_ASSIGN(request.cache_salt, read_string(value, field.name));
  if (request.cache_salt.empty())
    return field_error(field.name, "`cache_salt` must not be empty: leave it out");
  return {};
}

Status read_response_format(R&, const json::value& value, const Field<R>& field) {
  const auto* object = value.if_object();
  const auto* type = object == nullptr ? nullptr : object->if_contains("type");
  if (type == nullptr || !type->is_string()) {
    return field_error(field.name, "`response_format` must be an object with a \"type\"");
  }
  if (type->get_string() == "text") return {};
  const auto& name = type->get_string();
  return field_error(
      field.name, "`response_format` of type \"{}\" is not supported by this version: use \"text\"",
      std::string_view(name.data(), name.size()));
}

}  // namespace

std::span<const Field<CommonRequest>> common_fields() {
  static const std::array kTable{
      string_field<&R::model>("model"),
      integer_field<&R::max_tokens>("max_tokens", 0, kMaxInt32),
      integer_field<&R::min_tokens>("min_tokens", 0, kMaxInt32),
      number_field<&R::temperature>("temperature", 0, 2),
      number_field<&R::top_p>("top_p", 0, 1, true),
      integer_field<&R::top_k>("top_k", -1, kMaxInt32),
      number_field<&R::min_p>("min_p", 0, 1),
      number_field<&R::presence_penalty>("presence_penalty", -2, 2),
      number_field<&R::frequency_penalty>("frequency_penalty", -2, 2),
      number_field<&R::repetition_penalty>("repetition_penalty", 0, kAnyNumber, true),
      integer_field<&R::seed>("seed", -kMaxInt64, kMaxInt64),
      integer_field<&R::n>("n", 1, kMaxChoices),
      integer_field<&R::best_of>("best_of", 1, kMaxChoices),
      strings_field<&R::stop>("stop", 4),
      integers_field<&R::stop_token_ids>("stop_token_ids", 0, kMaxInt32),
      bool_field<&R::include_stop_str_in_output>("include_stop_str_in_output"),
      bool_field<&R::ignore_eos>("ignore_eos"),
      bool_field<&R::skip_special_tokens>("skip_special_tokens"),
      bool_field<&R::spaces_between_special_tokens>("spaces_between_special_tokens"),
      custom_field<R>("logit_bias", &read_logit_bias),
      integers_field<&R::allowed_token_ids>("allowed_token_ids", 0, kMaxInt32),
      strings_field<&R::bad_words>("bad_words", kMaxBadWords),
      integer_field<&R::prompt_logprobs>("prompt_logprobs", 0, kMaxInt32),
      bool_field<&R::stream>("stream"),
      custom_field<R>("stream_options", &read_stream_options),
      bool_field<&R::echo>("echo"),
      integer_field<&R::truncate_prompt_tokens>("truncate_prompt_tokens", -1, kMaxInt32),
      string_field<&R::truncation_side>("truncation_side"),
      bool_field<&R::add_special_tokens>("add_special_tokens"),
      bool_field<&R::return_token_ids>("return_token_ids"),
      bool_field<&R::return_tokens_as_token_ids>("return_tokens_as_token_ids"),
      string_field<&R::request_id>("request_id"),
      custom_field<R>("cache_salt", &read_cache_salt),
      custom_field<R>("priority", &read_priority),
      bool_field<&R::use_beam_search>("use_beam_search"),
      number_field<&R::length_penalty>("length_penalty", -kMaxLengthPenalty, kMaxLengthPenalty),
      custom_field<R>("early_stopping", &read_early_stopping),
      custom_field<R>("thinking_token_budget", &read_thinking_budget),
      custom_field<R>("response_format", &read_response_format),
      unsupported_field<R>("structured_outputs"),
      unsupported_field<R>("guided_json"),
      unsupported_field<R>("guided_regex"),
      unsupported_field<R>("guided_choice"),
      unsupported_field<R>("guided_grammar"),
      unsupported_field<R>("logprob_token_ids"),
      unsupported_field<R>("repetition_detection"),
      unsupported_field<R>("prompt_embeds"),
      unsupported_field<R>("kv_transfer_params"),
      unsupported_field<R>("watermarking"),
  };
  return kTable;
}

// It stands in the answer's id and in the log.
Status check_request_id(const std::string& id) {
  if (id.size() > kMaxRequestIdBytes) {
    return field_error("request_id", "`request_id` may have at most {} bytes, but it has {}",
                       kMaxRequestIdBytes, id.size());
  }
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
  const std::array<std::pair<const char*, bool>, 6> kNotWithBeams{{
      {"presence_penalty", request.presence_penalty != 0},
      {"frequency_penalty", request.frequency_penalty != 0},
      {"repetition_penalty", request.repetition_penalty.value_or(1) != 1},
      {"logit_bias", !request.logit_bias.empty()},
      {"allowed_token_ids", request.allowed_token_ids.has_value()},
      {"bad_words", !request.bad_words.empty()},
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
  if (request.has_stream_options && !request.stream) {
    return field_error("stream_options", "`stream_options` may only be given with `stream` = true");
  }
  if (request.stream && request.prompt_logprobs) {
    return field_error("prompt_logprobs", "`prompt_logprobs` is not possible with `stream` = true");
  }
  if (request.allowed_token_ids && request.allowed_token_ids->empty()) {
    return field_error("allowed_token_ids",
                       "`allowed_token_ids` must not be empty: leave it out to allow all");
  }
  if (request.truncate_prompt_tokens == 0) {
    return field_error(
        "truncate_prompt_tokens",
        "`truncate_prompt_tokens` must be at least 1, or -1 for the model's limit, but it is 0");
  }
  if (!request.truncation_side.empty() && request.truncation_side != "left" &&
      request.truncation_side != "right") {
    return field_error("truncation_side",
                       "`truncation_side` must be \"left\" or \"right\", but it is \"{}\"",
                       request.truncation_side);
  }
  if (request.max_tokens && request.min_tokens > *request.max_tokens) {
    return field_error("min_tokens", "`min_tokens` must be at most `max_tokens` = {}, but it is {}",
                       *request.max_tokens, request.min_tokens);
  }
  return {};
}

}  // namespace quire
