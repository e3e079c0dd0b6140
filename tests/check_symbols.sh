#!/usr/bin/env bash
# The shared libraries export exactly the functions of the public headers; libannblock does not know HDF5; private global
# names in the archives all start with annb_.
set -u
cd "$(dirname "$0")/.."
B=${B:-build/release}
failed=0
[ -e "$B/libannblock.so" ] && [ -e "$B/libannblock-convert.so" ] || { echo "$B has no libraries: make lib first"; exit 1; }
bad() { echo "$1"; failed=1; }

exported() { nm -D --defined-only "$1" | awk '$2 ~ /[A-Z]/ {print $3}' | sort -u; }
for pair in store:libannblock convert:libannblock-convert; do
  module=${pair%%:*} library=${pair##*:}
  difference=$(diff <(scripts/exports.sh "$module") <(exported "$B/$library.so")) || bad "$library.so: declared (<) and exported (>) differ:
$difference"
  [ -n "$(scripts/exports.sh "$module")" ] || bad "no functions found in the headers of $library"
done

needed=$(readelf -d "$B/libannblock.so" | grep NEEDED)
grep -qi hdf5 <<<"$needed" && bad "libannblock.so links HDF5"
nm -u "$B/libannblock.a" 2>/dev/null | grep -E ' H5[A-Z]' && bad "libannblock.a calls HDF5"
for library in libannblock libannblock-convert; do
  nm --defined-only -g "$B/$library.a" 2>/dev/null | awk 'NF == 3 {print $3}' | grep -vE '^annb_' && bad "$library.a: global names outside annb_"
  # Nothing that can be written to from several stores or threads at once.
  objdump -t "$B/$library.a" 2>/dev/null | awk '$2 == "O" || $3 == "O" {s = $2 == "O" ? $3 : $4; n = $NF; if (s ~ /^\.(data|bss|tdata|tbss)/ && s !~ /^\.data\.rel\.ro/) print n}' |
    grep . && bad "$library.a: mutable globals"
done

# A program can be linked against each.
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
printf '#include <annblock/annblock.h>\nint main(void) { return annb_version()[0] == 0; }\n' >"$dir/a.c"
printf '#include <annblock/annblock.h>\n#include <annblock/convert.h>\nint main(void) { return annb_pack("", "", 0, 0, 0) == 0; }\n' >"$dir/b.c"
${CC:-cc} -std=c11 -Iinclude -o "$dir/a" "$dir/a.c" -L"$B" -lannblock && LD_LIBRARY_PATH=$B "$dir/a" || bad "cannot link and run with -lannblock"
${CC:-cc} -std=c11 -Iinclude -o "$dir/b" "$dir/b.c" -L"$B" -lannblock-convert -lannblock && LD_LIBRARY_PATH=$B "$dir/b" || bad "cannot link and run with -lannblock-convert"

[ $failed -eq 0 ] && echo "symbols are in order"
exit $failed
