#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_clocks.sh MUSTER LIBRARY JOB FAKE_DIR - a GPU that heat slows down beside a neighbour that did nothing: what NVML says of its clocks
# is shown, and the neighbour keeps its share. TAP on standard output.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256 MUSTER_GPU_EPS=100 FAKE_NVML_FILE="$dir/nvml"
# clocks MHZ REASONS - what NVML says from now on.
clocks() { echo "clock $1 1980 $2" >"$dir/nvml.new" && mv "$dir/nvml.new" "$dir/nvml"; }
gpus() { "$muster" gpu ls --json | sed -n 's/.*"gpus":\[\(.*\)\],"next".*/\1/p'; }
clocks 1980 1
"$muster" gpu agent & agent=$!
own $agent
answers
check "of a GPU nobody is on nothing is said" '[ -z "$(gpus)" ]'
JOB_GAP_US=10000 "$muster" gpu run --role guaranteed -- "$job" 16 1000000 4 >/dev/null 2>&1 & rg=$!
own $rg
until_true 20 'moves $rg'
check "clocks are listed" 'until_true 10 "gpus | grep -q \"clock_mhz.:1980,.clock_max_mhz.:1980\"" && gpus | grep -q "\"judged\":true,\"throttle\":\[\]"'
check "and shown by top" '"$muster" gpu top -n 1 | grep -qx "GPU 40404040  1980 of 1980 MHz  0 W  0 C  0% busy"'
JOB_TINY=4 JOB_KERNEL_US=200 "$muster" gpu run --role opportunistic -- "$job" 16 1000000 4 >/dev/null 2>&1 & ot=$!
own $ot
check "a neighbour is let in" 'until_true 40 "[ \"\$(field $ot share_permille)\" -ge 200 ]"'

# Heat: what its steps are then says nothing, and the share that was growing stays what it is.
clocks 1200 60
check "heat is seen, and steps are not judged" 'until_true 10 "gpus | grep -q \"judged.:false,.throttle.:..thermal\""'
check "which top says" '"$muster" gpu top -n 1 | grep -q "1200 of 1980 MHz .* slowed by heat$"'
shares() { for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do field $ot share_permille; sleep 0.25; done | grep -vx 0 | sort -u | tr '\n' ' '; }
seen=$(shares)
check "the neighbour keeps the share it had" 'echo "# shares: $seen"; [ "$(echo $seen | wc -w)" = 1 ]'
check "and is not held for it" '[ "$(field $ot held)" = "" ] && moves $ot'

# At its power limit it draws what its neighbours draw too: the share moves again.
clocks 1980 4
check "a GPU at its power limit is judged as ever" 'until_true 10 "gpus | grep -q \"judged.:true,.throttle.:..power\""'
had=${seen%% *}
other() { s=$(field $ot share_permille); [ "${s:-0}" -gt 0 ] && [ "$s" != "$had" ]; }
check "and the share moves again" '[ "${had:-1000}" = 1000 ] || until_true 60 other'
kill -9 $rg $ot; wait $rg $ot 2>/dev/null
kill -9 $agent; wait $agent 2>/dev/null

# A driver from before the call had the name it has now.
export FAKE_NVML_OLD=1
clocks 1300 80
"$muster" gpu agent & agent=$!
own $agent
answers
"$muster" gpu run -- "$job" 16 1000000 4 >/dev/null 2>&1 & rg=$!
own $rg
check "an older driver tells it too" 'until_true 20 "gpus | grep -q \"clock_mhz.:1300.*throttle.:..brake\""'
check "what its driver is and can, is listed" '[ "$(field $rg driver)" -ge 11000 ] && "$muster" gpu ls --json | grep -q "\"can\":\[\"move\",\"checkpoint\",\"lookup\"\]"'
check "a GPU in order has nothing to say" 'gpus | grep -q "health.:..}"'
echo lost >>"$dir/nvml"
check "one that is gone is listed as such" 'until_true 20 "gpus | grep -q \"health.:.XID 79: the GPU fell off the bus\""'
check "and by top" '"$muster" gpu top -n 1 | grep -q "out of order: XID 79: the GPU fell off the bus"'
done_testing
