#!/usr/bin/env bash
# What `make install` puts in place is enough to build and run the program in README.md; `make uninstall` takes all of it away.
set -eu
cd "$(dirname "$0")/.."
B=${B:-build/release}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL
make -s install PREFIX="$dir/usr" VARIANT="${B##*/}"

export PKG_CONFIG_PATH=$dir/usr/lib/pkgconfig LD_LIBRARY_PATH=$dir/usr/lib
sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' >"$dir/read.c"
${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -o "$dir/read" "$dir/read.c" $(pkg-config --cflags --libs annblock)
ldd "$dir/read" | grep -qi hdf5 && { echo "a reader links HDF5"; exit 1; }
"$dir/usr/bin/annblock" pack examples/example.h5ad -o "$dir/s" 2>/dev/null
[ "$("$dir/read" "$dir/s" | wc -l)" -eq 3 ] || { echo "the program of README.md does not read a store"; exit 1; }
"$dir/read" "$dir/missing" 2>/dev/null && { echo "the program of README.md does not fail without a store"; exit 1; }
[ "$(pkg-config --modversion annblock)" = "$("$dir/usr/bin/annblock" --version | cut -d' ' -f2)" ] || { echo "versions differ"; exit 1; }
printf '#include <annblock/convert.h>\nint main(void) { return annb_pack("", "", 0, 0, 0) == 0; }\n' >"$dir/b.c"
${CC:-cc} -std=c11 -o "$dir/b" "$dir/b.c" $(pkg-config --cflags --libs annblock-convert) && "$dir/b"

make -s uninstall PREFIX="$dir/usr" VARIANT="${B##*/}" 2>/dev/null
left=$(find "$dir/usr" ! -type d)
[ -z "$left" ] || { echo "uninstall left $left"; exit 1; }
