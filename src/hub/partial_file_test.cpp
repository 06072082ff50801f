#include "hub/partial_file.h"

#include <gtest/gtest.h>

#include "hub/progress.h"
#include "hub/retry.h"
#include "hub/test_folder.h"

namespace quire {
namespace {

Status write(PartialFile& file, int range, const std::string& text) {
  return file.write(range, std::span<const char>(text.data(), text.size()));
}

TEST(PartialFile, SmallFileGrowsFromItsFront) {
  const TestFolder folder;
  const std::string blob = folder.path("blob");
  {
    Result<PartialFile> file = PartialFile::open(blob, 10, 100, "f");
    ASSERT_TRUE(file);
    EXPECT_EQ(file->num_ranges(), 1);
    ASSERT_TRUE(write(*file, 0, "01234"));
  }
  EXPECT_EQ(TestFolder::read(blob + ".incomplete"), "01234");
  Result<PartialFile> file = PartialFile::open(blob, 10, 100, "f");
  EXPECT_EQ(file->done_bytes(), 5);
  ASSERT_TRUE(write(*file, 0, "56789"));
  ASSERT_TRUE(file->install(blob));
  EXPECT_EQ(TestFolder::read(blob), "0123456789");
  EXPECT_FALSE(std::filesystem::exists(blob + ".incomplete"));
}

TEST(PartialFile, PartLongerThanTheFileIsNotOfIt) {
  const TestFolder folder;
  folder.write("blob.incomplete", "01234567890");
  EXPECT_EQ(PartialFile::open(folder.path("blob"), 10, 100, "f")->done_bytes(), 0);
}

TEST(PartialFile, RangesAreRemembered) {
  const TestFolder folder;
  const std::string blob = folder.path("blob");
  {
    Result<PartialFile> file = PartialFile::open(blob, 10, 4, "f");
    ASSERT_TRUE(file);
    ASSERT_EQ(file->num_ranges(), 3);
    ASSERT_TRUE(write(*file, 2, "89"));
    ASSERT_TRUE(write(*file, 0, "01"));
    ASSERT_TRUE(file->record(0));
    ASSERT_TRUE(write(*file, 1, "4"));  // not recorded: fetched again
  }
  Result<PartialFile> file = PartialFile::open(blob, 10, 4, "f");
  EXPECT_EQ(file->range(0).done, 2);
  EXPECT_EQ(file->range(1).done, 0);
  EXPECT_EQ(file->range(2).done, 2);
  ASSERT_TRUE(write(*file, 0, "23"));
  ASSERT_TRUE(write(*file, 1, "4567"));
  ASSERT_TRUE(file->install(blob));
  EXPECT_EQ(TestFolder::read(blob), "0123456789");
  EXPECT_FALSE(std::filesystem::exists(blob + ".ranges"));
}

TEST(PartialFile, DamagedOrForeignRangesStartAnew) {
  const TestFolder folder;
  for (const std::string& text : {std::string("x"), std::string(85, '9'),
                                  std::string("0000000000000011\n0000000000000004\n")}) {
    folder.write("blob.ranges", text);
    folder.write("blob.ranges.incomplete", "abcdefghij");
    EXPECT_EQ(PartialFile::open(folder.path("blob"), 10, 4, "f")->done_bytes(), 0) << text;
  }
}

TEST(PartialFile, FullDiskIsNamed) {
  const TestFolder folder;
  std::filesystem::create_symlink("/dev/full", folder.path("blob.incomplete"));
  Result<PartialFile> file = PartialFile::open(folder.path("blob"), 10, 100, "o/n: f");
  ASSERT_TRUE(file);
  const Status status = write(*file, 0, "0123");
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("o/n: f: the disk is full: 10 B more are needed"),
            std::string::npos)
      << status.error().message;
}

TEST(FormatBytes, ThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1234), "1.23 kB");
  EXPECT_EQ(format_bytes(12345678), "12.3 MB");
  EXPECT_EQ(format_bytes(999'600'000), "1.00 GB");
  EXPECT_EQ(format_bytes(123'000'000'000), "123 GB");
}

TEST(ProgressText, BarAndLine) {
  const ProgressState state{50'000'000, 100'000'000, 2'000'000};
  EXPECT_EQ(format_line("o/n", state), "o/n: 50 % of 100 MB, 2.00 MB/s  0:25 left");
  EXPECT_EQ(format_bar("o/n", state, 70),
            "o/n [########--------]  50 %  50.0 MB of 100 MB  2.00 MB/s  0:25 left");
  EXPECT_LT(format_bar("o/n", state, 30).size(), 30u);
  EXPECT_NE(format_line("o/n", {0, 100, 0}).find("waiting"), std::string::npos);
  EXPECT_EQ(format_line("o/n", {0, 0, 0}), "o/n: 100 % of 0 B, waiting");
  EXPECT_EQ(format_duration(3723), "1:02:03");
}

TEST(Retry, PausesAndLimits) {
  EXPECT_EQ(backoff_s(1), 0.5);
  EXPECT_EQ(backoff_s(3), 2);
  EXPECT_EQ(backoff_s(100), 8);
  EXPECT_EQ(parse_retry_after("7", 0), 7);
  EXPECT_EQ(parse_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 20), 40);
  EXPECT_EQ(parse_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 80), 0);
  for (const char* bad : {"", "soon", "-3", "nan"}) EXPECT_FALSE(parse_retry_after(bad, 0)) << bad;

  HttpReply busy;
  busy.status = 429;
  busy.headers["retry-after"] = "0";
  Retry retry(3, {});
  EXPECT_TRUE(is_temporary(busy));
  EXPECT_TRUE(retry.again(busy, "x", false));
  EXPECT_TRUE(retry.again(busy, "x", false));
  EXPECT_FALSE(retry.again(busy, "x", false));
  EXPECT_TRUE(retry.again(busy, "x", true));  // bytes came: the count begins anew
  busy.headers["retry-after"] = "86400";
  EXPECT_FALSE(retry.again(busy, "x", true));
  std::stop_source stop;
  stop.request_stop();
  busy.headers["retry-after"] = "60";
  EXPECT_FALSE(Retry(3, stop.get_token()).again(busy, "x", false));  // at once
}

}  // namespace
}  // namespace quire
