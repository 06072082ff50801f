#include "app/flags.h"

#include <gtest/gtest.h>

#include "app/flag_advice.h"
#include "app/flag_checks.h"

namespace quire {
namespace {

TEST(ParseMaxModelLen, NumbersAndSuffixes) {
  EXPECT_EQ(parse_max_model_len("4096")->value(), 4096);
  EXPECT_EQ(parse_max_model_len("4k")->value(), 4000);
  EXPECT_EQ(parse_max_model_len("4K")->value(), 4096);
  EXPECT_EQ(parse_max_model_len("25.6k")->value(), 25600);
  EXPECT_FALSE(parse_max_model_len("auto")->has_value());
  EXPECT_FALSE(parse_max_model_len("")->has_value());
  for (const char* bad : {"0", "-5", "4.5", "4x", "k", "nan", "inf", "1e30"})
    EXPECT_FALSE(parse_max_model_len(bad)) << bad;
}

TEST(ParseBytes, NumbersAndSuffixes) {
  EXPECT_EQ(*parse_bytes("--x", "1000"), 1000);
  EXPECT_EQ(*parse_bytes("--x", "512M"), 512 << 20);
  EXPECT_EQ(*parse_bytes("--x", "1.5GiB"), 3LL << 29);
  EXPECT_EQ(*parse_bytes("--x", "2GB"), 2LL << 30);
  for (const char* bad : {"", "0", "-1", "2X", "G", "1e300"})
    EXPECT_FALSE(parse_bytes("--x", bad)) << bad;
}

TEST(ResolveKvDtype, FollowsComputeAndFile) {
  EXPECT_EQ(*resolve_kv_dtype("auto", ComputeDType::kFloat32, DType::kQ4_1, true, false),
            DType::kF32);
  EXPECT_EQ(*resolve_kv_dtype("auto", ComputeDType::kAuto, DType::kQ4_1, true, false), DType::kF16);
  EXPECT_EQ(*resolve_kv_dtype("auto", ComputeDType::kAuto, DType::kQ4_1, true, true), DType::kBF16);
  EXPECT_EQ(*resolve_kv_dtype("auto", ComputeDType::kAuto, DType::kF16, false, true), DType::kBF16);
  EXPECT_EQ(*resolve_kv_dtype("auto", ComputeDType::kAuto, DType::kBF16, false, false),
            DType::kBF16);
  EXPECT_EQ(*resolve_kv_dtype("auto", ComputeDType::kAuto, DType::kF16, false, false), DType::kF16);
  EXPECT_EQ(*resolve_kv_dtype("float16", ComputeDType::kFloat32, DType::kF32, false, false),
            DType::kF16);
  EXPECT_EQ(*resolve_kv_dtype("int8", ComputeDType::kAuto, DType::kF32, false, false), DType::kI8);
  EXPECT_FALSE(resolve_kv_dtype("int3", ComputeDType::kAuto, DType::kF32, false, false));
}

TEST(FiniteRange, RefusesNanAndOutside) {
  const CLI::Validator validator = finite_range(0.001, 1.0);
  for (const char* good : {"0.001", "0.9", "1", "1e-2"}) EXPECT_EQ(validator(good), "") << good;
  for (const char* bad : {"nan", "inf", "0", "1.1", "-1", "", "0.5x"})
    EXPECT_NE(validator(bad), "") << bad;
}

TEST(FlagAdvice, KnownButNotBuiltIsNamedWithAHint) {
  EXPECT_EQ(flag_advice("--tensor-parallel-size=2", {}),
            "--tensor-parallel-size is a flag of vLLM that this version of Quire does not have: "
            "one process uses all its "
            "cores; set --threads");
}
TEST(FlagAdvice, TypingErrorGetsTheNearest) {
  EXPECT_EQ(flag_advice("--max-model-lne", {"--max-model-len", "--max-num-seqs"}),
            "unknown flag --max-model-lne; did you mean --max-model-len?");
  EXPECT_EQ(flag_advice("--zzzzzzzzzz", {"--port"}), "unknown flag --zzzzzzzzzz; see --help");
  EXPECT_EQ(flag_advice("--frobnicate", {"--root-path"}), "unknown flag --frobnicate; see --help");
}

}  // namespace
}  // namespace quire
