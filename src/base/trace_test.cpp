// Recording from several threads, and what the report makes of it.
#include "base/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace quire {
namespace {

// Reads JSON, or says where it stops being JSON. No library of the base does.
class JsonCheck {
 public:
  explicit JsonCheck(const std::string& text) : text_(text) {}
  bool ok() { return value() && (skip(), at_ == text_.size()); }
  std::size_t at() const { return at_; }

 private:
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool string() {
    if (!take('"')) return false;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' || text_[at_] < ' ') return false;  // we write none
      ++at_;
    }
    return take('"');
  }
  bool number() {
    std::size_t used = 0;
    try {
      std::stod(text_.substr(at_, 40), &used);
    } catch (const std::exception&) {
      return false;
    }
    at_ += used;
    return used > 0;
  }
  bool list(char end, bool named) {
    if (take(end)) return true;
    do {
      if (named && !(string() && take(':'))) return false;
      if (!value()) return false;
    } while (take(','));
    return take(end);
  }
  bool value() {
    skip();
    if (take('{')) return list('}', true);
    if (take('[')) return list(']', false);
    if (at_ < text_.size() && text_[at_] == '"') return string();
    return number();
  }
  const std::string& text_;
  std::size_t at_ = 0;
};

// A span lies inside the one before it that is still open, or after it.
bool nests(const std::vector<TraceEvent>& events) {
  std::vector<std::int64_t> ends;
  for (const TraceEvent& event : events) {
    if (event.end_ns < event.begin_ns) return false;
    while (!ends.empty() && ends.back() <= event.begin_ns) ends.pop_back();
    if (!ends.empty() && event.end_ns > ends.back()) return false;
    ends.push_back(event.end_ns);
  }
  return true;
}

void spend_some_time() {
  volatile int x = 0;
  for (int i = 0; i < 20000; ++i) x = x + i;
}

constexpr int kKinds = static_cast<int>(TraceKind::kCount);

TEST(Trace, OffRecordsNothing) {
  take_trace();
  ASSERT_FALSE(tracing());
  {
    const TraceSpan span(TraceKind::kNorm, 3);
    EXPECT_EQ(current_trace_label().kind, TraceKind::kCount);
  }
  EXPECT_TRUE(take_trace().empty());
}

TEST(Trace, SpansNestAndTakeTheirLayer) {
  start_trace("");
  {
    const TraceSpan step(TraceKind::kStep);
    const TraceSpan layer = TraceSpan::of_layer(7);
    {
      const TraceSpan product(TraceKind::kLinear, 4, 64, 96);
      const TraceSpan door(TraceKind::kDoor, 4);
    }
    const TraceSpan wait(TraceKind::kWait);
  }
  const std::vector<TraceThread> threads = take_trace();
  ASSERT_EQ(threads.size(), 1u);
  const std::vector<TraceEvent>& events = threads[0].events;
  ASSERT_EQ(events.size(), 5u);
  EXPECT_TRUE(nests(events));
  const TraceKind kinds[] = {TraceKind::kStep, TraceKind::kLayer, TraceKind::kLinear,
                             TraceKind::kDoor, TraceKind::kWait};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(events[i].label.kind, kinds[i]);
    EXPECT_EQ(events[i].label.layer, i == 0 ? -1 : 7);
  }
  EXPECT_EQ(events[2].label.rows, 4);
  EXPECT_EQ(events[2].label.outputs, 96);
}

TEST(Trace, ARecordingHoldsWhatBeganInIt) {
  start_trace("");
  {
    const TraceSpan outer(TraceKind::kStep);
    const TraceSpan before(TraceKind::kPlan);
    start_trace("");
    const TraceSpan inside(TraceKind::kApply);
  }
  const std::vector<TraceThread> threads = take_trace();
  ASSERT_EQ(threads.size(), 1u);
  ASSERT_EQ(threads[0].events.size(), 1u);
  EXPECT_EQ(threads[0].events[0].label.kind, TraceKind::kApply);
}

TEST(Trace, AFullRingKeepsTheNewestSpans) {
  start_trace("");
  constexpr int kMany = 300000;
  for (int i = 0; i < kMany; ++i) const TraceSpan span(TraceKind::kNorm, i);
  const std::vector<TraceThread> threads = take_trace();
  ASSERT_EQ(threads.size(), 1u);
  const std::vector<TraceEvent>& events = threads[0].events;
  EXPECT_EQ(events.size() + threads[0].dropped, static_cast<std::size_t>(kMany));
  EXPECT_GT(threads[0].dropped, 0u);
  EXPECT_EQ(events.back().label.rows, kMany - 1);
  EXPECT_EQ(events.front().label.rows, kMany - static_cast<int>(events.size()));
}

TEST(Trace, ThreadsRecordWhileOthersRead) {
  start_trace("");
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&stop] {
      while (!stop) {
        const TraceSpan outer(TraceKind::kStep);
        const TraceSpan inner(TraceKind::kNorm);
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    for (const TraceThread& thread : take_trace()) EXPECT_TRUE(nests(thread.events));
    start_trace("");
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  take_trace();
}

TEST(Trace, JsonHasEveryKindByName) {
  start_trace("");
  for (int kind = 0; kind < kKinds; ++kind)
    const TraceSpan span(static_cast<TraceKind>(kind), 1, kind == 12 ? 8 : 0, kind == 12 ? 16 : 0);
  const std::string json = trace_json(take_trace());
  JsonCheck check(json);
  EXPECT_TRUE(check.ok()) << "at " << check.at() << ": " << json.substr(check.at(), 80);
  std::set<std::string> names;
  for (int kind = 0; kind < kKinds; ++kind) {
    const char* const name = trace_kind_name(static_cast<TraceKind>(kind));
    ASSERT_NE(name, nullptr);
    EXPECT_TRUE(names.insert(name).second) << name << " twice";
    EXPECT_NE(json.find(std::string("{\"name\": \"") + name + "\", \"cat\": "), std::string::npos)
        << name;
  }
  EXPECT_NE(json.find("\"inputs\": 8, \"outputs\": 16"), std::string::npos);
}

TEST(Trace, JsonOfNothingIsJson) {
  const std::string json = trace_json({});
  EXPECT_TRUE(JsonCheck(json).ok()) << json;
}

// 100 us a step: 60 of a product with 10 of its door in it, 20 of a norm, the rest between them.
TEST(Trace, SummaryCountsEverySpansOwnTime) {
  const auto event = [](TraceKind kind, std::int64_t begin_us, std::int64_t end_us,
                        std::int32_t rows, std::int32_t inputs) {
    return TraceEvent{begin_us * 1000, end_us * 1000, {kind, -1, rows, inputs, inputs}};
  };
  TraceThread thread;
  for (int step = 0; step < 2; ++step) {
    const std::int64_t t = 1000 * step;
    thread.events.push_back(event(TraceKind::kStep, t, t + 100, 0, 0));
    thread.events.push_back(event(TraceKind::kForward, t + 5, t + 95, 16, 0));
    thread.events.push_back(event(TraceKind::kLinear, t + 10, t + 70, 16, 32));
    thread.events.push_back(event(TraceKind::kDoor, t + 10, t + 20, 16, 0));
    thread.events.push_back(event(TraceKind::kNorm, t + 70, t + 90, 16, 0));
  }
  thread.events.push_back(event(TraceKind::kOutput, 5000, 9000, 1, 0));  // no step's
  const std::string summary = trace_summary({thread});
  for (const char* line : {"2 steps of 16 tokens, 0.100 ms each",
                           "  50.00 %       50.0 us in   1.0 spans  linear 32 x 32",
                           "  20.00 %       20.0 us in   1.0 spans  norm",
                           "  10.00 %       10.0 us in   1.0 spans  door", "forward (itself)",
                           "  50.00 %  matrix products and attention; all else 50.00 %"})
    EXPECT_NE(summary.find(line), std::string::npos) << line << "\n" << summary;
  EXPECT_EQ(summary.find("output"), std::string::npos) << summary;
}

TEST(Trace, FinishWritesOnce) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "quire_trace_test.json";
  start_trace(path.string());
  {
    const TraceSpan step(TraceKind::kStep);
    spend_some_time();
  }
  testing::internal::CaptureStderr();
  ASSERT_TRUE(finish_trace().has_value());
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("1 steps"), std::string::npos) << told;
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string json = text.str();
  EXPECT_TRUE(JsonCheck(json).ok());
  EXPECT_NE(json.find("\"step\""), std::string::npos);
  std::filesystem::remove(path);
  ASSERT_TRUE(finish_trace().has_value());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Trace, AFileThatCannotBeWrittenIsAnError) {
  start_trace("/no such folder/trace.json");
  EXPECT_FALSE(finish_trace().has_value());
}

}  // namespace
}  // namespace quire
