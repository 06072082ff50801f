// The loops of bench/dot_probes.cpp are instructions of the processor that they run on.
#include "dot_probes.h"

#include <gtest/gtest.h>

namespace quire::bench {
namespace {

TEST(DotProbes, AllOfTheProcessorRun) {
  int present = 0;
  for (const DotProbe& probe : dot_probes()) {
    if (probe.loop == nullptr) continue;
    ++present;
    EXPECT_GT(probe.macs_per_round, 0) << probe.name;
    probe.loop(100);
  }
  EXPECT_GE(present, 2);
}

TEST(DotProbes, TablesOfThisArchitectureHaveThem) {
  const auto probes = dot_probes();
  const auto table = dots_of_table("neon");
  ASSERT_TRUE(table.has_value());
  for (const Dot dot : {table->f32, table->bf16, table->int8})
    EXPECT_NE(probes[index_of(dot)].loop, nullptr) << probes[index_of(dot)].name;
  EXPECT_FALSE(dots_of_table("ref").has_value());
}

}  // namespace
}  // namespace quire::bench
