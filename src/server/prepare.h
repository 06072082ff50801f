// From a request body to what the engine runs and the answer that shows it. Runs on text-pool
// threads.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "server/chat_dialect.h"
#include "server/dry_breakers.h"
#include "server/generator.h"
#include "server/protocol/answer.h"
#include "server/protocol/chat_request.h"
#include "server/server_options.h"
#include "server/text_service.h"

namespace quire {

// Seeds for requests without one. Thread safe.
class SeedSource {
 public:
  explicit SeedSource(std::optional<std::uint64_t> seed) : engine_(seed ? *seed : from_system()) {}
  std::uint64_t next() {
    std::lock_guard lock(mutex_);
    return engine_();
  }

 private:
  static std::uint64_t from_system() {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
  }
  std::mutex mutex_;
  std::mt19937_64 engine_;
};

struct ProtocolContext {
  const ServerOptions* options = nullptr;
  const TextService* text = nullptr;
  Generator* generator = nullptr;
  SeedSource* seeds = nullptr;
  DryBreakerCache* dry_breakers = nullptr;
  const ChatDialect* dialect = nullptr;
  // Where compiling would hold up others: set, with an error, when a grammar is not ready.
  bool* lacks_grammar = nullptr;
};

// Of the HTTP request that carries the body.
struct CallInfo {
  std::string request_id;  // X-Request-Id, or made up
  double arrival_s = 0;
  bool render = false;  // nothing is generated: token offsets may be asked for
};

// A prompt that was a text, and where its tokens stand in it.
struct PlacedTokens {
  std::string text;
  std::vector<TokenSpan> spans;
};

struct PreparedCall {
  std::unique_ptr<Answer> answer;
  std::vector<Request> requests;     // one per choice; empty when nothing has to run
  std::vector<PlacedTokens> placed;  // one per prompt if asked for; empty of one that was ids
};

Result<PreparedCall> prepare_completion(const ProtocolContext& context, std::string_view body,
                                        const CallInfo& info);
Result<PreparedCall> prepare_chat(const ProtocolContext& context, std::string_view body,
                                  const CallInfo& info);
Result<PreparedCall> prepare_embedding(const ProtocolContext& context, std::string_view body,
                                       const CallInfo& info);

// Answers of POST /tokenize and /detokenize.
Result<std::string> tokenize_answer(const ProtocolContext& context, std::string_view body);
Result<std::string> detokenize_answer(const ProtocolContext& context, std::string_view body);
// Of POST .../render and GET /tokenizer_info.
Result<std::string> render_completion_answer(const ProtocolContext& context, std::string_view body);
Result<std::string> render_chat_answer(const ProtocolContext& context, std::string_view body);
std::string tokenizer_info_answer(const ProtocolContext& context);
std::vector<FieldInfo> tokenize_fields();
std::vector<FieldInfo> detokenize_fields();

// ---- shared steps ------------------------------------------------------------------------------

// A grammar, compiled if need be; see lacks_grammar.
Result<std::shared_ptr<const Grammar>> compile_grammar(const ProtocolContext& context,
                                                       const GrammarSpec& spec);
// What the answer must fit, compiled; an error speaks of the request's field.
Result<std::shared_ptr<const Grammar>> compile_grammar(const ProtocolContext& context,
                                                       const CommonRequest& request);
// 404 unless it is served; empty: the default model. Returns the name to answer with.
Result<std::string> check_model(const ProtocolContext& context, const std::string& model);
Result<std::string> render_chat(const ProtocolContext& context, const ChatInput& chat);
// Encodes and truncates a text; refuses one that can't fit without tokenizing it. Sets *placed
// where the request asks for that.
Result<std::vector<TokenId>> encode_prompt(const ProtocolContext& context,
                                           const CommonRequest& request, std::string_view text,
                                           bool add_special_tokens, std::string_view param,
                                           PlacedTokens* placed = nullptr);
// Cuts ids to truncate_prompt_tokens, and spans if there are any.
void truncate_prompt(const ProtocolContext& context, const CommonRequest& request,
                     std::vector<TokenId>* ids, std::vector<TokenSpan>* spans = nullptr);
// `return_token_offsets` where text is generated.
Status check_token_offsets(const CommonRequest& request, const CallInfo& info);

// Everything of a Request but its prompt: validated sampling and stop rules, shared by its choices.
struct RequestTemplate {
  SamplingParams sampling;
  StopRules stop;
  bool fresh_seed = false;                 // every choice draws its own
  std::shared_ptr<const Grammar> grammar;  // or null
  std::vector<TokenId> grammar_start;      // see Request
  bool grammar_has_thinking = false;       // it is of the whole answer
  ThinkingRules thinking;
};
// Top count of log-probabilities within --max-logprobs; -1 stands for the whole vocabulary.
Result<std::int32_t> resolve_logprobs(const ProtocolContext& context, std::int32_t count,
                                      std::string_view field);
Result<RequestTemplate> make_template(const ProtocolContext& context, const CommonRequest& request);
// Appends the requests of all choices for the prompt of `first`, and what the answer shows of them.
void add_choices(const ProtocolContext& context, const CommonRequest& request, Request first,
                 const std::string& prompt_text, PreparedCall* call, std::vector<Choice>* choices);
// The engine's request for one prompt. default_max_tokens: of a request that sets none; 0: what the
// context leaves. One that pools gets no answer.
Result<Request> make_request(const ProtocolContext& context, const CommonRequest& request,
                             RequestTemplate parts, std::vector<TokenId> prompt,
                             std::int32_t default_max_tokens, const std::string& external_id,
                             double arrival_s, std::string_view param);

}  // namespace quire
