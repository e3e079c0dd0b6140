#!/usr/bin/env bash
# The direction of includes is include <- store <- reader <- convert; HDF5 stays in convert/, system calls in store/io.c.
set -u
cd "$(dirname "$0")/.."
failed=0
bad() { echo "$1"; failed=1; }

# Every include of the files below $1, as FILE:LINE:NAME.
includes() { grep -rnoE '^ *# *include *[<"][^>"]+[>"]' --include='*.c' --include='*.h' "$@" 2>/dev/null | sed -E 's/# *include *[<"]//; s/[>"]$//'; }
# allow FOLDER REGEX WHY: only included names that match.
allow() {
  local line name
  while IFS= read -r line; do
    name=${line##*:}
    name=${name# }
    [[ $name =~ $2 ]] || bad "$line: $3"
  done < <(includes "$1")
}
deny() {
  local line name
  while IFS= read -r line; do
    name=${line##*:}
    name=${name# }
    [[ $name =~ $2 ]] && bad "$line: $3"
  done < <(includes "$1")
}

allow include '^(annblock/[a-z]+\.h|[a-z]+\.h)$' "public headers include only public and standard headers"
deny store '^(\.\./)+(reader|convert)/' "store/ must not include from above"
deny reader '^(\.\./)+convert/' "reader/ must not include from above"
for folder in store reader; do
  deny $folder '^annblock/convert\.h$' "the converter's header is above $folder/"
  deny $folder '^(\.\./)*(tests|bench|examples)/' "library code must not include tests or programs"
done
deny convert '^(\.\./)+(tests|bench|examples)/' "library code must not include tests or programs"
deny convert '^(\.\./)?cli/' "the converter must not include from the command"
deny examples '^\.\./' "examples use the public headers only"
for folder in include store reader convert/cli examples; do
  deny $folder '^(hdf5|H5[A-Za-z]*)\.h$' "HDF5 is used in convert/ only"
done
deny convert/cli '(^|/)(h5|sidecar|transpose)\.h$' "the command uses the public API of the converter"

# System calls of store/ and reader/ are in store/io.c, so that there is one place to port and to test.
while IFS= read -r line; do
  case $line in store/io.c:*) ;; *) bad "$line: system calls belong to store/io.c" ;; esac
done < <(includes store reader | grep -E ':(unistd|fcntl|dirent|sys/[a-z]+)\.h$')
# Libraries do not print, ask the environment or end the process.
grep -nE '\b(printf|puts|fputs|perror|getenv|exit|abort)\(' $(find store reader convert -name '*.c' -not -path 'convert/cli/*') | grep -vE 'snprintf|vsnprintf|^\S+: *(/?\*|//)' && bad "libraries do not print, read the environment or exit"

[ $failed -eq 0 ] && echo "includes are in order"
exit $failed
