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
