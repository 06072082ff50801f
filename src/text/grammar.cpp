// The C++ face of the text crate's grammars, and the cache of compiled ones.
#include "text/grammar.h"

#include <quire-text/src/lib.rs.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <list>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "text/rust_call.h"

namespace quire {

struct GrammarMatcher::Impl {
  rust::Box<rs::GrammarMatcher> handle;
  std::size_t num_words = 0;
};

struct Grammar::Impl {
  rust::Box<rs::CompiledGrammar> handle;
  std::size_t num_words = 0;
};

GrammarSpec json_object_spec() {
  GrammarSpec spec;
  spec.text = R"({"type": "object"})";
  return spec;
}

// ---- matcher ----------------------------------------------------------------------------------

GrammarMatcher::GrammarMatcher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrammarMatcher::~GrammarMatcher() = default;

std::size_t GrammarMatcher::num_mask_words() const { return impl_->num_words; }

Result<GrammarMatcher::Allowed> GrammarMatcher::fill_mask(std::span<std::uint32_t> words) {
  QUIRE_CHECK(words.size() >= impl_->num_words, "{} words of {}", words.size(), impl_->num_words);
  QUIRE_ASSIGN(const rs::MaskCount count, rust_call(ErrorCode::kInvalidArgument, [&] {
                 return rs::matcher_fill(*impl_->handle, {words.data(), words.size()});
               }));
  return Allowed{count.allowed, static_cast<TokenId>(count.only), count.again};
}

Result<bool> GrammarMatcher::accept(TokenId token) {
  if (token < 0) return false;
  return rust_call(ErrorCode::kInvalidArgument, [&] {
    return rs::matcher_accept(*impl_->handle, static_cast<std::uint32_t>(token));
  });
}

bool GrammarMatcher::complete() const { return impl_->handle->is_complete(); }
bool GrammarMatcher::ended() const { return impl_->handle->is_ended(); }

Result<bool> GrammarMatcher::accepting() {
  return rust_call(ErrorCode::kInvalidArgument,
                   [&] { return rs::matcher_accepting(*impl_->handle); });
}

Result<std::unique_ptr<GrammarMatcher>> GrammarMatcher::fork() const {
  QUIRE_ASSIGN(auto handle,
               rust_call(ErrorCode::kInternal, [&] { return rs::matcher_fork(*impl_->handle); }));
  return std::unique_ptr<GrammarMatcher>(
      new GrammarMatcher(std::unique_ptr<Impl>(new Impl{std::move(handle), impl_->num_words})));
}

// ---- grammar ----------------------------------------------------------------------------------

Grammar::Grammar(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Grammar::~Grammar() = default;

Result<std::unique_ptr<GrammarMatcher>> Grammar::matcher(std::span<const TokenId> stop_token_ids,
                                                         bool end_allowed) const {
  std::vector<std::uint32_t> ends;
  for (const TokenId id : stop_token_ids) {
    if (id >= 0) ends.push_back(static_cast<std::uint32_t>(id));
  }
  QUIRE_ASSIGN(
      auto handle, rust_call(ErrorCode::kInternal, [&] {
        return rs::grammar_matcher(*impl_->handle, {ends.data(), ends.size()}, end_allowed);
      }));
  return std::unique_ptr<GrammarMatcher>(new GrammarMatcher(std::unique_ptr<GrammarMatcher::Impl>(
      new GrammarMatcher::Impl{std::move(handle), impl_->num_words})));
}

// ---- compiler ---------------------------------------------------------------------------------

namespace {

using Compiled = Result<std::shared_ptr<const Grammar>>;

rs::GrammarKind rust_kind(GrammarSpec::Kind kind) {
  switch (kind) {
    case GrammarSpec::Kind::kJsonSchema:
      return rs::GrammarKind::JsonSchema;
    case GrammarSpec::Kind::kRegex:
      return rs::GrammarKind::Regex;
    case GrammarSpec::Kind::kChoice:
      return rs::GrammarKind::Choice;
    case GrammarSpec::Kind::kGrammar:
      return rs::GrammarKind::Grammar;
    case GrammarSpec::Kind::kStructuralTag:
      break;
  }
  return rs::GrammarKind::StructuralTag;
}

}  // namespace

struct GrammarCompiler::Impl {
  struct Entry {
    GrammarSpec spec;
    std::shared_future<Compiled> result;
  };

  Result<rust::Box<rs::GrammarVocab>> make_vocab() const;
  Compiled compile(const GrammarSpec& spec);
  void drop_old();
  void drop(const GrammarSpec& spec);

  const Tokenizer* tokenizer;
  std::vector<TokenId> end_ids;
  std::size_t vocab_size;
  Options options;

  std::once_flag vocab_once;
  Result<rust::Box<rs::GrammarVocab>> vocab = make_error(ErrorCode::kInternal, "no vocabulary");

  mutable std::mutex mutex;  // guards what follows
  std::list<Entry> entries;  // used last first
  std::size_t kept_bytes = 0;
  std::int64_t num_compiled = 0, num_found = 0;
};

GrammarCompiler::GrammarCompiler(const Tokenizer* tokenizer, std::vector<TokenId> end_ids,
                                 std::size_t vocab_size, Options options)
    : impl_(std::make_unique<Impl>()) {
  impl_->tokenizer = tokenizer;
  impl_->end_ids = std::move(end_ids);
  impl_->vocab_size = std::min(vocab_size, tokenizer->vocab_size());
  impl_->options = options;
  std::erase_if(impl_->end_ids, [this](TokenId id) {
    return id < 0 || static_cast<std::size_t>(id) >= impl_->vocab_size;
  });
}
GrammarCompiler::GrammarCompiler(const Tokenizer* tokenizer, std::vector<TokenId> end_ids,
                                 std::size_t vocab_size)
    : GrammarCompiler(tokenizer, std::move(end_ids), vocab_size, Options()) {}
GrammarCompiler::~GrammarCompiler() = default;

Result<rust::Box<rs::GrammarVocab>> GrammarCompiler::Impl::make_vocab() const {
  std::string bytes;
  std::vector<std::uint64_t> byte_ends;
  std::vector<std::uint8_t> special;
  for (std::size_t i = 0; i < vocab_size; ++i) {
    const auto id = static_cast<TokenId>(i);
    bytes += tokenizer->token_bytes(id);
    byte_ends.push_back(bytes.size());
    special.push_back(tokenizer->is_special(id) ? 1 : 0);
  }
  const std::vector<std::uint32_t> ends(end_ids.begin(), end_ids.end());
  return rust_call(ErrorCode::kInternal, [&] {
    return rs::grammar_vocab(rust_bytes(bytes), {byte_ends.data(), byte_ends.size()},
                             {special.data(), special.size()}, {ends.data(), ends.size()},
                             {options.max_lexer_states, options.max_mask_fuel});
  });
}

Compiled GrammarCompiler::Impl::compile(const GrammarSpec& spec) {
  std::call_once(vocab_once, [this] { vocab = make_vocab(); });
  if (!vocab) return tl::unexpected(vocab.error());
  rs::GrammarInput input;
  input.kind = rust_kind(spec.kind);
  input.text = rust_bytes(spec.text);
  input.has_whitespace_pattern = spec.has_whitespace_pattern;
  input.whitespace_pattern = rust_bytes(spec.whitespace_pattern);
  input.no_whitespace = spec.disable_any_whitespace;
  input.closed_objects = spec.disable_additional_properties;
  QUIRE_ASSIGN(auto handle, rust_call(ErrorCode::kInvalidArgument,
                                      [&] { return rs::grammar_compile(**vocab, input); }));
  return std::shared_ptr<const Grammar>(new Grammar(std::unique_ptr<Grammar::Impl>(
      new Grammar::Impl{std::move(handle), (vocab_size + 31) / 32})));
}

// Those used longest ago. With the lock held.
void GrammarCompiler::Impl::drop_old() {
  while (entries.size() > 1 &&
         (entries.size() > options.max_grammars || kept_bytes > options.max_kept_bytes)) {
    kept_bytes -= entries.back().spec.text.size();
    entries.pop_back();
  }
}

// A failure is not kept. With the lock held.
void GrammarCompiler::Impl::drop(const GrammarSpec& spec) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return entry.spec == spec; });
  if (found == entries.end()) return;
  kept_bytes -= spec.text.size();
  entries.erase(found);
}

Compiled GrammarCompiler::compile(const GrammarSpec& spec) {
  Impl& impl = *impl_;
  if (spec.text.size() > impl.options.max_source_bytes) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the grammar or schema has {} bytes, the limit is {}", spec.text.size(),
                      impl.options.max_source_bytes);
  }
  std::promise<Compiled> promise;
  {
    std::unique_lock lock(impl.mutex);
    auto& entries = impl.entries;
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const Impl::Entry& entry) { return entry.spec == spec; });
    if (found != entries.end()) {
      entries.splice(entries.begin(), entries, found);
      const auto result = found->result;
      ++impl.num_found;
      lock.unlock();
      return result.get();  // may wait for the call that compiles it
    }
    entries.push_front({spec, promise.get_future().share()});
    impl.kept_bytes += spec.text.size();
    ++impl.num_compiled;
    impl.drop_old();
  }
  Compiled compiled = impl.compile(spec);
  promise.set_value(compiled);
  if (!compiled) {
    std::lock_guard lock(impl.mutex);
    impl.drop(spec);
  }
  return compiled;
}

bool GrammarCompiler::is_ready(const GrammarSpec& spec) const {
  std::lock_guard lock(impl_->mutex);
  const auto found = std::find_if(impl_->entries.begin(), impl_->entries.end(),
                                  [&](const Impl::Entry& entry) { return entry.spec == spec; });
  return found != impl_->entries.end() &&
         found->result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

GrammarCompiler::Stats GrammarCompiler::stats() const {
  std::lock_guard lock(impl_->mutex);
  return {impl_->entries.size(), impl_->num_compiled, impl_->num_found};
}

}  // namespace quire
