#!/usr/bin/env bash
# Formats the C++ sources by .clang-format; with --check only says which differ. Nothing to do (and said
# so) where clang-format is missing: `scripts/setup.sh lint` installs it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tool=$(command -v clang-format-16 || command -v clang-format || true)
if [ -z "$tool" ]; then
  echo "format: clang-format is not installed, nothing checked"
  exit 0
fi
mapfile -t files < <(git ls-files --cached --others --exclude-standard 'src/*.h' 'src/*.cpp' 'app/*.h' 'app/*.cpp' 'bench/*.cpp' 'fuzz/*.cpp' 'tests/*.cpp')
if [ "${1:-}" = --check ]; then
  "$tool" --dry-run --Werror "${files[@]}"
  echo "format: ${#files[@]} files as .clang-format wants them"
else
  "$tool" -i "${files[@]}"
  echo "format: ${#files[@]} files"
fi
