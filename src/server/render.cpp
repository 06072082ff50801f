// POST .../render and GET /tokenizer_info: what would be generated from, without generating.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "server/http/request_text.h"
#include "server/prepare.h"

namespace quire {
namespace {

namespace json = boost::json;

json::value strings_json(const std::vector<std::string>& texts) {
  return json::array(texts.begin(), texts.end());
}

// Resolved: with the server's defaults, the length that fits, and the seed that would be used.
json::object sampling_json(const Request& request) {
  const SamplingParams& p = *request.sampling;
  json::object out;
  out["temperature"] = p.temperature;
  out["top_p"] = p.top_p;
  out["top_k"] = p.top_k;
  out["min_p"] = p.min_p;
  out["typical_p"] = p.typical_p;
  out["presence_penalty"] = p.presence_penalty;
  out["frequency_penalty"] = p.frequency_penalty;
  out["repetition_penalty"] = p.repetition_penalty;
  out["seed"] = p.seed;
  out["max_tokens"] = request.stop.max_tokens;
  out["min_tokens"] = p.min_tokens;
  out["stop"] = strings_json(request.stop.stop_strings);
  out["stop_token_ids"] =
      json::array(request.stop.stop_token_ids.begin(), request.stop.stop_token_ids.end());
  out["include_stop_str_in_output"] = request.stop.include_stop_str_in_output;
  out["ignore_eos"] = request.stop.ignore_eos;
  out["skip_special_tokens"] = request.skip_special_tokens;
  out["logprobs"] = p.logprobs < 0 ? json::value(nullptr) : json::value(p.logprobs);
  out["prompt_logprobs"] =
      p.prompt_logprobs < 0 ? json::value(nullptr) : json::value(p.prompt_logprobs);
  return out;
}

json::value spans_json(const std::vector<TokenSpan>& spans) {
  json::array out;
  for (const TokenSpan& span : spans) out.push_back({span.begin, span.end});
  return out;
}

json::object request_json(const ProtocolContext& context, const Request& request,
                          const PlacedTokens& placed) {
  json::object out;
  out["request_id"] = request.external_id;
  out["model"] = context.options->served_model_names.front();
  out["token_ids"] = json::array(request.prompt->begin(), request.prompt->end());
  const bool has_places = !placed.spans.empty();
  // What the offsets speak of, or what the tokens spell.
  out["prompt_text"] = has_places ? placed.text : context.text->decode(*request.prompt, false);
  out["token_offsets"] = has_places ? spans_json(placed.spans) : json::value(nullptr);
  out["sampling_params"] = sampling_json(request);
  out["priority"] = request.priority;
  return out;
}

CallInfo render_info() { return {random_hex(16), 0, true}; }

}  // namespace

Result<std::string> render_completion_answer(const ProtocolContext& context,
                                             std::string_view body) {
  QUIRE_ASSIGN(const auto prepared, prepare_completion(context, body, render_info()));
  json::array out;
  const void* last = nullptr;
  for (const Request& request : prepared.requests) {
    if (request.prompt.get() != last)
      out.emplace_back(request_json(context, request, prepared.placed[out.size()]));
    last = request.prompt.get();  // choices of one prompt share it
  }
  return json::serialize(out);
}

Result<std::string> render_chat_answer(const ProtocolContext& context, std::string_view body) {
  QUIRE_ASSIGN(const auto prepared, prepare_chat(context, body, render_info()));
  return json::serialize(request_json(context, prepared.requests.front(), prepared.placed.front()));
}

std::string tokenizer_info_answer(const ProtocolContext& context) {
  json::object out;
  out["vocab_size"] = context.text->vocab_size();
  out["max_token_bytes"] = context.text->max_token_bytes();
  out["max_model_len"] = context.options->max_model_len;
  json::array ends, end_texts;
  for (const TokenId id : context.options->eos_ids) {
    ends.emplace_back(id);
    end_texts.emplace_back(json::string(context.text->token_text(id)));
  }
  out["eos_token_ids"] = std::move(ends);
  out["eos_tokens"] = std::move(end_texts);
  // By the names of tokenizer_config.json.
  const SpecialTokens special = context.text->special();
  const auto token = [](const std::string& text) {
    return text.empty() ? json::value(nullptr) : json::value(text);
  };
  out["bos_token"] = token(special.bos_token);
  out["eos_token"] = token(special.eos_token);
  out["unk_token"] = token(special.unk_token);
  out["pad_token"] = token(special.pad_token);
  const std::string_view source = context.text->chat_template_source();
  out["chat_template"] = source.empty() ? json::value(nullptr) : json::value(json::string(source));
  return json::serialize(out);
}

}  // namespace quire
