// A byte for the route, one for what the model says, then any bytes as a request's body: parsed,
// rendered, tokenized, its grammar compiled, and answered with tokens of our own. Whatever comes
// in, errors are the client's, answers and events are JSON, and prompts fit the model.
#include <array>
#include <boost/json/parse.hpp>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "json_mutator.h"
#include "server/prepare.h"
#include "server/protocol/completion_request.h"
#include "server/protocol/embedding_request.h"
#include "server/protocol/error_body.h"
#include "text/test_vocab.h"

namespace {

using namespace quire;

constexpr const char* kTemplate = R"({%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- if add_generation_prompt %}<|im_start|>assistant
<think>{% endif %})";

// What the model says: text, thinking, calls, half of a call, broken UTF-8.
constexpr std::array<std::string_view, 6> kScripts{
    "Hello there. How are you?",
    "I think</think>The answer.",
    "</think><tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, \"x\"]}}</tool_call>",
    "</think>\n<tool_call>\n{\"name\": \"f\", \"argum",
    "{\"name\": \"f\", \"parameters\": {}}",
    "\xe2\x82\xac \xe2\x82 \xff\xc3",
};

class NoEngine : public Generator {
 public:
  RequestId next_id() override { return RequestId(++last_); }
  Status submit(std::vector<Request>) override { return {}; }
  void abort(RequestId) override {}
  EngineStats stats() const override { return {}; }
  bool reset_prefix_cache() override { return true; }
  void abort_all() override {}

 private:
  std::uint64_t last_ = 0;
};

struct Fixture {
  Fixture() {
    options.served_model_names = {"m"};
    options.max_model_len = 512;
    options.eos_ids = {end};
    options.trust_request_chat_template = true;
    options.priority_scheduling = true;
    options.embedding.hidden_size = 3;
    options.reasoning_parser = "deepseek_r1";
    options.tool_call_parser = "hermes";
    dialect = make_chat_dialect(options, text);
    for (const auto& fields : {chat_fields(), completion_fields(), embedding_fields(),
                               tokenize_fields(), detokenize_fields()})
      for (const FieldInfo& field : fields) names.emplace_back(field.name);
    for (const char* name :
         {"role",        "content",        "text",      "type",       "tool_calls", "tool_call_id",
          "function",    "name",           "arguments", "parameters", "id",         "properties",
          "required",    "items",          "enum",      "anyOf",      "$ref",       "$defs",
          "json_schema", "schema",         "strict",    "json",       "regex",      "choice",
          "grammar",     "structural_tag", "format",    "elements",   "begin",      "end",
          "triggers",    "include_usage"})
      names.emplace_back(name);
  }
  const TokenId end = 258;
  const std::unique_ptr<Tokenizer> tokenizer = std::move(
      Tokenizer::from_vocab(test::byte_level_spec({{"a", "b"}, {"{", "\""}},
                                                  {"<|im_end|>", "<|im_start|>", "<think>"}))
          .value());
  const std::unique_ptr<ChatTemplate> chat_template =
      std::move(ChatTemplate::create(kTemplate, tokenizer->special()).value());
  GrammarCompiler grammars{tokenizer.get(), {end}, tokenizer->vocab_size()};
  const ModelTextService text{tokenizer.get(), chat_template.get(), &grammars};
  ServerOptions options;
  NoEngine engine;
  SeedSource seeds{1};
  DryBreakerCache dry_breakers;
  ChatDialect dialect;
  const ProtocolContext context{&options, &text, &engine, &seeds, &dry_breakers, &dialect};
  std::vector<std::string> names;  // of fields
};

Fixture& fixture() {
  static Fixture& made = *new Fixture();
  return made;
}

void must(bool holds) {
  if (!holds) std::abort();
}
// No depth limit of ours: an answer may be a level deeper than its request.
void must_be_json(std::string_view text) {
  boost::system::error_code error;
  boost::json::parse(text, error, {}, {.max_depth = 1000});
  must(!error);
}
void check(const Error& error) {
  must(error.code != ErrorCode::kInternal);
  must(!error.message.empty());
  must_be_json(error_body(error));
}

TokenLogprobs scores(TokenId id, std::int32_t count) {
  TokenLogprobs out;
  out.token = id;
  out.logprob = -0.5F;
  out.rank = 1;
  for (std::int32_t k = 0; k < count; ++k) out.top.emplace_back(k, -0.5F - static_cast<float>(k));
  return out;
}

// What the engine would send for the next byte of `script`.
OutputDelta next_delta(const Request& request, std::string_view script, std::size_t at) {
  OutputDelta out;
  OutputToken token;
  token.id = static_cast<unsigned char>(script[at]);
  token.text = script.substr(at, 1);
  token.has_logprobs = request.sampling->logprobs >= 0;
  if (token.has_logprobs) token.logprobs = scores(token.id, request.sampling->logprobs);
  if (static_cast<unsigned char>(script[at]) < 0x80) out.text = token.text;
  out.tokens.push_back(std::move(token));
  if (at == 0 && request.sampling->prompt_logprobs >= 0) {
    out.has_prompt_logprobs = true;
    for (std::size_t p = 1; p < request.prompt->size(); ++p)
      out.prompt_logprobs.push_back(
          scores((*request.prompt)[p], request.sampling->prompt_logprobs));
  }
  if (request.sampling->pooling != Pooling::kNone) out.embedding = {3, 4, 12};
  out.prompt_tokens = static_cast<std::int32_t>(request.prompt->size());
  out.completion_tokens = static_cast<std::int32_t>(at + 1);
  if (at + 1 == script.size()) out.finish = FinishReason::kStop;
  if (out.completion_tokens >= request.stop.max_tokens) out.finish = FinishReason::kLength;
  return out;
}

void check_events(std::string_view events) {
  while (!events.empty()) {
    const auto end = events.find("\n\n");
    must(end != std::string_view::npos && events.starts_with("data: "));
    const std::string_view data = events.substr(6, end - 6);
    if (data != "[DONE]") must_be_json(data);
    events.remove_prefix(end + 2);
  }
}

void answer(PreparedCall call, std::string_view script) {
  const ServerOptions& options = fixture().options;
  for (const Request& request : call.requests) {
    must(!request.prompt->empty());
    must(request.prompt->size() + static_cast<std::size_t>(request.stop.max_tokens) <=
         static_cast<std::size_t>(options.max_model_len));
    for (const TokenId id : *request.prompt)
      must(id >= 0 && static_cast<std::size_t>(id) < fixture().text.vocab_size());
  }
  if (call.requests.empty() || call.requests.size() > 16) return;
  std::string events;
  for (std::size_t i = 0; i < call.requests.size(); ++i) {
    for (std::size_t at = 0; at < script.size(); ++at) {
      OutputDelta delta = next_delta(call.requests[i], script, at);
      const bool last = delta.finish.has_value();
      call.answer->on_delta(i, std::move(delta), &events);
      if (last) break;
    }
  }
  must(call.answer->complete());
  if (call.answer->stream()) {
    call.answer->end_stream(&events);
    check_events(events);
  } else {
    must(events.empty());
    must_be_json(call.answer->body());
  }
}

template <class Prepare>
void generate(Prepare prepare, std::string_view body, std::string_view script) {
  auto call = prepare(fixture().context, body, {"id", 1});
  if (!call) return check(call.error());
  answer(std::move(*call), script);
}

template <class Job>
void text_answer(Job job, std::string_view body) {
  const auto out = job(fixture().context, body);
  if (!out) return check(out.error());
  must_be_json(*out);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return fuzz::mutate_json(data, size, max_size, seed, 2, fixture().names);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string_view script = kScripts[data[1] % kScripts.size()];
  switch (data[0] % 8) {
    case 0:
      generate(&prepare_completion, body, script);
      break;
    case 1:
      generate(&prepare_embedding, body, script);
      break;
    case 2:
      text_answer(&tokenize_answer, body);
      break;
    case 3:
      text_answer(&detokenize_answer, body);
      break;
    case 4:
      text_answer(&render_completion_answer, body);
      break;
    case 5:
      text_answer(&render_chat_answer, body);
      break;
    default:
      generate(&prepare_chat, body, script);
  }
  return 0;
}
