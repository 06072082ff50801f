// What the scheduler's plans promise to attention (backend/cpu/rope_and_attend.cpp).
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "executor/step_plan.h"

namespace quire {

// A step that only decodes, and admits nobody: no row reads a block that another one writes.
inline void expect_decoding_rows_apart(const StepPlan& plan, std::int32_t block_size) {
  if (!plan.added.empty() || plan.token_ids.size() != plan.rows.size()) return;
  for (std::size_t g = 0; g < plan.block_table.size(); ++g) {
    std::map<std::int32_t, std::size_t> writer;
    const auto block = [&](std::size_t row, std::int32_t entry) {
      return plan.block_table[g][static_cast<std::size_t>(plan.table_begin[g][row] + entry)];
    };
    const auto last = [&](std::size_t row) { return plan.rows[row].start_pos / block_size; };
    for (std::size_t r = 0; r < plan.rows.size(); ++r)
      EXPECT_TRUE(writer.emplace(block(r, last(r)), r).second) << "two rows write one block";
    for (std::size_t r = 0; r < plan.rows.size(); ++r) {
      for (std::int32_t entry = 0; entry < last(r); ++entry)
        EXPECT_FALSE(writer.contains(block(r, entry))) << "a row reads what another one writes";
    }
  }
}

}  // namespace quire
