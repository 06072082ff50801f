#include "backend/cpu/weight_slabs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace quire {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}
std::uintptr_t at(const SlabBytes& bytes) { return reinterpret_cast<std::uintptr_t>(bytes.data()); }

TEST(WeightSlabs, TakesLinesOneAfterTheOther) {
  WeightSlabs slabs;
  SlabBytes first = slabs.take(1), second = slabs.take(64), third = slabs.take(65),
            fourth = slabs.take(3 * 64);
  EXPECT_EQ(at(first) % 64, 0u);
  EXPECT_EQ(at(second), at(first) + 64);
  EXPECT_EQ(at(third), at(second) + 64);
  EXPECT_EQ(at(fourth), at(third) + 128);
  for (SlabBytes* bytes : {&first, &second, &third, &fourth})
    EXPECT_EQ(*bytes->data(), std::byte{});
  second.data()[63] = std::byte{1};
  EXPECT_EQ(third.data()[0], std::byte{});
}

TEST(WeightSlabs, WhatFillsMostOfASlabGetsItsOwn) {
  WeightSlabs slabs;
  const SlabBytes small = slabs.take(64);
  const std::size_t before = address_space();
  {
    SlabBytes large = slabs.take(300 * kMiB + 1);
    EXPECT_EQ(at(large) % 64, 0u);
    large.data()[300 * kMiB] = std::byte{1};
    EXPECT_GE(address_space(), before + 300 * kMiB);
  }
  EXPECT_LT(address_space(), before + 100 * kMiB) << "freed with its only matrix";
  EXPECT_EQ(at(slabs.take(64)), at(small) + 64) << "the slab goes on behind the small one";
}

TEST(WeightSlabs, ASlabLivesAsLongAsAnythingInIt) {
  const std::size_t before = address_space();
  SlabBytes kept;
  {
    WeightSlabs slabs;
    const SlabBytes first = slabs.take(100 * kMiB);
    kept = slabs.take(100 * kMiB);
    EXPECT_EQ(at(kept), at(first) + 100 * kMiB);
    // No room for a third: the next slab.
    const SlabBytes next = slabs.take(100 * kMiB);
    EXPECT_TRUE(at(next) >= at(first) + 256 * kMiB || at(next) + 256 * kMiB <= at(first));
  }
  kept.data()[0] = kept.data()[100 * kMiB - 1] = std::byte{7};
  EXPECT_EQ(kept.data()[0], std::byte{7});
  EXPECT_GE(address_space(), before + 200 * kMiB);
  kept = {};
  EXPECT_LT(address_space(), before + 100 * kMiB);
}

}  // namespace
}  // namespace quire
