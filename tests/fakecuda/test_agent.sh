#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_agent.sh MUSTER LIBRARY JOB FAKE_DIR AGENT_USE - the agent suspends, resumes and limits the programs of a task through the runtime,
# and is told when that was refused. TAP on standard output.
muster=$1 library=$2 job=$3 fake=$4 use=$5
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256

"$muster" gpu agent >/dev/null & agent=$!
own $agent
until_true 5 '"$muster" gpu ls >/dev/null'
"$muster" gpu run --role opportunistic --memory 128M -- "$job" 32 1000000 4 >/dev/null 2>&1 & pid=$!
own $pid
"$muster" gpu run --memory 128M -- "$job" 16 1000000 4 >/dev/null 2>&1 & second=$!
own $second
sleep 1000 & other=$!
own $other
until_true 8 '[ "$(field $pid steps)" -gt 3 ] && [ "$(field $second steps)" -gt 3 ]'
check "programs without the library are left alone" '[ "$("$use" off $other)" = none ]'
check "suspend: all of a task's programs are off the GPU" '"$use" off $pid $other $second && [ "$(field $pid state)" = released ] && [ "$(field $second state)" = released ]'
check "resume" '"$use" on $pid $other $second && [ "$(field $pid state)" = running ] && [ "$(field $second state)" = running ] && moves $pid && moves $second'
check "a limit of memory and time" '"$use" limit 16 25 $pid && [ "$(field $pid used_bytes)" -le 16777216 ] && until_true 3 "[ \"\$(field $pid gate)\" = duty ]"'
check "no time at all is a pause" '"$use" limit 16 0 $pid && [ "$(field $pid state)" = paused ]'
check "all of it again" '"$use" limit 0 100 $pid && [ "$(field $pid state)" = running ] && [ "$(field $pid cap_bytes)" = 0 ] && moves $pid'
# Refused: the agent must not believe it. An order is on its way to a program that does not answer.
kill -STOP $pid
"$muster" gpu pause $pid >/dev/null 2>&1 & waiting=$!
until_true 5 '"$muster" gpu resume $pid 2>&1 | grep -q "is not finished"' # the order has arrived
check "an order that is refused is not taken for one that was carried out" '! "$use" off $pid'
kill -CONT $pid
wait $waiting
"$muster" gpu resume $pid >/dev/null
kill -9 $agent; wait $agent 2>/dev/null
check "nor one that nobody hears" '! "$use" off $pid'
done_testing
