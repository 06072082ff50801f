#include "dialect/harmony.h"

#include <algorithm>
#include <array>
#include <utility>

namespace quire {
namespace {

constexpr std::size_t kMaxChannelBytes = 512;
constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>", kStart = "<|start|>",
                           kEnd = "<|end|>", kCallMark = "<|call|>", kReturn = "<|return|>";
constexpr std::array kBodyEnds{kEnd, kCallMark, kReturn, kStart, kChannel};

std::string_view word_after(std::string_view text, std::string_view key) {
  const auto at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  return text.substr(0, std::min(text.find_first_of(" \t\r\n<"), text.size()));
}

}  // namespace

void HarmonyParser::push(std::string_view text, Parsed* out) {
  reader_.append(text);
  while (step(out)) {
  }
}

void HarmonyParser::finish(Parsed* out) {
  reader_.end();
  while (step(out)) {
  }
  // A header without its message.
  if (!reader_.empty()) content(reader_.take(reader_.rest().size()), out);
  if (rest_) rest_->finish(out);
}

bool HarmonyParser::step(Parsed* out) {
  switch (where_) {
    case Where::kStart:
      return start();
    case Where::kHeader:
      return header(out);
    case Where::kBetween:
      return between();
    default:
      return body(out);
  }
}

// The prompt has begun the message: its header goes on, or there is none and all is content.
bool HarmonyParser::start() {
  if (reader_.empty()) return false;
  for (const auto mark : {kChannel, kStart, kMessage, std::string_view(" to=")}) {
    const auto here = reader_.starts_with(mark);
    if (here == TextReader::Match::kMaybe) return false;
    if (here == TextReader::Match::kNo) continue;
    where_ = Where::kHeader;
    return true;
  }
  where_ = Where::kContent;
  return true;
}

bool HarmonyParser::header(Parsed* out) {
  const auto found = reader_.find(kMessage);
  if (found.before > kMaxChannelBytes) {
    where_ = Where::kContent;
    content(reader_.take(kMaxChannelBytes), out);
    return true;
  }
  if (!found.found) return false;
  const std::string header(reader_.take(found.before));
  reader_.take(kMessage.size());
  begin_message(header, out);
  return true;
}

void HarmonyParser::begin_message(std::string_view header, Parsed* out) {
  const std::string_view channel = word_after(header, kChannel);
  std::string_view recipient = word_after(header, "to=");
  constexpr std::string_view kFunctions = "functions.";
  if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
  message_begun_ = false;
  if (calls_ && !recipient.empty() && (channel != "analysis" || tools_->has(recipient))) {
    out->begin_call(num_calls_++, std::string(recipient));
    call_has_body_ = false;
    where_ = Where::kCall;
  } else {
    where_ = channel == "analysis" ? Where::kReasoning : Where::kContent;
  }
}

bool HarmonyParser::body(Parsed* out) {
  const auto found = reader_.find(kBodyEnds);
  if (found.before > 0) {
    const std::string_view text = reader_.take(found.before);
    if (where_ == Where::kCall) {
      call_has_body_ = true;
      out->add_arguments(num_calls_ - 1, text);
    } else {
      const bool reasoning = where_ == Where::kReasoning;
      bool& any = reasoning ? any_reasoning_ : any_content_;
      const bool apart = !std::exchange(message_begun_, true) && any;  // between two messages
      any = true;
      if (reasoning) {
        if (apart) out->reasoning += '\n';
        out->reasoning += text;
      } else {
        if (apart) content("\n", out);
        content(text, out);
      }
    }
    return true;
  }
  if (!found.found) return false;
  const std::string_view mark = kBodyEnds[found.mark];
  if (mark != kStart && mark != kChannel) reader_.take(mark.size());
  end_message(out);
  return true;
}

void HarmonyParser::content(std::string_view text, Parsed* out) {
  if (rest_) {
    rest_->push(text, out);
  } else {
    out->content += text;
  }
}

void HarmonyParser::end_message(Parsed* out) {
  if (where_ == Where::kCall && !call_has_body_) out->add_arguments(num_calls_ - 1, "{}");
  where_ = Where::kBetween;
}

bool HarmonyParser::between() {
  if (reader_.empty()) return false;
  for (const auto mark : {kChannel, kStart}) {
    const auto here = reader_.starts_with(mark);
    if (here == TextReader::Match::kMaybe) return false;
    if (here == TextReader::Match::kYes) {
      where_ = Where::kHeader;
      return true;
    }
  }
  message_begun_ = false;
  where_ = Where::kContent;
  return true;
}

}  // namespace quire
