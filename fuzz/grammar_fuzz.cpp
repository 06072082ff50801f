// A byte for the kind, then any bytes as schema, regular expression, choices, grammar or structural
// tag. What compiles is followed for some tokens: each token of a mask must be accepted.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "json_mutator.h"
#include "text/grammar.h"
#include "text/test_vocab.h"

namespace {

struct Fixture {
  Fixture() {
    const auto spec = quire::test::byte_level_spec({{"a", "b"}, {"{", "\""}}, {"<end>"});
    tokenizer = std::move(quire::Tokenizer::from_vocab(spec).value());
    compiler = std::make_unique<quire::GrammarCompiler>(
        tokenizer.get(), std::vector<quire::TokenId>{258}, tokenizer->vocab_size());
  }
  std::unique_ptr<quire::Tokenizer> tokenizer;
  std::unique_ptr<quire::GrammarCompiler> compiler;
};

void follow(const quire::Grammar& grammar, std::uint32_t choice) {
  const auto matcher = grammar.matcher({}, true).value();
  std::vector<std::uint32_t> words(matcher->num_mask_words());
  for (int i = 0; i < 24 && !matcher->ended(); ++i) {
    const auto allowed = matcher->fill_mask(words);
    if (!allowed || allowed->count == 0) return;
    std::uint32_t skip = choice++ % allowed->count;
    quire::TokenId token = 0;
    for (;; ++token) {
      const auto id = static_cast<std::size_t>(token);
      if ((words[id / 32] >> (id % 32) & 1) != 0 && skip-- == 0) break;
    }
    const auto accepted = matcher->accept(token);
    if (!accepted) return;
    if (!*accepted) std::abort();
  }
}

// Keywords of schemas and structural tags, those that aren't enforced among them.
const std::vector<std::string>& names() {
  static const std::vector<std::string> kNames{"type",
                                               "enum",
                                               "const",
                                               "properties",
                                               "required",
                                               "additionalProperties",
                                               "items",
                                               "patternProperties",
                                               "minProperties",
                                               "maxProperties",
                                               "prefixItems",
                                               "additionalItems",
                                               "minItems",
                                               "maxItems",
                                               "minLength",
                                               "maxLength",
                                               "pattern",
                                               "format",
                                               "minimum",
                                               "maximum",
                                               "exclusiveMinimum",
                                               "exclusiveMaximum",
                                               "multipleOf",
                                               "allOf",
                                               "anyOf",
                                               "oneOf",
                                               "$ref",
                                               "$defs",
                                               "definitions",
                                               "$id",
                                               "$anchor",
                                               "not",
                                               "if",
                                               "then",
                                               "uniqueItems",
                                               "nullable",
                                               "dependentRequired",
                                               "structures",
                                               "triggers",
                                               "begin",
                                               "end",
                                               "schema",
                                               "content",
                                               "elements",
                                               "tags",
                                               "value",
                                               "json_schema",
                                               "separator",
                                               "at_least_one",
                                               "stop_after_first",
                                               "a",
                                               "b"};
  return kNames;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return quire::fuzz::mutate_json(data, size, max_size, seed, 1, names());
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Fixture& fixture = *new Fixture();
  if (size == 0) return 0;
  quire::GrammarSpec spec;
  spec.kind = static_cast<quire::GrammarSpec::Kind>(data[0] % 5);
  spec.text.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto grammar = fixture.compiler->compile(spec);
  if (grammar) {
    follow(**grammar, data[size / 2]);
  } else if (grammar.error().code != quire::ErrorCode::kInvalidArgument) {
    // A list of choices is made by the server: only there is broken JSON our own fault.
    if (spec.kind != quire::GrammarSpec::Kind::kChoice) std::abort();
  }
  return 0;
}
