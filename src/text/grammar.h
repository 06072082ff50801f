// Constrained output: a grammar says which tokens may follow, so that an answer fits a JSON schema,
// a regular expression, a list of choices or a grammar of the user's own. By the llguidance crate.
//
// A Grammar is compiled once and thread safe; a GrammarMatcher follows one answer and belongs to
// one thread at a time. Matchers of one grammar share what its lexer learns, which changes nothing
// but their speed. Whatever tokens spell an allowed text are allowed, so an answer that fits is the
// same with a grammar as without. Special tokens are never part of a text; an end token is allowed
// where the text may end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace quire {

// What an answer must fit.
struct GrammarSpec {
  enum class Kind : std::uint8_t {
    kJsonSchema,     // text: the schema
    kRegex,          // the whole answer matches it
    kChoice,         // text: a JSON list of strings
    kGrammar,        // Lark, or EBNF with `::=`
    kStructuralTag,  // text: a JSON object with "format", or "structures" and "triggers"
  };
  Kind kind = Kind::kJsonSchema;
  std::string text;
  // How JSON is written. Absent: a few blanks, or a new line and its indent, between its tokens.
  bool has_whitespace_pattern = false;
  std::string whitespace_pattern;
  bool disable_any_whitespace = false;
  bool disable_additional_properties = false;  // of objects that don't mention them

  bool operator==(const GrammarSpec&) const = default;
};
// Any JSON object.
GrammarSpec json_object_spec();

class GrammarMatcher {
 public:
  ~GrammarMatcher();
  // Of a tokenizer's vocabulary.
  std::size_t num_mask_words() const;

  struct Allowed {
    std::uint32_t count = 0;
    TokenId only = -1;  // the allowed token when there is but one
    // Earlier masks that were made again, for a lexer of its own: four at most, but for a lexer
    // that many share and one of them breaks.
    std::uint32_t again = 0;
  };
  // Sets the bits of the tokens that may follow: id % 32 of word id / 32. None after the end. Some
  // microseconds to some milliseconds. kInvalidArgument when the grammar is too costly to go on.
  Result<Allowed> fill_mask(std::span<std::uint32_t> words);
  // False when the token may not follow: nothing has changed then.
  Result<bool> accept(TokenId token);
  bool complete() const;     // nothing but an end token may follow
  bool ended() const;        // an end token has been accepted
  Result<bool> accepting();  // the text may end here
  // An independent matcher in the same state.
  Result<std::unique_ptr<GrammarMatcher>> fork() const;

 private:
  friend class Grammar;
  struct Impl;
  explicit GrammarMatcher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class Grammar {
 public:
  ~Grammar();
  // A matcher at the start. stop_token_ids: the request's own; special ones end an answer like an
  // end token. Without end_allowed (ignore_eos) end tokens come only where nothing else may follow.
  Result<std::unique_ptr<GrammarMatcher>> matcher(std::span<const TokenId> stop_token_ids,
                                                  bool end_allowed) const;

 private:
  friend class GrammarCompiler;
  struct Impl;
  explicit Grammar(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Compiles for one vocabulary; keeps what was compiled last. Thread safe. The vocabulary is
// prepared with the first grammar, not at the start.
class GrammarCompiler {
 public:
  struct Options {
    std::size_t max_grammars = 64;            // kept
    std::size_t max_kept_bytes = 8u << 20;    // of their texts
    std::size_t max_source_bytes = 1u << 20;  // of one text
    // Of one answer; beyond, its next mask is refused.
    std::size_t max_lexer_states = 50'000;
    std::uint64_t max_mask_fuel = 200'000;  // some 14,000 take a millisecond
  };
  // end_ids: every token that ends an answer, maybe none. vocab_size: of the model, which may have
  // fewer tokens than the tokenizer. The tokenizer outlives the compiler.
  GrammarCompiler(const Tokenizer* tokenizer, std::vector<TokenId> end_ids, std::size_t vocab_size,
                  Options options);
  GrammarCompiler(const Tokenizer* tokenizer, std::vector<TokenId> end_ids, std::size_t vocab_size);
  ~GrammarCompiler();
  // kInvalidArgument, with keyword and path for a schema, when it can't be enforced in full. May
  // take seconds: never on the engine's thread. Concurrent calls for one spec compile once.
  Result<std::shared_ptr<const Grammar>> compile(const GrammarSpec& spec);
  // Whether compile() would give it at once.
  bool is_ready(const GrammarSpec& spec) const;

  struct Stats {
    std::size_t kept = 0;
    std::int64_t compiled = 0, found = 0;
  };
  Stats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
