// Random answers that fit JSON schemas: what a model of random logits would say. No model is
// loaded.
//
//   quire_grammar_samples < lines.jsonl
//
// One line in: {"schema": ..., "count": answers to make, "seed": number, "texts": [JSON texts to
// try]}. One line out: {"error": "..."} when the schema is refused, else {"samples": [texts],
// "cut": answers that had no end after some hundred tokens, "takes": [whether each text is an
// answer], "failed": [errors of matchers]}. The vocabulary is the bytes and some pieces of JSON.
#include <boost/json.hpp>
#include <iostream>
#include <random>
#include <string>

#include "text/grammar.h"
#include "text/test_vocab.h"
#include "text/tokenizer.h"

namespace json = boost::json;

namespace quire {
namespace {

constexpr int kMaxTokens = 600;  // of one answer
constexpr int kPatience = 60;    // then what closes is preferred

class Sampler {
 public:
  Sampler() {
    const VocabSpec spec = test::byte_level_spec(
        {{"{", "\""}, {"\"", ":"}, {"\"", ","}, {"a", "b"}, {"1", "2"}, {"[", "["}, {"t", "r"}},
        {"<end>"});
    tokenizer_ = std::move(Tokenizer::from_vocab(spec).value());
    end_ = static_cast<TokenId>(tokenizer_->vocab_size()) - 1;
    compiler_ = std::make_unique<GrammarCompiler>(tokenizer_.get(), std::vector<TokenId>{end_},
                                                  tokenizer_->vocab_size());
  }

  json::object answer(const json::object& line) {
    GrammarSpec spec;
    spec.text = json::serialize(line.at("schema"));
    const auto grammar = compiler_->compile(spec);
    if (!grammar) return {{"error", grammar.error().message}};
    std::mt19937_64 random(static_cast<std::uint64_t>(line.at("seed").as_int64()));
    json::array samples, takes, failed;
    std::int64_t cut = 0;
    for (std::int64_t i = 0; i < line.at("count").as_int64(); ++i) {
      std::string text;
      const auto ended = sample(**grammar, random, &text);
      if (!ended) {
        failed.emplace_back(ended.error().message + " after " + text);
      } else if (*ended) {
        samples.emplace_back(text);
      } else {
        ++cut;
      }
    }
    for (const auto& text : line.at("texts").as_array())
      takes.emplace_back(takes_text(**grammar, std::string(text.as_string())));
    return {{"samples", samples}, {"cut", cut}, {"takes", takes}, {"failed", failed}};
  }

 private:
  // True: it came to its end.
  Result<bool> sample(const Grammar& grammar, std::mt19937_64& random, std::string* text) {
    QUIRE_ASSIGN(auto matcher, grammar.matcher({}, true));
    std::vector<std::uint32_t> words(matcher->num_mask_words());
    for (int i = 0; i < kMaxTokens; ++i) {
      QUIRE_ASSIGN(const auto allowed, matcher->fill_mask(words));
      const TokenId token = choose(words, random, i > kPatience, allowed.count);
      QUIRE_ASSIGN(const bool accepted, matcher->accept(token));
      if (!accepted) return make_error(ErrorCode::kInternal, "token {} was in the mask", token);
      if (matcher->ended()) return true;
      *text += tokenizer_->token_bytes(token);
    }
    return false;
  }

  TokenId choose(const std::vector<std::uint32_t>& words, std::mt19937_64& random, bool close,
                 std::uint32_t count) const {
    std::vector<TokenId> all, good;
    for (TokenId id = 0; id <= end_; ++id) {
      const auto bit = static_cast<std::size_t>(id);
      if ((words[bit / 32] >> (bit % 32) & 1) == 0) continue;
      all.push_back(id);
      const bool closes = id == end_ || id == '"' || id == '}' || id == ']';
      const bool usual = id == end_ || (id >= ' ' && id < 127);
      if (close ? closes : usual) good.push_back(id);
    }
    if (all.empty() || all.size() != count) {
      std::cerr << "a mask of " << all.size() << " tokens, told " << count << "\n";
      std::exit(1);
    }
    const bool take_good = !good.empty() && random() % 8 != 0;
    const auto& from = take_good ? good : all;
    return from[random() % from.size()];
  }

  static bool takes_text(const Grammar& grammar, const std::string& text) {
    const auto matcher = grammar.matcher({}, true).value();
    for (const char c : text) {
      if (!matcher->accept(static_cast<unsigned char>(c)).value_or(false)) return false;
    }
    return matcher->accepting().value_or(false);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<GrammarCompiler> compiler_;
  TokenId end_ = 0;
};

int run() {
  Sampler sampler;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << json::serialize(sampler.answer(json::parse(line).as_object())) << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace quire

int main() { return quire::run(); }
