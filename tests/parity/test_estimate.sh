#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The estimator on jobs it has not seen, out of public measurements: mean absolute percentage errors beside what users
# ask for, the mean of the model or role, and nearest neighbours. It must win on GPU memory and utilisation.
. "$(dirname "$0")/../tools/tap.sh"

muster=${MUSTER_BUILD:-$root/build}/muster
traces=${MUSTER_SHARED:-$root/../shared}/traces
if [ ! -d "$traces/lucid" ]; then
    echo "1..0 # SKIP no public traces (MUSTER_SHARED)"
    exit 0
fi
here=$(dirname "$0")

# wins TEXT TARGET: in the table on standard input the forest's error is the least of its line.
wins() {
    awk -v target="$2" '$1 == target {
        least = 1e9
        for (i = 4; i <= 6; i++) if ($i != "-" && $i + 0 < least) least = $i + 0
        found = 1
        bad = !($3 + 0 < least)
    } END { exit !found || bad }' "$scratch/table" >"$scratch/output" 2>&1
    result $? "$1"
}

table() { # table WHICH OPTION...
    which=$1
    shift
    sh "$here/estimate_data.sh" "$which" "$traces" >"$scratch/$which.csv"
    "$muster" estimate eval --data "$scratch/$which.csv" "$@" >"$scratch/table" 2>"$scratch/output"
    result $? "$which can be measured"
    sed "s/^/# $which: /" "$scratch/table"
}

table lucid --targets gmem,gpu_util,gmem_util,speed --user model --request gmem=24576 --request gpu_util=100 --leaf 1 --folds 66
wins 'GPU memory of a job' gmem
wins 'utilisation of a job' gpu_util
table pairs --targets gmem,gpu_util --user model1 --request gmem=24576 --request gpu_util=100 --leaf 1 --folds 5 --rows 100
wins 'GPU memory of a pair' gmem
wins 'utilisation of a pair' gpu_util
table sia --targets step_time,sync_time --user app --folds 5 --rows 100 --leaf 2
wins 'time of a step' step_time
table pai --targets seconds --user role --holdout 0.2 --rows 500
wins 'run time of a task' seconds
finish
