#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_failed.sh MUSTER LIBRARY JOB FAKE_DIR - a process that the driver gives up in the middle of a checkpoint (its state FAILED), in each
# of the four calls: listed so, orders refused by name, nothing tried again, the program told by the driver's own errors. TAP on
# standard output.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256 MUSTER_GPU_CLAIM_SECONDS=2 JOB_DEAF=1
told="the driver has given the process up: end it, and start it from its last checkpoint"
# begin HOW [CALL] - a node side whose guardians' call does that, and a job.
begin() {
    FAKE_CUDA_CKPT_RUIN=${2:+cuCheckpointProcess$2} "$muster" gpu agent 2>/dev/null & agent=$!
    own $agent
    answers
    "$muster" gpu run "$1" -- "$job" 32 1000000 4 >/dev/null 2>"$dir/err" & pid=$!
    own $pid
    until_true 10 '[ "$(field $pid steps)" -gt 3 ]'
}
end() { kill -9 $agent $pid; wait $agent $pid 2>/dev/null; }
# refused ORDER... - by name, with what to do.
refused() { ! "$muster" gpu "$@" >"$dir/said" 2>&1 && grep -q "process $pid: $told" "$dir/said"; }

last="--movable Checkpoint"
for both in "--native Lock" "--native Checkpoint" "--native Restore" "--native Unlock" "--movable Lock" "--movable Restore" "--movable Unlock" "$last"; do
    how=${both% *} call=${both#* } order=restore
    begin "$how" "$call"
    case $call in Lock | Checkpoint) order=release ;; *) "$muster" gpu release $pid >/dev/null ;; esac
    check "$both: the order names the error, and what to do" \
        '! "$muster" gpu $order $pid 2>"$dir/said" && grep -qi "driver.s $call gave error 999; $told" "$dir/said"'
    check "$both: listed as failed" \
        '[ "$(field $pid state)" = failed ] && "$muster" gpu ls | grep -q "^$pid: $told" && "$muster" gpu ls --json | grep -q "\"note\":\"$told\""'
    check "$both: the program gets the driver's own error" 'until_true 10 "grep -q \"launch failed\" \"$dir/err\"" && kill -0 $pid'
    check "$both: it has no guardian, and the journal says why" 'until_true 5 "[ -z \"\$(guardian_of $pid)\" ]" && grep -q failed "$dir/guard-$pid.journal"'
    [ "$both" = "$last" ] || end
done

for order in pause resume evict release restore "suspend --free 1" checkpoint baseline detach stats estimate; do
    check "refused by name: $order" 'refused $order $pid'
done
check "refused by name: set" 'refused set $pid memory=64M && refused set $pid share=0.5'
check "it is not frozen, and nothing of that ends it" 'kill -0 $pid && [ "$(field $pid state)" = failed ] && [ -z "$(field $pid held)" ]'
# Another node side, whose driver is in order: it knows, and tries nothing.
kill -9 $agent; wait $agent 2>/dev/null
"$muster" gpu agent & agent=$!
own $agent
check "the next node side lists it so" 'until_true 12 "[ \"\$(field $pid state)\" = failed ]" && refused resume $pid'
# Guardians are started within five seconds, if at all.
spawned=0 i=0
while [ $i -lt 30 ]; do [ -z "$(guardian_of $pid)" ] || spawned=1; sleep 0.2; i=$((i + 1)); done
check "and starts no guardian" '[ $spawned = 0 ]'
# A guardian that finds no journal asks the driver.
start=$(cut -d' ' -f2 "$dir/guard-$pid.journal")
rm -f "$dir/guard-$pid.journal"
timeout 30 "$muster" gpu guard --run-dir "$dir" $pid "$start" 2>"$dir/said"
guard=$?
check "a guardian without a journal is told by the driver, and leaves" '[ $guard = 1 ] && grep -q "$told" "$dir/said" && grep -q failed "$dir/guard-$pid.journal"'
"$muster" gpu run --movable -- "$job" 32 1000000 4 >/dev/null 2>"$dir/err2" & other=$!
own $other
check "others are released and restored as ever" \
    'until_true 10 "[ \"\$(field $other steps)\" -gt 3 ]" && "$muster" gpu release $other >/dev/null && "$muster" gpu restore $other >/dev/null && moves $other && [ ! -s "$dir/err2" ]'
check "a signal ends it" '"$muster" gpu signal $pid TERM | grep -q "^ok $pid: failed, signal TERM sent, which ends it" && gone $pid'
check "and its journal goes" 'until_true 10 "[ ! -e \"$dir/guard-$pid.journal\" ]"'
done_testing
