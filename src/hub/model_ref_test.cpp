#include "hub/model_ref.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(ModelRef, NameAndQuantization) {
  EXPECT_EQ(parse_model_ref("org/name")->repo, "org/name");
  EXPECT_EQ(parse_model_ref("org/name")->quant, "");
  EXPECT_EQ(parse_model_ref("O-r.g_1/Na.me-7B-GGUF:Q4_K_M")->repo, "O-r.g_1/Na.me-7B-GGUF");
  EXPECT_EQ(parse_model_ref("gpt2")->repo, "gpt2");
  EXPECT_EQ(parse_model_ref("gpt2:Q8_0")->quant, "Q8_0");
  EXPECT_EQ(parse_model_ref("org/name:UD-Q4_K_XL")->quant, "UD-Q4_K_XL");
  EXPECT_EQ(parse_model_ref("org/name:sub/file-Q8_0.gguf")->quant, "sub/file-Q8_0.gguf");
}

TEST(ModelRef, PathsAndBadNamesAreNone) {
  for (const char* text : {"",
                           ".",
                           "..",
                           "model.gguf",
                           "config.json",
                           "a--b",
                           "name/",
                           "/org/name",
                           "./name",
                           "../name",
                           "org/..",
                           "a/b/c",
                           "org/",
                           "/name",
                           "org/na me",
                           "org/name:",
                           "org/name:a b",
                           "org/name:../x.gguf",
                           "-org/name",
                           "org/name-",
                           "org--x/name",
                           "org/a..b",
                           "~/name",
                           "models/file.gguf",
                           "models/model.safetensors",
                           "org/name\n",
                           "org/n\xc3\xa4me",
                           "http://host/x"})
    EXPECT_FALSE(parse_model_ref(text)) << text;
  EXPECT_FALSE(parse_model_ref("org/" + std::string(97, 'a')));
}

TEST(SafeFileName, NothingLeadsOut) {
  for (const char* name : {"config.json", "sub/a-00001-of-00002.gguf", "..a", "a..b", "a b"})
    EXPECT_TRUE(is_safe_file_name(name)) << name;
  for (const char* name :
       {"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/.", "a\\b", "a\nb", "a\x7f"})
    EXPECT_FALSE(is_safe_file_name(name)) << name;
  EXPECT_FALSE(is_safe_file_name(std::string_view("a\0b", 3)));
  EXPECT_FALSE(is_safe_file_name(std::string(256, 'a')));
}

TEST(Revision, BranchesTagsAndCommits) {
  for (const char* name : {"main", "v1.0", "refs/pr/12", "feature/x-y"})
    EXPECT_TRUE(is_revision(name)) << name;
  for (const char* name :
       {"", "/main", "main/", "../x", "a/../b", "a..b", ".hidden", "-x", "a b", "a:b", "a^"})
    EXPECT_FALSE(is_revision(name)) << name;
  EXPECT_TRUE(is_commit("0123456789abcdef0123456789abcdef01234567"));
  EXPECT_FALSE(is_commit("0123456789ABCDEF0123456789abcdef01234567"));
  EXPECT_FALSE(is_commit("main"));
}

TEST(BlobName, OfAnETag) {
  EXPECT_EQ(blob_name("\"abc123\""), "abc123");
  EXPECT_EQ(blob_name("W/\"abc123\""), "abc123");
  EXPECT_EQ(blob_name("abc-1_2.3"), "abc-1_2.3");
  for (const char* etag : {"", "\"\"", "\"../x\"", "a/b", "\"..\"", "\".x\"", "a b"})
    EXPECT_FALSE(blob_name(etag)) << etag;
}

}  // namespace
}  // namespace quire
