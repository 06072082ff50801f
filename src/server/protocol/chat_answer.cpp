// Answers of /v1/chat/completions: content, reasoning and calls, read from the generated text.
#include <boost/json/array.hpp>
#include <utility>

#include "server/protocol/answer.h"
#include "server/protocol/chat_reply.h"

namespace quire {
namespace {

namespace json = boost::json;

class ChatAnswer : public Answer {
 public:
  ChatAnswer(AnswerOptions options, const TextService* text, std::vector<Choice> choices)
      : Answer(std::move(options), text, std::move(choices)) {
    for (std::size_t i = 0; i < choices_.size(); ++i) replies_.emplace_back(options_);
  }

 private:
  std::string_view object_name() const override {
    return options_.stream ? "chat.completion.chunk" : "chat.completion";
  }

  json::value logprobs_json(const Choice& choice) const {
    if (!options_.logprobs) return nullptr;
    json::array content;
    for (const auto& token : choice.tokens) {
      content.emplace_back(chat_logprob(spelling(), token, options_.top_logprobs));
    }
    return json::object{{"content", std::move(content)}};
  }

  static json::object chunk(std::size_t index, json::object delta) {
    json::object out;
    out["index"] = static_cast<std::int64_t>(index);
    out["delta"] = std::move(delta);
    out["logprobs"] = nullptr;
    out["finish_reason"] = nullptr;
    return out;
  }

  // The role comes first, in a chunk of its own with an empty content.
  void emit_start(std::size_t index, Choice& choice, std::string* events) {
    json::object extra;
    if (options_.return_token_ids) extra["prompt_token_ids"] = ids_json(*choice.prompt);
    if (options_.prompt_text) extra["prompt_text"] = choice.prompt_text;
    // Counts of tokens belong to the chunks that show them.
    Choice nothing_yet;
    nothing_yet.prompt = choice.prompt;
    nothing_yet.thinking = options_.thinking;
    add_event(chunk(index, {{"role", options_.role}, {"content", ""}}), nothing_yet, events,
              &extra);
    if (options_.echo && !options_.chat_echo.empty()) {
      add_event(chunk(index, {{"content", options_.chat_echo}}), nothing_yet, events);
    }
  }

  void emit(std::size_t index, Choice& choice, std::string* events) override {
    ChatReply& reply = replies_[index];
    reply.read(choice);
    if (!worth_an_event(choice) && !reply.has_news()) return;
    if (!std::exchange(choice.started, true)) {
      emit_start(index, choice, events);
      if (!worth_an_event(choice) && !reply.has_news()) return;
    }
    json::object out = chunk(index, reply.take_delta(choice.finish.has_value()));
    if (!choice.tokens.empty()) out["logprobs"] = logprobs_json(choice);
    if (choice.finish) finish(choice, reply, out);
    if (options_.return_token_ids) out["token_ids"] = ids_json(choice.tokens);
    add_event(out, choice, events);
    choice.tokens.clear();
  }

  static void finish(const Choice& choice, const ChatReply& reply, json::object& out) {
    add_finish(choice, out);
    // The request's own stop rules may end an answer in the middle of a call, which nobody is to
    // make then.
    const bool own_stop = choice.stop_string || choice.stop_token;
    if (reply.has_calls() && choice.finish == FinishReason::kStop &&
        !(own_stop && reply.cut_in_call()))
      out["finish_reason"] = "tool_calls";
  }

  json::object choice_json(std::size_t index, Choice& choice) override {
    ChatReply& reply = replies_[index];
    reply.read(choice);
    json::object message = reply.message(options_.role, options_.echo ? options_.chat_echo : "");
    json::object out;
    out["index"] = static_cast<std::int64_t>(index);
    out["message"] = std::move(message);
    out["logprobs"] = logprobs_json(choice);
    finish(choice, reply, out);
    if (options_.return_token_ids) out["token_ids"] = ids_json(choice.tokens);
    return out;
  }

  void add_to_body(json::object& body) override {
    const Choice& choice = choices_.front();
    body["prompt_logprobs"] =
        options_.prompt_logprobs ? json::value(prompt_logprobs_json(*text_, choice.prompt_logprobs))
                                 : json::value(nullptr);
    if (options_.return_token_ids) body["prompt_token_ids"] = ids_json(*choice.prompt);
    if (options_.prompt_text) body["prompt_text"] = choice.prompt_text;
  }

  std::vector<ChatReply> replies_;  // one per choice
};

}  // namespace

std::unique_ptr<Answer> make_chat_answer(AnswerOptions options, const TextService* text,
                                         std::vector<Choice> choices) {
  return std::make_unique<ChatAnswer>(std::move(options), text, std::move(choices));
}

}  // namespace quire
