#!/usr/bin/env bash
# Run groups of tests and count them: run.sh c|scripts|python|package|torch|peers|annbatch…
#   B        build folder with tests/ and annblock     RUNNER  a command before each C test, like valgrind
#   VENV     virtual environment of the Python tests, default build/venv
#   T        only this C test                          ANNB_TEST_LONG=1  the slow tests too
# The last line is "N passed, N failed" (", N skipped").
set -u
cd "$(dirname "$0")/.."
B=${B:-build/release}
logs=$B/logs
mkdir -p "$logs"
export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$PWD/tests/lsan.supp:print_suppressions=0}
passed=0 failed=0 skipped=0 bad=()

count() { # name, passed, failed, log: one line, and the log when something failed
  passed=$((passed + $2)) failed=$((failed + $3))
  if [ "$3" -gt 0 ]; then
    bad+=("$1")
    printf 'FAIL  %s (%d passed, %d failed)\n' "$1" "$2" "$3"
    sed 's/^/      /' "$4" | tail -n 60
  else
    printf 'ok    %s (%d)\n' "$1" "$2"
  fi
}

# A Check program says "95%: Checks: 20, Failures: 1, Errors: 0" for each suite runner.
run_c() { # program
  local name=${1##*/} log checks bads status=0
  log=$logs/$name.log
  ${RUNNER:-} "$1" >"$log" 2>&1 </dev/null || status=$?
  read -r checks bads < <(sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 \2 \3/p' "$log" |
    awk '{c += $1; b += $2 + $3} END {print c + 0, b + 0}')
  [ "$checks" -eq 0 ] && checks=1
  [ "$status" -ne 0 ] && [ "$bads" -eq 0 ] && bads=1
  [ "$status" -ne 0 ] && echo "exit status $status" >>"$log"
  count "$name" $((checks - bads)) "$bads" "$log"
}

run_script() { # tests/check_*.sh
  local name=${1##*/} log
  log=$logs/$name.log
  if B=$B "$1" >"$log" 2>&1 </dev/null; then count "$name" 1 0 "$log"; else count "$name" 0 1 "$log"; fi
}

run_python() { # name of the log, tests and options
  local name=$1 log=$logs/$1.log last n p f e s
  shift
  n=$(nproc 2>/dev/null || echo 2)
  [ "$n" -gt 8 ] && n=8
  ANNBLOCK=$PWD/$B/annblock ANNBLOCK_TESTS=$PWD/$B/tests "${VENV:-build/venv}/bin/python" -m pytest -q -ra -p no:cacheprovider -n "$n" "$@" >"$log" 2>&1 </dev/null
  local status=$?
  last=$(grep -E '^(=+ )?([0-9]+ [a-z]+(, )?)+ in [0-9.]+s' "$log" | tail -n 1)
  number() { local v; v=$(grep -oE "[0-9]+ $1" <<<"$last" | head -n 1); echo "${v%% *}"; }
  p=$(number passed) f=$(number failed) e=$(number error) s=$(number skipped)
  f=$((${f:-0} + ${e:-0}))
  [ $status -ne 0 ] && [ "$f" -eq 0 ] && f=1
  skipped=$((skipped + ${s:-0}))
  grep '^SKIPPED' "$log"
  count "$name" "${p:-0}" "$f" "$log"
}

for group in "$@"; do
  case $group in
    c)
      for t in tests/test_*.c; do
        t=${t%.c}
        [ -z "${T:-}" ] || [ "${t##*/}" = "$(basename "$T" .c)" ] && run_c "$B/$t"
      done
      ;;
    scripts) for t in tests/check_*.sh; do run_script "$t"; done ;;
    python) run_python pytest tests ;;
    package) run_python package python/tests --ignore python/tests/with_torch --ignore python/tests/with_peers ;;
    torch) run_python torch python/tests/with_torch ;;
    peers) run_python peers python/tests/with_peers -k "not annbatch" ;;
    annbatch)
      VENV=${VENV_ANNBATCH:-build/venv-annbatch}
      if [ -e "$VENV" ]; then run_python annbatch python/tests/with_peers -k annbatch
      else echo "SKIPPED annbatch: it needs Python 3.12 or later"; skipped=$((skipped + 1)); fi
      ;;
    *) echo "run.sh: unknown group '$group' (c, scripts, python, package, torch, peers, annbatch)" >&2; exit 2 ;;
  esac
done
[ ${#bad[@]} -gt 0 ] && echo "failed: ${bad[*]}"
echo "$passed passed, $failed failed$([ "$skipped" -gt 0 ] && echo ", $skipped skipped")"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
