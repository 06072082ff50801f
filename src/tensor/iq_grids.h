// The lattice points of GGML's IQ types, packed. IQ1, IQ2: eight elements of two bits, lowest
// first; IQ3: four elements of three bits. What the numbers stand for is in dequantize_iq.cpp.
#pragma once

#include <cstdint>

namespace quire {

extern const std::uint16_t kIq1Grid[2048];
extern const std::uint16_t kIq2XxsGrid[256], kIq2XsGrid[512], kIq2SGrid[1024];
extern const std::uint16_t kIq3XxsGrid[256], kIq3SGrid[512];

}  // namespace quire
