// One block of a rarer quantized type as float32: the parts of dequantize_row that have files of
// their own. out: [block_elements]. Bit-equal to ggml's dequantize_row_*.
#pragma once

#include "tensor/quant_blocks.h"

namespace quire {

// dequantize_small.cpp
void block(const BlockIQ4_NL& b, float* out);
void block(const BlockIQ4_XS& b, float* out);
void block(const BlockMXFP4& b, float* out);
void block(const BlockNVFP4& b, float* out);
void block(const BlockTQ1_0& b, float* out);
void block(const BlockTQ2_0& b, float* out);
// dequantize_iq.cpp
void block(const BlockIQ1_S& b, float* out);
void block(const BlockIQ1_M& b, float* out);
void block(const BlockIQ2_XXS& b, float* out);
void block(const BlockIQ2_XS& b, float* out);
void block(const BlockIQ2_S& b, float* out);
void block(const BlockIQ3_XXS& b, float* out);
void block(const BlockIQ3_S& b, float* out);

}  // namespace quire
