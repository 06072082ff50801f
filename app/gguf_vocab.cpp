#include "app/gguf_vocab.h"

#include <string>
#include <utility>

namespace quire {
namespace {

// An id of the metadata, checked to be a token.
Result<std::optional<TokenId>> read_id(const GgufFile& file, const std::string& name,
                                       std::size_t vocab_size) {
  const std::optional<std::int64_t> id = file.get_int("tokenizer.ggml." + name);
  if (!id) return std::optional<TokenId>{};
  if (*id < 0 || std::cmp_greater_equal(*id, vocab_size)) {
    if (*id == 0xFFFFFFFF || *id == -1) return std::optional<TokenId>{};  // "none" in some files
    return make_error(ErrorCode::kBadFile,
                      "{}: tokenizer.ggml.{} is {}, but the vocabulary has {} tokens", file.name(),
                      name, *id, vocab_size);
  }
  return std::optional<TokenId>(static_cast<TokenId>(*id));
}

Status read_lists(const GgufFile& file, VocabSpec& spec) {
  const GgufArray* tokens = file.get_array("tokenizer.ggml.tokens");
  if (!tokens || tokens->strings.empty())
    return make_error(ErrorCode::kBadFile,
                      "{}: no tokenizer.ggml.tokens: the file has no vocabulary", file.name());
  spec.tokens = tokens->strings;
  const auto check_size = [&](const char* key, std::size_t size) -> Status {
    if (size == spec.tokens.size()) return {};
    return make_error(ErrorCode::kBadFile, "{}: tokenizer.ggml.{} has {} entries for {} tokens",
                      file.name(), key, size, spec.tokens.size());
  };
  if (const GgufArray* scores = file.get_array("tokenizer.ggml.scores")) {
    QUIRE_TRY(check_size("scores", scores->floats.size()));
    spec.scores.assign(scores->floats.begin(), scores->floats.end());
  }
  if (const GgufArray* types = file.get_array("tokenizer.ggml.token_type")) {
    QUIRE_TRY(check_size("token_type", types->ints.size()));
    for (const std::int64_t type : types->ints)
      spec.types.push_back(type >= 1 && type <= 6 ? static_cast<VocabSpec::TokenType>(type)
                                                  : VocabSpec::TokenType::kNormal);
  }
  if (const GgufArray* merges = file.get_array("tokenizer.ggml.merges"))
    spec.merges = merges->strings;
  return {};
}

}  // namespace

Result<VocabSpec> read_gguf_vocab(const GgufFile& file) {
  VocabSpec spec;
  const std::string model(file.get_string("tokenizer.ggml.model").value_or(""));
  if (model == "gpt2")
    spec.kind = VocabSpec::Kind::kBpe;
  else if (model == "llama")
    spec.kind = VocabSpec::Kind::kSentencePiece;
  else
    return make_error(ErrorCode::kUnsupported,
                      "{}: tokenizer.ggml.model '{}' is not supported; known: gpt2, llama",
                      file.name(), model);
  spec.pre = file.get_string("tokenizer.ggml.pre").value_or("");
  QUIRE_TRY(read_lists(file, spec));
  const std::size_t size = spec.tokens.size();
  QUIRE_ASSIGN(spec.bos, read_id(file, "bos_token_id", size));
  QUIRE_ASSIGN(spec.eos, read_id(file, "eos_token_id", size));
  QUIRE_ASSIGN(spec.eot, read_id(file, "eot_token_id", size));
  QUIRE_ASSIGN(spec.unk, read_id(file, "unknown_token_id", size));
  QUIRE_ASSIGN(spec.pad, read_id(file, "padding_token_id", size));
  spec.add_bos = file.get_bool("tokenizer.ggml.add_bos_token");
  spec.add_eos = file.get_bool("tokenizer.ggml.add_eos_token");
  spec.add_space_prefix = file.get_bool("tokenizer.ggml.add_space_prefix");
  return spec;
}

}  // namespace quire
