#include "app/server_parts.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/log.h"
#include "server/protocol/structured_fields.h"

namespace quire {

void add_protocol_flags(CLI::App& command, ServerOptions& server) {
  command.add_option("--served-model-name", server.served_model_names,
                     "Names that requests may use; the first is the main one");
  command
      .add_option("--max-logprobs", server.max_logprobs,
                  "Most log-probabilities per token; -1: all")
      ->check(CLI::Range(-1, 1 << 24))
      ->capture_default_str();
  static const std::map<std::string, LogprobsMode> kModes{
      {"raw_logprobs", LogprobsMode::kRawLogprobs},
      {"processed_logprobs", LogprobsMode::kProcessedLogprobs},
      {"raw_logits", LogprobsMode::kRawLogits},
      {"processed_logits", LogprobsMode::kProcessedLogits}};
  command
      .add_option(
          "--logprobs-mode", server.logprobs_mode,
          "raw_logprobs (the model's), processed_logprobs (what is drawn from), raw_logits, "
          "processed_logits (default: raw_logprobs)")
      ->transform(CLI::CheckedTransformer(kModes).description(""))
      ->type_name("MODE");
  command.add_option("--response-role", server.response_role, "Role of chat answers")
      ->capture_default_str();
  command.add_option("--tool-call-parser", server.tool_call_parser,
                     "How the model writes calls: a name, auto (from its chat template) or none");
  command.add_option("--reasoning-parser", server.reasoning_parser,
                     "How the model writes its thinking: a name, auto or none");
  command.add_flag_function(
      "--enable-auto-tool-choice", [](std::int64_t) {}, "Accepted: tool_choice auto is always on");
  command.add_flag("--exclude-tools-when-tool-choice-none",
                   server.exclude_tools_when_tool_choice_none,
                   "With tool_choice none, don't show the tools to the model");
  command.add_flag("--trust-request-chat-template", server.trust_request_chat_template,
                   "Let requests bring a template");
  command.add_option("--default-chat-template-kwargs", server.default_chat_template_kwargs,
                     "JSON object of template variables");
  command.add_option_function<std::string>(
      "--structured-outputs-config",
      [&server](const std::string& text) {
        const auto defaults = parse_structured_outputs_config(text);
        if (!defaults) throw CLI::ValidationError(defaults.error().message);
        server.structured_outputs = *defaults;
      },
      "JSON object: disable_any_whitespace, disable_additional_properties");
  command.add_flag("--enable-prompt-tokens-details", server.enable_prompt_tokens_details,
                   "Tell cached tokens in usage");
  command.add_flag("--return-tokens-as-token-ids", server.return_tokens_as_token_ids,
                   "Show tokens as token_id:N");
}

void set_log_level(const std::string& name) {
  set_log_level(name == "debug"     ? LogLevel::kDebug
                : name == "warning" ? LogLevel::kWarning
                : name == "error"   ? LogLevel::kError
                                    : LogLevel::kInfo);
}

// What the model and the flags say about requests.
void complete_options(ServerOptions& options, const EngineFlags& flags, const LoadedModel& model) {
  if (options.served_model_names.empty()) {
    options.served_model_names.push_back(
        flags.model.empty() ? std::filesystem::path(model.name).stem().string() : flags.model);
  }
  options.model_root = model.name;
  options.max_model_len = static_cast<std::int32_t>(model.max_model_len);
  if (options.max_logprobs < 0)
    options.max_logprobs = static_cast<std::int32_t>(model.config.vocab_size);
  options.eos_ids = model.end_ids;
  options.embedding = {model.pooling.pooling, model.pooling.normalize, model.pooling.unsupported,
                       static_cast<std::int32_t>(model.config.hidden_size)};
  options.seed = flags.seed;
  options.priority_scheduling = flags.scheduling.policy == "priority";
  options.fair_by = fair_by(flags.scheduling);
  const ModelConfig::Generation& generation = model.config.generation;
  SamplingDefaults& sampling = options.sampling;
  sampling.temperature = generation.temperature.value_or(sampling.temperature);
  sampling.top_p = generation.top_p.value_or(sampling.top_p);
  sampling.min_p = generation.min_p.value_or(sampling.min_p);
  sampling.repetition_penalty = generation.repetition_penalty.value_or(sampling.repetition_penalty);
  sampling.top_k = static_cast<std::int32_t>(generation.top_k.value_or(sampling.top_k));
  const auto within_context = [&](std::optional<std::int64_t> tokens) {
    return tokens ? std::optional(static_cast<std::int32_t>(
                        std::min<std::int64_t>(*tokens, options.max_model_len)))
                  : std::nullopt;
  };
  sampling.max_new_tokens = within_context(generation.max_new_tokens);
  sampling.max_new_tokens_limit = within_context(generation.max_new_tokens_limit);
}

}  // namespace quire
