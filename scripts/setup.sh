#!/usr/bin/env bash
# Installs everything that building and testing Quire needs, and says what it does. Idempotent: what is
# there already is left alone. Runs as root, or with sudo. Debian 12 and Ubuntu 24.04.
#
#   scripts/setup.sh [EXTRA ...]     EXTRA: fuzz (clang 16), lint (clang-format and clang-tidy 16),
#                                    neon (cross compiler and qemu-user), js (Node.js)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly rust_minor_needed=88   # Rust 1.88: what the text crate's dependencies ask for

say() { echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo -E "$@"
  else die "needs root to run '$*': run it as root, or install sudo"
  fi
}

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
available() { # not `| grep -q`: it may leave before apt-cache has written all, which pipefail calls a failure
  local policy
  policy=$(apt-cache policy "$1" 2>/dev/null)
  [[ $policy =~ Candidate:\ [^\(] ]]
}

# A fresh machine may be busy installing for a while, as may another run of this script.
wait_for_others=(-o DPkg::Lock::Timeout=600)

index_is_fresh=""
update_index() {
  [ -n "$index_is_fresh" ] && return
  say "apt-get update"
  as_root apt-get update -qq "${wait_for_others[@]}"
  index_is_fresh=yes
}

# Installs those of the packages that are missing.
apt_install() {
  local missing=() package
  for package in "$@"; do installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} = 0 ] && return
  update_index
  say "apt-get install ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${wait_for_others[@]}" --no-install-recommends \
    "${missing[@]}" >/dev/null
}

# Sets boost to the packages of a Boost that is new enough: one that is there, else this distribution's.
find_boost() {
  local version
  for version in 1.81 1.83 1.88 1.90; do
    boost="libboost$version-dev libboost-json$version-dev"
    installed "libboost$version-dev" && return
  done
  update_index
  for version in 1.81 1.83 1.88 1.90; do
    boost="libboost$version-dev libboost-json$version-dev"
    available "libboost$version-dev" && return
  done
  die "no Boost from 1.81 on in this distribution's packages; Debian 12 and Ubuntu 24.04 have one"
}

rust_is_new_enough() {
  command -v cargo >/dev/null && command -v rustc >/dev/null || return 1
  local minor
  minor=$(rustc --version 2>/dev/null | sed -nE 's/^rustc 1\.([0-9]+).*/\1/p')
  [ -n "$minor" ] && [ "$minor" -ge "$rust_minor_needed" ]
}

install_rust() {
  rust_is_new_enough && return
  update_index
  if available cargo-web && [ "$(apt-cache policy cargo-web | sed -nE 's/.*Candidate: [^0-9]*1\.([0-9]+).*/\1/p')" -ge "$rust_minor_needed" ]; then
    apt_install cargo-web rustc-web
  else
    local name
    name=$(apt-cache pkgnames cargo-1. | sed -nE 's/^cargo-1\.([0-9]+)$/\1/p' | sort -n | tail -1)
    if [ -n "$name" ] && [ "$name" -ge "$rust_minor_needed" ]; then
      apt_install "cargo-1.$name" "rustc-1.$name"
      mkdir -p .cache/bin
      ln -sf "$(command -v "cargo-1.$name")" .cache/bin/cargo
      ln -sf "$(command -v "rustc-1.$name")" .cache/bin/rustc
    elif command -v rustup >/dev/null || available rustup; then
      command -v rustup >/dev/null || apt_install rustup
      say "rustup toolchain install stable"
      rustup toolchain install stable --profile minimal
      rustup default stable
    else
      die "needs Rust 1.$rust_minor_needed or newer (cargo and rustc on the PATH); this distribution has none: see https://rustup.rs"
    fi
  fi
  hash -r
  rust_is_new_enough || die "cargo on the PATH is older than 1.$rust_minor_needed: $(command -v cargo) ($(cargo --version 2>&1))"
}

# The Python of the end-to-end tests lives in .venv, so that nothing of the system changes.
install_python_tools() {
  local wanted=.venv/requirements.sha256
  if [ -x .venv/bin/python ] && sha256sum --check --status "$wanted" 2>/dev/null; then return; fi
  say "python packages of scripts/requirements.txt into .venv"
  [ -x .venv/bin/python ] || python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement scripts/requirements.txt
  sha256sum scripts/requirements.txt > "$wanted"
}

export PATH="$PWD/.cache/bin:$HOME/.cargo/bin:$PATH"
if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
  find_boost
  # shellcheck disable=SC2086
  apt_install ca-certificates git make g++ cmake ninja-build pkg-config ccache mold python3 python3-venv \
    $boost libcli11-dev libspdlog-dev libfmt-dev libexpected-dev libssl-dev zlib1g-dev \
    prometheus-cpp-dev libgtest-dev libgmock-dev libbenchmark-dev
  install_rust
  for extra in "$@"; do
    case $extra in
      fuzz) apt_install clang-16 libclang-rt-16-dev ;;
      lint) apt_install clang-format-16 clang-tidy-16 ;;
      neon) apt_install g++-aarch64-linux-gnu qemu-user googletest ;;
      js) command -v npm >/dev/null || apt_install nodejs npm ;;
      *) die "unknown extra '$extra': fuzz, lint, neon, js" ;;
    esac
  done
else
  say "no apt here: expecting the compilers and libraries of docs/getting-started.md to be installed"
  rust_is_new_enough || die "needs Rust 1.$rust_minor_needed or newer on the PATH"
fi
install_python_tools
say "done ($(c++ -dumpfullversion 2>/dev/null || true) c++, $(cargo --version), $(.venv/bin/python --version))"
