// What sentence-transformers' files say.
#include "weights/pooling_config.h"

#include <gtest/gtest.h>

#include "weights/test_files.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

struct PoolingFiles : ::testing::Test {
  PoolingFiles() : folder(fs::temp_directory_path() / fmt::format("quire-pooling-{}", ::getpid())) {
    fs::remove_all(folder);
    fs::create_directories(folder / "1_Pooling");
  }
  ~PoolingFiles() override { fs::remove_all(folder); }
  void put(const char* name, const char* text) const { std::ofstream(folder / name) << text; }
  PoolingConfig read() const { return read_hf_pooling(folder.string()).value(); }
  fs::path folder;
};

constexpr const char* kModules = R"([
  {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
  {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
  )";

TEST_F(PoolingFiles, NothingSaidIsTheLastTokenNormalized) {
  const PoolingConfig config = read();
  EXPECT_EQ(config.pooling, Pooling::kLast);
  EXPECT_TRUE(config.normalize);
  EXPECT_EQ(config.unsupported, "");
}

TEST_F(PoolingFiles, ModulesSayPoolingAndLength) {
  put("modules.json", (std::string(kModules) + "]").c_str());
  put("1_Pooling/config.json",
      R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false})");
  EXPECT_EQ(read().pooling, Pooling::kMean);
  EXPECT_FALSE(read().normalize);
  put("modules.json",
      (std::string(kModules) +
       R"(,{"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])")
          .c_str());
  put("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  EXPECT_EQ(read().pooling, Pooling::kFirst);
  EXPECT_TRUE(read().normalize);
}

TEST_F(PoolingFiles, WhatCannotBeDoneIsSaid) {
  put("modules.json", (std::string(kModules) +
                       R"(,{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])")
                          .c_str());
  put("1_Pooling/config.json", R"({"pooling_mode_lasttoken": true})");
  EXPECT_NE(read().unsupported.find("Dense"), std::string::npos);
  put("modules.json", (std::string(kModules) + "]").c_str());
  put("1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
  EXPECT_NE(read().unsupported, "");
  put("modules.json", "{}");
  EXPECT_FALSE(read_hf_pooling(folder.string()));
}

}  // namespace
}  // namespace quire
