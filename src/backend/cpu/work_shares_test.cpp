#include "backend/cpu/work_shares.h"

#include <gtest/gtest.h>

#include <thread>

namespace quire {
namespace {

TEST(WorkShares, EveryPieceIsTakenOnce) {
  for (const int threads : {1, 2, 5}) {
    WorkShares shares(threads);
    for (const int pieces : {1, 7}) {
      for (int round = 0; round < 20; ++round) {
        std::vector<std::atomic<int>> taken(static_cast<std::size_t>(threads * pieces));
        shares.start();
        std::vector<std::thread> all;
        for (int t = 0; t < threads; ++t) {
          all.emplace_back([&, t] {
            shares.take(t, pieces, [&](int owner, int piece) {
              ++taken[static_cast<std::size_t>(owner * pieces + piece)];
            });
          });
        }
        for (std::thread& thread : all) thread.join();
        for (const std::atomic<int>& times : taken) EXPECT_EQ(times, 1);
      }
    }
  }
}

// One thread alone does all of it, its own share first.
TEST(WorkShares, WhatOthersDoNotTakeIsTakenFromThem) {
  WorkShares shares(3);
  shares.start();
  std::vector<int> owners;
  shares.take(1, 2, [&](int owner, int piece) {
    EXPECT_EQ(piece, static_cast<int>(owners.size()) % 2);
    owners.push_back(owner);
  });
  EXPECT_EQ(owners, (std::vector<int>{1, 1, 2, 2, 0, 0}));
}

}  // namespace
}  // namespace quire
