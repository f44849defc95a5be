#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# With a stand-in for meson, whose second run ends as $SECOND says.
. "$(dirname "$0")/tap.sh"

bin=$scratch/bin
mkdir -p "$bin" "$scratch/build/meson-logs" "$scratch/out"
cat >"$bin/meson" <<'END'
#!/bin/sh
echo "$*" >asked
for last; do :; done
printf '{"name": "muster:integ / %s", "stdout": "", "result": "%s", "starttime": 1.0}\n' "$last" "$SECOND" >build/meson-logs/testlog.json
END
chmod +x "$bin/meson"
cd "$scratch"

line() { printf '{"name": "muster:%s / %s", "stdout": "%s", "result": "%s", "starttime": 1.0}\n' "$@"; }
again() { # again SECOND: what tally makes of the log afterwards
    rm -f asked out/again
    PATH="$bin:$PATH" SECOND=$1 "$root/tools/again" build out/plain.log 3
    "$root/tools/tally" out/plain.log
}

line integ rest '' FAIL >out/plain.log
line integ chaos '' OK >>out/plain.log
says 'passes alone: counts, and' '2 passed, 0 failed' again OK
accepts 'is named as a race' grep -q 'rest failed beside others and passes alone: a race' out/again
accepts 'alone, with the time the build needs' grep -q -e '--num-processes 1 --timeout-multiplier 3 rest$' asked
line integ rest '' FAIL >out/plain.log
MUSTER_FIRST_TRY=1
export MUSTER_FIRST_TRY
refuses 'or not, where the first try counts' '0 passed, 1 failed' again OK
unset MUSTER_FIRST_TRY
line integ+slow rest '' FAIL >out/plain.log
says 'a test in two suites' '1 passed, 0 failed' again OK
line integ rest '' TIMEOUT >out/plain.log
refuses 'fails twice: a failure' '0 passed, 1 failed' again FAIL
refuses 'and is no race' . cat out/again
line unit cells '' FAIL >out/plain.log
refuses 'a pure test has no second try' '0 passed, 1 failed' again OK
refuses 'meson is not asked' . cat asked
: >out/plain.log
for name in a b c d e f; do line integ $name '' FAIL >>out/plain.log; done
refuses 'six are no chance' '0 passed, 6 failed' again OK
line integ rest 'a, \"result\": \"FAIL\" it said' OK >out/plain.log
says 'what a test prints is its own affair' '1 passed, 0 failed' again FAIL
refuses 'and is not tried again' . cat asked
finish
