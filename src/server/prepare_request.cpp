// Sampling, ends and lengths of a request, checked against the model.
#include <algorithm>
#include <limits>

#include "server/http/request_text.h"
#include "server/prepare.h"

namespace quire {
namespace {

Status check_ids(std::span<const TokenId> ids, std::string_view field, std::size_t vocab_size) {
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= vocab_size) {
      return field_error(field,
                         "`{}` has the token id {}, but this model's vocabulary has {} tokens",
                         field, id, vocab_size);
    }
  }
  return {};
}

// llama.cpp's samplers.
Status add_llama_samplers(const ProtocolContext& context, const CommonRequest& request,
                          SamplingParams* sampling) {
  sampling->typical_p = request.typical_p;
  sampling->xtc_probability = request.xtc_probability;
  sampling->xtc_threshold = request.xtc_threshold;
  sampling->dry_multiplier = request.dry_multiplier;
  sampling->dry_base = request.dry_base;
  sampling->dry_allowed_length = request.dry_allowed_length;
  sampling->dry_penalty_last_n = request.dry_penalty_last_n;
  if (!sampling->dry()) return {};
  QUIRE_ASSIGN(sampling->dry_breakers,
               context.dry_breakers->get(*context.text, request.dry_sequence_breakers.value_or(
                                                            DryBreakerCache::defaults())));
  return {};
}

// Each word as it is written at the start of a text and inside one, as vLLM takes them.
Status add_bad_words(const ProtocolContext& context, const CommonRequest& request,
                     SamplingParams* sampling) {
  for (const auto& word : request.bad_words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(" \t\n\r"), word.size()));
    if (bare.empty())
      return field_error("bad_words", "`bad_words` must not hold a word of white space alone");
    QUIRE_ASSIGN(auto plain, context.text->encode(bare, false));
    QUIRE_ASSIGN(auto spaced, context.text->encode(" " + bare, false));
    if (plain.empty()) continue;
    const bool other_start =
        !spaced.empty() && spaced.front() != plain.front() && spaced.size() == plain.size();
    sampling->bad_words.push_back(std::move(plain));
    if (other_start) sampling->bad_words.push_back(std::move(spaced));
  }
  return {};
}

tl::unexpected<Error> context_error(std::string_view param, std::string message) {
  return tl::unexpected(Error{ErrorCode::kContextLength, std::move(message), std::string(param)});
}

// Clients (LiteLLM, LangChain) know the error by OpenAI's words: "maximum context length is".
Status check_input_length(const ProtocolContext& context, std::size_t num_tokens,
                          std::string_view param) {
  const auto limit = static_cast<std::size_t>(context.options->max_model_len);
  if (num_tokens <= limit) return {};
  return context_error(param,
                       fmt::format("this model's maximum context length is {} tokens, but `{}` has "
                                   "{}: shorten it or set truncate_prompt_tokens",
                                   limit, param, num_tokens));
}

Result<std::int32_t> resolve_max_tokens(const ProtocolContext& context,
                                        const CommonRequest& request, std::size_t prompt_tokens,
                                        std::int32_t default_max_tokens, std::string_view param) {
  const auto limit = static_cast<std::size_t>(context.options->max_model_len);
  if (prompt_tokens + 1 > limit) {
    return context_error(
        param,
        fmt::format("this model's maximum context length is {} tokens, but the prompt has {} and "
                    "the answer needs at least 1: shorten the prompt or set truncate_prompt_tokens",
                    limit, prompt_tokens));
  }
  const auto left = static_cast<std::int32_t>(limit - prompt_tokens);
  if (request.max_tokens) {
    if (*request.max_tokens > left) {
      return context_error(
          request.max_tokens > static_cast<std::int32_t>(limit) ? "max_tokens" : param,
          fmt::format("this model's maximum context length is {} tokens, but {} were asked for ({} "
                      "of the prompt and max_tokens = {}): shorten the prompt or lower max_tokens",
                      limit, prompt_tokens + static_cast<std::size_t>(*request.max_tokens),
                      prompt_tokens, *request.max_tokens));
    }
  }
  const SamplingDefaults& defaults = context.options->sampling;
  std::int32_t out = std::min(left, defaults.max_new_tokens_limit.value_or(left));
  if (request.max_tokens)
    out = std::min(out, *request.max_tokens);
  else if (default_max_tokens > 0)
    out = std::min(out, default_max_tokens);
  else if (defaults.max_new_tokens)
    out = std::min(out, *defaults.max_new_tokens);
  return std::max(1, out);
}

// Nothing is drawn: the likeliest tokens of each step are what the search needs.
BeamParams use_beams(const CommonRequest& request, SamplingParams* sampling) {
  BeamParams beam;
  beam.width = request.num_candidates();
  beam.length_penalty = request.length_penalty.value_or(1);
  beam.early_stopping = request.early_stopping.value_or(EarlyStopping::kExact);
  beam.logprobs = sampling->logprobs;
  sampling->temperature = 0;
  sampling->logprobs_mode = LogprobsMode::kRawLogprobs;  // what beams are ranked by
  sampling->logprobs = std::max(beam.num_candidates(), beam.logprobs);
  return beam;
}

// All choices for the prompt of `request`, which becomes the first.
std::vector<Request> make_choices(const ProtocolContext& context, Request request,
                                  std::int32_t count) {
  std::vector<Request> requests;
  if (count > 1 || request.beam) request.family = request.id;
  for (std::int32_t i = 1; i < count; ++i) {
    Request& other = requests.emplace_back(request);
    other.id = context.generator->next_id();
    other.external_id += fmt::format("-{}", i);
    SamplingParams sampling = *request.sampling;
    sampling.choice = static_cast<std::uint32_t>(i);
    other.sampling = std::make_shared<const SamplingParams>(std::move(sampling));
  }
  requests.insert(requests.begin(), std::move(request));
  return requests;
}

}  // namespace

Result<std::shared_ptr<const Grammar>> compile_grammar(const ProtocolContext& context,
                                                       const GrammarSpec& spec) {
  if (context.lacks_grammar != nullptr && !context.text->has_grammar(spec)) {
    *context.lacks_grammar = true;
    return make_error(ErrorCode::kUnavailable, "the grammar is not compiled yet");
  }
  return context.text->compile_grammar(spec);
}

Result<std::shared_ptr<const Grammar>> compile_grammar(const ProtocolContext& context,
                                                       const CommonRequest& request) {
  GrammarSpec spec = *request.grammar;
  const StructuredOutputDefaults& defaults = context.options->structured_outputs;
  spec.disable_any_whitespace |= defaults.disable_any_whitespace && !spec.has_whitespace_pattern;
  spec.disable_additional_properties |= defaults.disable_additional_properties;
  auto grammar = compile_grammar(context, spec);
  if (grammar || grammar.error().code != ErrorCode::kInvalidArgument) return grammar;
  return field_error(request.grammar_field, "`{}`: {}", request.grammar_field,
                     grammar.error().message);
}

Result<std::string> check_model(const ProtocolContext& context, const std::string& model) {
  const auto& names = context.options->served_model_names;
  if (model.empty()) return names.front();
  if (std::find(names.begin(), names.end(), model) != names.end()) return model;
  return tl::unexpected(
      Error{ErrorCode::kNotFound,
            fmt::format("the model \"{}\" is not served here: use \"{}\"", model, names.front()),
            "model"});
}

void truncate_prompt(const ProtocolContext& context, const CommonRequest& request,
                     std::vector<TokenId>* ids, std::vector<TokenSpan>* spans) {
  if (!request.truncate_prompt_tokens) return;
  auto keep = static_cast<std::size_t>(std::max(0, *request.truncate_prompt_tokens));
  if (*request.truncate_prompt_tokens == -1) {
    keep = static_cast<std::size_t>(
        std::max(1, context.options->max_model_len - std::max(1, request.max_tokens.value_or(1))));
  }
  if (ids->size() <= keep) return;
  const auto cut = [&](auto* list) {
    if (request.truncation_side == "right") {
      list->resize(keep);
    } else {
      list->erase(list->begin(), list->end() - static_cast<std::ptrdiff_t>(keep));
    }
  };
  cut(ids);
  if (spans != nullptr) cut(spans);
}

Status check_token_offsets(const CommonRequest& request, const CallInfo& info) {
  if (!request.return_token_offsets || info.render) return {};
  return field_error("return_token_offsets",
                     "`return_token_offsets` is for /v1/completions/render and "
                     "/v1/chat/completions/render: nothing is generated there");
}

Result<std::vector<TokenId>> encode_prompt(const ProtocolContext& context,
                                           const CommonRequest& request, std::string_view text,
                                           bool add_special_tokens, std::string_view param,
                                           PlacedTokens* placed) {
  const std::size_t longest = std::max<std::size_t>(1, context.text->max_token_bytes());
  const auto limit = static_cast<std::size_t>(context.options->max_model_len);
  if (!request.truncate_prompt_tokens && text.size() / longest > limit) {
    return context_error(
        param,
        fmt::format(
            "this model's maximum context length is {} tokens, but the {} of {} bytes has at "
            "least {}: shorten it or set truncate_prompt_tokens",
            limit, param == "input" ? param : "prompt", text.size(), text.size() / longest));
  }
  const bool place = placed != nullptr && request.return_token_offsets;
  QUIRE_ASSIGN(auto ids, place ? context.text->encode(text, add_special_tokens, &placed->spans)
                               : context.text->encode(text, add_special_tokens));
  if (place) placed->text = text;
  truncate_prompt(context, request, &ids, place ? &placed->spans : nullptr);
  if (ids.empty())
    return field_error(param, "the {} is empty: it must have at least one token",
                       param == "input" ? param : "prompt");
  return ids;
}

Result<std::int32_t> resolve_logprobs(const ProtocolContext& context, std::int32_t count,
                                      std::string_view field) {
  const std::int32_t limit = context.options->max_logprobs;
  const auto vocab_size = static_cast<std::int32_t>(context.text->vocab_size());
  const std::int32_t wanted = count == -1 ? vocab_size : count;
  if (wanted > limit) {
    return field_error(field, "`{}` must be at most {} (--max-logprobs), but it is {}", field,
                       limit,
                       count == -1 ? fmt::format("-1, the whole vocabulary of {}", vocab_size)
                                   : std::to_string(count));
  }
  return std::min(wanted, vocab_size);
}

namespace {
// Silence about it would mislead: who sends a priority counts on it.
Status check_priority(const ProtocolContext& context, const CommonRequest& request) {
  if (request.priority == 0 || context.options->priority_scheduling) return {};
  return field_error("priority",
                     "`priority` is {}, but this server takes requests in the order of arrival: "
                     "leave it out, or start the server with --scheduling-policy priority",
                     request.priority);
}
}  // namespace

Result<RequestTemplate> make_template(const ProtocolContext& context,
                                      const CommonRequest& request) {
  const ServerOptions& options = *context.options;
  const std::size_t vocab_size = context.text->vocab_size();
  RequestTemplate out;
  QUIRE_TRY(check_priority(context, request));
  SamplingParams& sampling = out.sampling;
  sampling.temperature = request.temperature.value_or(options.sampling.temperature);
  sampling.top_p = request.top_p.value_or(options.sampling.top_p);
  sampling.min_p = request.min_p.value_or(options.sampling.min_p);
  sampling.top_k = std::max(0, request.top_k.value_or(options.sampling.top_k));
  sampling.repetition_penalty =
      request.repetition_penalty.value_or(options.sampling.repetition_penalty);
  sampling.presence_penalty = request.presence_penalty;
  sampling.frequency_penalty = request.frequency_penalty;
  out.fresh_seed = request.seed.value_or(-1) == -1;
  if (!out.fresh_seed) sampling.seed = static_cast<std::uint64_t>(*request.seed);
  sampling.logit_bias = request.logit_bias;
  for (const auto& [id, bias] : request.logit_bias)
    QUIRE_TRY(check_ids({&id, 1}, "logit_bias", vocab_size));
  if (request.allowed_token_ids) {
    QUIRE_TRY(check_ids(*request.allowed_token_ids, "allowed_token_ids", vocab_size));
    sampling.allowed_token_ids = *request.allowed_token_ids;
  }
  QUIRE_TRY(add_bad_words(context, request, &sampling));
  QUIRE_TRY(add_llama_samplers(context, request, &sampling));
  sampling.min_tokens = request.min_tokens;
  sampling.logprobs_mode = options.logprobs_mode;
  // The best are chosen by their log-probabilities.
  if (request.num_candidates() > request.n && !request.use_beam_search) {
    sampling.logprobs = 0;
    sampling.logprobs_mode = LogprobsMode::kRawLogprobs;
  }
  if (request.prompt_logprobs) {
    QUIRE_ASSIGN(sampling.prompt_logprobs,
                 resolve_logprobs(context, *request.prompt_logprobs, "prompt_logprobs"));
  }
  QUIRE_TRY(check_ids(request.logprob_token_ids, "logprob_token_ids", vocab_size));
  sampling.logprob_token_ids = request.logprob_token_ids;

  StopRules& stop = out.stop;
  QUIRE_TRY(check_ids(request.stop_token_ids, "stop_token_ids", vocab_size));
  stop.eos_ids = options.eos_ids;
  stop.stop_token_ids = request.stop_token_ids;
  stop.stop_strings = request.stop;
  stop.include_stop_str_in_output = request.include_stop_str_in_output;
  stop.ignore_eos = request.ignore_eos;
  stop.repetition = request.repetition;
  if (!request.ignore_eos) sampling.end_token_ids = options.eos_ids;
  sampling.end_token_ids.insert(sampling.end_token_ids.end(), stop.stop_token_ids.begin(),
                                stop.stop_token_ids.end());
  if (request.grammar) {
    QUIRE_ASSIGN(out.grammar, compile_grammar(context, request));
  }
  return out;
}

Result<Request> make_request(const ProtocolContext& context, const CommonRequest& request,
                             RequestTemplate parts, std::vector<TokenId> prompt,
                             std::int32_t default_max_tokens, const std::string& external_id,
                             double arrival_s, std::string_view param) {
  const auto vocab_size = static_cast<std::int64_t>(context.text->vocab_size());
  QUIRE_TRY(check_ids(prompt, param, static_cast<std::size_t>(vocab_size)));
  if (parts.sampling.pooling != Pooling::kNone) {  // only the prompt is computed
    QUIRE_TRY(check_input_length(context, prompt.size(), param));
    parts.stop.max_tokens = 0;
  } else {
    QUIRE_ASSIGN(parts.stop.max_tokens,
                 resolve_max_tokens(context, request, prompt.size(), default_max_tokens, param));
  }
  if (request.min_tokens > parts.stop.max_tokens && !request.max_tokens) {
    return field_error("min_tokens", "`min_tokens` must be at most `max_tokens` = {}, but it is {}",
                       parts.stop.max_tokens, request.min_tokens);
  }
  if (parts.fresh_seed) parts.sampling.seed = context.seeds->next();
  QUIRE_TRY(validate_sampling_params(parts.sampling, vocab_size));
  Request out;
  if (request.use_beam_search) out.beam = use_beams(request, &parts.sampling);
  out.id = context.generator->next_id();
  out.external_id = external_id;
  out.prompt = std::make_shared<const std::vector<TokenId>>(std::move(prompt));
  out.sampling = std::make_shared<const SamplingParams>(std::move(parts.sampling));
  out.stop = std::move(parts.stop);
  out.grammar = std::move(parts.grammar);
  out.grammar_start = std::move(parts.grammar_start);
  out.thinking = parts.thinking;
  out.skip_special_tokens = request.skip_special_tokens;
  out.spaces_between_special_tokens = request.spaces_between_special_tokens;
  out.cache_salt = request.cache_salt.empty() ? 0 : hash_text(request.cache_salt);
  out.arrival_s = arrival_s;
  if (request.timeout_s) out.deadline_s = arrival_s + *request.timeout_s;
  out.priority = request.priority;
  if (context.options->fair_by == FairBy::kUser) out.client = hash_text(request.user);
  return out;
}

void add_choices(const ProtocolContext& context, const CommonRequest& request, Request first,
                 const std::string& prompt_text, PreparedCall* call, std::vector<Choice>* choices) {
  for (Request& made : make_choices(context, std::move(first), request.num_candidates())) {
    Choice& choice = choices->emplace_back();
    choice.prompt = made.prompt;
    choice.prompt_text = prompt_text;
    call->requests.push_back(std::move(made));
  }
}

}  // namespace quire
