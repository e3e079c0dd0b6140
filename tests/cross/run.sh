#!/usr/bin/env bash
# Build the tests of kernels, Rice codecs and delivery for aarch64 and run them under QEMU's user mode. They need no library: tests/cross/check.h
# stands in for Check, and LZ4 is left out.
#   AARCH64_CC  the compiler    QEMU_AARCH64  what runs programs; empty on such a machine    CFLAGS  -O2 -g    T  only this test
set -eu
cd "$(dirname "$0")/../.."
B=${B:-build/aarch64}
cc=${AARCH64_CC:-aarch64-linux-gnu-gcc}
runner=${QEMU_AARCH64-qemu-aarch64}
flags=(-std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes
  -Wmissing-prototypes -Wvla -Werror -Iinclude -Itests/cross)
sources=(store/kernels/*.c store/codec/rice_*.c store/codec/codec.c store/codec/codec_plain.c store/codec/codec_count.c store/codec/codec_dict.c
  store/codec/deliver.c store/objects/whole.c store/status.c store/error.c tests/codec_help.c tests/avx512_emulated.c tests/cross/no_lz4.c)
read -ra optimise <<<"${CFLAGS:--O2 -g}"

mkdir -p "$B/obj" "$B/tests" "$B/logs"
for s in "${sources[@]}"; do "$cc" "${flags[@]}" "${optimise[@]}" -c -o "$B/obj/$(basename "$s" .c).o" "$s"; done

passed=0 failed=0
for t in ${T:-test_kernels test_codec_count test_codec_dict test_deliver}; do
  "$cc" "${flags[@]}" "${optimise[@]}" -static -o "$B/tests/$t" "tests/$t.c" "$B"/obj/*.o -lm
  log=$B/logs/$t.log
  if ${runner:+"$runner"} "$B/tests/$t" >"$log" 2>&1 </dev/null; then
    passed=$((passed + 1))
    printf 'ok    %s on aarch64 (%s)\n' "$t" "$(tail -n 1 "$log")"
  else
    failed=$((failed + 1))
    printf 'FAIL  %s on aarch64\n' "$t"
    tail -n 20 "$log" | sed 's/^/      /'
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
