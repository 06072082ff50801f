#include "tensor/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace quire {
namespace {

TEST(Buffer, IsZeroWritableAndAligned) {
  constexpr std::size_t kMiB = 1 << 20;
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{4096}, 2 * kMiB - 1, 2 * kMiB, 2 * kMiB + 1, 5 * kMiB + 4097}) {
    Buffer buffer(bytes);
    ASSERT_EQ(buffer.size(), bytes);
    const std::size_t unit = bytes >= 2 * kMiB ? 2 * kMiB : 4096;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % unit, 0u) << bytes;
    EXPECT_EQ(buffer.data()[0], std::byte{0});
    EXPECT_EQ(buffer.data()[bytes - 1], std::byte{0});
    buffer.data()[0] = buffer.data()[bytes - 1] = std::byte{7};
    const Buffer moved = std::move(buffer);
    EXPECT_EQ(moved.data()[bytes - 1], std::byte{7});
  }
}

TEST(Buffer, OfNoBytesHasNoMemory) {
  EXPECT_EQ(Buffer(0).data(), nullptr);
  EXPECT_EQ(Buffer().size(), 0u);
}

}  // namespace
}  // namespace quire
