#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_journal.sh MUSTER LIBRARY JOB FAKE_DIR - the guardian killed before and after each call of the driver's, alone and together with the
# node side: the journal says what was under way, whoever comes next asks the driver how far that got, and the process is had back with
# every byte; also where the driver does not tell. TAP on standard output.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256 MUSTER_GPU_CLAIM_SECONDS=30 FAKE_CUDA_CKPT_KILL="$dir/kill"
agent= pid=
# node [VARIABLE=VALUE] - another node side; what runs under it stays.
node() {
    [ -z "$agent" ] || { kill -9 $agent; wait $agent; } 2>/dev/null
    env "$@" "$muster" gpu agent 2>/dev/null & agent=$!
    own $agent
    answers
    [ -z "$pid" ] || until_true 12 '[ -n "$(field $pid steps)" ]'
}
node
"$muster" gpu run --role opportunistic -- "$job" 32 1000000 4 >/dev/null 2>"$dir/err" & pid=$!
own $pid
until_true 10 '[ "$(field $pid steps)" -gt 3 ]'
whole() { moves $pid && kill -0 $pid && [ ! -s "$dir/err" ]; }
journal=$dir/guard-$pid.journal
# order_of CALL - which order makes it; released first where that is a restore.
order_of() { case $1 in Lock | Checkpoint) order=release ;; *) order=restore && "$muster" gpu release $pid >/dev/null ;; esac; }
under_way() {
    case $1 in Lock) word=locking ;; Checkpoint) word=checkpointing ;; Restore) word=restoring ;; *) word=unlocking ;; esac
    grep -q " $word [1-9][0-9]* [0-9a-f]\{32\}$" "$journal.then"
}

# The guardian alone: the order that is under way is carried out by another.
for call in Lock Checkpoint Restore Unlock; do
    for when in before after; do
        order_of $call
        echo "cuCheckpointProcess$call $when" >"$dir/kill"
        check "guardian killed $when $call: the order is carried out" \
            '"$muster" gpu $order $pid >"$dir/said" 2>&1 && [ ! -e "$dir/kill" ] && { [ $order != release ] || [ "$(field $pid state)" = released ]; }'
        [ $order != release ] || "$muster" gpu restore $pid >/dev/null
        check "guardian killed $when $call: and every byte is there" whole
    done
done

# With the node side: the next one finds the process where it was left, in its lease, and has it back.
for driver in FAKE_CUDA_FAIL= FAKE_CUDA_FAIL=cuCheckpointProcessGetState:0:1; do
    silent=${driver#FAKE_CUDA_FAIL=}
    for call in Lock Checkpoint Restore Unlock; do
        for when in before after; do
            [ -z "$silent" ] || [ $when = after ] || continue
            name="both killed $when $call${silent:+, and the driver does not say where it is}"
            order_of $call
            # As it was when they were killed: a guardian that was started late may be there to take over at once.
            rm -f "$journal.then"
            echo "cuCheckpointProcess$call $when $agent $journal" >"$dir/kill"
            "$muster" gpu $order $pid >"$dir/said" 2>&1
            check "$name: the journal says what was under way" 'sed "s/^/# /" "$journal.then"; [ ! -e "$dir/kill" ] && under_way $call'
            node "$driver"
            check "$name: it is had back" 'listed $pid && until_true 10 "\"$muster\" gpu resume $pid >\"$dir/said\" 2>&1" && [ "$(field $pid state)" = running ]'
            check "$name: every byte is there" whole
        done
    done
    node
done
done_testing
