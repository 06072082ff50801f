#include "server/protocol/chat_reply.h"

#include <random>
#include <utility>

#include "server/http/request_text.h"
#include "server/protocol/json_parse.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::size_t kIdBytes = 12;
constexpr std::size_t kMistralIdLength = 9;  // its templates refuse any other

// Letters and digits, unguessable enough to be unique.
std::string random_word(std::size_t length) {
  static constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device device;
  std::uniform_int_distribution<std::size_t> pick(0, kLetters.size() - 1);
  std::string out;
  while (out.size() < length) out += kLetters[pick(device)];
  return out;
}

}  // namespace

ChatReply::ChatReply(const AnswerOptions& options)
    : options_(options.reply),
      include_reasoning_(options.include_reasoning),
      parallel_calls_(options.parallel_tool_calls) {
  if (options_) parser_ = make_reply_parser(*options_);
}

void ChatReply::read(Choice& choice) {
  if (!parser_) {
    news_.content += std::exchange(choice.text, {});
    return;
  }
  Parsed parsed;
  parser_->push(std::exchange(choice.text, {}), &parsed);
  if (choice.finish && !std::exchange(finished_, true)) parser_->finish(&parsed);
  add(std::move(parsed));
  if (finished_) finish(choice);
}

void ChatReply::add(Parsed parsed) {
  if (include_reasoning_) news_.reasoning += parsed.reasoning;
  news_.content += parsed.content;
  for (auto& piece : parsed.calls) {
    if (!parallel_calls_ && piece.index > 0) continue;
    if (!piece.name.empty()) {
      ids_.push_back(new_id(static_cast<std::size_t>(piece.index), piece.name));
      last_arguments_.clear();
    }
    last_arguments_ += piece.arguments;
    if (piece.name.empty() && !news_.calls.empty() && news_.calls.back().index == piece.index) {
      news_.calls.back().arguments += piece.arguments;
    } else {
      news_.calls.push_back(std::move(piece));
    }
  }
}

// A call that the model has ended without arguments has none: {}, as clients parse them. What a
// stop string cut may have been about to get some.
void ChatReply::finish(const Choice& choice) {
  if (ids_.empty() || !last_arguments_.empty() || choice.finish != FinishReason::kStop ||
      choice.stop_string)
    return;
  last_arguments_ = "{}";
  news_.add_arguments(static_cast<std::int32_t>(ids_.size()) - 1, last_arguments_);
}

bool ChatReply::cut_in_call() const {
  if (ids_.empty()) return false;
  const auto arguments = parse_json(last_arguments_);
  return !arguments || !arguments->is_object();
}

std::string ChatReply::new_id(std::size_t index, const std::string& name) const {
  if (options_->dialect.tools == "mistral") return random_word(kMistralIdLength);
  if (options_->dialect.tools == "kimi_k2") return fmt::format("functions.{}:{}", name, index);
  return "call_" + random_hex(kIdBytes);
}

json::object ChatReply::take_delta(bool last) {
  Parsed news = std::exchange(news_, {});
  json::object delta;
  if (!news.reasoning.empty()) {
    delta["reasoning"] = news.reasoning;
    delta["reasoning_content"] = news.reasoning;
  }
  if (!news.content.empty()) delta["content"] = news.content;
  if (!news.calls.empty()) {
    json::array& calls = delta["tool_calls"].emplace_array();
    for (auto& piece : news.calls) {
      json::object call{{"index", piece.index}};
      json::object function;
      if (!piece.name.empty()) {
        call["id"] = ids_[static_cast<std::size_t>(piece.index)];
        call["type"] = "function";
        function["name"] = piece.name;
      }
      function["arguments"] = piece.arguments;
      call["function"] = std::move(function);
      calls.emplace_back(std::move(call));
    }
  }
  if (delta.empty() && !last) delta["content"] = "";
  return delta;
}

json::object ChatReply::message(const std::string& role, const std::string& echo) {
  json::object message;
  message["role"] = role;
  const std::string content = echo + news_.content;
  // Null, but not left out, when the answer is something else.
  if (content.empty() && (has_calls() || !news_.reasoning.empty())) {
    message["content"] = nullptr;
  } else {
    message["content"] = content;
  }
  message["refusal"] = nullptr;
  if (options_ && !options_->dialect.reasoning.empty() && include_reasoning_) {
    json::value reasoning(nullptr);
    if (!news_.reasoning.empty()) reasoning = json::string(news_.reasoning);
    message["reasoning"] = reasoning;
    message["reasoning_content"] = std::move(reasoning);
  }
  if (has_calls()) {
    // All pieces of a call stand together: nothing was taken before.
    json::array calls;
    for (const auto& piece : news_.calls) {
      if (piece.name.empty()) {
        auto& arguments = calls.back().at("function").at("arguments").as_string();
        arguments.append(piece.arguments);
        continue;
      }
      calls.emplace_back(
          json::object{{"id", ids_[static_cast<std::size_t>(piece.index)]},
                       {"type", "function"},
                       {"function", {{"name", piece.name}, {"arguments", piece.arguments}}}});
    }
    message["tool_calls"] = std::move(calls);
  }
  return message;
}

}  // namespace quire
