#include "app/load_checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace quire {
namespace {

// Two matrices of 2 x 3.
class TwoTensors : public WeightSource {
 public:
  std::vector<float> used = {1, 2, 3, 4, 5, 6},
                     unused = {1, 2, 3, 4, 5, std::numeric_limits<float>::quiet_NaN()};
  TensorView find(std::string_view name) const override {
    if (name != "used" && name != "unused") return {};
    return {reinterpret_cast<const std::byte*>((name == "used" ? used : unused).data()),
            DType::kF32, Shape{2, 3}};
  }
  void release_pages(const TensorView&) const override {}
  std::vector<std::string> names() const override { return {"unused", "used"}; }
  bool permuted_qk() const override { return false; }
};

TEST(CheckFinite, NamesTheTensorAndThePlace) {
  TwoTensors weights;
  ASSERT_TRUE(weights.require("used", {2, 3}));
  EXPECT_TRUE(check_finite(weights)) << "what is not used may hold anything";
  weights.used[4] = -std::numeric_limits<float>::infinity();
  const Status status = check_finite(weights);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("\"used\" [2, 3] holds an infinity in row 1, column 1"),
            std::string::npos)
      << status.error().message;
}

TEST(CheckGeneration, TellsTheRangeOfTopK) {
  ModelConfig::Generation generation;
  OpenOptions options;
  for (const std::int64_t top_k : {-1LL, 0LL, 2147483647LL}) {
    generation.top_k = top_k;
    EXPECT_TRUE(check_generation(generation, 100, options)) << top_k;
  }
  for (const std::int64_t top_k : {-2LL, 2147483648LL, 5000000000LL}) {
    generation.top_k = top_k;
    const Status status = check_generation(generation, 100, options);
    ASSERT_FALSE(status) << top_k;
    EXPECT_NE(status.error().message.find("top_k must be from -1 to 2147483647, but it is " +
                                          std::to_string(top_k)),
              std::string::npos)
        << status.error().message;
  }
}

VocabSpec vocabulary() {
  VocabSpec spec;
  spec.kind = VocabSpec::Kind::kSentencePiece;
  spec.tokens = {"<unk>", "a", "b", "<image>"};
  spec.scores = {0, -1, -2, 0};
  using Type = VocabSpec::TokenType;
  spec.types = {Type::kUnknown, Type::kNormal, Type::kNormal, Type::kControl};
  spec.unk = 0;
  return spec;
}

TEST(CheckVocabulary, OnlySpecialTokensMayLieBeyondTheEmbedding) {
  const auto tokenizer = Tokenizer::from_vocab(vocabulary());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_TRUE(check_vocabulary(**tokenizer, 4));
  EXPECT_TRUE(check_vocabulary(**tokenizer, 100)) << "embeddings are often padded";
  EXPECT_TRUE(check_vocabulary(**tokenizer, 3));
  const Status status = check_vocabulary(**tokenizer, 2);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("4 tokens"), std::string::npos) << status.error().message;
  EXPECT_NE(status.error().message.find("embedding are 2"), std::string::npos)
      << status.error().message;
}

}  // namespace
}  // namespace quire
