#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_lucid.sh - the baselines of Lucid's simulator for fifo, sjf and srtf: the same start, end and number of preemptions
# for every job. docs/parity.md says what each setting stands for.
. "$(dirname "$0")/common.sh"

# Its preemptive policies let a job hold its GPUs for one second more than it runs: an end is seen a tick late.
tick_late() {
    awk -F, -v OFS=, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "duration") at = i } NR > 1 { $at++ } 1' "$1"
}

for policy in fifo sjf srtf; do
    for file in "$traces"/baselines/lucid-sim/*--"$policy"--consolidate.csv.gz; do
        [ -f "$file" ] || continue
        name=$(basename "$file" .csv.gz)
        trace=$(input "${name%%--*}")
        if [ "$policy" = srtf ]; then
            tick_late "$trace" >"$work/late.csv"
            compare "$file" "$work/late.csv" srtf "" place=consolidate costs=lucid unplaced=hold
        else
            compare "$file" "$trace" "$policy" "" place=consolidate
        fi
    done
done
[ "$tests" -ge 3 ] || echo "not ok $((tests = tests + 1)) - baselines are missing"
echo "1..$tests"
