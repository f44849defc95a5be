#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_memory.sh MUSTER LIBRARY JOB FAKE_DIR - the memory of one GPU between its jobs, on the fake driver: caps by what is used, a
# guaranteed job that suddenly wants more, programs that are none of ours, the law for neighbours whose host's gaps are
# not seen. TAP on standard output.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256 MUSTER_GPU_EPS=100 FAKE_NVML_FILE="$dir/users"
: >"$FAKE_NVML_FILE"
mib() { echo $(($(field "$1" "$2") / 1048576)); }

"$muster" gpu agent & agent=$!
own $agent
answers
"$muster" gpu run --role opportunistic -- "$job" 160 1000000 8 >"$dir/ot.out" 2>&1 & ot=$!
own $ot
check "alone, an opportunistic job has no limit" 'until_true 8 "moves $ot" && sleep 1.2 && [ "$(field $ot cap_bytes)" = 0 ]'
JOB_GAP_US=20000 JOB_GROW="$dir/grow" "$muster" gpu run --role guaranteed --movable -- "$job" 64 1000000 8 >"$dir/rg.out" 2>&1 & rg=$!
own $rg
check "the guaranteed job has its peak and a margin: 64 + 16 of 256" 'until_true 8 "[ \$(mib $rg cap_bytes) = 80 ]"'
check "the other one has the rest" 'until_true 8 "[ \$(mib $ot cap_bytes) = 176 ] && [ \$(mib $ot used_bytes) = 160 ]"'

# It suddenly wants twice as much: host memory serves it, the neighbour shrinks, it comes home.
echo 64 >"$dir/grow"
check "a surge is served from host memory at once" 'until_true 4 "[ \$((\$(mib $rg used_bytes) + \$(mib $rg host_bytes))) = 128 ]" && moves $rg'
check "its neighbour shrinks by what is missing" 'until_true 8 "[ \$(mib $ot used_bytes) -le 112 ] && [ \$(mib $ot host_bytes) -ge 48 ]"'
check "and it comes home" 'until_true 8 "[ \$(mib $rg host_bytes) = 0 ] && [ \$(mib $rg used_bytes) = 128 ]"'
check "its cap has grown with it: 128 + 16" '[ "$(mib $rg cap_bytes)" = 144 ] && [ "$(mib $ot cap_bytes)" = 112 ]'
check "both go on" 'moves $rg && moves $ot'

# A program that never registered.
sleep 300 & other=$!
own $other
printf '%s 32\n%s 128\n%s 112\n' $other $rg $ot >"$FAKE_NVML_FILE"
check "a foreign process is shown, with what it holds" 'until_true 4 "\"$muster\" gpu ls | grep -q \"^$other *foreign .* 0.03 .* sleep\""'
check "in JSON as well" '"$muster" gpu ls --json | grep -q "{\"pid\":$other,\"role\":\"foreign\",\"used_bytes\":33554432,\"gpu\":\"4040"'
check "and in top" '"$muster" gpu top -n 1 | grep -q "^$other *foreign"'
check "what it holds is left to it" 'until_true 8 "[ \$(mib $ot cap_bytes) = 80 ] && [ \$(mib $ot used_bytes) -le 80 ]"'
check "orders to it are refused, with what to do" '! "$muster" gpu pause $other 2>"$dir/err" && grep -q "no process $other is registered" "$dir/err"'
printf '7777777 40\n' >"$FAKE_NVML_FILE" # numbers of another namespace: none of them is known
check "numbers that cannot be ours are not shown as foreign" 'until_true 4 "! \"$muster\" gpu ls | grep -q foreign"'
: >"$FAKE_NVML_FILE"

# An order beside a move of ours is carried out, not refused.
check "an order is served whatever moves just now" '"$muster" gpu pause $ot >/dev/null && "$muster" gpu resume $ot >/dev/null && moves $ot'
check "a limit of one's own holds below ours" '"$muster" gpu set $ot memory=48M >/dev/null && until_true 8 "[ \$(mib $ot cap_bytes) = 48 ] && [ \$(mib $ot used_bytes) -le 48 ]"'
check "and is lifted" '"$muster" gpu set $ot memory=0 >/dev/null && until_true 8 "[ \$(mib $ot cap_bytes) = 112 ]"'

kill -9 $rg; wait $rg 2>/dev/null
check "when it has gone, the other has no limit and comes home" 'until_true 12 "[ \"\$(field $ot cap_bytes)\" = 0 ] && [ \$(mib $ot host_bytes) = 0 ] && [ \$(mib $ot used_bytes) = 160 ]"'
check "nothing was lost on the way" 'moves $ot && kill -0 $ot'

# No host memory to move it to: paused instead, with the reason, and let go when there is room.
"$muster" gpu run --role opportunistic --host-memory 16M -- "$job" 96 1000000 8 >/dev/null 2>&1 & tight=$!
own $tight
until_true 8 "[ \"\$(mib $tight used_bytes)\" = 96 ] && moves $tight" # one that still takes its memory would be refused more
"$muster" gpu set $tight memory=48M >"$dir/out"
check "no host memory to move it to: it is paused instead, and the answer says so" 'sed "s/^/# /" "$dir/out"; grep -q "paused.*33554432 bytes above its limit, no host memory for them: paused until there is" "$dir/out" && [ "$(field $tight state)" = paused ] && [ "$(field $tight held)" = starved ]'
check "what fits has moved, and the reason is listed" '[ "$(mib $tight host_bytes)" = 16 ] && [ "$(field $tight note)" = "no host memory for 32 MiB above its limit" ] && stands $tight'
check "a higher limit lets it go" '"$muster" gpu set $tight memory=96M >/dev/null && until_true 8 "[ \"\$(field $tight state)\" = running ]" && moves $tight'
"$muster" gpu set $tight memory=48M >/dev/null
check "so does an order, above its limit as it is" '"$muster" gpu resume $tight >/dev/null && [ "$(field $tight state)" = running ] && moves $tight && [ -z "$(field $tight held)" ]'
check "an eviction beyond its --host-memory is refused before anything stops, as the estimate says" '! "$muster" gpu evict $tight >"$dir/out" 2>&1; sed "s/^/# /" "$dir/out"; grep -q "of host memory are needed and its --host-memory leaves" "$dir/out" && [ "$(field $tight state)" = running ] && moves $tight && "$muster" gpu estimate $tight | grep -q "^evict  *no "'
kill -9 $tight; wait $tight 2>/dev/null

# What the driver fails to copy stays where it was, and the answer says what is missing; the job is not stopped for that.
FAKE_CUDA_FAIL=cuMemcpyDtoDAsync_v2:0:999 "$muster" gpu run --role opportunistic -- "$job" 32 1000000 8 >/dev/null 2>&1 & stuck=$!
own $stuck
until_true 8 "moves $stuck"
"$muster" gpu set $stuck memory=16M >"$dir/out"
check "copies that fail: it stays, runs on, and what is above its limit is told" 'sed "s/^/# /" "$dir/out"; grep -q "running.*still 16777216 bytes above its limit, it gets no more" "$dir/out" && [ "$(mib $stuck used_bytes)" = 32 ] && moves $stuck'
kill -9 $stuck; wait $stuck 2>/dev/null

# A limit holds while nobody is there to watch it.
JOB_GROW="$dir/grow2" "$muster" gpu run --role opportunistic -- "$job" 32 1000000 8 >/dev/null 2>&1 & left=$!
own $left
until_true 8 "moves $left"
"$muster" gpu set $left memory=48M >/dev/null
kill -9 $agent; wait $agent 2>/dev/null
echo 64 >"$dir/grow2"
sleep 1
"$muster" gpu agent & agent=$!
own $agent
check "without the node side a limit stays: what goes beyond it goes to host memory" 'until_true 20 "[ \"\$(mib $left host_bytes)\" = 48 ]" && [ "$(mib $left used_bytes)" = 48 ] && [ "$(mib $left cap_bytes)" = 48 ] && moves $left'
until_true 20 "[ -n \"\$(field $ot steps)\" ]" # the others are there again too
kill -9 $left; wait $left 2>/dev/null

# How large a context is, the card says: what it shows for the process less what is counted. Until then a fixed figure holds.
env -u MUSTER_GPU_CONTEXT "$muster" gpu run -- "$job" 16 1000000 8 >/dev/null 2>&1 & plain=$!
own $plain
check "a context counts as 512 MiB until the card was asked" 'until_true 8 "moves $plain" && [ "$(mib $plain context_bytes)" = 512 ] && [ "$(mib $plain used_bytes)" = 528 ] && [ "$(field $plain context_known)" = false ]'
printf '%s 52\n%s 160\n' $plain $ot >"$FAKE_NVML_FILE"
check "then as what it shows for the process and nobody counts" 'until_true 8 "[ \$(mib $plain context_bytes) = 36 ]" && [ "$(mib $plain used_bytes)" = 52 ] && [ "$(field $plain context_known)" = true ]'
check "one that was told by the environment keeps what it was told" '[ "$(mib $ot context_bytes)" = 0 ]'
kill -9 $plain; wait $plain 2>/dev/null
: >"$FAKE_NVML_FILE"

# More than can be: what cannot be moved is left alone, what can is evicted until there is room.
JOB_GAP_US=20000 "$muster" gpu run --role guaranteed -- "$job" 248 1000000 8 >/dev/null 2>&1 & rg=$!
own $rg
check "no room at all beside a guaranteed job: nearly everything of the other in host memory" 'until_true 12 "[ \$(mib $ot used_bytes) -le 8 ]"'
kill -9 $rg; wait $rg 2>/dev/null
check "and back" 'until_true 12 "[ \"\$(field $ot state)\" = running ] && [ \$(mib $ot used_bytes) = 160 ]" && moves $ot'
"$muster" gpu run --role opportunistic --native -- "$job" 64 1000000 8 >/dev/null 2>&1 & native=$!
own $native
until_true 8 "moves $native" # its memory is its own before the other one takes nearly all
JOB_GAP_US=20000 "$muster" gpu run --role guaranteed -- "$job" 200 1000000 8 >/dev/null 2>&1 & rg=$!
own $rg
check "a native neighbour keeps what it has and gets no more" 'until_true 8 "[ \$(mib $native cap_bytes) = 64 ]" && moves $native'
kill -9 $rg $native $ot $agent; wait $rg $native $ot $agent 2>/dev/null

# Two neighbours that want 0.6 of the card each, started at once: the node side knows of neither. The one that finds the
# card full goes on in host memory; then limits share the card, and the machine's memory takes the rest.
"$muster" gpu agent & agent=$!
own $agent
answers
export FAKE_CUDA_SHARED="$dir/card"
"$muster" gpu run --role opportunistic -- "$job" 152 1000000 8 >"$dir/one.out" 2>&1 & one=$!
"$muster" gpu run --role opportunistic -- "$job" 152 1000000 8 >"$dir/two.out" 2>&1 & two=$!
own $one
own $two
unset FAKE_CUDA_SHARED
check "neither of two that do not fit together is refused" 'until_true 8 "moves $one && moves $two"'
check "both have all they asked for, and the card no more than it has" 'until_true 8 "[ \$((\$(mib $one used_bytes) + \$(mib $one host_bytes))) = 152 ] && [ \$((\$(mib $two used_bytes) + \$(mib $two host_bytes))) = 152 ] && [ \$((\$(mib $one used_bytes) + \$(mib $two used_bytes))) -le 256 ]"'
check "limits share the card" 'until_true 12 "[ \$(mib $one cap_bytes) -gt 0 ] && [ \$(mib $two cap_bytes) -gt 0 ] && [ \$((\$(mib $one cap_bytes) + \$(mib $two cap_bytes))) -le 256 ]" && moves $one && moves $two'
kill $one; wait $one 2>/dev/null
kill -9 $two $agent; wait $two $agent 2>/dev/null

# AntMan's own law, where gaps cannot be seen (here: asked for).
MUSTER_GPU_LAW=duty "$muster" gpu agent & agent=$!
own $agent
answers
JOB_GAP_US=20000 "$muster" gpu run --role guaranteed -- "$job" 16 1000000 4 >/dev/null 2>&1 & rg=$!
"$muster" gpu run --role opportunistic -- "$job" 16 1000000 4 >/dev/null 2>&1 & ot=$!
own $rg
own $ot
check "by duty, a neighbour runs a part of the time" 'until_true 10 "[ \"\$(field $ot gate)\" = duty ] && [ \"\$(field $ot share_permille)\" -ge 100 ]" && moves $ot'
check "its host goes on" 'moves $rg'
done_testing
