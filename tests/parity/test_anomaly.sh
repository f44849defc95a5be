#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_anomaly.sh - the Philly trace with its virtual clusters, each guaranteed nodes for a quarter more than its mean
# demand and for its largest job. With cells no job of any of them waits longer than in a cluster of its own, under any
# policy, also beside an opportunistic copy of every job; with the same GPUs as quotas thousands do; and lending what is
# idle fills the GPUs and shortens waiting.
. "$(dirname "$0")/common.sh"

"$muster" trace import --format philly "$traces/philly/philly-all-but-heldout.csv.gz" -o "$work/philly.csv" \
    2>"$work/import.log" || cat "$work/import.log" >&2

# cluster: the guarantees, from the trace alone.
awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    {
        vc = $at["vc"]; s = $at["submit"]; g = $at["gpus"]
        if (!(vc in first)) { order[++n] = vc; first[vc] = s }
        if (s < first[vc]) first[vc] = s
        if (s > last[vc]) last[vc] = s
        if (g > most[vc]) most[vc] = g
        work[vc] += g * $at["duration"]
    }
    function up(x) { return x == int(x) ? x : int(x) + 1 }
    END {
        for (i = 1; i <= n; i++) {
            vc = order[i]; span = last[vc] - first[vc]
            nodes[vc] = up(work[vc] / (span > 1 ? span : 1) * 1.25 / 8)
            if (nodes[vc] < up(most[vc] / 8)) nodes[vc] = up(most[vc] / 8)
            all += nodes[vc]
        }
        printf "nodes: {count: %d, gpus: 8, sku: P100}\nvcs:\n", all
        for (i = 1; i <= n; i++)
            printf "  \"%s\": {guarantee: {P100: \"%d nodes\"}}\n", order[i], nodes[order[i]]
    }' "$work/philly.csv" >"$work/philly.yaml"

# The first 10,000 of them, each content with half its GPUs and able to use twice as many.
head -10001 "$work/philly.csv" | awk -F, 'BEGIN { OFS = "," }
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; print $0, "gpus_min", "gpus_max"; next }
    { g = $at["gpus"]; least = int((g + 1) / 2); print $0, least, 2 * g }' >"$work/elastic.csv"

# check POLICY LEAST [TRACE JOBS]: one line; `ok` if cells make nobody wait longer, quotas at least LEAST, and lending pays.
check() {
    tests=$((tests + 1))
    if ! "$muster" sim anomaly --cluster "$work/philly.yaml" --trace "$work/${3:-philly}.csv" --policy "$1" \
        --set place=consolidate --guests >"$work/anomaly.txt" 2>&1; then
        sed 's/^/# /' "$work/anomaly.txt"
        echo "not ok $tests - $1: the run failed"
        return
    fi
    sed 's/^/# /' "$work/anomaly.txt"
    verdict=$(awk -v least="$2" -v all="${4:-70000}" '
        $1 == "all" { jobs = $3; quota = $6; cells = $9 }
        /while somebody waits/ { sub(/.*cells /, ""); split($0, use, /[%, ]+/); lifted = use[3] - use[1] }
        /^Beside an opportunistic copy/ { guests = $8 }
        END { print (jobs >= all && cells == 0 && guests == "0" && quota >= least && lifted >= 10 ? "ok" : "not ok") }' "$work/anomaly.txt")
    echo "$verdict $tests - $1${3:+, $3 jobs}: nobody waits longer than alone"
}

check fifo-skip 20000
check srsf 20000
check las 20000
check backfill-easy 20000
check yarn-cs 20000
check optimus 20 elastic 10000
check optimus 0 # puts a gang anywhere: without elastic jobs quotas are as good
# A minute or more each; by hand: MUSTER_ALL=1.
if [ -n "${MUSTER_ALL:-}" ]; then
    check gittins 20000
    check srtf 20000
    check sjf 10000
fi
echo "1..$tests"
