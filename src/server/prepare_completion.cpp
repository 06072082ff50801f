#include "base/clock.h"
#include "server/prepare.h"
#include "server/protocol/completion_request.h"

namespace quire {
namespace {

constexpr std::int32_t kDefaultMaxTokens = 16;  // OpenAI's
constexpr std::size_t kMaxAllChoices = 16384;   // of all prompts of one request

AnswerOptions answer_options(const ProtocolContext& context, const CompletionRequest& request,
                             const CallInfo& info, std::string model) {
  AnswerOptions out;
  out.id = "cmpl-" + (request.request_id.empty() ? info.request_id : request.request_id);
  out.model = std::move(model);
  out.created = unix_time_s();
  out.stream = request.stream;
  out.include_usage =
      request.include_usage() || (request.stream && context.options->enable_force_include_usage);
  out.continuous_usage = out.include_usage && request.continuous_usage();
  out.echo = request.echo;
  out.logprobs = request.logprobs.has_value();
  out.top_logprobs = request.logprobs.value_or(0);
  out.prompt_logprobs = request.prompt_logprobs.has_value();
  out.return_token_ids = request.return_token_ids;
  out.stream_interval = std::max(request.stream_interval, context.options->stream_interval);
  out.tokens_as_ids =
      request.return_tokens_as_token_ids.value_or(context.options->return_tokens_as_token_ids);
  out.cached_tokens = context.options->enable_prompt_tokens_details;
  out.score_only = request.max_tokens == 0;
  out.n = static_cast<std::size_t>(request.n);
  out.candidates = static_cast<std::size_t>(request.num_candidates());
  out.ranked = request.use_beam_search;
  return out;
}

// The ids of one prompt, and its text for echo.
Result<std::vector<TokenId>> take_prompt(const ProtocolContext& context, CompletionRequest& request,
                                         std::size_t index, std::string* echo_text,
                                         PlacedTokens* placed) {
  auto& prompt = request.prompts[index];
  if (auto* text = std::get_if<std::string>(&prompt)) {
    QUIRE_ASSIGN(auto ids,
                 encode_prompt(context, request, *text, request.add_special_tokens.value_or(true),
                               "prompt", placed));
    if (request.echo)
      *echo_text = request.truncate_prompt_tokens ? context.text->decode(ids, true) : *text;
    return ids;
  }
  auto ids = std::move(std::get<std::vector<TokenId>>(prompt));
  truncate_prompt(context, request, &ids);
  if (request.echo) *echo_text = context.text->decode(ids, false);
  return ids;
}

}  // namespace

Result<PreparedCall> prepare_completion(const ProtocolContext& context, std::string_view body,
                                        const CallInfo& info) {
  QUIRE_ASSIGN(auto request, parse_completion_request(body));
  QUIRE_TRY(check_token_offsets(request, info));
  QUIRE_ASSIGN(auto model, check_model(context, request.model));
  if (request.prompts.size() > context.options->max_prompts) {
    return field_error("prompt", "`prompt` may hold at most {} prompts, but it holds {}",
                       context.options->max_prompts, request.prompts.size());
  }
  const std::size_t num_choices =
      request.prompts.size() * static_cast<std::size_t>(request.num_candidates());
  if (num_choices > kMaxAllChoices) {
    return field_error(request.best_of ? "best_of" : "n",
                       "{} prompts with {} answers each are {} answers, but one request may ask "
                       "for at most {}",
                       request.prompts.size(), request.num_candidates(), num_choices,
                       kMaxAllChoices);
  }
  if (request.logprobs) {
    QUIRE_ASSIGN(request.logprobs, resolve_logprobs(context, *request.logprobs, "logprobs"));
  }
  QUIRE_ASSIGN(auto parts, make_template(context, request));
  if (request.logprobs) {
    parts.sampling.logprobs = *request.logprobs;
    if (request.echo)
      parts.sampling.prompt_logprobs = std::max(parts.sampling.prompt_logprobs, *request.logprobs);
  }
  const AnswerOptions options = answer_options(context, request, info, std::move(model));

  PreparedCall out;
  std::vector<Choice> choices;
  const std::size_t num_prompts = request.prompts.size();
  for (std::size_t i = 0; i < num_prompts; ++i) {
    std::string echo_text;
    QUIRE_ASSIGN(auto ids,
                 take_prompt(context, request, i, &echo_text, &out.placed.emplace_back()));
    const std::string id = num_prompts == 1 ? options.id : fmt::format("{}-{}", options.id, i);
    QUIRE_ASSIGN(auto engine_request,
                 make_request(context, request, parts, std::move(ids), kDefaultMaxTokens, id,
                              info.arrival_s, "prompt"));
    add_choices(context, request, std::move(engine_request), echo_text, &out, &choices);
  }
  // Only echo, and no scores: nothing to compute.
  if (options.score_only && parts.sampling.prompt_logprobs < 0 && !info.render)
    out.requests.clear();
  out.answer = make_completion_answer(options, context.text, std::move(choices));
  return out;
}

}  // namespace quire
