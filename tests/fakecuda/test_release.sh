#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_release.sh MUSTER LIBRARY JOB FAKE_DIR - the driver's checkpoint really takes a process' memory off the card, and every byte
# comes back: of native and movable programs, of plain, pooled and mapped memory, on the same GPU and on another, with calls of the
# driver that fail. The job looks at each byte in every step. TAP on standard output.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=96 FAKE_CUDA_DEVICES=2 FAKE_CUDA_SHARED="$dir/cards" JOB_KINDS=1 JOB_BYTES=1
unset FAKE_CUDA_CKPT_FAIL
# card N - pages that all processes hold of that card.
card() { od -An -t u8 -j $(($1 * 8)) -N 8 "$dir/cards" | tr -d ' '; }
first=40404040404040404040404040404040 second=41414141414141414141414141414141
# 32 MiB in segments, 256 KiB, 1 and 4 MiB.
all=$(((32 * 1024 + 256 + 1024 + 4096) / 4))

"$muster" gpu agent & agent=$!
own $agent
answers
# start HOW... - pid is a job that has its memory and makes steps. What is counted as a step may come before the memory does.
start() {
    "$muster" gpu run "$@" -- "$job" 32 1000000 4 >"$dir/out" 2>"$dir/err" & pid=$!
    own $pid
    until_true 10 '[ "$(card 0)" -ge $all ]'
    until_true 10 '[ "$(field $pid steps)" -gt 3 ]'
}
# whole - it goes on, and no byte is wrong; one that finds a wrong one ends.
whole() { moves $pid && kill -0 $pid && [ ! -s "$dir/err" ]; }
end() { kill -9 $pid; wait $pid 2>/dev/null; gone $pid; rm -f "$dir/cards"; }
order() { "$muster" gpu "$@" >"$dir/said" 2>&1; }

for how in --native --movable; do
    start $how
    check "$how: its memory is on the first card" 'echo "# $(card 0) pages"; [ "$(card 0)" = $all ]'
    check "$how: released, the card has it back" 'order release $pid && [ "$(card 0)" = 0 ]'
    check "$how: restored, it is there again" 'order restore $pid && [ "$(card 0)" = $all ]'
    check "$how: every byte" whole
    check "$how: on the other GPU the memory is that one's" \
        'order release $pid && order restore --gpu $second $pid && [ "$(card 0) $(card 1)" = "0 $all" ] && [ "$(field $pid gpu)" = $second ]'
    check "$how: every byte there" whole
    check "$how: it is released from there" 'order release $pid && [ "$(card 0) $(card 1)" = "0 0" ]'
    check "$how: and home" 'order restore --gpu $first $pid && [ "$(card 0) $(card 1)" = "$all 0" ] && [ "$(field $pid gpu)" = $first ]'
    check "$how: every byte at home" whole
    end
done

# Somebody took the card meanwhile: the driver refuses, the process stays released, and comes back when there is room.
start --native
pid1=$pid
order release $pid1
"$muster" gpu run --native -- "$job" 64 1000000 4 >/dev/null 2>&1 & other=$!
own $other
until_true 10 '[ "$(card 0)" = $((all + 32 * 256)) ]' # as the first, and 32 MiB more
check "no room on its card: told, and still released" \
    '! order restore $pid1 && grep -q "restore gave error 2" "$dir/said" && [ "$(field $pid1 state)" = released ]'
check "on the other card there is" 'order restore --gpu $second $pid1 && [ "$(card 1)" = $all ] && whole'
kill -9 $other; wait $other 2>/dev/null
end

# One call in ten of the driver's checkpoint fails, for a while: releases and restores to and fro, of both kinds.
kill -9 $agent; wait $agent 2>/dev/null
FAKE_CUDA_CKPT_FAIL=10 "$muster" gpu agent & agent=$!
own $agent
answers
start --native; native=$pid
start --movable; movable=$pid
rounds=0 refused=0 strange=0 until=$(($(date +%s) + 5)) to=$second
# asked ORDER... - until it is carried out; five times at most.
asked() {
    for try in 1 2 3 4 5; do
        order "$@" && return 0
        refused=$((refused + 1))
        grep -q "error [0-9]" "$dir/said" || { strange=$((strange + 1)); sed 's/^/# /' "$dir/said"; }
    done
    return 1
}
lost=0
while [ "$(date +%s)" -lt $until ] || [ $rounds -lt 6 ]; do
    for p in $native $movable; do
        asked release $p && asked restore --gpu $to $p || lost=$((lost + 1))
    done
    [ $to = $second ] && to=$first || to=$second
    rounds=$((rounds + 1))
done
echo "# $rounds rounds, $refused refused"
check "with one call in ten failing every order is carried out when it is asked for again" '[ $lost = 0 ] && [ $refused -gt 0 ]'
check "every refusal names the driver's error" '[ $strange = 0 ]'
pid=$native
check "native: every byte after that" whole
pid=$movable
check "movable: every byte after that" whole
done_testing
