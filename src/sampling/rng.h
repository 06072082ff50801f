// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). No state: the same (seed, choice, position, draw) gives the same number on
// every thread, slot and machine.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

// Ten rounds of Philox4x32 over `counter` with `key`.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// 64 random bits for one draw of the token at `position` (in the whole sequence, prompt included)
// of one choice of a request.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t position, std::uint32_t draw,
                                    std::uint32_t choice = 0) {
  const auto words =
      philox4x32({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                  draw, choice},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return (std::uint64_t{words[1]} << 32) | words[0];
}

// Uniform in [0, 1), a multiple of 2^-53.
constexpr double random_uniform(std::uint64_t seed, std::uint64_t position, std::uint32_t draw,
                                std::uint32_t choice = 0) {
  return static_cast<double>(random_bits(seed, position, draw, choice) >> 11) * 0x1p-53;
}

}  // namespace quire
