// Answers of one grammar share what its lexer learns: each must get the masks, and the errors, that
// it gets alone.
#include <gtest/gtest.h>

#include <random>

#include "text/grammar.h"
#include "text/test_vocab.h"

namespace quire {
namespace {

constexpr TokenId kEndToken = 258;
using MaskWords = std::vector<std::uint32_t>;

std::unique_ptr<Tokenizer> make_tokenizer() {
  return Tokenizer::from_vocab(test::byte_level_spec({{"a", "b"}, {"{", "\""}}, {"<end>"})).value();
}

// What one step gives: the words of the mask, or the error.
struct MaskStep {
  MaskWords words;
  std::string error;
  bool operator==(const MaskStep&) const = default;
};
MaskStep mask_step(GrammarMatcher& matcher) {
  MaskStep out{MaskWords(matcher.num_mask_words()), {}};
  const auto allowed = matcher.fill_mask(out.words);
  if (!allowed) out = {{}, allowed.error().message};
  return out;
}

struct WalkedPath {
  std::vector<TokenId> tokens;
  std::vector<MaskStep> steps;  // before each token, and one behind the last
};

std::vector<TokenId> allowed_in(const MaskWords& words) {
  std::vector<TokenId> out;
  for (TokenId id = 0; id < kEndToken; ++id) {
    if ((words[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1) != 0) out.push_back(id);
  }
  return out;
}

// An answer of some 40 random tokens, by a matcher that shares with no other.
WalkedPath walk_alone(GrammarMatcher& matcher, std::mt19937& random) {
  WalkedPath path;
  for (int i = 0; i < 40; ++i) {
    path.steps.push_back(mask_step(matcher));
    if (!path.steps.back().error.empty()) return path;
    const auto allowed = allowed_in(path.steps.back().words);
    if (allowed.empty()) return path;
    path.tokens.push_back(allowed[random() % allowed.size()]);
    EXPECT_TRUE(matcher.accept(path.tokens.back()).value());
  }
  path.steps.push_back(mask_step(matcher));
  return path;
}

struct SharingRig {
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer();
  GrammarSpec spec;
  GrammarCompiler::Options options;

  std::shared_ptr<const Grammar> compile() const {
    GrammarCompiler compiler(tokenizer.get(), {kEndToken}, tokenizer->vocab_size(), options);
    return compiler.compile(spec).value();
  }
};

// Walks `count` answers alone, then all of them beside each other and one after the other with one
// grammar. Returns how many failed.
int check_company(const SharingRig& rig, int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<WalkedPath> paths;
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    const auto matcher = rig.compile()->matcher({}, true).value();
    paths.push_back(walk_alone(*matcher, random));
    failed += paths.back().steps.back().error.empty() ? 0 : 1;
  }
  const auto grammar = rig.compile();
  for (int round = 0; round < 3; ++round) {
    struct Live {
      const WalkedPath* path;
      std::unique_ptr<GrammarMatcher> matcher;
      std::size_t at = 0;
    };
    std::vector<Live> live;
    for (const WalkedPath& path : paths)
      live.push_back({&path, grammar->matcher({}, true).value()});
    while (!live.empty()) {
      const std::size_t i = random() % live.size();
      Live& one = live[i];
      EXPECT_EQ(mask_step(*one.matcher), one.path->steps[one.at]) << "step " << one.at;
      if (one.at == one.path->tokens.size()) {
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      if (random() % 8 == 0) one.matcher = one.matcher->fork().value();
      EXPECT_TRUE(one.matcher->accept(one.path->tokens[one.at++]).value());
    }
  }
  return failed;
}

GrammarSpec spec_of(GrammarSpec::Kind kind, std::string text) {
  GrammarSpec spec;
  spec.kind = kind;
  spec.text = std::move(text);
  return spec;
}

const GrammarSpec kSharedSpecs[] = {
    spec_of(GrammarSpec::Kind::kRegex, "[A-Z][a-z ]{20,60}[.]"),
    spec_of(GrammarSpec::Kind::kJsonSchema,
            R"({"type": "object", "properties": {"a": {"type": "string", "minLength": 20},
            "b": {"type": "array", "items": {"type": "integer"}}}, "required": ["a", "b"]})"),
    spec_of(GrammarSpec::Kind::kJsonSchema, R"({"type": "object"})"),
    spec_of(GrammarSpec::Kind::kGrammar,
            "root ::= (item \", \")* item\nitem ::= [a-c]+ [0-9]{1,9}"),
};

TEST(GrammarSharing, CompanyChangesNoMask) {
  for (const GrammarSpec& spec : kSharedSpecs) {
    SCOPED_TRACE(spec.text);
    SharingRig rig;
    rig.spec = spec;
    EXPECT_EQ(check_company(rig, 8, 1), 0);
  }
}

// Limits that some answers reach, alone and in company at the same step; and so low that shared
// lexers are given up all the time.
TEST(GrammarSharing, CompanyChangesNoLimit) {
  int failed = 0, passed = 0;
  for (const std::size_t states : {60, 100, 200, 400}) {
    for (const std::uint64_t fuel : {600, 2000, 200'000}) {
      for (const GrammarSpec& spec : kSharedSpecs) {
        SCOPED_TRACE(spec.text + " " + std::to_string(states) + " " + std::to_string(fuel));
        SharingRig rig;
        rig.spec = spec;
        rig.options.max_lexer_states = states;
        rig.options.max_mask_fuel = fuel;
        GrammarCompiler compiler(rig.tokenizer.get(), {kEndToken}, rig.tokenizer->vocab_size(),
                                 rig.options);
        if (!compiler.compile(spec)) continue;  // too little for its first mask
        const int bad = check_company(rig, 6, 2);
        failed += bad;
        passed += 6 - bad;
      }
    }
  }
  EXPECT_GT(failed, 20);
  EXPECT_GT(passed, 20);
}

}  // namespace
}  // namespace quire
