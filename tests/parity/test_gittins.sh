#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_gittins.sh - gittins, with the history it learns on the way, has a smaller average JCT than las on the Philly inputs:
# on at least 4 of 5, with and without a cost of stops.
. "$(dirname "$0")/common.sh"

# average TRACE CLUSTER POLICY SETTING...
average() {
    trace=$1 cluster=$2 policy=$3
    shift 3
    "$muster" sim run --cluster "$cluster" --trace "$trace" --policy "$policy" "$@" --json |
        sed -n 's/.*"avg_jct_seconds": \([0-9.]*\).*/\1/p' | head -n 1
}

for restart in 0s 60s; do
    better=0
    for input in 0e4a51:5x8 103959:3x8 11cb48:3x8 6c71a0:6x8 ee9e8c:17x8; do
        trace=$(input "philly-vc-${input%:*}")
        las=$(average "$trace" "${input#*:}" las --set restart=$restart)
        gittins=$(average "$trace" "${input#*:}" gittins --set restart=$restart)
        echo "# ${input%:*} on ${input#*:}, restart=$restart: las $las s, gittins $gittins s"
        better=$((better + $(echo "$las $gittins" | awk '{ print ($1 > 0 && $2 > 0 && $2 < $1) ? 1 : 0 }')))
    done
    tests=$((tests + 1))
    verdict=ok
    [ "$better" -ge 4 ] || verdict="not ok"
    echo "$verdict $tests - gittins is better on $better of 5 inputs with restart=$restart"
done
# The queues of las with an open one behind them, which nobody has chosen by its results: on at least 3 of 4.
better=0
for input in 0e4a51:5x8 103959:3x8 6c71a0:6x8 ee9e8c:17x8; do
    trace=$(input "philly-vc-${input%:*}")
    las=$(average "$trace" "${input#*:}" las)
    gittins=$(average "$trace" "${input#*:}" gittins --set queues=3600s,36000s,360000s,3600000s)
    echo "# ${input%:*} on ${input#*:}, queues of las: las $las s, gittins $gittins s"
    better=$((better + $(echo "$las $gittins" | awk '{ print ($1 > 0 && $2 > 0 && $2 < $1) ? 1 : 0 }')))
done
tests=$((tests + 1))
verdict=ok
[ "$better" -ge 3 ] || verdict="not ok"
echo "$verdict $tests - gittins with the queues of las is better on $better of 4 inputs"
echo "1..$tests"
