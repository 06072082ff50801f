// What would else be told to every client, one by one, is checked at the start.
#include "server/server_options.h"

#include "base/log.h"
#include "server/chat_dialect.h"
#include "server/protocol/json_parse.h"

namespace quire {
namespace {

Status check_defaults(const ServerOptions& options, std::int64_t vocab_size) {
  SamplingParams sampling;
  sampling.temperature = options.sampling.temperature;
  sampling.top_p = options.sampling.top_p;
  sampling.min_p = options.sampling.min_p;
  sampling.repetition_penalty = options.sampling.repetition_penalty;
  sampling.top_k = options.sampling.top_k;
  auto status = validate_sampling_params(sampling, vocab_size);
  if (status) return {};
  return make_error(ErrorCode::kBadFile, "the model's generation config: {}: correct that file",
                    status.error().message);
}

// A model's end tokens outside its vocabulary can never come.
void drop_unknown_ends(std::vector<TokenId>* ids, std::size_t vocab_size) {
  std::erase_if(*ids, [vocab_size](TokenId id) {
    if (id >= 0 && static_cast<std::size_t>(id) < vocab_size) return false;
    log_warning("the model's end token {} is not in its vocabulary of {} tokens: ignored", id,
                vocab_size);
    return true;
  });
}

}  // namespace

Status check_flag_values(const ServerOptions& options) {
  if (const auto& kwargs = options.default_chat_template_kwargs; !kwargs.empty()) {
    const auto parsed = parse_json(kwargs);
    if (!parsed || !parsed->is_object()) {
      return field_error("--default-chat-template-kwargs",
                         "--default-chat-template-kwargs must be a JSON object, but it is '{}'",
                         kwargs);
    }
  }
  return check_parser_names(options);
}

Status check_options(ServerOptions* options, std::size_t vocab_size) {
  if (options->served_model_names.empty())
    return field_error("--served-model-name", "there must be at least one name for the model");
  QUIRE_TRY(check_flag_values(*options));
  QUIRE_TRY(check_defaults(*options, static_cast<std::int64_t>(vocab_size)));
  drop_unknown_ends(&options->eos_ids, vocab_size);
  return {};
}

}  // namespace quire
