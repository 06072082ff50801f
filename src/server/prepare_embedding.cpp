// POST /v1/embeddings: each input is one request that computes its prompt and draws nothing.
#include "base/clock.h"
#include "server/prepare.h"
#include "server/protocol/embedding_request.h"

namespace quire {
namespace {

Status check_embedding(const ProtocolContext& context, const EmbeddingRequest& request) {
  const EmbeddingOptions& options = context.options->embedding;
  if (!options.unsupported.empty()) {
    return make_error(ErrorCode::kUnsupported, "embeddings of this model are not possible: {}",
                      options.unsupported);
  }
  if (request.inputs.size() > context.options->max_prompts) {
    return field_error("input", "`input` may hold at most {} inputs, but it holds {}",
                       context.options->max_prompts, request.inputs.size());
  }
  if (request.dimensions && *request.dimensions > options.hidden_size) {
    return field_error("dimensions", "`dimensions` must be at most {}, but it is {}",
                       options.hidden_size, *request.dimensions);
  }
  return {};
}

Result<std::vector<TokenId>> take_input(const ProtocolContext& context, EmbeddingRequest& request,
                                        std::size_t index) {
  auto& input = request.inputs[index];
  if (const auto* text = std::get_if<std::string>(&input))
    return encode_prompt(context, request, *text, request.add_special_tokens.value_or(true),
                         "input");
  auto ids = std::move(std::get<std::vector<TokenId>>(input));
  truncate_prompt(context, request, &ids);
  return ids;
}

}  // namespace

Result<PreparedCall> prepare_embedding(const ProtocolContext& context, std::string_view body,
                                       const CallInfo& info) {
  QUIRE_ASSIGN(auto request, parse_embedding_request(body));
  QUIRE_ASSIGN(auto model, check_model(context, request.model));
  QUIRE_TRY(check_embedding(context, request));
  const EmbeddingOptions& defaults = context.options->embedding;
  AnswerOptions options;
  options.id = "embd-" + (request.request_id.empty() ? info.request_id : request.request_id);
  options.model = std::move(model);
  options.created = unix_time_s();
  options.cached_tokens = context.options->enable_prompt_tokens_details;

  RequestTemplate parts;
  parts.sampling.temperature = 0;
  parts.sampling.pooling = defaults.pooling;
  PreparedCall out;
  std::vector<Choice> choices(request.inputs.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    QUIRE_ASSIGN(auto ids, take_input(context, request, i));
    const std::string id = choices.size() == 1 ? options.id : fmt::format("{}-{}", options.id, i);
    QUIRE_ASSIGN(auto made, make_request(context, request, parts, std::move(ids), 0, id,
                                         info.arrival_s, "input"));
    choices[i].prompt = made.prompt;
    out.requests.push_back(std::move(made));
  }
  EmbeddingShape shape;
  shape.dimensions = static_cast<std::size_t>(request.dimensions.value_or(0));
  shape.base64 = request.encoding_format == "base64";
  shape.normalize =
      request.normalize.value_or(defaults.normalize || request.dimensions.has_value());
  out.answer = make_embedding_answer(std::move(options), shape, context.text, std::move(choices));
  return out;
}

}  // namespace quire
