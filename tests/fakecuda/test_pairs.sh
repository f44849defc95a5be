#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_pairs.sh MUSTER LIBRARY JOB FAKE_DIR - neighbours of every kind on the fake driver: drivers nobody tried, slices that do not
# stick, a host without gaps, floods of tiny launches, long kernels, two ranks on one GPU. TAP on standard output.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256 MUSTER_GPU_DRIVER_DIR="$dir/nvidia" MUSTER_GPU_EPS=100
unset MUSTER_GPU_SLICE
mkdir -p "$dir/nvidia"

"$muster" gpu agent & agent=$!
own $agent
answers
# pair RG_VARIABLES OT_VARIABLES - starts both; rg and ot are their processes.
pair() {
    env $1 "$muster" gpu run --role guaranteed -- "$job" 16 1000000 4 >/dev/null 2>&1 & rg=$!
    env $2 "$muster" gpu run --role opportunistic -- "$job" 16 1000000 4 >/dev/null 2>&1 & ot=$!
    own $rg
    own $ot
    until_true 8 '[ "$(field $ot gate)" = harvest ] || [ "$(field $ot gate)" = closed ]'
}
part() { kill -9 $rg $ot; wait $rg $ot 2>/dev/null; gone $rg; gone $ot; }

echo 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  999.10.01' >"$dir/nvidia/version"
pair JOB_GAP_US=20000 ""
check "a driver branch nobody tried: slices are off, with what to do" \
    'until_true 5 "field $ot note | grep -q \"MUSTER_GPU_SLICE=1 tries it\"" && [ "$(field $ot slice_ok)" = 0 ]'
check "the neighbour gets on all the same, by the gate alone" 'moves $ot'
check "the host's context comes back before its gaps end, once a gap" \
    'until_true 8 "[ \"\$(field $rg warmed)\" -gt 20 ]" && [ "$(field $rg warmed)" -le "$(($(field $rg steps) + 2))" ]'
check "check says so as well" '"$muster" gpu check | grep -q "^no  hardware time slices: this driver branch was never tried"'
part

echo 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04' >"$dir/nvidia/version"
pair JOB_GAP_US=20000 ""
check "a branch that was tried: slices are set and read back" \
    'until_true 5 "[ \"\$(field $ot slice_ok)\" = 1 ]" && [ "$(field $ot slice_us)" = 200 ] && [ "$(field $rg slice_us)" = 10000 ]'
kill -9 $ot; wait $ot 2>/dev/null
check "and taken back when the pair ends" 'until_true 5 "[ \"\$(field $rg slice_us)\" = 0 ]"'
part 2>/dev/null

pair JOB_GAP_US=20000 FAKE_SLICE_LIES=1
until_true 20 '[ "$(field $ot slice_us)" = 200 ]' # it was told
moves $ot
check "a slice that does not stick is off for good in that process, and the job runs" '[ "$(field $ot slice_ok)" = 0 ] && moves $ot'
part

pair "JOB_GAP_US=20000 MUSTER_GPU_WARM=0" ""
check "unless that is turned off" 'gets_on $rg steps 50 && moves $ot && [ "$(field $rg warmed)" = 0 ]'
part

# Without gaps there is nothing to harvest: the neighbour is paused, or gets what a full second's patience lets through.
pair "" ""
check "a host without gaps goes on" 'gets_on $rg steps 50'
check "its neighbour is held back" '[ "$(field $ot gate)" = harvest ] || [ "$(field $ot gate)" = closed ]'
part

# Ten thousand launches of nothing a step: none of them is lost, none of them waits for ever.
pair JOB_GAP_US=20000 "JOB_TINY=10000 JOB_KERNEL_US=0"
check "a flood of tiny launches gets through" 'gets_on $ot launches 1000'
check "and the host goes on" 'gets_on $rg steps 20'
echo "# slower by $(field $rg slowdown_permille) permille"
part

# Ranks of one opportunistic job wait for one another: none of them is held between two launches.
JOB_GAP_US=20000 "$muster" gpu run --role guaranteed -- "$job" 16 1000000 4 >/dev/null 2>&1 & rg=$!
own $rg
until_true 8 'moves $rg'
ranks=
for i in 1 2; do
    MUSTER_JOB_ID=ranks JOB_RANKS=2 JOB_BARRIER="$dir/barrier" "$muster" gpu run --role opportunistic -- "$job" 16 1000000 4 >/dev/null 2>&1 &
    own $!
    ranks="$ranks $!"
done
first=${ranks% *} second=${ranks##* }
first=${first# }
check "ranks beside a host go on" 'until_true 40 "moves $first && moves $second"'
seen=$(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do field $first gate; field $second gate; sleep 0.2; done | sort -u | tr '\n' ' ')
check "and are open or closed, never held between launches" 'echo "# gates: $seen"; case "$seen" in *harvest*|*duty*) false ;; *) [ -n "$seen" ] ;; esac'
kill -9 $rg $ranks; wait $rg $ranks 2>/dev/null
gone $rg; gone $first; gone $second

# Kernels of 20 ms fit no gap of 10: each waits for as long as one may, and then goes. Too hot to judge steps by, the GPU does not
# have the neighbour paused instead, which is what follows when they are.
kill -9 $agent; wait $agent 2>/dev/null
: >"$dir/nvml.users"
FAKE_NVML_FILE="$dir/nvml.users" "$muster" gpu agent & agent=$!
own $agent
answers
pair JOB_GAP_US=10000 "JOB_TINY=4 JOB_KERNEL_US=20000"
until_true 30 '[ "$(field $ot gate)" = harvest ]'
echo "clock 1200 1980 60" >"$dir/nvml.users"
check "kernels longer than any gap are let in to begin with" 'until_true 30 "[ \"\$(field $ot gate)\" = harvest ]"'
check "and not starved for good" 'gets_on $ot launches 8 && [ "$(field $ot gate)" = harvest ]'
: >"$dir/nvml.users"
check "judged again, they run or are paused, and the host goes on" 'gets_on $rg steps 50'
part

# A host that hangs in the middle of its work: after two seconds it counts as idle.
pair "" ""
kill -STOP $rg
check "a host that hangs holds nobody back for good" 'gets_on $ot steps 10'
check "and its helper, which turns no more, shows as degraded" 'until_true 10 "[ \"\$(field $rg helper)\" = degraded ]" && [ "$(field $ot helper)" = alive ]'
kill -CONT $rg
part

# Two guaranteed processes on one GPU: a gap of one is none of the other's, so the neighbour has a part of the time; and both
# end without holding it.
pair JOB_GAP_US=20000 ""
JOB_GAP_US=20000 "$muster" gpu run --role guaranteed -- "$job" 16 1000000 4 >/dev/null 2>&1 & second=$!
own $second
check "two guaranteed processes beside one neighbour: all get on" 'moves $rg && moves $second && moves $ot'
check "and nobody goes by the gaps of one of them" 'until_true 10 "[ \"\$(field $ot gate)\" = duty ] || [ \"\$(field $ot gate)\" = closed ]" && [ "$(field $ot gate)" != harvest ]'
kill -9 $second; wait $second 2>/dev/null
check "one of them gone, the pair goes on" 'gone $second && moves $ot && [ "$(field $ot gate)" != open ]'
part

# The node side and then the guaranteed job die: nobody tells the neighbour, and it goes on.
"$muster" gpu run --role guaranteed -- "$job" 16 1000000 4 >/dev/null 2>&1 & rg=$!
own $rg
until_true 20 'moves $rg'
JOB_TALK=1 "$muster" gpu run --role opportunistic -- "$job" 16 1000000 4 >/dev/null 2>"$dir/talk" & ot=$!
own $ot
until_true 20 '[ "$(field $ot gate)" = harvest ] || [ "$(field $ot gate)" = closed ]'
kill -9 $agent $rg; wait $agent $rg 2>/dev/null
steps=$(grep -c step "$dir/talk")
check "node side and host gone: the neighbour goes on by itself" 'until_true 60 "[ \"\$(grep -c step \"$dir/talk\")\" -gt $((steps + 200)) ]"'
done_testing
