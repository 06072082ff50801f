#!/usr/bin/env bash
# Builds the fuzz targets with clang and runs each for SECONDS over its corpus. What crashes is written to
# build-fuzz/findings/ and fails the run: keep it as a test.
#   scripts/fuzz.sh [SECONDS] [TARGET ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-600}
[ $# -gt 0 ] && shift
cc=$(command -v clang-16 || command -v clang)
cmake -S . -B build-fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_CXX_COMPILER="${cc/clang/clang++}" -DQUIRE_FUZZ=ON -DQUIRE_BUILD_TESTS=OFF -DQUIRE_BUILD_BENCH=OFF \
  -DQUIRE_SANITIZE=address,undefined
cmake --build build-fuzz --target fuzzers -j "$(nproc)"
mkdir -p build-fuzz/findings
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(find build-fuzz/fuzz -maxdepth 1 -type f -executable -printf '%f\n' | sort)
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: no target was built" >&2; exit 1; }
for target in "${targets[@]}"; do
  name=${target%_fuzz}
  dict=fuzz/$name.dict
  [ -e "$dict" ] || dict=fuzz/json.dict
  work=build-fuzz/corpus/$target
  mkdir -p "$work"
  echo "fuzz: $target for $seconds s"
  "build-fuzz/fuzz/$target" "$work" "fuzz/seeds/$name" -dict="$dict" -max_total_time="$seconds" -timeout=20 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="build-fuzz/findings/$target-"
done
echo "fuzz: ${#targets[@]} targets, nothing found"
