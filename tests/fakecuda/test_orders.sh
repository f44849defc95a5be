#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_orders.sh MUSTER LIBRARY JOB FAKE_DIR - orders that do not move a process: how long its steps are alone, and to let go of the
# node side so that an image can be taken of it. TAP on standard output.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256 MUSTER_GPU_EPS=100
"$muster" gpu agent & agent=$!
own $agent
answers

# Steps of at least 20 ms.
JOB_GAP_US=20000 "$muster" gpu run --role guaranteed -- "$job" 16 1000000 4 >/dev/null 2>&1 & rg=$!
own $rg
until_true 20 'moves $rg'
check "a baseline says how long a step is" '"$muster" gpu baseline --steps 5 $rg >"$dir/alone" && grep -q ": a step is [0-9.]* ms, alone on its GPU" "$dir/alone"'
ms=$(sed -n 's/.* is \([0-9]*\)\..*/\1/p' "$dir/alone")
check "and it is what the job waits in each, at least" 'cat "$dir/alone" | sed "s/^/# /"; [ "${ms:-0}" -ge 20 ]'

JOB_TINY=4 JOB_KERNEL_US=200 "$muster" gpu run --role opportunistic -- "$job" 16 1000000 4 >/dev/null 2>&1 & ot=$!
own $ot
until_true 30 '[ "$(field $ot gate)" = harvest ]'
a=$(field $rg steps)
"$muster" gpu baseline --steps 40 $rg >"$dir/beside" & waits=$!
check "beside a neighbour that one is closed for as long" 'until_true 10 "[ \"\$(field $ot gate)\" = closed ]"'
wait $waits
check "which the answer says" 'grep -q ", its neighbours closed" "$dir/beside"'
check "it took the steps it was told to, and two to settle" '[ $(($(field $rg steps) - a)) -ge 42 ]'
check "and then it is let in again" 'until_true 30 "[ \"\$(field $ot gate)\" = harvest ]" && moves $ot'
check "of the neighbour too it can be asked" '"$muster" gpu baseline --steps 2 $ot | grep -q "a step is [0-9.]* ms$"'
check "of a program without PyTorch there is no book of it" '! "$muster" gpu stats $rg 2>"$dir/err" && grep -q "it is no PyTorch program" "$dir/err"'
"$muster" gpu pause $rg >/dev/null
check "one that is paused cannot be asked for it" '! "$muster" gpu stats $rg 2>"$dir/err" && grep -q "is paused; resume it first" "$dir/err"'
check "one that is paused makes no steps" '! "$muster" gpu baseline $rg 2>"$dir/err" && grep -q "is paused; resume it first" "$dir/err"'
"$muster" gpu resume $rg >/dev/null
kill -9 $rg; wait $rg 2>/dev/null

# Letting go. The file descriptors and mappings are what an image could not hold.
held() { { ls -l /proc/$ot/fd; cat /proc/$ot/maps; } | grep -cE "memfd:muster|socket:"; }
check "a running one does not let go" '! "$muster" gpu detach $ot 2>"$dir/err" && grep -q "runs; pause, evict or release it first" "$dir/err"'
check "it holds a page, an arena and a socket" '[ "$(held)" -ge 3 ]'
"$muster" gpu evict $ot >/dev/null
# What it had waited for when the gate closed is a step that ends afterwards.
until_true 10 'stands $ot'
used=$(field $ot used_bytes) saved=$(field $ot saved_bytes) launches=$(field $ot launches) steps=$(field $ot steps)
check "an evicted one lets go" '"$muster" gpu detach --seconds 3 $ot >"$dir/out" && grep -q "evicted, and holds nothing of the node side" "$dir/out"'
check "of the socket, the page and the arena" '[ "$(held)" = 0 ]'
check "and is listed no more" '[ -z "$(field $ot state)" ]'
check "it comes back by itself" 'until_true 20 "[ -n \"\$(field $ot state)\" ]"'
check "evicted as it was, with what it had counted" '[ "$(field $ot state)" = evicted ] && [ "$(field $ot used_bytes)" = "$used" ] && [ "$(field $ot saved_bytes)" = "$saved" ] && [ "$(field $ot launches)" = "$launches" ] && [ "$(field $ot steps)" = "$steps" ]'
check "and goes on when told to" '"$muster" gpu resume $ot >/dev/null && moves $ot'

# A node side that is slow to welcome it finds it as it was all the same: its gate does not open meanwhile.
"$muster" gpu evict $ot >/dev/null
until_true 10 'stands $ot'
saved=$(field $ot saved_bytes) launches=$(field $ot launches)
"$muster" gpu detach --seconds 1 $ot >/dev/null
kill -STOP $agent
sleep 3
kill -CONT $agent
check "a slow node side finds it evicted too" 'until_true 20 "[ -n \"\$(field $ot state)\" ]" && sleep 0.5 && [ "$(field $ot state)" = evicted ] && [ "$saved" -gt 0 ] && [ "$(field $ot saved_bytes)" = "$saved" ] && [ "$(field $ot launches)" = "$launches" ]'
"$muster" gpu resume $ot >/dev/null

# An image is written while the process is stopped: one that was comes back at once, however long it was given.
"$muster" gpu pause $ot >/dev/null
"$muster" gpu detach --seconds 500 $ot >/dev/null
until_true 5 '[ "$(held)" = 0 ]'
a=$(held)
kill -STOP $ot
sleep 3 # longer than any load explains
kill -CONT $ot
check "one that was stopped comes back at once" '[ "$a" = 0 ] && until_true 10 "[ -n \"\$(field $ot state)\" ]" && moves $ot'

# The node side may be another one by then.
"$muster" gpu pause $ot >/dev/null
"$muster" gpu detach --seconds 2 $ot >/dev/null
kill -9 $agent; wait $agent 2>/dev/null
"$muster" gpu agent & agent=$!
own $agent
check "also to a node side that has never seen it" 'until_true 20 "[ -n \"\$(field $ot state)\" ]" && moves $ot'
kill -9 $ot; wait $ot 2>/dev/null

# Work in flight that does not end: the order says so, and the program goes on.
FAKE_CUDA_STALL="$dir/stall" "$muster" gpu run --role opportunistic -- "$job" 16 1000000 4 >/dev/null 2>&1 & ot=$!
own $ot
until_true 20 'moves $ot'
echo cuCtxSynchronize >"$dir/stall"
check "a pause whose work in flight does not end says so" '! "$muster" gpu pause $ot 2>"$dir/err" && sed "s/^/# /" "$dir/err" && grep -q "did not end within 1[0-9] s; perhaps it waits for the program: try later, or end it" "$dir/err"'
check "it runs, and is listed so" '[ "$(field $ot state)" = running ] && [ "$(field $ot helper)" = alive ] && moves $ot'
check "another order meanwhile is refused, and does not hold it" '! "$muster" gpu set $ot memory=8M 2>"$dir/err" && grep -q "waited for in vain" "$dir/err" && moves $ot'
rm "$dir/stall"
# The thread that waits looks whether it has ended now and then.
check "when it has ended, it is paused" 'until_true 10 "\"\$muster\" gpu pause $ot >/dev/null 2>&1" && [ "$(field $ot state)" = paused ] && until_true 10 "stands $ot"'
check "and moved" '"$muster" gpu resume $ot >/dev/null && "$muster" gpu set $ot memory=8M >/dev/null && [ "$(field $ot used_bytes)" -le 8388608 ] && moves $ot'
kill -9 $ot; wait $ot 2>/dev/null

# The same of a guaranteed one, whose gate nobody opens but the order that closed it.
FAKE_CUDA_STALL="$dir/stall" "$muster" gpu run --role guaranteed -- "$job" 16 1000000 4 >/dev/null 2>&1 & rg=$!
own $rg
until_true 20 'moves $rg'
echo cuCtxSynchronize >"$dir/stall"
check "a guaranteed one that could not be paused goes on" \
    '! "$muster" gpu pause $rg 2>"$dir/err" && grep -q "did not end within" "$dir/err" && [ "$(field $rg gate)" = open ] && moves $rg'
rm "$dir/stall"
kill -9 $rg; wait $rg 2>/dev/null

# One that checks every byte in every step, to its end.
"$muster" gpu run --role opportunistic -- "$job" 64 400 4 >"$dir/sum" 2>&1 & ot=$!
own $ot
until_true 20 'moves $ot'
"$muster" gpu evict $ot >/dev/null && "$muster" gpu detach --seconds 1 $ot >/dev/null
until_true 20 '[ -n "$(field $ot state)" ]'
"$muster" gpu resume $ot >/dev/null
wait $ot
status=$?
check "every byte is what it was" 'sed "s/^/# /" "$dir/sum"; [ $status = 0 ] && grep -q "^bad 0 " "$dir/sum"'
done_testing
