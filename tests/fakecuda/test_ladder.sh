#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_ladder.sh MUSTER LIBRARY JOB FAKE_DIR - a job on the fake driver through every rung of the ladder, by the command
# a user types. The job checks each byte it can reach in every step; TAP on standard output.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=512 FAKE_CUDA_DEVICES=2 MUSTER_GPU_CLAIM_SECONDS=2

mkdir -p "$dir/nvidia/gpus/0000:40:00.0" "$dir/nvidia/gpus/0000:4a:00.0"
printf 'Model: \t Fake\nGPU UUID: \t GPU-40404040-4040-4040-4040-404040404040\n' >"$dir/nvidia/gpus/0000:40:00.0/information"
printf 'Model: \t Fake\nGPU UUID: \t GPU-41414141-4141-4141-4141-414141414141\n' >"$dir/nvidia/gpus/0000:4a:00.0/information"
export MUSTER_GPU_DRIVER_DIR="$dir/nvidia"
"$muster" gpu agent & agent=$!
own $agent
answers
JOB_TALK=1 JOB_BUS="$dir/bus" "$muster" gpu run --role opportunistic --memory 256M --host-pool 128M -- "$job" 128 100000 16 >"$dir/out" 2>"$dir/err" &
pid=$!
own $pid
until_true 10 '[ "$(field $pid steps)" -gt 3 ]'
check "the job is registered and makes steps" '[ "$(field $pid steps)" -gt 3 ]'
check "its memory is counted" '[ "$(field $pid used_bytes)" = 134217728 ]'
check "all of it can be moved" '[ "$(field $pid movable_bytes)" = 134217728 ]'

check "pause" '"$muster" gpu pause $pid >/dev/null'
check "a paused job makes no steps" 'until_true 5 "stands $pid"' # the one that was just complete may still be counted
check "resume" '"$muster" gpu resume $pid >/dev/null'
check "a resumed job makes steps" 'moves $pid'

check "pause at a boundary" '"$muster" gpu pause --at-boundary $pid >/dev/null'
check "no step was cut in two" '[ $(($(field $pid launches) % 18)) = 0 ] && [ "$(field $pid state)" = paused ]'
check "and on" '"$muster" gpu resume $pid >/dev/null && moves $pid'

check "evict" '"$muster" gpu evict $pid >/dev/null'
check "an evicted job holds no device memory" '[ "$(field $pid used_bytes)" = 0 ] && [ "$(field $pid saved_bytes)" = 134217728 ]'
check "resume brings it home" '"$muster" gpu resume $pid >/dev/null && [ "$(field $pid used_bytes)" = 134217728 ]'
check "and it makes steps" 'moves $pid'

check "lower the limit" '"$muster" gpu set $pid memory=64M >/dev/null'
check "what is above it lies in host memory" '[ "$(field $pid used_bytes)" -le 67108864 ] && [ "$(field $pid host_bytes)" -ge 67108864 ]'
check "the job still runs" 'moves $pid'
check "raise it again" '"$muster" gpu set $pid memory=256M >/dev/null'
check "all is home" '[ "$(field $pid used_bytes)" = 134217728 ] && [ "$(field $pid host_bytes)" = 0 ]'

check "release" '"$muster" gpu release $pid >/dev/null'
check "the journal says so" 'grep -q checkpointed "$dir/guard-$pid.journal"'
check "restore" '"$muster" gpu restore $pid >/dev/null'
check "a restored job makes steps" 'moves $pid'
check "the journal is gone" '[ ! -e "$dir/guard-$pid.journal" ]'

check "the other GPU is not this machine's: told, and still released" \
    '"$muster" gpu release $pid >/dev/null && "$muster" gpu restore --gpu 99999999999999999999999999999999 $pid 2>&1 |
     grep -q "restore without --gpu" && [ "$(field $pid state)" = released ]'
check "the program sees its GPU's bus address" '[ "$(cat "$dir/bus")" = "0000:40:00.0 40" ]'
check "restore on another GPU" '"$muster" gpu restore --gpu GPU-41414141-4141-4141-4141-414141414141 $pid >/dev/null'
check "it runs there" '[ "$(field $pid gpu)" = 41414141414141414141414141414141 ] && moves $pid'
check "and sees the other one's bus address, whatever the driver says" '[ "$(cat "$dir/bus")" = "0000:4A:00.0 4a" ]'

check "an unknown process is named" '"$muster" gpu pause 999999 2>&1 | grep -q "999999"'
check "an unknown key is refused" '! "$muster" gpu set $pid colour=1 2>/dev/null'

# The node side dies while the job is evicted: the job comes home by itself.
told() { grep -c "^step" "$dir/err"; } # by the job itself
again() { "$muster" gpu agent & agent=$! && own $agent && until_true 20 '[ -n "$(field $pid steps)" ]'; }
check "evict once more" '"$muster" gpu evict $pid >/dev/null'
kill -9 $agent; wait $agent 2>/dev/null
a=$(told)
check "it comes home when the lease has ended, by itself" 'until_true 20 "[ \$(told) -gt $a ]"'
again
check "after the node side died the job is home and runs" '[ "$(field $pid used_bytes)" = 134217728 ] && moves $pid'
# It dies while the job is released: the guardian restores it, and it comes home.
check "release once more" '"$muster" gpu release $pid >/dev/null'
kill -9 $agent; wait $agent 2>/dev/null
a=$(told)
check "the guardian gave the job back" 'until_true 20 "[ ! -e \"$dir/guard-$pid.journal\" ]"'
check "and it comes home" 'until_true 20 "[ \$(told) -gt $a ]"'
again
check "and it runs at home" '[ "$(field $pid used_bytes)" = 134217728 ] && moves $pid'

kill -9 $pid; wait $pid 2>/dev/null

# Two ranks that wait for one another in every step stop after the same one, and go on together.
# What they say themselves is compared: each counts, for the node side, from when it was first noticed.
export MUSTER_JOB_ID=ranks JOB_RANKS=2 JOB_BARRIER="$dir/barrier" JOB_TALK=1
"$muster" gpu run --role opportunistic -- "$job" 32 1000000 16 >/dev/null 2>"$dir/talk1" & first=$!
own $first
"$muster" gpu run --role opportunistic -- "$job" 32 1000000 16 >/dev/null 2>"$dir/talk2" & second=$!
own $second
unset MUSTER_JOB_ID JOB_RANKS JOB_BARRIER
steps_of() { field "$1" steps; }
said() { grep -c "^step" "$dir/talk$1"; }
soon() { until_true 10 "$1"; }
# Both stand, after the same step: for half a second neither says another.
together() {
    soon '[ "$(said 1)" = "$(said 2)" ]' || return 1
    at=$(said 1)
    sleep 0.5
    [ "$(said 1)" = "$at" ] && [ "$(said 2)" = "$at" ]
}
soon '[ "$(said 1)" -gt 3 ] && [ "$(said 2)" -gt 3 ] && [ -n "$(steps_of $first)" ] && [ -n "$(steps_of $second)" ]'
for round in 1 2 3; do
    check "both ranks are paused after one step, round $round" '"$muster" gpu pause --job ranks --at-boundary >/dev/null && together'
    a=$(said 1)
    check "and go on" '"$muster" gpu resume --job ranks >/dev/null && soon "[ \$(said 1) -gt $a ] && [ \$(said 2) -gt $a ]"'
done
kill -9 $first $second; wait $first $second 2>/dev/null
# The counts of ranks differ by how early each was noticed. They still stop after the same step, and soon.
export MUSTER_JOB_ID=ranks JOB_RANKS=2 JOB_BARRIER="$dir/barrier2"
"$muster" gpu run --role opportunistic -- "$job" 32 1000000 16 >/dev/null 2>"$dir/talk1" & first=$!
own $first
JOB_EARLY=50 "$muster" gpu run --role opportunistic -- "$job" 32 1000000 16 >/dev/null 2>"$dir/talk2" & second=$!
own $second
unset MUSTER_JOB_ID JOB_RANKS JOB_BARRIER JOB_TALK
soon '[ "$(said 1)" -gt 3 ] && [ "$(said 2)" -gt 3 ] && [ -n "$(steps_of $first)" ] && [ -n "$(steps_of $second)" ]'
for round in 1 2 3; do
    begin=$(date +%s%N)
    check "ranks that count differently are paused after one step, round $round" \
        '"$muster" gpu pause --job ranks --at-boundary >/dev/null && together && [ $(($(steps_of $second) - $(steps_of $first))) -gt 20 ]'
    echo "# $((($(date +%s%N) - begin) / 1000000)) ms"
    a=$(said 1)
    "$muster" gpu resume --job ranks >/dev/null
    soon '[ "$(said 1)" -gt $a ]'
done
check "both evicted and home" '"$muster" gpu evict --job ranks --at-boundary >/dev/null && "$muster" gpu resume --job ranks >/dev/null'
check "a job nobody runs is named" '"$muster" gpu pause --job none 2>&1 | grep -q none'
kill -9 $first $second; wait $first $second 2>/dev/null
check "a killed job is gone from the list" 'gone $first && gone $second && [ -z "$(field $pid state)" ]'

"$muster" gpu run --role opportunistic --memory 256M -- "$job" 128 20 16 >"$dir/out" 2>"$dir/err"
check "a job that ends by itself saw no wrong byte and left nothing" 'grep -q "^bad 0 used 0" "$dir/out"'
"$muster" gpu run --memory 32M --movable -- "$job" 128 5 16 >"$dir/out" 2>"$dir/err"
check "a movable job larger than its limit runs from host memory" 'grep -q "^bad 0 used 0" "$dir/out"'
WORLD_SIZE=2 "$muster" gpu run --role opportunistic --memory 32M --movable -- "$job" 128 5 16 >"$dir/out" 2>"$dir/err"
check "so does one rank of several, if it is asked for" 'grep -q "^bad 0 used 0" "$dir/out"'
WORLD_SIZE=2 "$muster" gpu run --role opportunistic --memory 32M -- "$job" 128 5 16 >"$dir/out" 2>"$dir/err"
check "by itself its memory is the driver's own" '! grep -q "^bad 0 used 0" "$dir/out"'
"$muster" gpu run --memory 32M --native -- "$job" 128 5 16 >"$dir/out" 2>"$dir/err"
check "a native one is out of memory" 'grep -q "out of memory" "$dir/err"'
done_testing
