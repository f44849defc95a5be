#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_holds.sh MUSTER LIBRARY JOB FAKE_DIR - what holds a process that its gate does not: its cgroup frozen after a while, the process
# stopped where its host suffers behind a closed gate, and neither outliving the node side; shares by time slices; estimates before a
# rung; who uses a GPU where there is no NVML. A directory stands for the cgroups. TAP on standard output.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256 MUSTER_GPU_EPS=100 MUSTER_GPU_FREEZE=1 MUSTER_GPU_CGROUP_DIR="$dir/cgroup"
export MUSTER_GPU_DRIVER_DIR="$dir/nvidia" MUSTER_GPU_DEVICE_DIR="$dir/dev"
state_of() { sed 's/.*) //' "/proc/$1/stat" | cut -c1; }
agent_start() { "$muster" gpu agent & agent=$! && own $agent && until_true 30 '"$muster" gpu ls >/dev/null 2>&1'; }

# ---- frozen
where=$(sed -n "s|^0::|$dir/cgroup|p" /proc/self/cgroup)
agent_start
"$muster" gpu run -- "$job" 16 1000000 4 >/dev/null 2>&1 & one=$!
own $one
until_true 60 'moves $one'
if [ -n "$where" ]; then
    mkdir -p "$where"
    echo 0 >"$where/cgroup.freeze"
    printf '%s\n%s\n' $one $$ >"$where/cgroup.procs"
    "$muster" gpu pause $one >/dev/null
    sleep 2.5 # what may not happen has had its time
    check "a cgroup that others are in is not frozen" '[ "$(cat "$where/cgroup.freeze")" = 0 ] && [ -z "$(field $one held)" ]'
    echo $one >"$where/cgroup.procs"
    check "one that is the job's own is, after the while" 'until_true 30 "[ \"\$(cat \"$where/cgroup.freeze\")\" = 1 ] && [ \"\$(field $one held)\" = frozen ]"'
    "$muster" gpu resume $one >/dev/null
    check "and is let go of before it goes on" '[ "$(cat "$where/cgroup.freeze")" = 0 ] && moves $one'
    "$muster" gpu pause $one >/dev/null
    until_true 30 '[ "$(cat "$where/cgroup.freeze")" = 1 ]'
    kill -9 $agent; wait $agent 2>/dev/null
    check "the node side killed: nobody stays frozen" 'until_true 30 "[ \"\$(cat \"$where/cgroup.freeze\")\" = 0 ]"'
    agent_start
    check "and it goes on" 'until_true 60 "moves $one"'
else
    echo "# no cgroup of the one hierarchy here: not tried"
fi
kill -9 $one; wait $one 2>/dev/null

# ---- ranks that are held for long: their watchdogs would end the job
kill -9 $agent; wait $agent 2>/dev/null
export MUSTER_GPU_WATCHDOG=2
agent_start
words="one of several ranks, held for [0-9]* s: watchdogs of collectives end such a job after 10 minutes; resume it, or have it save itself"
export MUSTER_JOB_ID=ranks
"$muster" gpu run --movable -- "$job" 16 1000000 4 >/dev/null 2>&1 & one=$!
own $one
"$muster" gpu run --movable -- "$job" 16 1000000 4 >/dev/null 2>&1 & two=$!
own $two
MUSTER_JOB_ID=single "$muster" gpu run --movable -- "$job" 16 1000000 4 >/dev/null 2>&1 & three=$!
own $three
unset MUSTER_JOB_ID MUSTER_GPU_WATCHDOG
until_true 60 'moves $one && moves $two && moves $three'
told() { "$muster" gpu ls | grep -q "^$1: $words" && "$muster" gpu top -n 1 | grep -q "^$1: $words" && "$muster" gpu ls --json | grep -o "\"pid\":$1,[^}]*" | grep -q "$words"; }
"$muster" gpu pause --job ranks >/dev/null
"$muster" gpu pause $three >/dev/null
check "ranks that were just paused: nothing is said" '! told $one && ! told $two'
check "after the while it is, of each, with what to do" 'until_true 20 "told $one && told $two"'
check "also of an eviction, which does not begin the time anew" '"$muster" gpu evict --job ranks >/dev/null && told $one'
check "of a program that is alone nothing is said" '! told $three'
check "nor of ranks that go on" '"$muster" gpu resume --job ranks >/dev/null && ! told $one && ! told $two && moves $one'
kill -9 $one $two $three; wait $one $two $three 2>/dev/null

# ---- stopped
JOB_GAP_US=5000 JOB_SLOW="$dir/slow" "$muster" gpu run --role guaranteed -- "$job" 16 1000000 4 >/dev/null 2>&1 & rg=$!
own $rg
until_true 60 'moves $rg'
"$muster" gpu run --role opportunistic -- "$job" 16 1000000 4 >/dev/null 2>&1 & ot=$!
own $ot
until_true 60 '[ "$(field $ot gate)" = harvest ]'
gets_on $rg steps 400 # by then what alone is has been measured
echo 60000 >"$dir/slow"
check "a host that suffers behind a closed gate: its neighbour is stopped" 'until_true 90 "[ \"\$(field $ot held)\" = stopped ]" && [ "$(state_of $ot)" = T ] && [ "$(field $ot gate)" = closed ]'
check "and the host goes on" 'moves $rg'
kill -9 $agent; wait $agent 2>/dev/null
check "the node side killed: nobody stays stopped" 'until_true 30 "[ \"\$(state_of $ot)\" != T ]"'
kill -9 $rg $ot; wait $rg $ot 2>/dev/null
rm -f "$dir/slow"

# ---- shares
agent_start
"$muster" gpu run -- "$job" 16 1000000 4 >/dev/null 2>&1 & one=$!
"$muster" gpu run -- "$job" 16 1000000 4 >/dev/null 2>&1 & two=$!
own $one
own $two
until_true 60 'moves $one && moves $two'
"$muster" gpu set $one share=0.75 >/dev/null
check "one share alone is kept by the gate" 'until_true 30 "[ \"\$(field $one gate)\" = duty ] && [ \"\$(field $one slice_us)\" = 0 ]"'
"$muster" gpu set $two share=0.25 >/dev/null
check "two are, by slices in their proportion, and the gates are open" \
    'until_true 30 "[ \"\$(field $one slice_us)\" = 3000 ] && [ \"\$(field $two slice_us)\" = 1000 ] && [ \"\$(field $one gate)\" = open ] && [ \"\$(field $two gate)\" = open ]"'
"$muster" gpu set $two share=1 >/dev/null
check "and taken back when one of them has all again" 'until_true 30 "[ \"\$(field $one gate)\" = duty ] && [ \"\$(field $two slice_us)\" = 0 ]"'
kill -9 $one $two; wait $one $two 2>/dev/null

# ---- estimates
"$muster" gpu run --movable -- "$job" 64 1000000 4 >/dev/null 2>&1 & one=$!
own $one
until_true 60 'moves $one' && until_true 30 '[ "$(field $one used_bytes)" = 67108864 ]'
check "an estimate names every rung and the one that would do" \
    '"$muster" gpu estimate --free 60M $one >"$dir/said" && [ "$(grep -c "^pause\|^evict\|^release\|^checkpoint" "$dir/said")" = 4 ] && grep -q "^evict  *yes  *64 .*\*" "$dir/said"'
check "suspend goes as far as is needed" '"$muster" gpu suspend $one >/dev/null && [ "$(field $one state)" = paused ] && "$muster" gpu suspend --free 60M $one >/dev/null && [ "$(field $one state)" = evicted ]'
check "more than there is: refused, with what to do" '! "$muster" gpu suspend --free 100G $one 2>"$dir/err" && grep -q "muster gpu checkpoint" "$dir/err"'
check "and back" '"$muster" gpu resume $one >/dev/null && moves $one'
kill -9 $one $agent; wait $one $agent 2>/dev/null

# ---- without NVML
mkdir -p "$dir/nvidia/gpus/0000:3b:00.0" "$dir/dev" "$dir/bare"
printf 'Model: \t\t Fake GPU\nGPU UUID: \t GPU-40404040-4040-4040-4040-404040404040\nDevice Minor: \t 3\n' >"$dir/nvidia/gpus/0000:3b:00.0/information"
: >"$dir/dev/nvidia3"
: >"$dir/dev/nvidiactl"
ln -s "$fake/libcuda.so.1" "$dir/bare/"
sleep 300 <"$dir/dev/nvidia3" & other=$!
sleep 300 <"$dir/dev/nvidiactl" & none=$!
own $other
own $none
export LD_LIBRARY_PATH="$dir/bare"
agent_start
check "without NVML: who has a GPU open is foreign" 'until_true 30 "\"$muster\" gpu ls --json | grep -q \"{.pid.:$other,.role.:.foreign.,.used_bytes.:0,.gpu.:.40404040\""'
check "who has only the control device open is not" '! "$muster" gpu ls --json | grep -q "\"pid\":$none,"'
done_testing
