#include "executor/kv_sizing.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

// One group, 1 layer, 1 head of 64, bf16, 32 tokens: 8192 bytes a block.
KvGeometry geometry() {
  KvGroup group;
  group.num_layers = 1;
  group.kv_heads = 1;
  group.head_dim = group.v_head_dim = 64;
  return {{group}, 32, DType::kBF16};
}
constexpr MemoryLimits kMemory{1 << 30, 1 << 29};

TEST(KvSizing, DefaultIsWhatFullSequencesNeed) {
  KvSizingOptions options;
  options.max_num_seqs = 4;
  options.max_model_len = 1000;  // 32 blocks
  const auto sizing = size_kv_cache(geometry(), options, kMemory, 0);
  ASSERT_TRUE(sizing);
  EXPECT_EQ(sizing->num_blocks, std::vector<std::int32_t>{128});
  EXPECT_EQ(sizing->bytes, 128 * 8192);
  EXPECT_DOUBLE_EQ(sizing->full_sequences, 4.0);
}

TEST(KvSizing, DefaultIsCappedByFreeMemory) {
  KvSizingOptions options;
  options.max_num_seqs = 1 << 20;
  options.max_model_len = 32;
  const auto sizing = size_kv_cache(geometry(), options, kMemory, 0);
  ASSERT_TRUE(sizing);
  EXPECT_LE(sizing->bytes, static_cast<std::int64_t>(0.4 * (1 << 29)));
  EXPECT_GT(sizing->bytes, static_cast<std::int64_t>(0.39 * (1 << 29)));
}

TEST(KvSizing, FlagsWinInOrder) {
  KvSizingOptions options;
  options.max_model_len = 32;
  options.memory_utilization = 0.5;
  EXPECT_EQ(size_kv_cache(geometry(), options, kMemory, 1 << 20)->bytes, (1 << 29) - (1 << 20));
  options.kv_cache_bytes = 81920;
  EXPECT_EQ(size_kv_cache(geometry(), options, kMemory, 0)->num_blocks[0], 10);
  options.num_blocks_override = 3;
  EXPECT_EQ(size_kv_cache(geometry(), options, kMemory, 0)->num_blocks[0], 3);
}

TEST(KvSizing, RefusesWhenOneSequenceDoesNotFit) {
  KvSizingOptions options;
  options.max_model_len = 1024;
  options.kv_cache_bytes = 31 * 8192;
  const auto sizing = size_kv_cache(geometry(), options, kMemory, 0);
  ASSERT_FALSE(sizing);
  EXPECT_NE(sizing.error().message.find("at most 992 fits"), std::string::npos)
      << sizing.error().message;
  options.num_blocks_override = 31;
  EXPECT_FALSE(size_kv_cache(geometry(), options, kMemory, 0));
  options.num_blocks_override = 32;
  EXPECT_TRUE(size_kv_cache(geometry(), options, kMemory, 0));
}

TEST(KvSizing, WithoutGroupsNothingIsNeeded) {
  KvSizingOptions options;
  options.max_num_seqs = 6;
  options.max_model_len = 1 << 20;
  options.kv_cache_bytes = 0;
  const KvGeometry none{{}, 32, DType::kBF16};
  const auto sizing = size_kv_cache(none, options, kMemory, 0);
  ASSERT_TRUE(sizing) << sizing.error().message;
  EXPECT_TRUE(sizing->num_blocks.empty());
  EXPECT_EQ(sizing->bytes, 0);
  EXPECT_DOUBLE_EQ(sizing->full_sequences, 6.0);
  EXPECT_EQ(longest_context(none, options, kMemory, 0, 4096), 4096);
}

TEST(KvSizing, RefusesMoreThanTheMachineHas) {
  KvSizingOptions options;
  options.max_model_len = 1024;
  options.kv_cache_bytes = std::int64_t{1} << 50;
  EXPECT_FALSE(size_kv_cache(geometry(), options, kMemory, 0));
  options.num_blocks_override = 1'000'000'000;
  const auto sizing = size_kv_cache(geometry(), options, kMemory, 0);
  ASSERT_FALSE(sizing);
  EXPECT_NE(sizing.error().message.find("1024.0 MiB of memory in all"), std::string::npos)
      << sizing.error().message;
}

TEST(KvSizing, LongestContext) {
  KvSizingOptions options;
  options.kv_cache_bytes = 10 * 8192;
  EXPECT_EQ(longest_context(geometry(), options, kMemory, 0, 4096), 320);
  EXPECT_EQ(longest_context(geometry(), options, kMemory, 0, 100), 100);
  options.kv_cache_bytes = -5;
  EXPECT_EQ(longest_context(geometry(), options, kMemory, 0, 100), 0);
}

// The same group and five layers with a window of 64 tokens: a block of them is 40960 bytes.
KvGeometry windowed_geometry() {
  KvGeometry both = geometry();
  KvGroup window = both.groups[0];
  window.num_layers = 5;
  window.window = 64;
  both.groups.push_back(window);
  return both;
}

TEST(KvSizing, AWindowTakesWhatASequenceHoldsOfIt) {
  KvSizingOptions options;
  options.max_num_seqs = 4;
  options.max_model_len = 3200;  // 100 blocks of the full layer
  options.max_step_tokens = 128;
  const auto sizing = size_kv_cache(windowed_geometry(), options, kMemory, 0);
  ASSERT_TRUE(sizing) << sizing.error().message;
  // Two blocks reach back over 63 keys, one more where the window begins inside of one; a step of
  // 128 tokens adds four for all.
  EXPECT_EQ(sizing->num_blocks, (std::vector<std::int32_t>{400, 4 * 3 + 4}));
  EXPECT_EQ(sizing->bytes, 400 * 8192 + 16 * 40960);
  EXPECT_DOUBLE_EQ(sizing->full_sequences, 4.0);
}

TEST(KvSizing, UnderPressureWindowsTakeAtMostHalf) {
  KvSizingOptions options;
  options.max_num_seqs = 100;
  options.max_model_len = 3200;
  options.max_step_tokens = 128;
  options.kv_cache_bytes = 2 * (100 * 8192 + 12 * 40960);  // what two sequences hold, and more
  const auto sizing = size_kv_cache(windowed_geometry(), options, kMemory, 0);
  ASSERT_TRUE(sizing) << sizing.error().message;
  EXPECT_LE(sizing->bytes, *options.kv_cache_bytes);
  EXPECT_GT(sizing->bytes, *options.kv_cache_bytes - 8192);
  EXPECT_EQ(sizing->num_blocks[1], 9 * 3 + 4);  // nine sequences: 31 of 40960 are half of it
  EXPECT_GT(sizing->num_blocks[0], 150);
  EXPECT_NEAR(sizing->full_sequences, sizing->num_blocks[0] / 100.0, 1e-9);
}

TEST(KvSizing, WhatIsLeftOverIsSharedInProportion) {
  KvSizingOptions options;
  options.max_num_seqs = 4;
  options.max_model_len = 3200;
  options.max_step_tokens = 128;
  options.kv_cache_bytes = 3 * (400 * 8192 + 16 * 40960);
  EXPECT_EQ(size_kv_cache(windowed_geometry(), options, kMemory, 0)->num_blocks,
            (std::vector<std::int32_t>{1200, 48}));
  // Windows alone have all of it.
  KvGeometry windows = windowed_geometry();
  windows.groups.erase(windows.groups.begin());
  options.kv_cache_bytes = 160 * 40960;
  EXPECT_EQ(size_kv_cache(windows, options, kMemory, 0)->num_blocks,
            std::vector<std::int32_t>{160});
}

TEST(KvSizing, LongestContextOfWindowsIsNotTheirWindow) {
  KvSizingOptions options;
  options.max_step_tokens = 128;
  options.kv_cache_bytes = 7 * 40960 + 1000 * 8192;
  EXPECT_EQ(longest_context(windowed_geometry(), options, kMemory, 0, 1 << 20), 32000);
  KvGeometry windows = windowed_geometry();
  windows.groups.erase(windows.groups.begin());
  EXPECT_EQ(longest_context(windows, options, kMemory, 0, 1 << 20), 1 << 20);
  options.num_blocks_override = 6;  // the window and a step need 7
  EXPECT_EQ(longest_context(windows, options, kMemory, 0, 1 << 20), 6 * 32);
}

TEST(KvSizing, SnapshotsOfRecurrentState) {
  KvSizingOptions options;
  options.max_num_seqs = 4;
  options.max_model_len = 1000;
  const auto count = [&](std::int64_t state_bytes) {
    return num_state_snapshots(state_bytes, 256, options, kMemory);
  };
  EXPECT_EQ(count(0), 0);        // no recurrent layers
  EXPECT_EQ(count(1000), 16);    // four for each sequence
  EXPECT_EQ(count(1 << 23), 6);  // 10 % of the free memory
  options.snapshot_bytes = 1 << 20;
  EXPECT_EQ(count(1000), 1048);
  options.snapshot_bytes = 0;
  EXPECT_EQ(count(1000), 0);
}

}  // namespace
}  // namespace quire
