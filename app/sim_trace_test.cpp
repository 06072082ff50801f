#include "app/sim_trace.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace quire {
namespace {

TEST(SimTrace, ALineIsReadAsItIsWritten) {
  const SimRequest request{1.5, 30, 40, 50, 7, 16, -2, 3};
  const Result<SimRequest> read = parse_trace_line(trace_line(request));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(trace_line(*read), trace_line(request));
  const Result<SimRequest> plain =
      parse_trace_line(R"({"arrival": 0, "prompt_tokens": 5, "output_tokens": 6, "x": 1})");
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->prompt_tokens, 5);
  EXPECT_EQ(plain->output_tokens, 6);
  EXPECT_EQ(plain->max_tokens, 0);
}

TEST(SimTrace, ErrorsNameTheFieldAndTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "not a JSON object"},
      {"[1]", "not a JSON object"},
      {R"({"prompt_tokens": 5, "output_tokens": 6})", "arrival"},
      {R"({"arrival": 0, "prompt_tokens": 0, "output_tokens": 6})", "prompt_tokens"},
      {R"({"arrival": 0, "prompt_tokens": 5, "output_tokens": "6"})", "output_tokens"},
      {R"({"arrival": 0, "prompt_tokens": 5, "output_tokens": 6, "prefix_tokens": 9})",
       "prefix_tokens"},
  };
  for (const auto& [line, error] : cases) {
    const Result<SimRequest> read = parse_trace_line(line);
    ASSERT_FALSE(read) << line;
    EXPECT_NE(read.error().message.find(error), std::string::npos) << read.error().message;
  }
  const std::string path = testing::TempDir() + "/trace.jsonl";
  std::ofstream(path) << "\n" << trace_line({2, 1, 1}) << "\n" << trace_line({1, 3, 1}) << "\n";
  const Result<std::vector<SimRequest>> trace = read_trace(path);
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->size(), 2u);
  EXPECT_EQ(trace->front().prompt_tokens, 3);  // in the order of arrival
  std::ofstream(path, std::ios::app) << "{}\n";
  const Result<std::vector<SimRequest>> broken = read_trace(path);
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("line 4"), std::string::npos) << broken.error().message;
  std::remove(path.c_str());
}

}  // namespace
}  // namespace quire
