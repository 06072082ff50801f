#!/usr/bin/env bash
# clang-tidy over the sources (not the tests), JOBS in parallel; of files given as arguments, only those and what is
# compiled with them. DEEP=1 adds the path-sensitive analyzer, which takes four times as long. It sees what the build
# compiles as one (eight files of a module, whose headers are read once), without precompiled headers, which are GCC's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tool=$(command -v clang-tidy-16 || command -v clang-tidy) || { echo "tidy: clang-tidy is not installed: scripts/setup.sh lint" >&2; exit 1; }
cmake --preset release -B build-lint -DQUIRE_PRECOMPILED_HEADERS=OFF -DQUIRE_BUILD_TESTS=OFF -DQUIRE_BUILD_BENCH=OFF >/dev/null
cmake --build build-lint --target quire_text_cargo >/dev/null  # its generated header
units() {
  sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' build-lint/compile_commands.json | while read -r unit; do
    [[ $unit == *quire_pch* ]] && continue
    if [ $# = 0 ]; then echo "$unit"; continue; fi
    for file in "$@"; do
      if [[ $unit == *"/$file" ]] || grep -q "/$file\"" "$unit"; then echo "$unit"; break; fi
    done
  done
}
checks="-bugprone-suspicious-include"
[ -n "${DEEP:-}" ] || checks+=",-clang-analyzer-*"
units "$@" | xargs -P "${JOBS:-$(nproc)}" -n 1 "$tool" -p build-lint --quiet "--checks=$checks" --extra-arg=-Wno-unknown-warning-option
echo "tidy: done"
