# SPDX-License-Identifier: Apache-2.0
# common.sh - sourced by the parity tests: finds the traces and the program, runs one baseline, compares job by job.
#
# Baselines are files `<input>--n<nodes>g<gpus>--<policy>--<placement>.csv.gz` with the columns job_id, num_gpu, submit_s,
# start_s, end_s, preemptions, in whole seconds.
set -u
muster=${MUSTER_BUILD:?}/muster
shared=${MUSTER_SHARED:-${MUSTER_SOURCE:?}/../shared}
traces=$shared/traces
tests=0

if [ ! -d "$traces/baselines" ]; then
    echo "1..0 # SKIP no traces: set MUSTER_SHARED to the folder that has traces/"
    exit 0
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# input NAME: the native trace of an input, imported once; its path.
input() {
    if [ ! -f "$work/$1.csv" ]; then
        from=$traces/philly/vc/$1.csv.gz
        [ -f "$from" ] || from=$traces/tiresias/$1.csv
        "$muster" trace import --format tiresias "$from" -o "$work/$1.csv" 2>"$work/import.log" || cat "$work/import.log" >&2
    fi
    echo "$work/$1.csv"
}

# differ BASELINE OURS: `jobs missing ends starts preemptions our-average their-average`, then the jobs that differ.
differ() {
    zcat "$1" | awk -F, '
        NR == FNR { if (FNR > 1) { start[$1] = $4; end[$1] = $5; stops[$1] = $6; theirs++ } next }
        FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        {
            id = $at["job_id"]; ours++
            if (!(id in end)) { missing++; next }
            e = $at["end_seconds"] != end[id]; s = $at["start_seconds"] != start[id]; p = $at["preemptions"] != stops[id]
            ends += e; starts += s; preempts += p
            if (e || s || p) list = list " " id
            sum += $at["end_seconds"] - $at["submit_seconds"]; base += end[id] - $at["submit_seconds"]
        }
        END {
            missing += theirs > ours ? theirs - ours : ours - theirs
            printf "%d %d %d %d %d %.1f %.1f%s\n", ours, missing, ends, starts, preempts, ours ? sum / ours : 0,
                ours ? base / ours : 0, list
        }' - "$2"
}

# compare BASELINE TRACE POLICY EXPECT SETTING...: one line of the table, `ok` if just the jobs in EXPECT differ.
compare() {
    baseline=$1 trace=$2 policy=$3 expect=$4
    shift 4
    name=$(basename "$baseline" .csv.gz)
    cluster=$(echo "$name" | sed 's/.*--n\([0-9]*\)g\([0-9]*\)--.*/\1x\2/')
    tests=$((tests + 1))
    set -- $(for s; do echo --set "$s"; done)
    if ! "$muster" sim run --cluster "$cluster" --trace "$trace" --policy "$policy" "$@" --jobs-csv "$work/jobs.csv" \
        >"$work/run.log" 2>&1; then
        sed 's/^/# /' "$work/run.log"
        echo "not ok $tests - $name: the run failed"
        return
    fi
    result=$(differ "$baseline" "$work/jobs.csv")
    set -- $result
    jobs=$1 missing=$2 ends=$3 starts=$4 stops=$5 ours=$6 theirs=$7
    shift 7
    verdict=ok
    [ "$missing" = 0 ] && [ "$jobs" -gt 0 ] && [ "$*" = "$expect" ] || verdict="not ok"
    printf '%s %d - %-50s %6d jobs; differing ends %d, starts %d, preemptions %d; average JCT %s, baseline %s s\n' \
        "$verdict" "$tests" "$name" "$jobs" "$ends" "$starts" "$stops" "$ours" "$theirs"
    [ $# = 0 ] || echo "# differing jobs: $*${expect:+ (expected: $expect)}"
}
