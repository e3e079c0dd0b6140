#!/usr/bin/env bash
# Each public header compiles alone, as C11 and as C++.
set -u
cd "$(dirname "$0")/.."
failed=0
for h in include/annblock/*.h; do
  name=annblock/${h##*/}
  printf '#include <%s>\n#include <%s>\n' "$name" "$name" | ${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror -Iinclude -fsyntax-only -x c - || { echo "$name is not clean C11"; failed=1; }
  command -v "${CXX:-c++}" >/dev/null || continue
  printf '#include <%s>\n' "$name" | ${CXX:-c++} -std=c++11 -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only -x c++ - || { echo "$name is not clean C++11"; failed=1; }
done
exit $failed
