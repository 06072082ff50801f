#include "server/protocol/answer.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <iterator>

#include "dialect/text_reader.h"

namespace quire {

namespace json = boost::json;

namespace {

json::string_view json_view(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

std::string sse_event(std::string_view data) { return fmt::format("data: {}\n\n", data); }

Answer::Answer(AnswerOptions options, const TextService* text, std::vector<Choice> choices)
    : options_(std::move(options)), text_(text), choices_(std::move(choices)) {
  for (Choice& choice : choices_) choice.thinking = options_.thinking;
}

void Answer::on_delta(std::size_t index, OutputDelta delta, std::string* events) {
  Choice& choice = choices_[index];
  if (!options_.score_only) {
    choice.text += delta.text;
    for (const OutputToken& token : delta.tokens) {
      choice.logprob_sum += token.logprobs.logprob;
      if (choice.thinking) choice.thinking->push(token.id, trimmed(token.text).empty());
    }
    choice.tokens.insert(choice.tokens.end(), std::make_move_iterator(delta.tokens.begin()),
                         std::make_move_iterator(delta.tokens.end()));
    choice.completion_tokens = std::max(choice.completion_tokens, delta.completion_tokens);
  }
  if (!delta.embedding.empty()) choice.embedding = std::move(delta.embedding);
  if (delta.has_prompt_logprobs) choice.prompt_logprobs = std::move(delta.prompt_logprobs);
  choice.cached_tokens = std::max(choice.cached_tokens, delta.cached_tokens);
  if (delta.finish) {
    choice.finish = options_.score_only ? FinishReason::kLength : *delta.finish;
    choice.stop_string = std::move(delta.stop_string);
    choice.stop_token = options_.score_only ? std::nullopt : delta.stop_token;
  }
  if (!options_.stream || (options_.score_only && !choice.finish) || too_soon(choice)) return;
  emit(index, choice, events);
}

bool Answer::complete() const {
  return std::all_of(choices_.begin(), choices_.end(),
                     [](const Choice& choice) { return choice.finish.has_value(); });
}

bool Answer::too_soon(const Choice& choice) const {
  return choice.started && !choice.finish &&
         choice.tokens.size() < static_cast<std::size_t>(options_.stream_interval);
}

bool Answer::worth_an_event(const Choice& choice) const {
  return !choice.text.empty() || choice.finish || !choice.started ||
         (!choice.tokens.empty() &&
          (options_.logprobs || options_.return_token_ids || options_.continuous_usage));
}

const std::string& Answer::event_prefix() const {
  if (prefix_.empty()) {
    json::object head;
    head["id"] = options_.id;
    head["object"] = json_view(object_name());
    head["created"] = options_.created;
    head["model"] = options_.model;
    prefix_ = json::serialize(head);
    prefix_.pop_back();  // open for more members
  }
  return prefix_;
}

void Answer::add_event(const json::value& choice_value, const Choice& choice, std::string* events,
                       const json::object* extra) const {
  std::string data = event_prefix() + ",\"choices\":[" + json::serialize(choice_value) + "]";
  if (options_.continuous_usage) {
    Usage usage;
    usage.add_prompt(choice);
    usage.add_output(choice);
    data += ",\"usage\":" + json::serialize(usage_json(usage));
  } else if (options_.include_usage) {
    data += ",\"usage\":null";
  }
  if (extra != nullptr) {
    for (const auto& member : *extra) {
      data += fmt::format(",{}:{}", json::serialize(member.key()), json::serialize(member.value()));
    }
  }
  data += "}";
  *events += sse_event(data);
}

void Answer::Usage::add_prompt(const Choice& choice) {
  prompt += static_cast<std::int64_t>(choice.prompt->size());
  cached += choice.cached_tokens;
}
void Answer::Usage::add_output(const Choice& choice) {
  completion += choice.completion_tokens;
  if (choice.thinking) reasoning += choice.thinking->count();
}

json::object Answer::usage_json(const Usage& usage) const {
  json::object out;
  out["prompt_tokens"] = usage.prompt;
  out["completion_tokens"] = usage.completion;
  out["total_tokens"] = usage.prompt + usage.completion;
  if (options_.cached_tokens)
    out["prompt_tokens_details"] = json::object{{"cached_tokens", usage.cached}};
  if (options_.thinking)
    out["completion_tokens_details"] = json::object{{"reasoning_tokens", usage.reasoning}};
  return out;
}

json::object Answer::total_usage() const {
  Usage usage;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    usage.add_output(choices_[i]);
    if (i % options_.candidates == 0) usage.add_prompt(choices_[i]);  // the prompt counts once
  }
  return usage_json(usage);
}

void Answer::end_stream(std::string* events) const {
  if (options_.include_usage) {
    *events += sse_event(event_prefix() +
                         ",\"choices\":[],\"usage\":" + json::serialize(total_usage()) + "}");
  }
  *events += sse_event("[DONE]");
}

double Answer::mean_logprob(const Choice& choice) {
  return choice.logprob_sum / std::max(1, choice.completion_tokens);
}

// Of each prompt's candidates the best n, best first; of equals the one that was made first.
void Answer::keep_best() {
  if (options_.candidates == options_.n) return;
  std::vector<Choice> best;
  for (std::size_t begin = 0; begin < choices_.size(); begin += options_.candidates) {
    const auto first = choices_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = first + static_cast<std::ptrdiff_t>(options_.candidates);
    if (!options_.ranked) {
      std::stable_sort(first, last, [](const Choice& a, const Choice& b) {
        return mean_logprob(a) > mean_logprob(b);
      });
    }
    std::move(first, first + static_cast<std::ptrdiff_t>(options_.n), std::back_inserter(best));
  }
  choices_ = std::move(best);
  options_.candidates = options_.n;
}

std::string Answer::body() {
  const json::object usage = total_usage();  // of all candidates
  keep_best();
  json::object out;
  out["id"] = options_.id;
  out["object"] = json_view(object_name());
  out["created"] = options_.created;
  out["model"] = options_.model;
  json::array values;
  for (std::size_t i = 0; i < choices_.size(); ++i)
    values.emplace_back(choice_json(i, choices_[i]));
  out["choices"] = std::move(values);
  out["usage"] = usage;
  out["system_fingerprint"] = nullptr;
  add_to_body(out);
  return json::serialize(out);
}

json::array Answer::ids_json(const std::vector<OutputToken>& tokens) {
  json::array out;
  out.reserve(tokens.size());
  for (const auto& token : tokens) out.emplace_back(token.id);
  return out;
}
json::array Answer::ids_json(const std::vector<TokenId>& ids) {
  return json::array(ids.begin(), ids.end());
}

void Answer::add_finish(const Choice& choice, json::object& out) {
  out["finish_reason"] = choice.finish ? json::value(json_view(finish_reason_name(*choice.finish)))
                                       : json::value(nullptr);
  json::value stop_reason(nullptr);
  if (choice.stop_string) stop_reason = json::string(*choice.stop_string);
  if (choice.stop_token) stop_reason = *choice.stop_token;
  if (choice.finish == FinishReason::kRepetition) stop_reason = "repetition_detected";
  out["stop_reason"] = std::move(stop_reason);
}

}  // namespace quire
