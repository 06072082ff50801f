// Lines in, lines out, and where a cut-off file goes on.
#include "app/batch_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace quire {
namespace {

struct BatchFile : testing::Test {
  BatchFile() {
    folder = std::filesystem::temp_directory_path() /
             ("quire-batch-" + std::to_string(::getpid()) + "-" +
              testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder);
  }
  ~BatchFile() override { std::filesystem::remove_all(folder); }
  std::string put(const char* name, const std::string& text) const {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  }
  static std::string text_of(const std::string& path) {
    std::ostringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
  }
  std::filesystem::path folder;
};

std::string line(const std::string& id) {
  return R"({"custom_id": ")" + id +
         R"(", "method": "POST", "url": "/v1/completions", "body": {}})" + "\n";
}

TEST_F(BatchFile, LinesSayWhatIsWrong) {
  std::string id;
  const auto good = parse_batch_line(line("a"), &id);
  ASSERT_TRUE(good);
  EXPECT_EQ(good->url, "/v1/completions");
  EXPECT_EQ(id, "a");
  const auto message = [&](const char* text) {
    id.clear();
    return parse_batch_line(text, &id).error().message;
  };
  EXPECT_FALSE(message("nonsense").empty());
  EXPECT_NE(message(R"({"url": "/x", "body": {}})").find("custom_id"), std::string::npos);
  EXPECT_NE(message(R"({"custom_id": "b", "body": {}})").find("url"), std::string::npos);
  EXPECT_EQ(id, "b");
  EXPECT_NE(message(R"({"custom_id": "b", "url": "/x", "body": []})").find("body"),
            std::string::npos);
  EXPECT_NE(message(R"({"custom_id": "b", "url": "/x", "body": {}, "method": "GET"})").find("GET"),
            std::string::npos);
}

TEST_F(BatchFile, GoesOnBehindTheLastWholeLine) {
  const auto in = put("in", line("a") + "\n" + "broken\n" + line("c"));
  EXPECT_EQ(lines_done(in, (folder / "none").string()).value(), 0u);
  const std::string first = reply_line("1", "a", 200, "r", R"({"x": 1})") + "\n";
  const std::string second = error_line("2", "", "what") + "\n";
  const auto out = put("out", first + second + R"({"id": "3", "custom)");
  EXPECT_EQ(lines_done(in, out).value(), 2u);
  EXPECT_EQ(text_of(out), first + second);
  EXPECT_EQ(lines_done(in, out).value(), 2u);
  EXPECT_FALSE(lines_done(in, put("other", reply_line("1", "z", 200, "r", "{}") + "\n")));
  EXPECT_FALSE(lines_done(put("short", line("a")), out));
  EXPECT_EQ(lines_done(in, put("empty", "")).value(), 0u);
}

TEST_F(BatchFile, LinesAreWrittenInOrder) {
  const std::string path = (folder / "out").string();
  std::ofstream out(path);
  OrderedWriter writer(&out, 5);
  writer.write(7, "seven");
  writer.write(6, "six");
  EXPECT_EQ(text_of(path), "");
  writer.write(5, "five");
  EXPECT_EQ(text_of(path), "five\nsix\nseven\n");
  EXPECT_FALSE(writer.failed());
}

}  // namespace
}  // namespace quire
