#!/usr/bin/env bash
# An environment of tools that need Python 3.12 or later: newer_venv.sh FOLDER REQUIREMENTS… Without such a Python, or without a package
# index, it says so and succeeds, and there is no FOLDER: what asked for it goes without them.
set -u
cd "$(dirname "$0")/.."
folder=$1
shift
fresh() {
  local r
  for r in "$@"; do [ "$folder/.ready" -nt "$r" ] || return 1; done
}
fresh "$@" && exit 0

new_enough() { "$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; }
find_python() {
  local p
  for p in ${PYTHON:-} python3 python3.12 python3.13 python3.14 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python3; do
    new_enough "$p" && echo "$p" && return
  done
  return 1
}

python=$(find_python) || { echo "$folder: no Python 3.12 or later: without its tools" >&2; exit 0; }
"$python" -m venv "$folder" && "$folder/bin/pip" install -qq "${@/#/--requirement=}" && touch "$folder/.ready" && exit 0
echo "$folder: its tools could not be installed: without them" >&2
rm -rf "$folder"
