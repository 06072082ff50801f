#!/usr/bin/env bash
# clang-tidy over the sources (not the tests), JOBS in parallel. Files given as arguments: only those. DEEP=1 adds the
# path-sensitive analyzer, which takes four times as long (an hour on two cores). Its compile
# commands are those of a build folder without precompiled headers, each file for itself: both would hide a missing include.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tool=$(command -v clang-tidy-16 || command -v clang-tidy) || { echo "tidy: clang-tidy is not installed: scripts/setup.sh lint" >&2; exit 1; }
cmake --preset release -B build-lint -DQUIRE_PRECOMPILED_HEADERS=OFF -DCMAKE_UNITY_BUILD=OFF -DQUIRE_BUILD_TESTS=OFF -DQUIRE_BUILD_BENCH=OFF >/dev/null
sources() {
  git ls-files --cached --others --exclude-standard 'src/*.cpp' 'app/*.cpp' | grep -v _test.cpp
}
checks=()
[ -n "${DEEP:-}" ] || checks=(--checks=-clang-analyzer-*)
{ if [ $# -gt 0 ]; then printf '%s\n' "$@"; else sources; fi; } |
  xargs -P "${JOBS:-$(nproc)}" -n 4 "$tool" -p build-lint --quiet "${checks[@]}" --extra-arg=-Wno-unknown-warning-option
echo "tidy: done"
