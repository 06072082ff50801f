// What answers look like, as JSON Schema. Requests are described by their tables; these are written
// by hand and held to by the tests that run schemathesis against the document.
#include <boost/json/parse.hpp>

#include "server/protocol/openapi.h"

namespace quire {
namespace {

constexpr const char* kSchemas = R"json({
"Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "object",
  "required": ["message", "type", "param", "code"], "properties": {
    "message": {"type": "string"}, "type": {"type": "string"},
    "param": {"type": ["string", "null"]}, "code": {"type": ["integer", "string"]}}}}},
"Usage": {"type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
  "properties": {"prompt_tokens": {"type": "integer"}, "completion_tokens": {"type": "integer"},
    "total_tokens": {"type": "integer"},
    "prompt_tokens_details": {"type": ["object", "null"], "properties": {
      "cached_tokens": {"type": "integer"}}},
    "completion_tokens_details": {"type": ["object", "null"], "properties": {
      "reasoning_tokens": {"type": "integer"}}}}},
"FinishReason": {"enum": ["stop", "length", "tool_calls", "abort", "error", "repetition", null]},
"CompletionResponse": {"type": "object",
  "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
    "id": {"type": "string"}, "object": {"const": "text_completion"},
    "created": {"type": "integer"}, "model": {"type": "string"},
    "choices": {"type": "array", "items": {"type": "object",
      "required": ["index", "text", "logprobs", "finish_reason"], "properties": {
        "index": {"type": "integer"}, "text": {"type": "string"},
        "finish_reason": {"$ref": "#/components/schemas/FinishReason"},
        "stop_reason": {"type": ["string", "integer", "null"]},
        "logprobs": {"type": ["object", "null"], "properties": {
          "text_offset": {"type": "array", "items": {"type": "integer"}},
          "token_logprobs": {"type": "array", "items": {"type": ["number", "null"]}},
          "tokens": {"type": "array", "items": {"type": "string"}},
          "top_logprobs": {"type": "array", "items": {"type": ["object", "null"]}}}},
        "token_ids": {"type": ["array", "null"], "items": {"type": "integer"}},
        "prompt_token_ids": {"type": ["array", "null"], "items": {"type": "integer"}},
        "prompt_logprobs": {"type": ["array", "null"]}}}},
    "usage": {"$ref": "#/components/schemas/Usage"}}},
"ChatCompletionResponse": {"type": "object",
  "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
    "id": {"type": "string"}, "object": {"const": "chat.completion"},
    "created": {"type": "integer"}, "model": {"type": "string"},
    "choices": {"type": "array", "items": {"type": "object",
      "required": ["index", "message", "logprobs", "finish_reason"], "properties": {
        "index": {"type": "integer"},
        "message": {"type": "object", "required": ["role", "content"], "properties": {
          "role": {"type": "string"}, "content": {"type": ["string", "null"]},
          "reasoning": {"type": ["string", "null"]},
          "reasoning_content": {"type": ["string", "null"]},
          "tool_calls": {"type": "array", "items": {"type": "object",
            "required": ["id", "type", "function"], "properties": {
              "id": {"type": "string"}, "type": {"const": "function"},
              "function": {"type": "object", "required": ["name", "arguments"], "properties": {
                "name": {"type": "string"}, "arguments": {"type": "string"}}}}}}}},
        "finish_reason": {"$ref": "#/components/schemas/FinishReason"},
        "stop_reason": {"type": ["string", "integer", "null"]},
        "logprobs": {"type": ["object", "null"], "properties": {
          "content": {"type": ["array", "null"], "items": {"type": "object",
            "required": ["token", "logprob", "bytes", "top_logprobs"], "properties": {
              "token": {"type": "string"}, "logprob": {"type": "number"},
              "bytes": {"type": ["array", "null"], "items": {"type": "integer"}},
              "top_logprobs": {"type": "array"}}}}}}}}},
    "usage": {"$ref": "#/components/schemas/Usage"}}},
"EmbeddingResponse": {"type": "object", "required": ["object", "data", "model", "usage"],
  "properties": {"object": {"const": "list"}, "model": {"type": "string"},
    "data": {"type": "array", "items": {"type": "object",
      "required": ["index", "object", "embedding"], "properties": {
        "index": {"type": "integer"}, "object": {"const": "embedding"},
        "embedding": {"anyOf": [{"type": "string"},
          {"type": "array", "items": {"type": "number"}}]}}}},
    "usage": {"$ref": "#/components/schemas/Usage"}}},
"Model": {"type": "object", "required": ["id", "object", "created", "owned_by"], "properties": {
  "id": {"type": "string"}, "object": {"const": "model"}, "created": {"type": "integer"},
  "owned_by": {"type": "string"}, "root": {"type": "string"}, "max_model_len": {"type": "integer"}}},
"ModelList": {"type": "object", "required": ["object", "data"], "properties": {
  "object": {"const": "list"},
  "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}},
"TokenizeResponse": {"type": "object", "required": ["count", "max_model_len", "tokens"],
  "properties": {"count": {"type": "integer"}, "max_model_len": {"type": "integer"},
    "tokens": {"type": "array", "items": {"type": "integer"}},
    "token_strs": {"type": ["array", "null"], "items": {"type": "string"}}}},
"DetokenizeResponse": {"type": "object", "required": ["prompt"],
  "properties": {"prompt": {"type": "string"}}},
"Rendered": {"type": "object", "required": ["request_id", "model", "token_ids", "prompt_text",
  "sampling_params"], "properties": {"request_id": {"type": "string"}, "model": {"type": "string"},
    "token_ids": {"type": "array", "items": {"type": "integer"}},
    "prompt_text": {"type": "string"}, "sampling_params": {"type": "object"}}},
"RenderedList": {"type": "array", "items": {"$ref": "#/components/schemas/Rendered"}},
"Version": {"type": "object", "required": ["version"],
  "properties": {"version": {"type": "string"}}},
"Load": {"type": "object", "required": ["server_load"],
  "properties": {"server_load": {"type": "integer"}}},
"Status": {"type": "object"}
})json";

}  // namespace

boost::json::object response_schemas() { return boost::json::parse(kSchemas).as_object(); }

}  // namespace quire
