#!/usr/bin/env bash
# Install the packages that are missing: deps.sh GROUP… with the groups build, python, test, bench, valgrind, aarch64.
# Says nothing when nothing is missing. Debian and Ubuntu; elsewhere it names the packages and fails when a library is not found.
set -eu

build=(gcc libc6-dev make pkg-config libhdf5-dev liblz4-dev libxxhash-dev libdeflate-dev nettle-dev libjansson-dev)
python=(python3 python3-dev python3-venv)
test=(binutils check g++ libsimde-dev "${python[@]}")
bench=(libzstd-dev libblosc-dev liblz4-dev)
valgrind=(valgrind)
aarch64=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross make qemu-user)

wanted=()
for group in "$@"; do
  case $group in
    build) wanted+=("${build[@]}") ;;
    python) wanted+=("${python[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    bench) wanted+=("${bench[@]}") ;;
    valgrind) wanted+=("${valgrind[@]}") ;;
    aarch64) wanted+=("${aarch64[@]}") ;;
    *) echo "deps.sh: unknown group '$group' (build, python, test, bench, valgrind, aarch64)" >&2; exit 2 ;;
  esac
done

# Where there is no dpkg: what cannot be found by its own means.
elsewhere() {
  local missing=() p
  for p in "${wanted[@]}"; do
    case $p in
      gcc) command -v "${CC:-cc}" >/dev/null || missing+=("a C11 compiler") ;;
      g++ | libc6-dev | binutils) ;;
      make | valgrind | python3) command -v "$p" >/dev/null || missing+=("$p") ;;
      pkg-config) command -v pkg-config >/dev/null || missing+=(pkg-config) ;;
      python3-venv) python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=("Python's venv and ensurepip") ;;
      python3-dev) python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_config_h_filename()))' 2>/dev/null || missing+=("Python's C headers") ;;
      libhdf5-dev) pkg-config --exists hdf5 2>/dev/null || pkg-config --exists hdf5-serial 2>/dev/null || missing+=("HDF5 (hdf5)") ;;
      liblz4-dev) pkg-config --exists liblz4 2>/dev/null || missing+=("LZ4 (liblz4)") ;;
      libxxhash-dev) pkg-config --exists libxxhash 2>/dev/null || missing+=("xxHash (libxxhash)") ;;
      libdeflate-dev) pkg-config --exists libdeflate 2>/dev/null || missing+=("libdeflate (libdeflate)") ;;
      libzstd-dev) pkg-config --exists libzstd 2>/dev/null || missing+=("Zstandard (libzstd)") ;;
      libblosc-dev) echo '#include <blosc.h>' | "${CC:-cc}" -E - >/dev/null 2>&1 || missing+=("C-Blosc 1 (libblosc)") ;;
      nettle-dev) pkg-config --exists nettle 2>/dev/null || missing+=("Nettle (nettle)") ;;
      libjansson-dev) pkg-config --exists jansson 2>/dev/null || missing+=("Jansson (jansson)") ;;
      libsimde-dev) echo '#include <simde/x86/avx512.h>' | "${CC:-cc}" -fsyntax-only -xc - 2>/dev/null || missing+=("SIMDe's headers (simde)") ;;
      gcc-aarch64-linux-gnu) command -v "${AARCH64_CC:-aarch64-linux-gnu-gcc}" >/dev/null || missing+=("a C cross compiler for aarch64 (aarch64-linux-gnu-gcc)") ;;
      libc6-dev-arm64-cross) ;;
      qemu-user) command -v "${QEMU_AARCH64:-qemu-aarch64}" >/dev/null || missing+=("QEMU's user mode (qemu-aarch64)") ;;
      check) pkg-config --exists check 2>/dev/null || missing+=("Check (check)") ;;
    esac
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "annblock needs packages that are not installed, and this system has no apt-get to install them with." >&2
  printf '  %s\n' "${missing[@]}" >&2
  echo "Install them with the system's package manager (names in brackets are pkg-config's) and run make again." >&2
  return 1
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  elsewhere
  exit
fi

missing=()
for p in "${wanted[@]}"; do
  case $(dpkg-query -W -f '${Status}' "$p" 2>/dev/null) in
    *' installed') ;;
    *) missing+=("$p") ;;
  esac
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "annblock needs packages that are not installed. As root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing what annblock needs: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get "$@" >"$log" 2>&1; }
apt update -qq || echo "deps.sh: apt-get update failed; trying with the package lists that are there" >&2
apt install -y -qq --no-install-recommends "${missing[@]}" || {
  cat "$log" >&2
  echo "deps.sh: could not install ${missing[*]}" >&2
  exit 1
}
