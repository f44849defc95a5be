#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make run, without a terminal: controller and agents as processes of their own, a workload, and nothing left behind.
. "$(dirname "$0")/../tools/tap.sh"

port=$(python3 "$root/tests/tools/port.py") ||
    { echo "1..0 # SKIP python3 is not there" && exit 0; }
export MUSTER_BUILD="${MUSTER_BUILD:-$root/build}" MUSTER_DEMO_PORT="$port" MUSTER_DEMO_DIR="$scratch/run" HOME="$scratch" LC_ALL=C.UTF-8
accepts 'it ends by itself' sh -c "'$root/tools/demo' </dev/null >'$scratch/demo' 2>&1 || { cat '$scratch/demo'; exit 1; }"
accepts 'four nodes' grep -q '^gpu\[01-04\]  idle   32 H100' "$scratch/demo"
accepts 'the gang ran' grep -q 'gang .* COMPLETED' "$scratch/demo"
accepts 'what was to fail failed' grep -q 'broken .* FAILED  *3 ' "$scratch/demo"
accepts 'nothing of it is left' sh -c "! pgrep -f '$scratch/ru[n]' >/dev/null"
# Somebody else's cluster is on that port: it is left alone.
"$MUSTER_BUILD/musterd" --dev --listen "127.0.0.1:$port" --state "$scratch/other" >"$scratch/other.log" 2>&1 &
other=$!
tries=100
until grep -q MUSTER_URL "$scratch/other.log" || [ $tries -eq 0 ]; do tries=$((tries - 1)) && sleep 0.1; done
refuses 'a port that another cluster has' "something listens on port $port already" "$root/tools/demo"
accepts 'which goes on' kill -0 $other
kill $other && wait $other 2>/dev/null
# On a terminal, ended by Ctrl-C.
accepts 'Ctrl-C ends all of it' python3 "$root/tests/cli/interrupt.py" "$root/tools/demo"
accepts 'and what it waited with' sh -c "! pgrep -f 'slee[p] 86399' >/dev/null"
finish
