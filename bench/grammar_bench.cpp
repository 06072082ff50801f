// What constrained output costs with a real vocabulary: making it ready, compiling, a copy for a
// request, a mask, a token. Without a model.
//
//   grammar_bench MODEL.gguf
//
// One line per measure: name, median and greatest time in microseconds.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "app/gguf_vocab.h"
#include "base/clock.h"
#include "text/grammar.h"
#include "text/tokenizer.h"
#include "weights/gguf_file.h"

namespace quire {
namespace {

class Times {
 public:
  explicit Times(std::string name) : name_(std::move(name)) {}
  ~Times() {
    std::sort(seconds_.begin(), seconds_.end());
    if (seconds_.empty()) return;
    fmt::print("{:<32} {:>10.1f} {:>10.1f}\n", name_, seconds_[seconds_.size() / 2] * 1e6,
               seconds_.back() * 1e6);
  }
  template <class F>
  auto measure(F&& f) {
    const double begin = now_s();
    auto result = f();
    seconds_.push_back(now_s() - begin);
    return result;
  }

 private:
  std::string name_;
  std::vector<double> seconds_;
};

struct Case {
  const char* name;
  GrammarSpec::Kind kind;
  const char* grammar;
  const char* answer;  // followed token by token
};

const Case kCases[] = {
    {"object", GrammarSpec::Kind::kJsonSchema,
     R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
         "tags": {"type": "array", "items": {"type": "string"}}},
         "required": ["name", "age", "tags"], "additionalProperties": false})",
     "{\"name\": \"Ada Lovelace, who wrote the first program\", \"age\": 36,\n \"tags\": "
     "[\"maths\", "
     "\"engines\"]}"},
    {"any json", GrammarSpec::Kind::kJsonSchema, R"({"type": "object"})",
     R"({"a": [1, 2.5, {"b": "some text of several words"}], "c": null})"},
    {"regex", GrammarSpec::Kind::kRegex, "[A-Z][a-z ]{20,60}[.]",
     "The quick brown fox jumps over it."},
    {"long string", GrammarSpec::Kind::kJsonSchema,
     R"({"type": "object", "properties": {"text": {"type": "string", "minLength": 200}},
         "required": ["text"], "additionalProperties": false})",
     "{\"text\": \"It was a bright cold day in April, and the clocks were striking when a man with "
     "his chin nuzzled into his coat slipped quickly through the glass doors of the house on the "
     "hill, though not quickly enough to prevent a swirl of dust from entering with him.\"}"},
    {"text and calls", GrammarSpec::Kind::kStructuralTag,
     R"({"format": {"type": "triggered_tags", "triggers": ["<tool_call>"], "tags": [{
         "begin": "<tool_call>\n", "end": "\n</tool_call>", "content": {"type": "json_schema",
         "json_schema": {"type": "object", "properties": {"name": {"enum": ["get_weather"]},
         "arguments": {"type": "object", "properties": {"city": {"type": "string"}}}},
         "required": ["name", "arguments"]}}}]}})",
     "Let me look at the weather in Oslo, which may well be cold.\n<tool_call>\n{\"name\": "
     "\"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>"},
};

void follow(const Tokenizer& tokenizer, GrammarCompiler& compiler, const Case& c) {
  GrammarSpec spec;
  spec.kind = c.kind;
  spec.text = c.grammar;
  const auto compile = [&] { return compiler.compile(spec).value(); };
  const auto grammar = Times(fmt::format("{}: compile", c.name)).measure(compile);
  const auto tokens = tokenizer.encode(c.answer, false).value();
  Times copies(fmt::format("{}: copy for a request", c.name));
  Times first(fmt::format("{}: first mask", c.name)), masks(fmt::format("{}: mask", c.name));
  Times accepts(fmt::format("{}: token", c.name));
  for (int i = 0; i < 20; ++i) {
    const auto matcher = copies.measure([&] { return grammar->matcher({}, true).value(); });
    std::vector<std::uint32_t> words(matcher->num_mask_words());
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      (t == 0 ? first : masks).measure([&] { return matcher->fill_mask(words).value().count; });
      if (!accepts.measure([&] { return matcher->accept(tokens[t]).value(); })) {
        fmt::print("{}: token {} is refused\n", c.name, t);
        return;
      }
    }
  }
}

Status run(const std::string& path) {
  QUIRE_ASSIGN(const GgufFile file, GgufFile::open(path));
  QUIRE_ASSIGN(const VocabSpec vocab, read_gguf_vocab(file));
  QUIRE_ASSIGN(const auto tokenizer, Tokenizer::from_vocab(vocab));
  GrammarCompiler compiler(tokenizer.get(), tokenizer->special().end_ids, tokenizer->vocab_size());
  fmt::print("{} tokens; microseconds: median, greatest\n", tokenizer->vocab_size());
  GrammarSpec spec;
  spec.kind = GrammarSpec::Kind::kChoice;
  spec.text = "[\"a\"]";
  Times("vocabulary and first grammar").measure([&] { return compiler.compile(spec).has_value(); });
  for (const Case& c : kCases) follow(*tokenizer, compiler, c);
  return {};
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: grammar_bench MODEL.gguf\n");
    return 2;
  }
  const auto status = quire::run(argv[1]);
  if (!status) fmt::print(stderr, "{}\n", status.error().message);
  return status ? 0 : 1;
}
