#include "weights/tokenizer_files.h"

#include "weights/test_files.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::TempFolder;

TEST(TokenizerFiles, OfAFolderOrAFile) {
  const TempFolder folder;
  const std::string file = folder.write("tokenizer.json", "{}");
  folder.write("tokenizer_config.json", R"({"chat_template": "of the configuration"})");
  for (const std::string& path : {folder.path(), file}) {
    const auto files = read_tokenizer_files(path);
    ASSERT_TRUE(files) << files.error().message;
    EXPECT_EQ(files->tokenizer_json, "{}");
    EXPECT_EQ(files->chat_template, "of the configuration");
  }
  folder.write("chat_template.json", R"({"chat_template": "of the processor"})");
  EXPECT_EQ(read_tokenizer_files(file)->chat_template, "of the configuration");
  folder.write("tokenizer_config.json", "{}");
  EXPECT_EQ(read_tokenizer_files(file)->chat_template, "of the processor");
  folder.write("chat_template.jinja", "of its own");
  EXPECT_EQ(read_tokenizer_files(file)->chat_template, "of its own");
}

TEST(TokenizerFiles, NothingThere) {
  const TempFolder folder;
  EXPECT_EQ(read_tokenizer_files(folder.path())->tokenizer_json, "");
  expect_error(read_tokenizer_files(folder.path() + "/missing"),
               "missing\": no such file or folder");
  expect_error(read_tokenizer_files(""), "no such file or folder");
  expect_error(read_tokenizer_files(folder.write("tokenizer.json", "")), "an empty file");
  expect_error(read_tokenizer_files(folder.path()), "an empty file");
}

}  // namespace
}  // namespace quire
