#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_muri.sh - the baselines of Muri's simulator for Tiresias, SRTF and SRSF: the same first start and end for every job, to
# 0.1 s, and the averages its authors measured on 64 real V100s to 3 %. docs/parity.md says what each setting stands for.
. "$(dirname "$0")/common.sh"

# Its simulator knows no classes; an iteration takes 1.5 % longer than the profile says.
muri_input() {
    from=$traces/muri/$1.csv.gz
    [ "$1" != testbed ] || from=$traces/muri/testbed/cluster_trace.csv
    case $from in *.gz) zcat "$from" ;; *) cat "$from" ;; esac | tr -d '\r' | awk -F, -v OFS=, '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR > 1 {
            $at["priority"] = 0
            $at["duration"] = sprintf("%.3f", $at["iterations"] * $at["iteration_time"] * 1.015)
        } 1' >"$work/muri.csv"
    "$muster" trace import --format muri "$work/muri.csv" -o "$work/$1.csv" 2>"$work/import.log" || cat "$work/import.log" >&2
    echo "$work/$1.csv"
}

# near BASELINE OURS: `jobs differing our-average their-average`.
near() {
    zcat "$1" | awk -F, '
        NR == FNR { if (FNR > 1) { start[$1] = $4; end[$1] = $5 } next }
        FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        {
            id = $at["job_id"]; n++
            e = $at["end_seconds"] - end[id]; s = $at["start_seconds"] - start[id]
            bad += !(id in end) || e > 0.1 || e < -0.1 || s > 0.1 || s < -0.1
            ours += $at["end_seconds"] - $at["submit_seconds"]; theirs += end[id] - $at["submit_seconds"]
        }
        END { printf "%d %d %.1f %.1f\n", n, bad, n ? ours / n : 0, n ? theirs / n : 0 }' - "$2"
}

# verdict TEXT CONDITION...
verdict() {
    text=$1
    shift
    tests=$((tests + 1))
    if test "$@"; then echo "ok $tests - $text"; else echo "not ok $tests - $text"; fi
}

for name in testbed trace1 trace3 trace4; do
    trace=$(muri_input "$name")
    for pair in dlas-gpu:las shortest:srtf shortest-gpu:srsf; do
        file=$traces/baselines/muri-sim/$name--n8g8--${pair%:*}.csv.gz
        policy=${pair#*:} compat=
        [ "$policy" != las ] || compat="--set compat=muri-sim"
        "$muster" sim run --cluster 8x8 --trace "$trace" --policy "$policy" $compat --set place=count --set costs=muri-sim \
            --jobs-csv "$work/jobs.csv" >"$work/run.log" 2>&1 || sed 's/^/# /' "$work/run.log"
        set -- $(near "$file" "$work/jobs.csv")
        verdict "$name ${pair%:*}: $1 jobs, $2 differing; average JCT $3, baseline $4 s" "$1" -gt 0 -a "$2" = 0
        case $name-$policy in
        testbed-las) real=336533 ;;
        testbed-srtf) real=249140 ;;
        *) continue ;;
        esac
        off=$(echo "$3 $real" | awk '{ printf "%.2f", ($1 / $2 - 1) * 100 }')
        verdict "$name ${pair%:*}: $off % off the average measured on real GPUs, $real s" \
            "$(echo "$off" | awk '{ print ($1 > -3 && $1 < 3) }')" = 1
    done
done
echo "1..$tests"
