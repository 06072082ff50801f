#include "tensor/dequantize.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tensor/half.h"
#include "tensor/quant_blocks.h"

namespace quire {
namespace {

template <class Block>
std::vector<float> values(DType dtype, const Block& block) {
  std::vector<std::byte> bytes(sizeof(Block) + 1);
  std::memcpy(bytes.data() + 1, &block, sizeof(Block));  // any alignment
  std::vector<float> out(static_cast<std::size_t>(dtype_info(dtype).block_elements));
  dequantize_row(dtype, bytes.data() + 1, dtype_info(dtype).block_elements, out.data());
  return out;
}
const std::uint16_t kHalf = f32_to_f16(0.5f), kThree = f32_to_f16(3.0f);

TEST(Dequantize, Q8_0) {
  BlockQ8_0 b{kHalf, {}};
  b.qs[0] = -128;
  b.qs[31] = 127;
  const auto v = values(DType::kQ8_0, b);
  EXPECT_EQ(v[0], -64.0f);
  EXPECT_EQ(v[1], 0.0f);
  EXPECT_EQ(v[31], 63.5f);
}

TEST(Dequantize, FourBitBlocks) {
  BlockQ4_0 sym{kHalf, {}};
  sym.qs[2] = 0xF1;  // element 2: 1, element 18: 15
  auto v = values(DType::kQ4_0, sym);
  EXPECT_EQ(v[0], -4.0f);
  EXPECT_EQ(v[2], -3.5f);
  EXPECT_EQ(v[18], 3.5f);
  BlockQ4_1 min{kHalf, kThree, {}};
  min.qs[2] = 0xF1;
  v = values(DType::kQ4_1, min);
  EXPECT_EQ(v[0], 3.0f);
  EXPECT_EQ(v[2], 3.5f);
  EXPECT_EQ(v[18], 10.5f);
}

TEST(Dequantize, FiveBitBlocks) {
  BlockQ5_0 sym{kHalf, {}, {}};
  sym.qs[2] = 0xF1;
  sym.qh[2] = 0x04;  // element 18
  auto v = values(DType::kQ5_0, sym);
  EXPECT_EQ(v[2], 0.5f * (1 - 16));
  EXPECT_EQ(v[18], 0.5f * (31 - 16));
  BlockQ5_1 min{kHalf, kThree, {}, {}};
  min.qs[2] = 0xF1;
  min.qh[0] = 0x04;  // element 2
  v = values(DType::kQ5_1, min);
  EXPECT_EQ(v[2], 0.5f * 17 + 3);
  EXPECT_EQ(v[18], 0.5f * 15 + 3);
}

TEST(Dequantize, KQuants) {
  BlockQ4_K q4{kHalf, kThree, {}, {}};
  q4.scales[0] = 2;         // scale of sub-block 0
  q4.scales[4] = 1;         // minimum of sub-block 0
  q4.scales[1] = 0x40 | 5;  // scale of 1 is 5; bits 4-5 of scale 5
  q4.scales[9] = 0x23;      // scale of 5: 3 | 1 << 4 = 19, minimum of 5: 2
  q4.qs[0] = 0x07;          // element 0: 7
  q4.qs[64] = 0x90;         // sub-block 5 starts in the high nibbles of byte 64: 9
  auto v = values(DType::kQ4_K, q4);
  EXPECT_EQ(v[0], 0.5f * 2 * 7 - 3);
  EXPECT_EQ(v[1], -3.0f);
  EXPECT_EQ(v[160], 0.5f * 19 * 9 - 3.0f * 2);
  BlockQ5_K q5{kHalf, kThree, {}, {}, {}};
  q5.scales[1] = 5;
  q5.qs[3] = 0x40;  // element 35: 4
  q5.qh[3] = 0x02;  // its bit 4
  v = values(DType::kQ5_K, q5);
  EXPECT_EQ(v[35], 0.5f * 5 * 20);
  EXPECT_EQ(v[34], 0.0f);
  BlockQ6_K q6{{}, {}, {}, kHalf};
  q6.scales[8 + 2 * 3 + 1] = -4;  // second half, elements 96 + 16..31
  q6.ql[64 + 32 + 20] = 0xA0;     // element 128 + 96 + 20
  q6.qh[32 + 20] = 0xC0;
  v = values(DType::kQ6_K, q6);
  EXPECT_EQ(v[128 + 96 + 20], 0.5f * -4 * (0x3A - 32));
  EXPECT_EQ(v[128 + 96 + 21], 0.5f * -4 * -32);
  EXPECT_EQ(v[0], 0.0f);
}

TEST(Dequantize, PlainNumbers) {
  const float f[2] = {1.5f, -2.25f};
  float out[2];
  dequantize_row(DType::kF32, reinterpret_cast<const std::byte*>(f), 2, out);
  EXPECT_EQ(out[1], -2.25f);
  const std::uint16_t b[2] = {f32_to_bf16(1.5f), f32_to_bf16(-2.25f)};
  dequantize_row(DType::kBF16, reinterpret_cast<const std::byte*>(b), 2, out);
  EXPECT_EQ(out[0], 1.5f);
  const std::uint16_t h[2] = {f32_to_f16(1.5f), 1};
  dequantize_row(DType::kF16, reinterpret_cast<const std::byte*>(h), 2, out);
  EXPECT_EQ(out[1], 0x1p-24f);
  EXPECT_TRUE(is_dequantizable(DType::kQ6_K));
  EXPECT_FALSE(is_dequantizable(DType::kIQ2_S));
}

}  // namespace
}  // namespace quire
