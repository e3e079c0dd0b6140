#!/usr/bin/env bash
# The functions that the public headers declare, one a line, or with --map as a linker version script.
# exports.sh [--map] store|convert: of <annblock/annblock.h>, or those that <annblock/convert.h> adds.
set -eu
cd "$(dirname "$0")/.."
map=false
[ "$1" = --map ] && { map=true; shift; }

declared() { printf '#include <annblock/%s.h>\n' "$@" | ${CC:-cc} -std=c11 -Iinclude -E -P - | grep -oE '\bannb_[a-z0-9_]+\(' | tr -d ' (' | sort -u; }

case $1 in
  store) names=$(declared annblock) ;;
  convert) names=$(comm -13 <(declared annblock) <(declared annblock convert)) ;;
  *) echo "usage: exports.sh [--map] store|convert" >&2; exit 2 ;;
esac
if $map; then
  printf '{\n  global:\n'
  printf '    %s;\n' $names
  printf '  local:\n    *;\n};\n'
else
  printf '%s\n' $names
fi
