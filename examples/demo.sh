#!/usr/bin/env bash
# Pack a file, look at the store, read batches, export and compare: demo.sh [FILE.h5ad]. `make demo` builds first and calls this.
set -eu
cd "$(dirname "$0")/.."
CLI=${CLI:-build/release/annblock}
EXAMPLES=${EXAMPLES:-build/release/examples}
source=${1:-examples/example.h5ad}
out=build/demo
name=$(basename "$source" .h5ad)
store=$out/$name.annblock
back=$out/$name.h5ad

[ -r "$source" ] || { echo "demo: cannot read $source" >&2; exit 1; }
mkdir -p "$out"
rm -rf "$store" "$back"

step() {
  printf '\n$ annblock %s\n' "$*"
  "$CLI" "$@"
}
now() { date +%s.%N; }
took=0
timed() {
  local began
  began=$(now)
  step "$@"
  took=$(awk -v a="$began" -v b="$(now)" 'BEGIN {print b - a}')
}
size() { find "$1" -type f -exec stat -c %s {} + | awk '{n += $1} END {print n}'; }
human() { awk -v n="$1" 'BEGIN {split("bytes KiB MiB GiB TiB", u, " "); i = 1; while (n >= 1024 && i < 5) {n /= 1024; i++}; printf((i > 1 ? "%.1f %s" : "%d %s"), n, u[i])}'; }

timed pack "$source" -o "$store"
pack_seconds=$took
step info "$store"
step head "$store" -n 3
step verify "$store"
if [ -x "$EXAMPLES/batches" ]; then
  printf '\n$ batches %s    # examples/batches.c\n' "$store"
  "$EXAMPLES/batches" "$store"
fi
timed export "$store" -o "$back"
export_seconds=$took
step convert-check "$source" "$back"

cells=$("$CLI" info "$store" --json | sed -n 's/^  "n_obs": \([0-9]*\),*$/\1/p')
note=
[ "$cells" -lt 100000 ] && note=" (of so few cells, mostly the time to start)"
before=$(size "$source") after=$(size "$store")
per_second() { awk -v n="$cells" -v s="$1" 'BEGIN {printf("%.2f s (%d cells/s)", s, (s > 0 ? n / s : 0))}'; }
cat <<END

Packed $source into $store, read from it, and exported it to $back, which holds the same.
  size    $(human "$before") as .h5ad, $(human "$after") as a store
  pack    $(per_second "$pack_seconds")
  export  $(per_second "$export_seconds")$note
Next: annblock --help, examples/batches.c for reading from C, and make demo H5AD=FILE for your own data.
END
