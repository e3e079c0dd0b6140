#!/usr/bin/env bash
# The environment of the tools that `make bench-convert` compares with: bench_venv.sh FOLDER. They need Python 3.12 or later; without one,
# or without a package index, it says so and succeeds: the benchmark then goes without them.
set -u
cd "$(dirname "$0")/.."
folder=$1
[ -e "$folder/.ready" ] && [ "$folder/.ready" -nt bench/requirements.txt ] && exit 0

new_enough() { "$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; }
find_python() {
  local p
  for p in ${PYTHON:-} python3 python3.12 python3.13 python3.14 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python3; do
    new_enough "$p" && echo "$p" && return
  done
  return 1
}

python=$(find_python) || { echo "bench: no Python 3.12 or later: without the other tools" >&2; exit 0; }
"$python" -m venv "$folder" && "$folder/bin/pip" install -qq --requirement bench/requirements.txt && touch "$folder/.ready" && exit 0
echo "bench: the other tools could not be installed: without them" >&2
rm -rf "$folder"
