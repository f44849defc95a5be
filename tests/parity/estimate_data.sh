#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# estimate_data.sh WHICH TRACES - finished jobs as a table, out of public measurements, to standard output:
#   lucid    each profiled job alone: model, data set, batch size, amp -> GPU memory, utilisation, memory traffic, speed
#   pairs    two jobs on one GPU: both jobs' features -> memory and utilisation of the pair
#   sia      steps measured for Pollux and Sia: application, GPU type, GPUs, nodes, batch -> time of a step, of its exchange
#   pai      tasks of Alibaba PAI in the order they began: role, day, hour, GPUs -> run time
set -eu

which=$1
traces=$2
case $which in
lucid)
    cut -d, -f1-8 "$traces/lucid/single_data.csv"
    ;;
pairs)
    cut -d, -f2,3,5,6,8,9,11,12,14,16 "$traces/lucid/colocate_info.csv"
    ;;
sia)
    echo app,gpu,gpus,nodes,local_bsz,step_time,sync_time
    for file in "$traces"/pollux/traces/*/placements*.csv "$traces"/sia/traces/*/placements*.csv; do
        type=$(basename "$file" .csv | sed 's/^placements-*//')
        awk -F, -v app="$(basename "$(dirname "$file")")" -v type="${type:-aws}" '
            NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
            $at["step_time"] > 0 && $at["sync_time"] > 0 {
                shape = $at["placement"]
                gpus = 0
                for (i = 1; i <= length(shape); i++) gpus += substr(shape, i, 1)
                print app "," type "," gpus "," length(shape) "," $at["local_bsz"] "," $at["step_time"] "," $at["sync_time"]
            }' "$file"
    done
    ;;
pai)
    echo role,day,hour,gpus,seconds
    gzip -dc "$traces/alibaba-pai/pai-gpujobs-sample60k.csv.gz" | tr -d '\r' | awk -F, 'NR > 1 {
        role = $1
        sub(/.*-/, "", role)
        sub(/#.*/, "", role)
        print role "," int($2 / 86400) % 7 "," int($2 / 3600) % 24 "," $4 "," $3
    }'
    ;;
esac
