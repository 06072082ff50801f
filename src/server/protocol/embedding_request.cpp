#include "server/protocol/embedding_request.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

namespace json = boost::json;
using R = EmbeddingRequest;

Status read_input(R& request, const json::value& value, const Field<R>& field) {
  return read_prompts(value, field.name, &request.inputs);
}

std::span<const Field<R>> own_fields() {
  static constexpr std::array kTable{
      custom_field<R>("input", kPromptSchema, &read_input)
          .must()
          .is(kOpenAi | kVllm | kLlamaCpp, "", "A text, token ids, or a list of either"),
      integer_field<&R::dimensions>("dimensions", 1, kMaxInt32)
          .is(kOpenAi | kVllm, "null", "The first so many numbers, scaled to length 1 again"),
      choice_field<&R::encoding_format>("encoding_format", "float|base64")
          .is(kOpenAi | kVllm, "\"float\"", "base64: of 32-bit floats, little-endian"),
      bool_field<&R::normalize>("normalize")
          .is(kVllm, "null", "Scale to length 1; absent: as the model wants"),
  };
  return kTable;
}

// Those of the common ones that mean something here.
std::span<const Field<CommonRequest>> shared_fields() {
  static constexpr std::array<std::string_view, 8> kNames{
      "model",           "truncate_prompt_tokens",
      "truncation_side", "add_special_tokens",
      "request_id",      "cache_salt",
      "priority",        "user"};
  static const std::vector<Field<CommonRequest>> kTable = [] {
    std::vector<Field<CommonRequest>> out;
    for (const auto& field : common_fields()) {
      if (std::ranges::find(kNames, field.name) != kNames.end()) out.push_back(field);
    }
    return out;
  }();
  return kTable;
}

}  // namespace

std::vector<FieldInfo> embedding_fields() { return list_fields(own_fields(), shared_fields()); }

Result<EmbeddingRequest> parse_embedding_request(std::string_view body) {
  QUIRE_ASSIGN(const auto object, parse_object(body));
  EmbeddingRequest request;
  QUIRE_TRY(read_fields<CommonRequest>(object, shared_fields(), request));
  QUIRE_TRY(read_fields<R>(object, own_fields(), request));
  note_unknown_fields(object, shared_fields(), own_fields());
  QUIRE_TRY(check_common(request));
  return request;
}

}  // namespace quire
