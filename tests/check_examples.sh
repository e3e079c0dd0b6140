#!/usr/bin/env bash
# The C programs of examples/ run to their last line, over a store of the example's file.
set -eu
cd "$(dirname "$0")/.."
B=${B:-build/release}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$B/annblock" pack --quiet examples/example.h5ad -o "$dir/s"
nnz=$("$B/annblock" info "$dir/s" --json | sed -n '0,/^  "nnz": /s/^  "nnz": \([0-9]*\),*$/\1/p')
"$B/examples/minibatches" "$dir/s" plate >"$dir/out"
for epoch in 0 1 2; do echo "epoch $epoch: 2000 cells in 32 minibatches, $nnz nonzeros, 0 cells without a label"; done | diff - "$dir/out"
"$B/examples/minibatches" "$dir/s" | diff <(sed 's/, 0 cells.*//' "$dir/out") -
"$B/examples/batches" "$dir/s" >"$dir/out"
tail -n 1 "$dir/out" | grep -q '^cells/s ' || { echo "batches did not come to its end"; exit 1; }
! "$B/examples/minibatches" "$dir/s" nothing 2>"$dir/err" && grep -q "no column" "$dir/err"
