// The C++ face of the text crate's tokenizer: loading, special tokens, and the table of what each
// token stands for. Immutable once built.
#include "text/tokenizer.h"

#include <quire-text/src/lib.rs.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/log.h"
#include "text/detokenizer.h"
#include "text/rust_call.h"
#include "text/special_tokens.h"

namespace quire {

struct Tokenizer::Impl {
  explicit Impl(rust::Box<rs::TextTokenizer> h) : handle(std::move(h)) {}

  rust::Box<rs::TextTokenizer> handle;
  rs::TokenTable table;
  SpecialTokens special;
  bool add_bos = false;
  bool add_eos = false;
  bool post_process = false;  // tokenizer.json's post-processor adds what add_bos doesn't say

  std::optional<TokenId> id_of(std::string_view text) const;
  std::string_view slice(const rust::Vec<std::uint8_t>& bytes, const rust::Vec<std::uint64_t>& ends,
                         TokenId id) const;
  std::vector<MarkedToken> marked_tokens() const;
  Status load_table();
};

namespace {

enum TokenKind : std::uint8_t { kOrdinary, kAdded, kSpecial };  // as in rs::TokenTable::kinds

bool stated(std::int8_t choice) { return choice >= 0; }

// `spec`'s token types, one per token; without types, the tokens that have a role are control.
std::vector<std::int32_t> types_of(const VocabSpec& spec) {
  using Type = VocabSpec::TokenType;
  std::vector<std::int32_t> types(spec.tokens.size(), static_cast<std::int32_t>(Type::kNormal));
  for (std::size_t i = 0; i < spec.types.size(); ++i)
    types[i] = static_cast<std::int32_t>(spec.types[i]);
  const auto mark = [&](std::optional<TokenId> id) {
    if (!id) return;
    std::int32_t& type = types[static_cast<std::size_t>(*id)];
    if (type == static_cast<std::int32_t>(Type::kNormal))
      type = static_cast<std::int32_t>(Type::kControl);
  };
  // What ends a text must never be shown as text, whatever type a converter gave it.
  mark(spec.eos);
  mark(spec.eot);
  if (spec.types.empty()) {
    mark(spec.bos);
    mark(spec.unk);
    mark(spec.pad);
  }
  return types;
}

Status check(const VocabSpec& spec) {
  const std::size_t count = spec.tokens.size();
  if (count == 0) return make_error(ErrorCode::kBadFile, "the model's vocabulary has no tokens");
  if (count > static_cast<std::size_t>(std::numeric_limits<TokenId>::max())) {
    return make_error(ErrorCode::kBadFile, "the vocabulary has {} tokens, more than there are ids",
                      count);
  }
  if (!spec.types.empty() && spec.types.size() != count) {
    return make_error(ErrorCode::kBadFile, "the vocabulary has {} tokens but {} token types", count,
                      spec.types.size());
  }
  if (!spec.scores.empty() && spec.scores.size() != count) {
    return make_error(ErrorCode::kBadFile, "the vocabulary has {} tokens but {} scores", count,
                      spec.scores.size());
  }
  const std::pair<const char*, std::optional<TokenId>> roles[] = {{"bos", spec.bos},
                                                                  {"eos", spec.eos},
                                                                  {"eot", spec.eot},
                                                                  {"unk", spec.unk},
                                                                  {"pad", spec.pad}};
  for (const auto& [role, id] : roles) {
    if (id && (*id < 0 || static_cast<std::size_t>(*id) >= count)) {
      return make_error(ErrorCode::kBadFile,
                        "the {} token's id {} is outside the vocabulary of {} tokens", role, *id,
                        count);
    }
  }
  return {};
}

std::optional<TokenId> unknown_token(const VocabSpec& spec) {
  if (spec.unk) return spec.unk;
  const auto it = std::find(spec.types.begin(), spec.types.end(), VocabSpec::TokenType::kUnknown);
  if (it == spec.types.end()) return std::nullopt;
  return static_cast<TokenId>(it - spec.types.begin());
}

Result<rust::Box<rs::TextTokenizer>> build(const VocabSpec& spec) {
  const std::vector<std::int32_t> types = types_of(spec);
  const rust::Slice<const std::int32_t> type_slice{types.data(), types.size()};
  return rust_call(ErrorCode::kBadFile, [&] {
    if (spec.kind == VocabSpec::Kind::kBpe) {
      return rs::tokenizer_from_bpe(spec.tokens, type_slice, spec.pre, spec.merges);
    }
    const std::optional<TokenId> unk = unknown_token(spec);
    const rust::Slice<const float> scores{spec.scores.data(), spec.scores.size()};
    return rs::tokenizer_from_sentencepiece(spec.tokens, scores, type_slice, unk ? *unk : -1,
                                            spec.add_space_prefix.value_or(true));
  });
}

}  // namespace

std::optional<TokenId> Tokenizer::Impl::id_of(std::string_view text) const {
  if (text.empty()) return std::nullopt;
  const auto id =
      rust_call(ErrorCode::kInternal, [&] { return rs::token_id(*handle, rust_bytes(text)); });
  if (!id || *id < 0) return std::nullopt;
  return static_cast<TokenId>(*id);
}

std::string_view Tokenizer::Impl::slice(const rust::Vec<std::uint8_t>& bytes,
                                        const rust::Vec<std::uint64_t>& ends, TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= ends.size()) return {};
  const std::size_t i = static_cast<std::size_t>(id);
  const std::uint64_t begin = i == 0 ? 0 : ends[i - 1];
  return {reinterpret_cast<const char*>(bytes.data()) + begin, ends[i] - begin};
}

std::vector<MarkedToken> Tokenizer::Impl::marked_tokens() const {
  std::vector<MarkedToken> marked;
  for (std::size_t i = 0; i < table.kinds.size(); ++i) {
    if (table.kinds[i] == kOrdinary) continue;
    const TokenId id = static_cast<TokenId>(i);
    marked.push_back({id, slice(table.texts, table.text_ends, id)});
  }
  return marked;
}

Status Tokenizer::Impl::load_table() {
  QUIRE_ASSIGN(table, rust_call(ErrorCode::kInternal, [&] { return rs::token_table(*handle); }));
  return {};
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json,
                                                        std::string_view tokenizer_config_json) {
  QUIRE_ASSIGN(auto handle, rust_call(ErrorCode::kBadFile, [&] {
                 return rs::tokenizer_from_json(rust_bytes(tokenizer_json),
                                                rust_bytes(tokenizer_config_json));
               }));
  auto impl = std::make_unique<Impl>(std::move(handle));
  QUIRE_TRY(impl->load_table());
  QUIRE_ASSIGN(const rs::SpecialNames names,
               rust_call(ErrorCode::kInternal, [&] { return rs::special_names(*impl->handle); }));
  SpecialTokens& special = impl->special;
  special.bos_token = std::string(names.bos);
  special.eos_token = std::string(names.eos);
  special.unk_token = std::string(names.unk);
  special.pad_token = std::string(names.pad);
  special.bos = impl->id_of(special.bos_token);
  special.eos = impl->id_of(special.eos_token);
  special.unk = impl->id_of(special.unk_token);
  special.pad = impl->id_of(special.pad_token);
  impl->post_process = !stated(names.add_bos);
  impl->add_bos = names.add_bos == 1;
  impl->add_eos = names.add_eos == 1;
  std::vector<TokenId> always;
  if (special.eos) always.push_back(*special.eos);
  special.end_ids = find_end_ids(impl->marked_tokens(), always);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_vocab(const VocabSpec& spec) {
  QUIRE_TRY(check(spec));
  if (spec.kind == VocabSpec::Kind::kBpe && (spec.pre.empty() || spec.pre == "default")) {
    log_warning(
        "the model file names no pre-tokenizer of its family (tokenizer.ggml.pre is \"{}\"): "
        "text may be cut in other places than in training, and answers be worse",
        spec.pre);
  }
  QUIRE_ASSIGN(auto handle, build(spec));
  auto impl = std::make_unique<Impl>(std::move(handle));
  QUIRE_TRY(impl->load_table());
  QUIRE_ASSIGN(const rs::SpecialNames defaults,
               rust_call(ErrorCode::kInternal, [&] { return rs::special_names(*impl->handle); }));
  impl->add_bos = spec.add_bos.value_or(defaults.add_bos == 1);
  impl->add_eos = spec.add_eos.value_or(defaults.add_eos == 1);
  SpecialTokens& special = impl->special;
  const auto text_of = [&](std::optional<TokenId> id) {
    return id ? spec.tokens[static_cast<std::size_t>(*id)] : std::string();
  };
  special.bos = spec.bos;
  special.eos = spec.eos;
  special.unk = spec.kind == VocabSpec::Kind::kSentencePiece ? unknown_token(spec) : spec.unk;
  special.pad = spec.pad;
  special.bos_token = text_of(special.bos);
  special.eos_token = text_of(special.eos);
  special.unk_token = text_of(special.unk);
  special.pad_token = text_of(special.pad);
  std::vector<TokenId> always;
  for (const std::optional<TokenId> id : {spec.eos, spec.eot}) {
    if (id) always.push_back(*id);
  }
  special.end_ids = find_end_ids(impl->marked_tokens(), always);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text,
                                               bool add_special_tokens) const {
  return encode(text, add_special_tokens, nullptr);
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, bool add_special_tokens,
                                               std::vector<TokenSpan>* spans) const {
  rust::Vec<std::uint32_t> raw, places;
  QUIRE_TRY(rust_call(ErrorCode::kInvalidArgument, [&] {
    const bool post_process = add_special_tokens && impl_->post_process;
    if (spans == nullptr) {
      rs::encode(*impl_->handle, rust_bytes(text), post_process, raw);
    } else {
      rs::encode_with_offsets(*impl_->handle, rust_bytes(text), post_process, raw, places);
    }
  }));
  std::vector<TokenId> ids;
  ids.reserve(raw.size() + 2);
  const std::optional<TokenId> bos = impl_->special.bos;
  const std::optional<TokenId> eos = impl_->special.eos;
  const auto at = [&](std::size_t i) { return static_cast<TokenId>(raw[i]); };
  std::size_t first = 0;
  if (add_special_tokens && bos) {
    const bool has_bos = !raw.empty() && at(0) == *bos;
    if (impl_->add_bos && !has_bos) ids.push_back(*bos);
    // A template often writes the bos itself: the post-processor must not give a second one.
    if (impl_->post_process && has_bos && raw.size() > 1 && at(1) == *bos &&
        text.starts_with(impl_->special.bos_token)) {
      first = 1;
    }
  }
  if (spans != nullptr) {
    spans->assign(ids.size(), TokenSpan{});
    for (std::size_t i = first; i < raw.size(); ++i)
      spans->push_back({places[2 * i], places[2 * i + 1]});
  }
  for (std::size_t i = first; i < raw.size(); ++i) ids.push_back(at(i));
  if (add_special_tokens && impl_->add_eos && eos && (ids.empty() || ids.back() != *eos)) {
    ids.push_back(*eos);
    if (spans != nullptr) spans->emplace_back();
  }
  return ids;
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  return impl_->slice(impl_->table.bytes, impl_->table.byte_ends, id);
}

std::string_view Tokenizer::token_text(TokenId id) const {
  return impl_->slice(impl_->table.texts, impl_->table.text_ends, id);
}

bool Tokenizer::is_special(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < impl_->table.kinds.size() &&
         impl_->table.kinds[static_cast<std::size_t>(id)] == kSpecial;
}

std::optional<TokenId> Tokenizer::token_id(std::string_view token_text) const {
  return impl_->id_of(token_text);
}

std::size_t Tokenizer::vocab_size() const { return impl_->table.kinds.size(); }

const SpecialTokens& Tokenizer::special() const { return impl_->special; }

std::string Tokenizer::decode(const std::vector<TokenId>& ids, bool skip_special_tokens) const {
  Detokenizer detokenizer(this, skip_special_tokens);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text += detokenizer.flush();
}

}  // namespace quire
