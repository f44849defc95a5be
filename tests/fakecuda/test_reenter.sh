#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_reenter.sh MUSTER LIBRARY JOB FAKE_DIR - the library called again on a thread that is in it already, by a signal
# handler, and by what runs when a thread or the process ends. TAP on standard output.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256
# alone MODE... - without a node side; the program plays it.
alone() { env LD_PRELOAD="$library" MUSTER_GPU_ROLE=opportunistic STORM_PLAY=1 timeout 60 "$fake/fake_reenter" "$@" >"$dir/out" 2>&1; }
# told WHAT STATUS - and what the program said when it is not 0.
told() { if [ "$2" = 0 ]; then ok "$1"; else bad "$1"; fi; sed 's/^/# /' "$dir/out"; }

alone gate
told "a handler that launches at a closed gate waits there too, and both go on" $?
alone hold
told "a handler that launches on a thread that memory waits for is let in, and the memory moves" $?
alone thread
told "a thread that ends calls from its destructors" $?
alone exit
told "a process that exits gives its memory back, after the library has let go" $?
alone storm 2
told "a storm of signals while memory moves: no wait for itself, every launch seen, every byte given back" $?

# A handler that jumps out, so that a call never returns.
jumps() { role=$1; shift; env LD_PRELOAD="$library" MUSTER_GPU_ROLE=$role timeout -s KILL 60 "$fake/fake_jump" "$@" >"$dir/out" 2>&1; }
jumps opportunistic stacks
told "frames that have left the stack are told from those of an interrupted call" $?
jumps opportunistic held
told "a jump out of calls that wait until memory has moved leaves nothing behind" $?
jumps opportunistic fault
told "a thread that jumped out of a launch and sleeps does not count as inside" $?
jumps opportunistic gone
told "nor one that ended" $?
jumps opportunistic alloc
told "a jump out of an allocation leaves neither its signals blocked nor the next ones uncounted" $?
jumps opportunistic timers
told "launches are timed again after forty that were jumped out of" $?
jumps guaranteed wait
told "nor does one that jumped out of a wait count as waiting" $?
jumps opportunistic storm 2
told "a storm of jumps: orders are carried out, another thread goes on, counts are the driver's" $?

# The same beside others: the guaranteed job's gaps are learned under a lock, its neighbour's share spent under one.
"$muster" gpu agent >/dev/null 2>&1 & own $!
until_true 5 '"$muster" gpu ls >/dev/null'
JOB_GAP_US=2000 "$muster" gpu run --role opportunistic -- "$job" 8 1000000 4 >/dev/null 2>&1 & ot=$!
own $ot
until_true 10 '[ "$(field $ot steps)" -gt 3 ]'
timeout 60 "$muster" gpu run --role guaranteed --movable -- "$fake/fake_reenter" storm 2 >"$dir/out" 2>&1
told "in a guaranteed job" $?
kill -9 $ot
JOB_GAP_US=5000 "$muster" gpu run --role guaranteed -- "$job" 8 1000000 4 >/dev/null 2>&1 & rg=$!
own $rg
until_true 10 '[ "$(field $rg steps)" -gt 3 ]'
timeout 60 "$muster" gpu run --role opportunistic -- "$fake/fake_reenter" storm 2 >"$dir/out" 2>&1
told "in its neighbour" $?
done_testing
