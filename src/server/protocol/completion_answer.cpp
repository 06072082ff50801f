// Answers of /v1/completions.
#include <boost/json/array.hpp>

#include "server/protocol/answer.h"

namespace quire {
namespace {

namespace json = boost::json;

class CompletionAnswer : public Answer {
 public:
  using Answer::Answer;

 private:
  std::string_view object_name() const override { return "text_completion"; }

  // The legacy lists for what the choice holds now; the prompt's tokens first where they are
  // echoed.
  json::value logprobs_json(Choice& choice, bool with_prompt) {
    if (!options_.logprobs) return nullptr;
    LegacyLogprobs lists(spelling(), &choice.next_offset);
    if (with_prompt) {
      const auto& ids = *choice.prompt;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const bool known = i > 0 && i - 1 < choice.prompt_logprobs.size();
        lists.add(ids[i], text_->token_bytes(ids[i]),
                  known ? &choice.prompt_logprobs[i - 1] : nullptr);
      }
    }
    for (const auto& token : choice.tokens) lists.add(token.id, token.text, &token.logprobs);
    return lists.take();
  }

  json::object make(std::size_t index, Choice& choice, bool first) {
    const bool with_prompt = options_.echo && first;
    json::object out;
    out["index"] = static_cast<std::int64_t>(index);
    out["text"] = with_prompt ? choice.prompt_text + choice.text : choice.text;
    out["logprobs"] = logprobs_json(choice, with_prompt);
    add_finish(choice, out);
    if (options_.return_token_ids) {
      out["token_ids"] = ids_json(choice.tokens);
      if (first) out["prompt_token_ids"] = ids_json(*choice.prompt);
    }
    return out;
  }

  void emit(std::size_t index, Choice& choice, std::string* events) override {
    if (!worth_an_event(choice)) return;
    const bool first = !std::exchange(choice.started, true);
    add_event(make(index, choice, first), choice, events);
    choice.text.clear();
    choice.tokens.clear();
  }

  json::object choice_json(std::size_t index, Choice& choice) override {
    json::object out = make(index, choice, true);
    out["prompt_logprobs"] = options_.prompt_logprobs
                                 ? json::value(prompt_logprobs_json(*text_, choice.prompt_logprobs))
                                 : json::value(nullptr);
    return out;
  }
};

}  // namespace

std::unique_ptr<Answer> make_completion_answer(AnswerOptions options, const TextService* text,
                                               std::vector<Choice> choices) {
  return std::make_unique<CompletionAnswer>(std::move(options), text, std::move(choices));
}

}  // namespace quire
