// Whether what runs, and one sequence more, will fit in the cache as it grows. Nobody knows how
// long an answer will be, but answers of many sequences together are predictable: for several
// moments ahead, the blocks needed then are added up, each sequence's with the chance that it still
// runs. Admission asks that their mean and some standard deviations fit. (After the idea of "Past-
// Future Scheduler for LLM Serving under SLA Guarantees", Gong et al., 2025; with the whole
// distribution in place of samples.)
//
// Blocks that several sequences share are counted once: by the ratio of blocks in use to blocks
// that are held. Engine thread; keeps its memory between uses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/answer_lengths.h"
#include "engine/sequence.h"
#include "kv/kv_cache_manager.h"

namespace quire {

class GrowthForecast {
 public:
  // Both outlive it. max_model_len bounds how far ahead it looks.
  GrowthForecast(const KvCacheManager* kv, const AnswerLengths* lengths, std::int32_t block_size,
                 std::size_t num_groups, std::int32_t max_model_len);

  void clear();
  void add(const Sequence& sequence);
  // Whether all that were added fit at every moment ahead, some deviations above the mean.
  bool fits(double deviations) const;

 private:
  struct Sum {
    double held = 0;      // blocks held now by those that still run then
    double growth = 0;    // blocks that they get until then
    double variance = 0;  // of both
  };

  const KvCacheManager* kv_;
  const AnswerLengths* lengths_;
  std::vector<std::int32_t> ahead_tokens_;  // moments ahead, in generated tokens
  std::vector<Sum> sums_;                   // [group, moment]
  std::vector<double> held_;                // by group: blocks held by all that were added
};

}  // namespace quire
