// Frequencies of each scaling kind against values worked out from its paper or, for whole models,
// from the goldens' reference; a request's length decides per sequence.
#include "model/layers/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/backend.h"

namespace quire {
namespace {

using Kind = RopeConfig::Kind;

RopeConfig config(Kind kind, std::int32_t dim = 8) {
  RopeConfig rope;
  rope.kind = kind;
  rope.theta = 10000;
  rope.factor = 4;
  rope.original_max_position = 32;
  rope.rotary_dim = dim;
  return rope;
}
RopeFrequencies of(const RopeConfig& rope, std::int64_t prompt_tokens = 1) {
  return rope_frequencies(rope, prompt_tokens).value();
}

TEST(Rope, DefaultLinearAndFactors) {
  RopeConfig rope = config(Kind::kDefault);
  EXPECT_DOUBLE_EQ(of(rope).inverse[0], 1.0);
  EXPECT_DOUBLE_EQ(of(rope).inverse[2], 0.01);
  EXPECT_EQ(of(rope).scale, 1.0);
  rope.freq_factors = {1, 1, 8, 8};
  EXPECT_DOUBLE_EQ(of(rope).inverse[2], 0.01 / 8);
  EXPECT_DOUBLE_EQ(of(config(Kind::kLinear)).inverse[2], 0.0025);
}

TEST(Rope, Llama3KeepsShortWavelengthsAndStretchesLongOnes) {
  RopeConfig rope = config(Kind::kLlama3, 16);
  rope.original_max_position = 64;  // wavelengths below 16 stay, above 64 are stretched
  const auto f = of(rope).inverse;
  EXPECT_DOUBLE_EQ(f[0], 1.0);                                                     // 6.3
  const double plain = std::pow(10000, -2.0 / 16), wavelength = 2 * M_PI / plain;  // 19.9: between
  const double smooth = (64 / wavelength - 1) / 3;
  EXPECT_DOUBLE_EQ(f[1], (1 - smooth) * plain / 4 + smooth * plain);
  EXPECT_DOUBLE_EQ(f[7], std::pow(10000, -14.0 / 16) / 4);
}

TEST(Rope, YarnBlendsBetweenItsBounds) {
  RopeConfig rope = config(Kind::kYarn, 16);
  rope.original_max_position = 4096;
  const auto f = of(rope);
  EXPECT_DOUBLE_EQ(f.scale, 0.1 * std::log(4.0) + 1);
  EXPECT_DOUBLE_EQ(f.inverse[0], 1.0);  // turns often: kept
  EXPECT_DOUBLE_EQ(f.inverse[7],
                   std::pow(10000, -14.0 / 16) / 4);  // turns less than once: stretched
  // Bounds: 16 ln(4096 / (32 * 2 pi)) / (2 ln 10000) = 2.617, and 5.627 for one turn.
  const auto blended = [](double low, double high, int i) {
    const double ramp = (i - low) / (high - low), plain = std::pow(10000, -2.0 * i / 16);
    return plain / 4 * ramp + plain * (1 - ramp);
  };
  EXPECT_DOUBLE_EQ(f.inverse[4], blended(2, 6, 4));
  rope.truncate = false;
  const double low = 16 * std::log(4096 / (64 * M_PI)) / (2 * std::log(10000.0));
  const double high = 16 * std::log(4096 / (2 * M_PI)) / (2 * std::log(10000.0));
  EXPECT_NEAR(of(rope).inverse[4], blended(low, high, 4), 1e-12);
  rope.mscale = 0.7;
  rope.mscale_all_dim = 1.0;
  EXPECT_DOUBLE_EQ(of(rope).scale, (0.07 * std::log(4.0) + 1) / (0.1 * std::log(4.0) + 1));
  rope.attention_factor = 1.25;
  EXPECT_EQ(of(rope).scale, 1.25);
}

TEST(Rope, LongropeHasTwoRegimes) {
  RopeConfig rope = config(Kind::kLongrope);
  rope.short_factor = {1, 1, 2, 2};
  rope.long_factor = {1, 4, 8, 8};
  EXPECT_DOUBLE_EQ(of(rope, 32).inverse[2], 0.01 / 2);
  EXPECT_DOUBLE_EQ(of(rope, 33).inverse[2], 0.01 / 8);
  EXPECT_DOUBLE_EQ(of(rope, 32).scale, std::sqrt(1 + std::log(4.0) / std::log(32.0)));
  rope.short_mscale = 1.1;
  rope.long_mscale = 1.3;
  EXPECT_EQ(of(rope, 32).scale, 1.1);
  EXPECT_EQ(of(rope, 33).scale, 1.3);
  rope.long_factor.pop_back();
  const auto bad = rope_frequencies(rope, 33);
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("long_factor has 3 values"), std::string::npos);
}

TEST(Rope, DynamicGrowsItsBaseWithTheRequest) {
  const RopeConfig rope = config(Kind::kDynamic);
  EXPECT_DOUBLE_EQ(of(rope, 7).inverse[1], 0.1);
  EXPECT_DOUBLE_EQ(of(rope, 32).inverse[1], 0.1);
  const double base = 10000 * std::pow(4 * 40.0 / 32 - 3, 8.0 / 6);
  EXPECT_DOUBLE_EQ(of(rope, 40).inverse[1], std::pow(base, -0.25));
}

TEST(Rope, NamesWhatIsWrong) {
  RopeConfig rope = config(Kind::kUnsupported);
  rope.kind_name = "spiral";
  EXPECT_NE(rope_frequencies(rope, 1).error().message.find("'spiral'"), std::string::npos);
  rope = config(Kind::kYarn);
  rope.original_max_position = 0;
  EXPECT_NE(rope_frequencies(rope, 1).error().message.find("original_max_position_embeddings"),
            std::string::npos);
  rope = config(Kind::kDefault);
  rope.freq_factors = {1};
  EXPECT_FALSE(rope_frequencies(rope, 1));
  EXPECT_FALSE(rope_frequencies(config(Kind::kDefault, 7), 1));
}

TEST(Rope, EachSequenceOfAStepHasItsOwnRegime) {
  const auto backend = make_cpu_backend({"ref", 1, ComputeDType::kFloat32}).value();
  const RopeConfig settings = config(Kind::kDynamic);
  const Rope rope = Rope::create(settings).value();
  const std::int32_t positions[] = {5, 6, 39}, rows[] = {0, 2, 3}, prompts[] = {7, 40};
  ModelInput input;
  input.token_ids = input.positions = positions;
  input.row_begin = rows;
  input.prompt_tokens = prompts;
  Workspace workspace(4096);
  const RopeTable table = rope.table(*backend, workspace, input);
  EXPECT_EQ(table.cos[4 + 1], static_cast<float>(std::cos(6 * 0.1)));
  EXPECT_EQ(table.sin[8 + 1], static_cast<float>(std::sin(39 * of(settings, 40).inverse[1])));
}

TEST(Rope, RequestsOfOneRegimeTurnAlike) {
  const Rope dynamic = Rope::create(config(Kind::kDynamic)).value();
  EXPECT_EQ(dynamic.regime(32), 0u);
  EXPECT_EQ(dynamic.regime(40), 40u);
  RopeConfig settings = config(Kind::kLongrope);
  settings.short_factor = settings.long_factor = {1, 1, 1, 1};
  const Rope longrope = Rope::create(settings).value();
  EXPECT_EQ(longrope.regime(32), 0u);
  EXPECT_EQ(longrope.regime(33), longrope.regime(3000));
  EXPECT_NE(longrope.regime(33), 0u);
  EXPECT_EQ(Rope::create(config(Kind::kYarn)).value().regime(3000), 0u);
}

}  // namespace
}  // namespace quire
