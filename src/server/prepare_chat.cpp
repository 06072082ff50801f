#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "base/clock.h"
#include "server/constrain_calls.h"
#include "server/prepare.h"
#include "server/protocol/chat_messages.h"
#include "server/protocol/json_parse.h"
#include "server/thinking.h"
#include "server/tools_in_words.h"

namespace quire {
namespace {

namespace json = boost::json;

// The server's template variables, with the request's over them.
Result<std::string> merge_kwargs(const std::string& defaults, const std::string& own) {
  if (defaults.empty() || own.empty()) return own.empty() ? defaults : own;
  QUIRE_ASSIGN(auto merged, parse_json(defaults));
  QUIRE_ASSIGN(const auto over, parse_json(own));
  if (!merged.is_object()) {
    return make_error(ErrorCode::kInternal, "--default-chat-template-kwargs is not a JSON object");
  }
  for (const auto& member : over.as_object()) merged.get_object()[member.key()] = member.value();
  return json::serialize(merged);
}

const std::string kNoTools;

// How the answer to this prompt is to be read; null: as it is.
std::shared_ptr<const ReplyOptions> reply_options(const ProtocolContext& context,
                                                  const ChatInput& chat, bool bare_calls,
                                                  std::string_view prompt) {
  ReplyOptions out;
  out.dialect = context.dialect->dialect;
  out.calls = chat.tools.callable();
  if (out.dialect.reasoning.empty() && !out.calls) return nullptr;
  out.tools = chat.tools.set;
  if (const auto* format = reasoning_format(out.dialect.reasoning))
    out.begins_inside = thinking_state(*format, prompt) == ThinkingState::kInside;
  if (!bare_calls) {
    // the family's own form
  } else if (chat.tools.choice == ToolChoice::kNamed) {
    out.forced = ReplyOptions::Forced::kArguments;
    out.forced_function = chat.tools.name;
  } else {
    out.forced = ReplyOptions::Forced::kList;
  }
  return std::make_shared<const ReplyOptions>(std::move(out));
}

AnswerOptions answer_options(const ProtocolContext& context, const ChatRequest& request,
                             const CallInfo& info, std::string model) {
  const ServerOptions& options = *context.options;
  AnswerOptions out;
  out.id = "chatcmpl-" + (request.request_id.empty() ? info.request_id : request.request_id);
  out.model = std::move(model);
  out.created = unix_time_s();
  out.role = request.chat.generation_prompt() ? options.response_role : request.chat.last_role;
  out.stream = request.stream;
  out.include_usage =
      request.include_usage() || (request.stream && options.enable_force_include_usage);
  out.continuous_usage = out.include_usage && request.continuous_usage();
  out.echo = request.echo;
  if (request.echo && request.chat.last_role == out.role) out.chat_echo = request.chat.last_content;
  out.include_reasoning = request.include_reasoning;
  out.parallel_tool_calls = request.parallel_tool_calls;
  out.logprobs = request.logprobs;
  out.top_logprobs = request.logprob_token_ids.empty()
                         ? request.top_logprobs
                         : static_cast<std::int32_t>(request.logprob_token_ids.size());
  out.prompt_logprobs = request.prompt_logprobs.has_value();
  out.return_token_ids = request.return_token_ids;
  out.stream_interval = std::max(request.stream_interval, options.stream_interval);
  out.prompt_text = request.return_prompt_text;
  out.tokens_as_ids =
      request.return_tokens_as_token_ids.value_or(options.return_tokens_as_token_ids);
  out.cached_tokens = options.enable_prompt_tokens_details;
  out.n = static_cast<std::size_t>(request.n);
  out.candidates = static_cast<std::size_t>(request.num_candidates());
  out.ranked = request.use_beam_search;
  return out;
}

}  // namespace

Result<std::string> render_chat(const ProtocolContext& context, const ChatInput& chat) {
  if (!chat.chat_template.empty() && !context.options->trust_request_chat_template) {
    return field_error("chat_template",
                       "`chat_template` in a request is refused: start the server with "
                       "--trust-request-chat-template");
  }
  if (chat.chat_template.empty() && !context.text->has_chat_template()) {
    return make_error(ErrorCode::kUnsupported,
                      "this model has no chat template: use /v1/completions, or start the server "
                      "with --chat-template FILE");
  }
  QUIRE_TRY(check_roles(chat.roles, chat.chat_template.empty()
                                        ? context.text->chat_template_source()
                                        : std::string_view(chat.chat_template)));
  QUIRE_ASSIGN(const auto kwargs,
               merge_kwargs(context.options->default_chat_template_kwargs, chat.kwargs_json));
  const bool show_tools = chat.tools.choice != ToolChoice::kNone ||
                          !context.options->exclude_tools_when_tool_choice_none;
  const std::string& tools = show_tools ? chat.tools.json : kNoTools;
  std::string messages = chat.messages_json;
  ChatTemplate::Input input;
  const bool uses_tools = !tools.empty() || messages.find("\"tool") != std::string::npos;
  if (!uses_tools || context.dialect->template_has_tools || !chat.chat_template.empty()) {
    input.tools_json = tools;
  } else {
    QUIRE_ASSIGN(messages, tools_in_messages(chat.messages_json, tools));
  }
  input.messages_json = messages;
  input.documents_json = chat.documents_json;
  input.kwargs_json = kwargs;
  input.add_generation_prompt = chat.generation_prompt();
  input.continue_final_message = chat.continues();
  return context.text->render(input, chat.chat_template);
}

Result<PreparedCall> prepare_chat(const ProtocolContext& context, std::string_view body,
                                  const CallInfo& info) {
  QUIRE_ASSIGN(auto request, parse_chat_request(body));
  QUIRE_TRY(check_token_offsets(request, info));
  QUIRE_ASSIGN(auto model, check_model(context, request.model));
  QUIRE_ASSIGN(request.top_logprobs,
               resolve_logprobs(context, request.top_logprobs, "top_logprobs"));
  QUIRE_ASSIGN(const auto constrained, constrain_calls(context, request));
  QUIRE_ASSIGN(auto parts, make_template(context, request));
  parts.grammar_has_thinking = constrained == Constrained::kWholeAnswer;
  if (request.logprobs) parts.sampling.logprobs = request.top_logprobs;
  QUIRE_ASSIGN(const auto prompt, render_chat(context, request.chat));
  PreparedCall out;
  QUIRE_ASSIGN(auto ids,
               encode_prompt(context, request, prompt, request.add_special_tokens.value_or(false),
                             "messages", &out.placed.emplace_back()));
  QUIRE_TRY(set_thinking(context, prompt, request.thinking_token_budget, &parts));
  AnswerOptions options = answer_options(context, request, info, std::move(model));
  options.reply =
      reply_options(context, request.chat, constrained == Constrained::kBareCalls, prompt);
  if (!context.dialect->thinking.empty()) {
    options.thinking.emplace(&context.dialect->thinking,
                             options.reply != nullptr && options.reply->begins_inside);
  }

  QUIRE_ASSIGN(auto engine_request, make_request(context, request, std::move(parts), std::move(ids),
                                                 0, options.id, info.arrival_s, "messages"));
  if (options.reply) engine_request.shown_special_tokens = context.dialect->shown;
  std::vector<Choice> choices;
  add_choices(context, request, std::move(engine_request),
              request.return_prompt_text ? prompt : std::string(), &out, &choices);
  out.answer = make_chat_answer(std::move(options), context.text, std::move(choices));
  return out;
}

}  // namespace quire
