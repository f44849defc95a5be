#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_cost.sh - how the number of instructions grows, which other programs on the machine cannot change.
#
# Ten times the jobs on a full cluster may cost 1.1 times what n log n allows; a hundred times the cluster, with the same
# jobs arriving a hundred times as fast, at most 4 times (what is linear in the cluster would be near 100); eight times
# the jobs and servers, where all jobs come at once, what n log n allows. Counted by valgrind; what an empty run costs is taken off.
set -u
muster=${MUSTER_BUILD:?}/muster-full # what it counts is in one process
[ -x "$muster" ] || muster=$MUSTER_BUILD/muster
tests=0

if ! command -v valgrind >/dev/null; then
    echo "1..0 # SKIP no valgrind"
    exit 0
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# jobs COUNT GPUS: a trace that fills the cluster at once and goes on at load 0.97. Sizes and run times as in
# bench_decisions.c, drawn with a generator that awk's doubles hold exactly.
jobs() {
    awk -v count="$1" -v gpus="$2" '
        function draw(bound) { x = (x * 16807) % 2147483647; return x % bound }
        BEGIN {
            x = 1
            print "id,submit,duration,gpus,limit"
            for (i = 0; i < count; i++) {
                u = draw(1000); w = u < 800 ? 1 : u < 870 ? 2 : u < 940 ? 4 : u < 995 ? 8 : 16
                t = 600 + draw(6000)
                printf "%d,%.6f,%d,%d,%d\n", i, at, t, w, t + draw(1800)
                held += w
                if (held >= gpus) at += draw(20001) / 10000 * 1.74 * 3600 / gpus / 0.97
            }
        }'
}

# cost TRACE CLUSTER POLICY PLACE: instructions of the run.
cost() {
    valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null "$muster" sim run --cluster "$2" \
        --trace "$1" --policy "$3" --set "place=$4" --json 2>"$work/log" >"$work/json" || {
        grep '^muster' "$work/log" >&2
        echo 0
        return
    }
    sed -n 's/.*I *refs: *//p' "$work/log" | tr -d ,
}

# judge NAME SMALL LARGE EMPTY-SMALL EMPTY-LARGE LIMIT: one case; the ratio of the two, against its limit.
judge() {
    tests=$((tests + 1))
    awk -v n="$tests" -v name="$1" -v a="$2" -v b="$3" -v ea="$4" -v eb="$5" -v limit="$6" 'BEGIN {
        ratio = a > ea ? (b - eb) / (a - ea) : 0
        good = ratio > 0 && ratio <= limit
        printf "%s %d - %s: %.2f times the instructions, at most %.2f (%.0f and %.0f million)\n",
            good ? "ok" : "not ok", n, name, ratio, limit, a / 1e6, b / 1e6
    }'
}

jobs 1 64 >"$work/one.csv"
jobs 1000 64 >"$work/small.csv"
jobs 10000 64 >"$work/large.csv"
jobs 10000 6400 >"$work/wide.csv"
for case in fifo/count srsf/count srsf/consolidate backfill-easy/count yarn-cs/levels; do
    policy=${case%/*}
    place=${case#*/}
    one=$(cost "$work/one.csv" 1x64:V100 "$policy" "$place")
    few=$(cost "$work/small.csv" 8x8 "$policy" "$place")
    many=$(cost "$work/large.csv" 8x8 "$policy" "$place")
    wide_one=$(cost "$work/one.csv" "racks:40 nodes:20 gpus:8" "$policy" "$place")
    wide=$(cost "$work/wide.csv" "racks:40 nodes:20 gpus:8" "$policy" "$place")
    # ln(10,000) / ln(1,000) = 4/3, so n log n costs 13.3 times as much for ten times the jobs.
    # Under yarn-cs a job that waits tries again and again: its cost is that of its wait, which is longer at the end.
    [ "$policy" = yarn-cs ] ||
        judge "$policy, $place: 10,000 jobs instead of 1,000" "$few" "$many" "$one" "$one" 14.7
    judge "$policy, $place: 6,400 GPUs instead of 64" "$many" "$wide" "$one" "$wide_one" 4
done
# These look at every job that runs in every pass, so a wider cluster costs more; of what waits antman looks at 64 jobs of
# a user at most, which 1,000 jobs hardly come to. Five times the jobs cost 6.06 times as much by n log n, and 1.1 times
# that is allowed, as above.
jobs 2000 64 >"$work/middle.csv"
for case in antman/consolidate singularity/topology; do
    policy=${case%/*}
    place=${case#*/}
    one=$(cost "$work/one.csv" 1x64:V100 "$policy" "$place")
    few=$(cost "$work/middle.csv" 8x8 "$policy" "$place")
    many=$(cost "$work/large.csv" 8x8 "$policy" "$place")
    judge "$policy, $place: 10,000 jobs instead of 2,000" "$few" "$many" "$one" "$one" 6.67
done
# Under gandiva everybody has a place at once: twice as many jobs as there is room for come to eight times the servers. What
# looks at every server for each of them costs 20 times as much then; n log n allows 10.5.
burst() {
    awk -v nodes="$1" 'BEGIN {
        print "id,submit,duration,gpus"
        for (left = nodes * 16; left > 0; left -= w) {
            w = i % 4 == 1 ? 2 : i % 4 == 2 ? 4 : 1
            printf "%d,0,50,%d\n", i++, w
        }
    }'
}
burst 100 >"$work/small.csv"
burst 800 >"$work/large.csv"
one=$(cost "$work/one.csv" "racks:5 nodes:20 gpus:8" gandiva count)
few=$(cost "$work/small.csv" "racks:5 nodes:20 gpus:8" gandiva count)
wide_one=$(cost "$work/one.csv" "racks:40 nodes:20 gpus:8" gandiva count)
many=$(cost "$work/large.csv" "racks:40 nodes:20 gpus:8" gandiva count)
judge "gandiva: 6,400 jobs at once on 6,400 GPUs instead of 800 on 800" "$few" "$many" "$one" "$wide_one" 10.5
echo "1..$tests"
