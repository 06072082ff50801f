#include "dialect/marked_calls.h"

#include "dialect/json_text.h"

namespace quire {
namespace {

constexpr std::size_t kMaxHeaderBytes = 512;

}  // namespace

MarkedCalls::MarkedCalls(MarkedFormat format, std::shared_ptr<const ToolSet> tools)
    : ToolParser(std::move(tools)), format_(std::move(format)), outside_marks_(format_.begins) {
  if (format_.bare) outside_marks_.push_back("{");
  if (format_.bare_list) outside_marks_.push_back("[");
  ends_ = format_.after;
  ends_.insert(ends_.end(), format_.begins.begin(), format_.begins.end());
}

bool MarkedCalls::step() {
  switch (where_) {
    case Where::kOutside:
      return outside();
    case Where::kOpen:
    case Where::kElement:
      return open();
    case Where::kObject:
      return object();
    case Where::kBetween:
      return between();
    case Where::kArguments:
      return arguments_alone();
    case Where::kBroken:
      return broken();
    case Where::kAfter:
      return after();
  }
  return false;
}

bool MarkedCalls::outside() {
  const auto found = reader().find(outside_marks_);
  if (found.before > 0) text(reader().take(found.before));
  if (!found.found) return false;
  bare_ = found.mark >= format_.begins.size();
  in_list_ = false;
  if (!bare_) {
    attempt(outside_marks_[found.mark].size());
  } else if (!line_is_blank()) {
    text(reader().take(1));
    return true;
  }
  where_ = Where::kOpen;
  return true;
}

bool MarkedCalls::not_a_call() {
  give_back();
  where_ = Where::kOutside;
  return true;
}

// Takes a mark that stands here, e.g. of a call after that of its section.
bool MarkedCalls::take_begin(TextReader::Match* match) {
  *match = TextReader::Match::kNo;
  for (const auto mark : format_.begins) {
    const auto here = reader().starts_with(mark);
    if (here == TextReader::Match::kYes) {
      attempt(mark.size());
      return true;
    }
    if (here == TextReader::Match::kMaybe) *match = here;
  }
  return false;
}

// After a mark, or inside a list before an object.
bool MarkedCalls::open() {
  if (!skip_space()) return false;
  TextReader::Match mark{};
  if (where_ == Where::kOpen && !bare_) {
    if (take_begin(&mark)) return true;
    if (mark == TextReader::Match::kMaybe) return false;
  }
  const char c = reader().rest().front();
  if (c == '{' && format_.objects) return begin_object();
  if (c == '[' && format_.objects && where_ == Where::kOpen && (!bare_ || format_.bare_list)) {
    attempt(1);
    in_list_ = true;
    where_ = Where::kElement;
    return true;
  }
  if (where_ == Where::kOpen && format_.name_of != nullptr && !bare_) return header();
  return not_a_call();
}

bool MarkedCalls::begin_object() {
  object_ = CallObject(bare_);
  begun_ = false;
  where_ = Where::kObject;
  return true;
}

bool MarkedCalls::header() {
  const auto found = reader().find("{");
  if (found.before > kMaxHeaderBytes) return not_a_call();
  if (!found.found) return false;
  std::string name = format_.name_of(reader().rest().substr(0, found.before));
  if (!is_function_name(name)) return not_a_call();
  attempt(found.before);
  begin_call(std::move(name));
  scanner_ = JsonScanner();
  where_ = Where::kArguments;
  return true;
}

bool MarkedCalls::object() {
  const std::string_view rest = reader().rest();
  std::size_t n = 0;
  CallObject::State state = CallObject::State::kGoing;
  while (n < rest.size() && state == CallObject::State::kGoing) {
    state = object_.feed(rest[n]);
    if (state != CallObject::State::kBad) ++n;
    if (!begun_ && object_.begun()) {
      if (bare_ && !tools().has(*object_.name())) {
        state = CallObject::State::kBad;
      } else {
        begun_ = true;
        begin_call(*object_.name());
      }
    }
  }
  const bool was_begun = begun_;
  if (was_begun) {
    reader().take(n);
    arguments(object_.take_arguments());
  } else if (n > 0) {
    attempt(n);
  }
  if (state == CallObject::State::kDone) return end_object();
  if (state == CallObject::State::kGoing) return false;
  if (!begun_) return not_a_call();
  where_ = Where::kBroken;
  return true;
}

bool MarkedCalls::end_object() {
  if (!begun_) {
    if (!object_.name() || (bare_ && !tools().has(*object_.name()))) return not_a_call();
    begin_call(*object_.name());
    arguments(object_.take_arguments());
    begun_ = true;
  }
  where_ = in_list_ ? Where::kBetween : Where::kAfter;
  return true;
}

// Inside a list, after an object.
bool MarkedCalls::between() {
  if (!skip_space()) return false;
  const char c = reader().rest().front();
  if (c == ',') {
    attempt(1);
    where_ = Where::kElement;
    return true;
  }
  if (c == ']') {
    reader().take(1);
    forget_attempt();
  }
  where_ = Where::kAfter;
  return true;
}

bool MarkedCalls::arguments_alone() {
  const std::string_view rest = reader().rest();
  std::string out;
  std::size_t n = 0;
  auto state = JsonScanner::State::kGoing;
  while (n < rest.size() && state == JsonScanner::State::kGoing) {
    const bool in_string = scanner_.in_string();
    state = scanner_.feed(rest[n]);
    if (state == JsonScanner::State::kBad) break;
    append_json_byte(rest[n++], in_string, out);
  }
  reader().take(n);
  arguments(out);
  if (state == JsonScanner::State::kGoing) return false;
  where_ = state == JsonScanner::State::kBad ? Where::kBroken : Where::kAfter;
  return true;
}

// The arguments are no JSON: what the model wrote, up to the next mark.
bool MarkedCalls::broken() {
  const auto found = reader().find(ends_);
  if (found.before > 0) arguments(reader().take(found.before));
  if (!found.found) return false;
  where_ = Where::kAfter;
  return true;
}

bool MarkedCalls::after() {
  if (!skip_space()) return false;
  const TextReader::Match end = take_mark(format_.after);
  if (end == TextReader::Match::kYes) return true;
  bool maybe = end == TextReader::Match::kMaybe;
  TextReader::Match mark{};
  if (!bare_) {
    if (take_begin(&mark)) {
      in_list_ = false;
      where_ = Where::kOpen;
      return true;
    }
    maybe |= mark == TextReader::Match::kMaybe;
  }
  if (maybe) return false;
  const char c = reader().rest().front();
  in_list_ = false;
  if (bare_ && (c == ';' || c == '{')) {  // Llama separates its calls by semicolons
    if (c == ';') attempt(1);
    where_ = Where::kOpen;
    return true;
  }
  return not_a_call();
}

void MarkedCalls::cut() {
  if (where_ == Where::kBetween || (where_ == Where::kElement && begun_)) forget_attempt();
  if (where_ != Where::kObject || begun_ || !object_.name()) return;
  if (bare_ && !tools().has(*object_.name())) return;
  begin_call(*object_.name());
  arguments(object_.cut_arguments());
}

}  // namespace quire
