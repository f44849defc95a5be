#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_ladder.sh MUSTER LIBRARY JOB FAKE_DIR - a job on the fake driver through every rung of the ladder, by the command
# a user types. The job checks each byte it can reach in every step; TAP on standard output.
set -u
muster=$1 library=$2 job=$3 fake=$4
dir=$(mktemp -d)
export MUSTER_GPU_RUN_DIR="$dir" MUSTER_GPU_LIBRARY="$library" FAKE_CUDA_DIR="$dir" LD_LIBRARY_PATH="$fake"
export MUSTER_GPU_CONTEXT=0 FAKE_CUDA_MEMORY=512 FAKE_CUDA_DEVICES=2 MUSTER_GPU_SLICE=1 MUSTER_GPU_CLAIM_SECONDS=2
export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0
unset MUSTER_GPU_SOCKET
n=0 failed=0
ok() { n=$((n + 1)); echo "ok $n - $1"; }
bad() { n=$((n + 1)); failed=1; echo "not ok $n - $1"; }
check() { if eval "$2"; then ok "$1"; else bad "$1"; fi; }
field() { "$muster" gpu ls --json | sed -n "s/.*\"pid\":$pid,[^}]*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }
steps_move() { a=$(field steps); sleep 0.5; b=$(field steps); [ "$b" -gt "$a" ]; }
cleanup() {
    [ -n "${pid:-}" ] && kill -9 "$pid" 2>/dev/null
    [ -n "${agent:-}" ] && kill "$agent" 2>/dev/null
    rm -rf "$dir"
}
trap cleanup EXIT

mkdir -p "$dir/nvidia/gpus/0000:40:00.0" "$dir/nvidia/gpus/0000:4a:00.0"
printf 'Model: \t Fake\nGPU UUID: \t GPU-40404040-4040-4040-4040-404040404040\n' >"$dir/nvidia/gpus/0000:40:00.0/information"
printf 'Model: \t Fake\nGPU UUID: \t GPU-41414141-4141-4141-4141-414141414141\n' >"$dir/nvidia/gpus/0000:4a:00.0/information"
export MUSTER_GPU_DRIVER_DIR="$dir/nvidia"
"$muster" gpu agent &
agent=$!
sleep 0.3
JOB_BUS="$dir/bus" "$muster" gpu run --role opportunistic --memory 256M --host-pool 128M -- "$job" 128 100000 16 >"$dir/out" 2>"$dir/err" &
pid=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    s=$(field steps)
    [ "${s:-0}" -gt 3 ] && break
    sleep 0.2
done
check "the job is registered and makes steps" '[ "$(field steps)" -gt 3 ]'
check "its memory is counted" '[ "$(field used_bytes)" = 134217728 ]'
check "all of it can be moved" '[ "$(field movable_bytes)" = 134217728 ]'

check "pause" '"$muster" gpu pause $pid >/dev/null'
sleep 0.3 # the step that was just complete is still counted
a=$(field steps); sleep 0.4; b=$(field steps)
check "a paused job makes no steps" '[ "$a" = "$b" ]'
check "resume" '"$muster" gpu resume $pid >/dev/null'
check "a resumed job makes steps" steps_move

check "pause at a boundary" '"$muster" gpu pause --at-boundary $pid >/dev/null'
sleep 0.2
check "no step was cut in two" '[ $(($(field launches) % 18)) = 0 ] && [ "$(field state)" = paused ]'
check "and on" '"$muster" gpu resume $pid >/dev/null && steps_move'

check "evict" '"$muster" gpu evict $pid >/dev/null'
check "an evicted job holds no device memory" '[ "$(field used_bytes)" = 0 ] && [ "$(field saved_bytes)" = 134217728 ]'
check "resume brings it home" '"$muster" gpu resume $pid >/dev/null && [ "$(field used_bytes)" = 134217728 ]'
check "and it makes steps" steps_move

check "lower the limit" '"$muster" gpu set $pid memory=64M >/dev/null'
check "what is above it lies in host memory" '[ "$(field used_bytes)" -le 67108864 ] && [ "$(field host_bytes)" -ge 67108864 ]'
check "the job still runs" steps_move
check "raise it again" '"$muster" gpu set $pid memory=256M >/dev/null'
check "all is home" '[ "$(field used_bytes)" = 134217728 ] && [ "$(field host_bytes)" = 0 ]'

check "release" '"$muster" gpu release $pid >/dev/null'
check "the journal says so" 'grep -q checkpointed "$dir/guard-$pid.journal"'
check "restore" '"$muster" gpu restore $pid >/dev/null'
check "a restored job makes steps" steps_move
check "the journal is gone" '[ ! -e "$dir/guard-$pid.journal" ]'

check "the other GPU is not this machine's: told, and still released" \
    '"$muster" gpu release $pid >/dev/null && "$muster" gpu restore --gpu 99999999999999999999999999999999 $pid 2>&1 |
     grep -q "restore without --gpu" && [ "$(field state)" = released ]'
check "the program sees its GPU's bus address" '[ "$(cat "$dir/bus")" = "0000:40:00.0 40" ]'
check "restore on another GPU" '"$muster" gpu restore --gpu GPU-41414141-4141-4141-4141-414141414141 $pid >/dev/null'
check "it runs there" '[ "$(field gpu)" = 41414141414141414141414141414141 ] && steps_move'
check "and sees the other one's bus address, whatever the driver says" '[ "$(cat "$dir/bus")" = "0000:4A:00.0 4a" ]'

check "an unknown process is named" '"$muster" gpu pause 999999 2>&1 | grep -q "999999"'
check "an unknown key is refused" '! "$muster" gpu set $pid colour=1 2>/dev/null'

# The node side dies while the job is evicted: the job comes home by itself.
check "evict once more" '"$muster" gpu evict $pid >/dev/null'
kill -9 $agent; wait $agent 2>/dev/null
sleep 6
"$muster" gpu agent & agent=$!
for _ in $(seq 30); do
    s=$(field steps)
    [ "${s:-0}" -gt 3 ] && break
    sleep 0.5
done
check "after the node side died the job is home and runs" '[ "$(field used_bytes)" = 134217728 ] && steps_move'
# It dies while the job is released: the guardian restores it, and it comes home.
check "release once more" '"$muster" gpu release $pid >/dev/null'
kill -9 $agent; wait $agent 2>/dev/null
sleep 8
check "the guardian gave the job back" '[ ! -e "$dir/guard-$pid.journal" ]'
"$muster" gpu agent & agent=$!
for _ in $(seq 30); do
    s=$(field steps 2>/dev/null)
    [ "${s:-0}" -gt 3 ] && break
    sleep 0.5
done
check "and it runs at home" '[ "$(field used_bytes)" = 134217728 ] && steps_move'

kill -9 $pid; wait $pid 2>/dev/null

# Two ranks that wait for one another in every step stop after the same one, and go on together.
# What they say themselves is compared: each counts, for the node side, from when it was first noticed.
export MUSTER_JOB_ID=ranks JOB_RANKS=2 JOB_BARRIER="$dir/barrier" JOB_TALK=1
"$muster" gpu run --role opportunistic -- "$job" 32 1000000 16 >/dev/null 2>"$dir/talk1" & first=$!
"$muster" gpu run --role opportunistic -- "$job" 32 1000000 16 >/dev/null 2>"$dir/talk2" & second=$!
unset MUSTER_JOB_ID JOB_RANKS JOB_BARRIER
steps_of() { (pid=$1; field steps); }
said() { grep -c "^step" "$dir/talk$1"; }
# soon CONDITION - within ten seconds, however busy the machine is.
soon() { for _ in $(seq 100); do eval "$1" && return 0; sleep 0.1; done; return 1; }
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
JOB_EARLY=50 "$muster" gpu run --role opportunistic -- "$job" 32 1000000 16 >/dev/null 2>"$dir/talk2" & second=$!
unset MUSTER_JOB_ID JOB_RANKS JOB_BARRIER JOB_TALK
soon '[ "$(said 1)" -gt 3 ] && [ "$(said 2)" -gt 3 ] && [ -n "$(steps_of $first)" ] && [ -n "$(steps_of $second)" ]'
for round in 1 2 3; do
    begin=$(date +%s%N)
    check "ranks that count differently are paused after one step, round $round" \
        '"$muster" gpu pause --job ranks --at-boundary >/dev/null && together && [ $(($(steps_of $second) - $(steps_of $first))) -gt 20 ]'
    echo "# $((($(date +%s%N) - begin) / 1000000)) ms"
    "$muster" gpu resume --job ranks >/dev/null
    sleep 0.3
done
check "both evicted and home" '"$muster" gpu evict --job ranks --at-boundary >/dev/null && "$muster" gpu resume --job ranks >/dev/null'
check "a job nobody runs is named" '"$muster" gpu pause --job none 2>&1 | grep -q none'
kill -9 $first $second; wait $first $second 2>/dev/null
sleep 0.3
check "a killed job is gone from the list" '[ -z "$(field steps)" ]'

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
echo "1..$n"
exit $failed
