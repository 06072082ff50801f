#include "hub/repo_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hub/file_hash.h"
#include "hub/file_lock.h"
#include "hub/inventory.h"
#include "hub/test_folder.h"

namespace quire {
namespace {

const std::string kCommit(40, 'a'), kOther(40, 'b');

// A cache in which `files` (path: content) are whole.
void fill(const RepoCache& cache, const TestFolder& folder, const std::string& commit,
          const std::vector<std::pair<std::string, std::string>>& files) {
  for (const auto& [path, content] : files) {
    const std::string blob = *hash_file(folder.write("content", content), HashKind::kSha256);
    folder.write("models--org--name/blobs/" + blob, content);
    ASSERT_TRUE(cache.link_file(commit, path, blob));
  }
}

TEST(RepoCache, FolderNames) {
  EXPECT_EQ(repo_folder_name("org/na-me"), "models--org--na-me");
  EXPECT_EQ(repo_of_folder("models--org--na-me"), "org/na-me");
  EXPECT_EQ(repo_of_folder("models--gpt2"), "gpt2");
  for (const char* name : {"datasets--a--b", "models--", "models--..--x", ".locks"})
    EXPECT_FALSE(repo_of_folder(name)) << name;
}

TEST(RepoCache, RefsAndLinks) {
  const TestFolder folder;
  const RepoCache cache(folder.path(), "org/name");
  EXPECT_FALSE(cache.read_ref("main"));
  ASSERT_TRUE(cache.write_ref("refs/pr/1", kCommit));
  EXPECT_EQ(TestFolder::read(folder.path("models--org--name/refs/refs/pr/1")), kCommit);
  EXPECT_EQ(cache.read_ref("refs/pr/1"), kCommit);
  folder.write("models--org--name/refs/main", "../../x");
  EXPECT_FALSE(cache.read_ref("main"));

  EXPECT_FALSE(cache.has_file(kCommit, "sub/a.txt"));
  fill(cache, folder, kCommit, {{"sub/a.txt", "hello"}});
  EXPECT_TRUE(cache.has_file(kCommit, "sub/a.txt"));
  const std::string link = cache.snapshot_path(kCommit) + "/sub/a.txt";
  EXPECT_TRUE(std::filesystem::read_symlink(link).string().starts_with("../../../blobs/"));
  EXPECT_EQ(TestFolder::read(link), "hello");
  ASSERT_TRUE(cache.link_file(kCommit, "sub/a.txt", "gone"));  // replaces it
  EXPECT_FALSE(cache.has_file(kCommit, "sub/a.txt"));
}

TEST(RepoCache, FindsOnlyWholeModels) {
  const TestFolder folder;
  const RepoCache cache(folder.path(), "org/name");
  fill(cache, folder, kCommit, {{"config.json", "{}"}, {"model.safetensors", "w"}});
  EXPECT_FALSE(cache.find_model(kCommit, "", true)) << "no tokenizer";
  fill(cache, folder, kCommit, {{"tokenizer.json", "{}"}});
  EXPECT_EQ(cache.find_model(kCommit, "", true), cache.snapshot_path(kCommit));
  fill(cache, folder, kCommit,
       {{"model.safetensors.index.json",
         R"({"weight_map": {"a": "m-00001-of-00001.safetensors"}})"}});
  EXPECT_FALSE(cache.find_model(kCommit, "", true)) << "the index names another file";

  fill(cache, folder, kOther, {{"m-Q8_0.gguf", "q"}});
  EXPECT_EQ(cache.find_model(kOther, "Q8_0", true), cache.snapshot_path(kOther) + "/m-Q8_0.gguf");
  EXPECT_FALSE(cache.find_model(kOther, "", true)) << "the repository may have Q4_K_M";
  EXPECT_TRUE(cache.find_model(kOther, "", false));
  EXPECT_FALSE(cache.find_model(kOther, "Q4_K_M", false));
}

TEST(Inventory, ListAndRemove) {
  const TestFolder folder;
  EXPECT_TRUE(list_cache(folder.path("none")).empty());
  const RepoCache cache(folder.path(), "org/name");
  fill(cache, folder, kCommit,
       {{"m-Q8_0.gguf", "12345"}, {"m-Q4_0.gguf", "123"}, {"same-Q4_1.gguf", "12345"}});
  folder.write("models--org--name/blobs/x.incomplete", std::string(10, 'x'));
  ASSERT_TRUE(cache.write_ref("main", kCommit));
  const std::vector<CachedRevision> models = list_cache(folder.path());
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].repo, "org/name");
  EXPECT_EQ(models[0].refs, "main");
  EXPECT_EQ(models[0].weights, "Q4_0,Q4_1,Q8_0");
  EXPECT_EQ(models[0].size, 13);
  EXPECT_EQ(models[0].partial, 10);

  EXPECT_EQ(*remove_cached(folder.path(), {"org/name", "Q4_0"}), 3);
  EXPECT_EQ(*remove_cached(folder.path(), {"org/name", "Q8_0"}), 0) << "Q4_1 has the same content";
  EXPECT_TRUE(cache.has_file(kCommit, "same-Q4_1.gguf"));
  EXPECT_FALSE(cache.has_file(kCommit, "m-Q8_0.gguf"));
  EXPECT_EQ(remove_cached(folder.path(), {"org/name", "Q2_K"}).error().code, ErrorCode::kNotFound);
  EXPECT_GE(*remove_cached(folder.path(), {"org/name", ""}), 15);
  EXPECT_FALSE(std::filesystem::exists(cache.folder()));
}

TEST(Inventory, NothingOutsideIsRemoved) {
  const TestFolder folder;
  const RepoCache cache(folder.path("cache"), "org/name");
  folder.write("outside-Q8_0.gguf", "precious");
  std::filesystem::create_directories(cache.snapshot_path(kCommit));
  std::filesystem::create_symlink(folder.path("outside-Q8_0.gguf"),
                                  cache.snapshot_path(kCommit) + "/m-Q8_0.gguf");
  EXPECT_TRUE(remove_cached(folder.path("cache"), {"org/name", "Q8_0"}));
  EXPECT_EQ(TestFolder::read(folder.path("outside-Q8_0.gguf")), "precious");
}

TEST(FileLock, HeldUntilItDies) {
  const TestFolder folder;
  const std::string path = folder.path("locks/a.lock");
  EXPECT_FALSE(FileLock::is_held(path));
  {
    const Result<FileLock> lock = FileLock::wait_for(path, "a");
    ASSERT_TRUE(lock);
    EXPECT_TRUE(FileLock::is_held(path));
  }
  EXPECT_FALSE(FileLock::is_held(path));
}

TEST(FileHash, KnownValues) {
  const TestFolder folder;
  const std::string path = folder.write("a", "hello\n");
  EXPECT_EQ(*hash_file(path, HashKind::kGitBlob),
            "ce013625030ba8dba906f756967f9e9ca394464a");  // git hash-object
  EXPECT_EQ(*hash_file(path, HashKind::kSha256),
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
  EXPECT_FALSE(hash_file(folder.path("none"), HashKind::kSha256));
}

}  // namespace
}  // namespace quire
