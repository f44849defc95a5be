#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_count.sh LIBRARY COUNT FAKE_DIR - how many instructions a hooked launch costs beyond the driver's own function, which other
# programs on the machine cannot change. Counted by valgrind. TAP on standard output.
set -u
library=$1 count=$2
export LD_LIBRARY_PATH=$3 MUSTER_GPU_CONTEXT=0
launches=100000 n=0 failed=0
if ! command -v valgrind >/dev/null; then
    echo "1..0 # SKIP no valgrind"
    exit 0
fi
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

# instructions HOW [VARIABLE=VALUE]... - of so many launches by that way.
instructions() {
    how=$1
    shift
    env LD_PRELOAD="$library" "$@" valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null "$count" $launches "$how" 2>"$log" >&2 ||
        { echo 0; return; }
    sed -n 's/.*I *refs: *//p' "$log" | tr -d ,
}
# budget NAME MOST [VARIABLE=VALUE]... - what a launch costs more than the driver's own.
budget() {
    name=$1 most=$2
    shift 2
    real=$(instructions real "$@")
    hooked=$(instructions hooked "$@")
    n=$((n + 1))
    each=$(((hooked - real) / launches))
    if [ "$real" -gt 0 ] && [ "$hooked" -ge "$real" ] && [ $each -le "$most" ]; then
        echo "ok $n - $name: $each instructions, at most $most"
    else
        echo "not ok $n - $name: $each instructions, at most $most ($hooked and $real)"
        failed=1
    fi
}
# 200 cycles are the budget of a launch, and processors of today carry out two to four instructions a cycle. With nothing asked
# it is a look at one word, and a jump.
budget "with nothing asked" 50
budget "counted" 250 MUSTER_GPU_COUNT=1
budget "a guaranteed job's" 400 MUSTER_GPU_ROLE=guaranteed
budget "a neighbour's, the gate open" 250 MUSTER_GPU_ROLE=opportunistic
echo "1..$n"
exit $failed
