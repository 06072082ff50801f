// What the server is told at its start; filled from the command line by the app.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "sampling/sampling_params.h"

namespace quire {

// Used where a request is silent; from the model's generation config and
// --override-generation-config.
struct SamplingDefaults {
  double temperature = 1.0, top_p = 1.0, min_p = 0.0, repetition_penalty = 1.0;
  std::int32_t top_k = 0;
  std::optional<std::int32_t> max_new_tokens;        // of a request that names no length
  std::optional<std::int32_t> max_new_tokens_limit;  // of any request
};

// How prompts become embeddings; from the model's own files.
struct EmbeddingOptions {
  Pooling pooling = Pooling::kLast;
  bool normalize = true;
  std::string unsupported;  // why they can't be made; empty: they can
  std::int32_t hidden_size = 0;
};

struct CorsOptions {  // vLLM's --allowed-origins, -methods, -headers, --allow-credentials
  std::vector<std::string> origins{"*"}, methods{"*"}, headers{"*"};
  bool allow_credentials = false;
};

// Of every answer that must fit a schema; a request can add to it. vLLM's
// --structured-outputs-config.
struct StructuredOutputDefaults {
  bool disable_any_whitespace = false, disable_additional_properties = false;
};

// Whose requests take turns.
enum class FairBy : std::uint8_t {
  kNone,    // nobody's: in the order of arrival
  kApiKey,  // API keys'
  kUser,    // those of `user` in the request, under each API key
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;  // 0: any free one, told by ApiServer::port()
  int io_threads = 1;
  int text_threads = 1;                  // template rendering and tokenizing
  std::size_t text_queue_length = 1024;  // requests waiting for them; over it: 503

  std::vector<std::string>
      served_model_names;             // the first one is the default and goes into metrics
  std::string model_root;             // "root" of a model card: its path
  std::vector<std::string> api_keys;  // empty: open
  CorsOptions cors;
  std::string root_path;  // prefix that a proxy may leave in front of paths
  std::string response_role = "assistant";

  std::int32_t max_model_len = 2048;
  std::int32_t max_logprobs = 20;
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;
  std::size_t max_prompts = 1024;  // in one completion request
  std::vector<TokenId> eos_ids;    // every end token: config, generation config, template
  SamplingDefaults sampling;
  EmbeddingOptions embedding;
  bool priority_scheduling = false;  // `priority` may be other than 0
  FairBy fair_by = FairBy::kNone;
  std::optional<std::uint64_t> seed;  // of the generator of fresh seeds; absent: from the system

  StructuredOutputDefaults structured_outputs;
  // Of the answers' calls and reasoning; empty or "auto": from the chat template; "none": off.
  std::string tool_call_parser, reasoning_parser;
  bool exclude_tools_when_tool_choice_none = false;  // the template then does not see them

  bool trust_request_chat_template = false;
  std::string default_chat_template_kwargs;   // JSON object, or empty
  bool enable_prompt_tokens_details = false;  // usage tells cached tokens
  bool enable_force_include_usage = false;    // streams end with usage unasked
  bool enable_request_id_headers = false;     // X-Request-Id on answers
  bool return_tokens_as_token_ids = false;
  bool enable_tokenizer_info = false;  // /tokenizer_info
  std::int32_t stream_interval = 1;    // tokens of a stream's chunk, at least
  bool disable_docs = false;           // no /openapi.json, no /docs
  bool offline_docs = true;   // accepted for compatibility: the page needs nothing from elsewhere
  std::string profile;        // file of the recording; empty: no /start_profile, no /stop_profile
  double stuck_step_s = 300;  // /health is 503 while a step takes longer
};

// What can be told of the flags alone, before a model is loaded.
Status check_flag_values(const ServerOptions& options);
// Before a server starts: an error names the flag or the file. End tokens outside the vocabulary
// can never come and are dropped.
Status check_options(ServerOptions* options, std::size_t vocab_size);

}  // namespace quire
