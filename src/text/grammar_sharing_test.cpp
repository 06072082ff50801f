// Answers of one grammar share what its lexer learns: each must get the masks, and the errors, that
// it gets alone.
#include <gtest/gtest.h>

#include <algorithm>
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
// again: grows by the masks that were made again.
MaskStep mask_step(GrammarMatcher& matcher, std::uint32_t* again = nullptr) {
  MaskStep out{MaskWords(matcher.num_mask_words()), {}};
  const auto allowed = matcher.fill_mask(out.words);
  if (allowed && again != nullptr) *again += allowed->again;
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

// An answer of so many random tokens, by a matcher that shares with no other.
WalkedPath walk_alone(GrammarMatcher& matcher, std::mt19937& random, int count = 40) {
  WalkedPath path;
  for (int i = 0; i < count; ++i) {
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

// Many answers, step by step beside each other: they leave their lexer one after the other, long
// before it has learned too much, and each makes a few masks again in one step.
void check_leaving(const SharingRig& rig, int count, int length) {
  std::mt19937 random(4);
  std::vector<WalkedPath> paths;
  for (int i = 0; i < count; ++i) {
    const auto matcher = rig.compile()->matcher({}, true).value();
    paths.push_back(walk_alone(*matcher, random, length));
  }
  const auto grammar = rig.compile();
  std::vector<std::unique_ptr<GrammarMatcher>> matchers;
  for (int i = 0; i < count; ++i) matchers.push_back(grammar->matcher({}, true).value());
  std::vector<std::uint32_t> all(matchers.size());
  std::vector<int> first_steps(matchers.size(), -1);
  for (int step = 0; step <= length; ++step) {
    for (std::size_t i = 0; i < matchers.size(); ++i) {
      const auto at = static_cast<std::size_t>(step);
      if (at >= paths[i].steps.size()) continue;
      std::uint32_t again = 0;
      ASSERT_EQ(mask_step(*matchers[i], &again), paths[i].steps[at]) << i << " at " << at;
      EXPECT_LE(again, 4u) << i << " at " << at;
      all[i] += again;
      if (again > 0 && first_steps[i] < 0) first_steps[i] = step;
      if (at < paths[i].tokens.size()) {
        ASSERT_TRUE(matchers[i]->accept(paths[i].tokens[at]).value());
      }
    }
  }
  std::sort(first_steps.begin(), first_steps.end());
  EXPECT_GE(first_steps.front(), 0) << "all have left";
  EXPECT_GT(std::unique(first_steps.begin(), first_steps.end()) - first_steps.begin(), 4);
  for (const std::uint32_t again : all) EXPECT_LT(again, static_cast<std::uint32_t>(length));
}

TEST(GrammarSharing, AnswersLeaveALexerOneByOneWhenItHasLearnedMuch) {
  SharingRig rig;
  rig.spec = spec_of(GrammarSpec::Kind::kRegex, "([a-z]{3,9}[0-9]{2,8}[A-Z]{1,5}[.]){30,60}");
  rig.options.max_mask_fuel = 20'000;
  check_leaving(rig, 32, 200);
}

TEST(GrammarSharing, LongAnswersLeaveALexerOneByOne) {
  SharingRig rig;
  rig.spec = spec_of(GrammarSpec::Kind::kRegex, "[a-z]*");
  check_leaving(rig, 16, 2100);
}

// Most of a vocabulary are words, which a mask takes as wholes where it can: it must allow exactly
// the tokens that may follow one by one.
TEST(GrammarMask, WordsAreTakenAsEachWouldBe) {
  const auto spec = test::byte_level_spec({{"t", "h"},
                                           {"th", "e"},
                                           {"Ġ", "the"},
                                           {"T", "he"},
                                           {"h", "e"},
                                           {"Ġ", "The"},
                                           {"q", "u"},
                                           {"qu", "ick"},
                                           {"i", "c"},
                                           {"ic", "k"},
                                           {"Ġ", "quick"},
                                           {"e", "r"},
                                           {"the", "er"},
                                           {"theer", "quick"},
                                           {"theerquick", "quick"},
                                           {"theerquickquick", "quickquick"},
                                           {"quick", "quick"},
                                           {"Ġ", "Ġ"},
                                           {"the", "Ġ"},
                                           {"the", "."},
                                           {"1", "2"},
                                           {"the", "12"}},
                                          {"<end>"});
  const auto tokenizer = Tokenizer::from_vocab(spec).value();
  const auto end = static_cast<TokenId>(tokenizer->vocab_size()) - 1;
  GrammarCompiler compiler(tokenizer.get(), {end}, tokenizer->vocab_size());
  std::mt19937 random(3);
  int with_words = 0;
  for (const char* pattern : {"[A-Z][a-z ]{12,40}[.]", "[a-z]+", "[A-Za-z ]{3,60}", "[a-z]{1,9}",
                              "([a-z]+ )*the", "[a-z0-9 ]{5,}", "( ?[a-z]{1,6})+"}) {
    const auto grammar = compiler.compile(spec_of(GrammarSpec::Kind::kRegex, pattern)).value();
    for (int answer = 0; answer < 4; ++answer) {
      const auto matcher = grammar->matcher({}, true).value();
      MaskWords words(matcher->num_mask_words());
      for (int i = 0; i < 12; ++i) {
        ASSERT_TRUE(matcher->fill_mask(words));
        std::vector<TokenId> allowed;
        for (TokenId id = 0; id < end; ++id) {
          const bool may_follow = matcher->fork().value()->accept(id).value();
          ASSERT_EQ((words[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1) != 0, may_follow)
              << pattern << " " << i << ": " << tokenizer->token_bytes(id);
          if (may_follow) allowed.push_back(id);
        }
        if (allowed.empty()) break;
        const auto words_begin = std::lower_bound(allowed.begin(), allowed.end(), 256);
        const bool word = words_begin != allowed.end() && random() % 2 == 0;
        const auto from = word ? words_begin - allowed.begin() : 0;
        const auto count = static_cast<std::ptrdiff_t>(allowed.size()) - from;
        ASSERT_TRUE(
            matcher->accept(allowed[static_cast<std::size_t>(from + random() % count)]).value());
        with_words += word ? 1 : 0;
      }
    }
  }
  EXPECT_GT(with_words, 50);
}

}  // namespace
}  // namespace quire
