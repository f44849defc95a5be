#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_guardian.sh MUSTER LIBRARY JOB FAKE_DIR - the guardian killed in each state it can be in: never told, in the middle of the
# driver's checkpoint, with the process released, alone and together with the node side. The job is always brought
# back, with every byte. TAP on standard output.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256 MUSTER_GPU_CLAIM_SECONDS=2

"$muster" gpu agent & agent=$!
own $agent
answers
"$muster" gpu run --role opportunistic -- "$job" 32 1000000 4 >/dev/null 2>"$dir/err" & pid=$!
own $pid
until_true 8 '[ "$(field $pid steps)" -gt 3 ]'

# Released: the node side notices and starts another, which finds the process checkpointed.
check "release" '"$muster" gpu release $pid >/dev/null'
first=$(guardian_of $pid)
kill -9 "$first"
check "a killed guardian has a successor" 'until_true 12 "[ -n \"\$(guardian_of $pid)\" ] && [ \"\$(guardian_of $pid)\" != $first ]"'
check "the process is still released" '[ "$(field $pid state)" = released ] && grep -q checkpointed "$dir/guard-$pid.journal"'
# Another beside one that lives, as a node side starts whose guardian was too slow to open the driver: it would be claimed by
# nobody, and restore the process behind the first one's back when its two seconds are over.
first=$(guardian_of $pid)
timeout 30 "$muster" gpu guard --run-dir "$dir" $pid "$(cut -d' ' -f2 "$dir/guard-$pid.journal")"
second=$?
check "a second guardian beside one that lives goes at once, and leaves everything to it" \
    '[ $second = 0 ] && [ "$(guardian_of $pid)" = "$first" ] && [ -S "$dir/guard-$pid.sock" ] && grep -q checkpointed "$dir/guard-$pid.journal" && [ "$(field $pid state)" = released ]'
check "restore" '"$muster" gpu restore $pid >/dev/null'
check "it makes steps" 'moves $pid'

# Released, killed, and asked for at once: the order itself starts another.
check "release again" '"$muster" gpu release $pid >/dev/null'
kill -9 "$(guardian_of $pid)"
check "restore without a guardian" '"$muster" gpu restore $pid >/dev/null && moves $pid'

# Killed inside the driver's checkpoint: the successor finds the process locked, lets it go and begins again.
kill -9 $agent; wait $agent 2>/dev/null
FAKE_CUDA_CKPT_MS=1500 "$muster" gpu agent & agent=$!
own $agent
until_true 12 '[ -n "$(field $pid steps)" ]'
"$muster" gpu release $pid >"$dir/said" 2>&1 & order=$!
until_true 8 'grep -q checkpointing "$dir/guard-$pid.journal" 2>/dev/null'
first=$(guardian_of $pid)
kill -9 "$first"
wait $order
check "killed in the middle of a checkpoint: the order is carried out by another" \
    'echo "# $first, then $(guardian_of $pid): $(field $pid state), $(cat "$dir/said")"; grep -q "^ok" "$dir/said" && [ "$(field $pid state)" = released ] && [ "$(guardian_of $pid)" != "$first" ]'
check "and back" '"$muster" gpu restore $pid >/dev/null && moves $pid'
kill -9 $agent; wait $agent 2>/dev/null

# Both at once: the process waits inside the driver and cannot say so. The next node side finds the journal.
"$muster" gpu agent & agent=$!
own $agent
until_true 12 '[ -n "$(field $pid steps)" ]'
check "release once more" '"$muster" gpu release $pid >/dev/null'
kill -9 $agent "$(guardian_of $pid)"; wait $agent 2>/dev/null
sleep 6 # its lease ends, and it asks the driver
"$muster" gpu agent & agent=$!
own $agent
check "a new node side finds the journal, and a guardian restores the process" \
    'until_true 25 "[ -n \"\$(field $pid steps)\" ] && [ \"\$(field $pid state)\" = running ]" && moves $pid'

# Never told: killed while the job's own copies run, or before; the release fails or is done by another, never half.
"$muster" gpu release $pid >"$dir/said" 2>&1 & order=$!
until_true 2 '[ -n "$(guardian_of $pid)" ]'
kill -9 "$(guardian_of $pid)" 2>/dev/null
wait $order
check "killed before it was told: an answer, and the process can be had back" \
    'grep -q "^ok\|^muster gpu:" "$dir/said" && "$muster" gpu restore $pid >/dev/null && moves $pid'
check "no byte was wrong" 'kill -0 $pid && [ ! -s "$dir/err" ]'

# A driver of which every Nth call fails: every order is answered, what failed can be asked for again, and the job is
# always had back. Every sixth is a lock or a checkpoint here, every seventh a lock or a restore, every eighth an unlock.
# asked ORDER - until it is carried out; five times at most.
asked() {
    for try in 1 2 3 4 5; do
        "$muster" gpu "$1" $pid >"$dir/said" 2>&1 && return 0
        refused=$((refused + 1))
        grep -q "gave error [0-9]" "$dir/said" || { lost=$((lost + 1)); sed 's/^/# /' "$dir/said"; }
    done
    return 1
}
for every in 6 7 8; do
    kill -9 $agent; wait $agent 2>/dev/null
    rm -f "$dir/ckpt.calls"
    FAKE_CUDA_CKPT_FAIL=$every "$muster" gpu agent & agent=$!
    own $agent
    until_true 12 '[ -n "$(field $pid steps)" ]'
    refused=0 lost=0 carried=0
    for round in 1 2 3 4 5 6 7 8 9 10; do asked release && asked restore && carried=$((carried + 1)); done
    check "with every call number $every of the driver's failing, ten releases and restores are carried out" '[ $carried = 10 ]'
    check "every refusal names the driver's error" '[ $refused -gt 0 ] && [ $lost = 0 ]'
    check "and the job goes on, with every byte" 'moves $pid && kill -0 $pid && [ ! -s "$dir/err" ]'
    echo "# $refused refused"
done

# A driver that restores and never unlocks: the guardian keeps the process, and says so. What it could not do, one with a
# driver in order does.
kill -9 $agent; wait $agent 2>/dev/null
FAKE_CUDA_FAIL=cuCheckpointProcessUnlock:0:999 "$muster" gpu agent & agent=$!
own $agent
until_true 12 '[ -n "$(field $pid steps)" ]'
"$muster" gpu release $pid >/dev/null
check "an unlock that fails is told, and the process is not taken for running" \
    '! "$muster" gpu restore $pid >"$dir/said" 2>&1 && grep -q "unlock gave error 999" "$dir/said" && [ "$(field $pid state)" = released ] && grep -q unlocking "$dir/guard-$pid.journal"'
check "it can be asked for again" '! "$muster" gpu restore $pid >"$dir/said" 2>&1 && grep -q "unlock gave error 999" "$dir/said"'
kill -9 $agent "$(guardian_of $pid)"; wait $agent 2>/dev/null
until_true 10 '[ -z "$(guardian_of $pid)" ]' # one that is still ending would be taken for one that lives
"$muster" gpu agent & agent=$!
own $agent
check "the next guardian unlocks it, and it is had back" 'until_true 25 "[ -n \"\$(field $pid state)\" ]" && "$muster" gpu restore $pid >/dev/null && [ "$(field $pid state)" = running ] && moves $pid && [ ! -s "$dir/err" ]'

# A guardian that still takes connections while it ends, as one that is stopped does: the node side that is started meanwhile sees it
# go, and the process is had back.
check "release before a slow death" '"$muster" gpu release $pid >/dev/null'
last=$(guardian_of $pid)
kill -STOP "$last"; kill -9 $agent; wait $agent 2>/dev/null
sleep 6 # its lease ends, and it asks the driver
"$muster" gpu agent & agent=$!
own $agent
answers
kill -9 "$last"
check "a guardian that the new node side found alive, and that then ended, has a successor" \
    'until_true 40 "[ -n \"\$(field $pid steps)\" ] && [ \"\$(field $pid state)\" = running ]" && moves $pid && [ ! -s "$dir/err" ]'

# The node side killed while the driver's checkpoint runs, which nothing interrupts: the guardian finishes it, nobody claims the
# process, and it is brought back. With no node side at all it makes steps again.
kill -9 $agent; wait $agent 2>/dev/null
FAKE_CUDA_CKPT_MS=1500 "$muster" gpu agent & agent=$!
own $agent
until_true 12 '[ -n "$(field $pid steps)" ]'
"$muster" gpu release $pid >/dev/null 2>&1 & order=$!
until_true 8 'grep -q checkpointing "$dir/guard-$pid.journal" 2>/dev/null'
kill -9 $agent; wait $agent $order 2>/dev/null
check "the node side killed in the middle of a checkpoint: the guardian finishes it" 'until_true 8 "grep -q checkpointed \"$dir/guard-$pid.journal\""'
check "and brings the process back when nobody claims it" 'until_true 20 "[ -z \"\$(guardian_of $pid)\" ]" && [ ! -e "$dir/guard-$pid.journal" ]'
sleep 3 # nobody holds it any more: its helper brings the memory home. A node side that came first would adopt it as evicted
"$muster" gpu agent & agent=$!
own $agent
check "which is then found running, with every byte" 'until_true 20 "[ \"\$(field $pid state)\" = running ]" && moves $pid && [ ! -s "$dir/err" ]'

# A guardian that was never told, of a release that came to nothing: the next node side does not take the process for released.
MUSTER_GPU_CLAIM_SECONDS=60 "$muster" gpu guard --run-dir "$dir" $pid "$(cut -d' ' -f22 "/proc/$pid/stat")" & idle=$!
own $idle
until_true 8 'grep -q new "$dir/guard-$pid.journal" 2>/dev/null'
kill -9 $agent; wait $agent 2>/dev/null
"$muster" gpu agent & agent=$!
own $agent
check "a guardian that was never told releases nobody" 'until_true 12 "[ -n \"\$(field $pid state)\" ]" && [ "$(field $pid state)" = running ] && moves $pid'
kill -9 $idle; wait $idle 2>/dev/null

# A journal of a process that is gone, and one that is no journal, are nobody's business.
kill -9 $agent; wait $agent 2>/dev/null
echo "999999 1 checkpointed" >"$dir/guard-999999.journal"
echo "nonsense" >"$dir/guard-5.journal"
"$muster" gpu agent & agent=$!
own $agent
check "journals of processes that are gone start nothing" 'until_true 12 "[ -n \"\$(field $pid steps)\" ]" && [ -z "$(guardian_of 999999)$(guardian_of 5)" ]'
done_testing
