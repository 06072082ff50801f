// Row arithmetic; see row_math.h.
#include "sampling/row_math.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

namespace quire {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kChunk = 128;       // elements whose maximum is looked at together
constexpr std::int32_t kHeapLimit = 512;  // above it, top_ids selects over the whole row

// Sixteen floats anywhere; compilers turn operations on them into what the machine has.
typedef float Sixteen __attribute__((vector_size(64), aligned(4), may_alias));

// NaN counts as minus infinity.
inline float chunk_max(const float* x, std::size_t count) {
  std::array<float, 16> lane;
  lane.fill(kMinusInfinity);
  std::size_t i = 0;
  if (count >= 16) {
    Sixteen most = *reinterpret_cast<const Sixteen*>(lane.data());
    for (; i + 16 <= count; i += 16) {
      const Sixteen v = *reinterpret_cast<const Sixteen*>(x + i);
      most = v > most ? v : most;
    }
    std::memcpy(lane.data(), &most, sizeof most);
  }
  for (; i < count; ++i) lane[0] = x[i] > lane[0] ? x[i] : lane[0];
  return *std::max_element(lane.begin(), lane.end());
}

// The order of candidates: greater value first, then the lower id.
struct Better {
  const float* row;
  float value(TokenId id) const { return row[id] >= kMinusInfinity ? row[id] : kMinusInfinity; }
  bool operator()(TokenId a, TokenId b) const {
    const float x = value(a), y = value(b);
    return x > y || (x == y && a < b);
  }
};

}  // namespace

QUIRE_ROW_LOOP void sanitize_row(std::span<float> row) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (float& x : row) {
    const float y = x >= kMinusInfinity ? x : kMinusInfinity;
    x = y < kLargest ? y : kLargest;
  }
}

QUIRE_ROW_LOOP RowMax row_max(std::span<const float> row) {
  RowMax best;
  std::size_t best_begin = 0;
  for (std::size_t begin = 0; begin < row.size(); begin += kChunk) {
    const float value = chunk_max(row.data() + begin, std::min(kChunk, row.size() - begin));
    if (value > best.value) {
      best.value = value;
      best_begin = begin;
    }
  }
  if (best.value == kMinusInfinity) return best;
  std::size_t i = best_begin;
  while (row[i] != best.value) ++i;
  best.id = static_cast<TokenId>(i);
  return best;
}

QUIRE_ROW_LOOP void mask_words(float* row, const std::uint32_t* mask, std::size_t words) {
  for (std::size_t word = 0; word < words; ++word, row += 32) {
    const std::uint32_t bits = mask[word];
    if (bits == ~0u) continue;
    for (std::uint32_t i = 0; i < 32; ++i)
      row[i] = ((bits >> i) & 1u) != 0 ? row[i] : kMinusInfinity;
  }
}

// Most chunks hold nothing.
QUIRE_ROW_LOOP std::size_t find_at_least(std::span<const float> row, float floor,
                                         std::uint32_t* out) {
  constexpr std::size_t kPart = 64;
  std::size_t found = 0;
  for (std::size_t begin = 0; begin < row.size(); begin += kPart) {
    const std::size_t end = std::min(row.size(), begin + kPart);
    if (!(chunk_max(row.data() + begin, end - begin) >= floor)) continue;
    for (std::size_t i = begin; i < end; ++i) {  // without a branch: half of them may go either way
      out[found] = static_cast<std::uint32_t>(i);
      found += row[i] >= floor ? 1 : 0;
    }
  }
  return found;
}

QUIRE_ROW_LOOP double row_sum(std::span<const float> row) {
  std::array<double, kLanes> lane{};
  std::size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) lane[l] += static_cast<double>(row[i + l]);
  }
  for (std::size_t l = 0; i + l < row.size(); ++l) lane[l] += static_cast<double>(row[i + l]);
  return std::accumulate(lane.begin(), lane.end(), 0.0);
}

QUIRE_ROW_LOOP double row_sum_exp(std::span<const float> row, float max) {
  std::array<float, 512> part;
  double sum = 0;
  for (std::size_t begin = 0; begin < row.size(); begin += part.size()) {
    const std::size_t count = std::min(part.size(), row.size() - begin);
    const float* x = row.data() + begin;
    for (std::size_t i = 0; i < count; ++i) {
      const float y = x[i] - max;
      part[i] = exp_nonpositive(y > 0.0f ? 0.0f : y);  // plus infinity counts as the maximum
    }
    sum += row_sum({part.data(), count});
  }
  return sum;
}

// The first of the chunks from `begin` on that holds more than `value`; the row's size if none
// does.
QUIRE_ROW_LOOP static std::size_t find_chunk_above(std::span<const float> row, std::size_t begin,
                                                   float value) {
  for (; begin < row.size(); begin += kChunk) {
    if (chunk_max(row.data() + begin, std::min(kChunk, row.size() - begin)) > value) return begin;
  }
  return row.size();
}

void top_ids(std::span<const float> row, std::int32_t count, std::vector<TokenId>* out) {
  const auto size = static_cast<std::int32_t>(row.size());
  count = std::clamp(count, 0, size);
  const Better better{row.data()};
  if (count > kHeapLimit) {
    out->resize(row.size());
    std::iota(out->begin(), out->end(), 0);
    if (count < size) std::nth_element(out->begin(), out->begin() + count, out->end(), better);
    out->resize(static_cast<std::size_t>(count));
    std::sort(out->begin(), out->end(), better);
    return;
  }
  // A heap whose top is the worst of the best; chunks without anything greater are skipped by their
  // maximum.
  out->resize(static_cast<std::size_t>(count));
  if (count == 0) return;
  std::iota(out->begin(), out->end(), 0);
  std::make_heap(out->begin(), out->end(), better);
  const auto next = [&](std::int32_t begin) {
    const float worst = better.value(out->front());
    return static_cast<std::int32_t>(find_chunk_above(row, static_cast<std::size_t>(begin), worst));
  };
  for (std::int32_t begin = next(count); begin < size;
       begin = next(begin + static_cast<std::int32_t>(kChunk))) {
    const std::int32_t end = std::min(size, begin + static_cast<std::int32_t>(kChunk));
    float worst = better.value(out->front());
    for (TokenId id = begin; id < end; ++id) {
      if (!(row[static_cast<std::size_t>(id)] > worst))
        continue;  // of equals, the lower id is already in
      std::pop_heap(out->begin(), out->end(), better);
      out->back() = id;
      std::push_heap(out->begin(), out->end(), better);
      worst = better.value(out->front());
    }
  }
  std::sort_heap(out->begin(), out->end(), better);
}

}  // namespace quire
