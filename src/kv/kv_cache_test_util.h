// What tests of the KV cache share.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kv/kv_cache_manager.h"

namespace quire {

// first, first + 1, ...
inline std::vector<TokenId> tokens_from(TokenId first, std::size_t n) {
  std::vector<TokenId> tokens(n);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline void expect_intact(const KvCacheManager& kv, std::vector<const SequenceKv*> live) {
  const Status status = kv.check_integrity(live);
  EXPECT_TRUE(status) << status.error().message;
}

}  // namespace quire
