#include "hub/repo_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Paths = std::vector<std::string>;

const std::string kListed(40, 'a');

TEST(ParseListing, FilesWithSizesAndHashes) {
  const std::string sha(64, 'b'), blob(40, 'c');
  const Result<RepoListing> listing = parse_listing(
      R"({"sha": ")" + kListed +
          R"(", "siblings": [{"rfilename": "config.json", "size": 5, "blobId": ")" + blob +
          R"("}, {"rfilename": "m.gguf", "size": 7, "blobId": "x", "lfs": {"sha256": ")" + sha +
          R"(", "size": 7}}, {"rfilename": "plain"}]})",
      "o/n");
  ASSERT_TRUE(listing);
  EXPECT_EQ(listing->commit, kListed);
  ASSERT_EQ(listing->files.size(), 3u);
  EXPECT_EQ(listing->files[0].blob, blob);
  EXPECT_EQ(listing->files[0].size, 5);
  EXPECT_EQ(listing->files[1].blob, sha);
  EXPECT_EQ(listing->files[2].blob, "");
  EXPECT_EQ(listing->files[2].size, -1);
}

TEST(ParseListing, BadOnesAreErrors) {
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{"),
        std::string(R"({"sha": "../x", "siblings": []})"), R"({"sha": ")" + kListed + R"("})",
        R"({"sha": ")" + kListed + R"(", "siblings": 5})"})
    EXPECT_FALSE(parse_listing(text, "o/n")) << text;
  const Result<RepoListing> evil = parse_listing(
      R"({"sha": ")" + kListed + R"(", "siblings": [{"rfilename": "../../x"}]})", "o/n");
  ASSERT_FALSE(evil);
  EXPECT_THAT(evil.error().message, HasSubstr("leads out"));
}

TEST(ChooseFormat, SafetensorsFirstThenGguf) {
  EXPECT_EQ(*choose_format({"model.safetensors", "m.gguf", "pytorch_model.bin"}, "", "o/n"),
            WeightFormat::kSafetensors);
  EXPECT_EQ(*choose_format({"model.safetensors", "m-Q8_0.gguf"}, "Q8_0", "o/n"),
            WeightFormat::kGguf);
  EXPECT_EQ(*choose_format({"m.gguf", "config.json"}, "", "o/n"), WeightFormat::kGguf);
  EXPECT_THAT(choose_format({"pytorch_model.bin"}, "", "o/n").error().message, HasSubstr("pickle"));
  EXPECT_THAT(choose_format({"adapter_model.safetensors", "adapter_config.json"}, "", "o/n")
                  .error()
                  .message,
              HasSubstr("adapter"));
  EXPECT_THAT(choose_format({"README.md", "onnx/x.safetensors"}, "", "o/n").error().message,
              HasSubstr("no weights"));
  EXPECT_THAT(choose_format({"mmproj-F16.gguf"}, "Q8_0", "o/n").error().message,
              HasSubstr("no GGUF"));
}

TEST(SmallFiles, OnlyWhatALoadNeeds) {
  EXPECT_THAT(small_files({"README.md", "config.json", "tokenizer.json", "onnx/config.json",
                           "chat_template.jinja", "pytorch_model.bin"}),
              ElementsAre("config.json", "tokenizer.json", "chat_template.jinja"));
}

TEST(SmallFiles, PartsOfAModel) {
  const Paths paths = {"config.json",         "generation_config.json",
                       "tokenizer.json",      "tokenizer_config.json",
                       "model.safetensors",   "model.safetensors.index.json",
                       "chat_template.jinja", "quantize_config.json"};
  EXPECT_THAT(config_files(paths),
              ElementsAre("config.json", "generation_config.json", "tokenizer.json",
                          "tokenizer_config.json", "chat_template.jinja", "quantize_config.json"));
  EXPECT_THAT(tokenizer_files(paths),
              ElementsAre("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"));
}

TEST(SafetensorsFiles, ByIndexOrName) {
  EXPECT_THAT(*safetensors_files({"model.safetensors", "other.safetensors"}, "", "o/n"),
              ElementsAre("model.safetensors"));
  EXPECT_THAT(*safetensors_files({"a.safetensors", "b/c.safetensors"}, "", "o/n"),
              ElementsAre("a.safetensors"));
  const Paths paths = {"m-1.safetensors", "m-2.safetensors", "consolidated.safetensors"};
  EXPECT_THAT(
      *safetensors_files(
          paths,
          R"({"weight_map": {"x": "m-2.safetensors", "y": "m-1.safetensors", "z": "m-2.safetensors"}})",
          "o/n"),
      ElementsAre("m-1.safetensors", "m-2.safetensors"));
  EXPECT_THAT(safetensors_files(paths, R"({"weight_map": {"x": "../m-3"}})", "o/n").error().message,
              HasSubstr("../m-3"));
  EXPECT_FALSE(safetensors_files(paths, "{}", "o/n"));
  EXPECT_FALSE(safetensors_files(paths, "[", "o/n"));
}

TEST(GgufFiles, ByQuantization) {
  const Paths paths = {"m-Q4_K_M.gguf",
                       "m-UD-Q4_K_M.gguf",
                       "m-IQ4_XS.gguf",
                       "m.Q8_0.gguf",
                       "mmproj-Q4_K_M.gguf",
                       "m-imatrix-Q2_K.gguf",
                       "BF16/m-BF16-00001-of-00002.gguf",
                       "BF16/m-BF16-00002-of-00002.gguf",
                       "Q6_K/model.gguf"};
  const auto chosen = [&](const char* quant) { return gguf_files(paths, quant, "o/n"); };
  EXPECT_THAT(*chosen("Q4_K_M"), ElementsAre("m-Q4_K_M.gguf"));
  EXPECT_THAT(*chosen("q4_k_m"), ElementsAre("m-Q4_K_M.gguf"));
  EXPECT_THAT(*chosen("UD-Q4_K_M"), ElementsAre("m-UD-Q4_K_M.gguf"));
  EXPECT_THAT(*chosen("Q8_0"), ElementsAre("m.Q8_0.gguf"));
  EXPECT_THAT(*chosen("Q6_K"), ElementsAre("Q6_K/model.gguf"));
  EXPECT_THAT(*chosen("BF16"),
              ElementsAre("BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"));
  EXPECT_THAT(*chosen(""), ElementsAre("m-Q4_K_M.gguf"));
  EXPECT_THAT(*chosen("m.Q8_0.gguf"), ElementsAre("m.Q8_0.gguf"));
  EXPECT_FALSE(chosen("Q4_XS"));
  EXPECT_THAT(chosen("Q2_K").error().message, HasSubstr("IQ4_XS"));
  EXPECT_THAT(*gguf_files({"b-Q5_0.gguf", "a-Q5_0.gguf"}, "", "o/n"), ElementsAre("a-Q5_0.gguf"));
  EXPECT_THAT(gguf_files({"m-F16-00001-of-00003.gguf", "m-F16-00002-of-00003.gguf"}, "F16", "o/n")
                  .error()
                  .message,
              HasSubstr("split 3 of 3"));
}

TEST(GgufLabel, OfAFileName) {
  EXPECT_EQ(gguf_label("x/Model-7B-Q4_K_M.gguf"), "Q4_K_M");
  EXPECT_EQ(gguf_label("Model.Q8_0.gguf"), "Q8_0");
  EXPECT_EQ(gguf_label("Model-UD-Q4_K_XL-00001-of-00002.gguf"), "UD-Q4_K_XL");
  EXPECT_EQ(gguf_label("model.gguf"), "model");
  EXPECT_EQ(gguf_label(".gguf"), "");
}

}  // namespace
}  // namespace quire
