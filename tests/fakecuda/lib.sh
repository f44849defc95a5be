# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154,SC2034
# lib.sh - what the tests with the fake driver share: a directory of their own, TAP, jobs and what is listed of them.
# Sourced with `muster`, `library` and `fake` (where libcuda.so.1 is) set.
set -u
dir=$(mktemp -d)
export MUSTER_GPU_RUN_DIR="$dir" MUSTER_GPU_LIBRARY="$library" FAKE_CUDA_DIR="$dir" LD_LIBRARY_PATH="$fake"
export MUSTER_GPU_CONTEXT=0 MUSTER_GPU_SLICE=1 ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
unset MUSTER_GPU_SOCKET
n=0 failed=0 started=
ok() { n=$((n + 1)); echo "ok $n - $1"; }
bad() { n=$((n + 1)); failed=1; echo "not ok $n - $1"; }
check() { if eval "$2"; then ok "$1"; else bad "$1"; fi; }
done_testing() { echo "1..$n"; exit $failed; }
cleanup() {
    for p in $started; do kill -9 "$p" 2>/dev/null; done
    rm -rf "$dir"
}
trap cleanup EXIT
# own PID - ended with the test.
own() { started="$started $1"; }
# field PID NAME - what the node side says of a process.
field() { "$muster" gpu ls --json 2>/dev/null | sed -n "s/.*\"pid\":$1,[^}]*\"$2\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }
# until_true SECONDS CONDITION - four times as long, on a machine that is busy with other things as well.
until_true() {
    i=0
    while [ $i -lt $(($1 * 40)) ]; do
        eval "$2" 2>/dev/null && return 0
        sleep 0.1
        i=$((i + 1))
    done
    return 1
}
# listed PID - the node side knows it; one that was just started may not have got so far.
listed() { until_true 5 '[ -n "$(field '"$1"' state)" ]'; }
# moves PID - it makes steps; a machine under load may take a while to let it.
moves() { listed "$1" && before=$(field "$1" steps) && until_true 30 '[ "$(field '"$1"' steps)" -gt "$before" ]'; }
# gets_on PID NAME N - so many more of what is counted.
gets_on() { from=$(field "$1" "$2"); until_true 30 '[ "$(field '"$1 $2"')" -gt '"$((from + $3))"' ]'; }
# stands PID - it makes no step for half a second.
stands() { before=$(field "$1" steps); sleep 0.5; [ -n "$before" ] && [ "$(field "$1" steps)" = "$before" ]; }
# gone PID - the node side lists it no more.
gone() { until_true 10 '[ -z "$(field '"$1"' state)" ]'; }
# answers - a node side does.
answers() { until_true 10 '"$muster" gpu ls >/dev/null 2>&1'; }
# python_begins - `agent`, a node side for programs in Python, which lie in `here`; the test is skipped where there is no Python.
python_begins() {
    here=$(cd "$(dirname "$0")" && pwd)
    command -v python3 >/dev/null || { echo "1..0 # SKIP no python3"; exit 0; }
    "$muster" gpu agent & agent=$!
    own $agent
    answers
}
guardian_of() { pgrep -f "gpu guard --run-dir $dir $1 " | head -1; }
