#!/usr/bin/env bash
# clang-tidy over the sources (not the tests) that build/compile_commands.json knows; JOBS in parallel.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tool=$(command -v clang-tidy-16 || command -v clang-tidy) || { echo "tidy: clang-tidy is not installed: scripts/setup.sh lint" >&2; exit 1; }
git ls-files --cached --others --exclude-standard 'src/*.cpp' 'app/*.cpp' | grep -v _test.cpp |
  xargs -P "${JOBS:-$(nproc)}" -n 4 "$tool" -p build --quiet --extra-arg=-Wno-unknown-warning-option
echo "tidy: done"
