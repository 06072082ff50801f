// Checks of flags that CLI11 lacks.
#pragma once

#include <CLI/CLI.hpp>

namespace quire {

// A number in [low, high]; CLI::Range lets NaN pass.
CLI::Validator finite_range(double low, double high);

}  // namespace quire
