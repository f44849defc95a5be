#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The allocator against tests/cells/model.py, step by step, on random scripts. By hand, many more:
#     CELL_MODEL='1 2000 300' MUSTER_BUILD=build sh tests/cells/test_model.sh      (first seed, seeds, steps)
. "${MUSTER_SOURCE:-.}/tests/tools/tap.sh"
muster=${MUSTER_BUILD:-build}/muster
record=$root/tests/cells/record.py
# shellcheck disable=SC2086
set -- ${CELL_MODEL:-1 40 200}

replay() { # replay TEXT OPTION...: all that was recorded
    text=$1
    shift
    accepts "$text" sh -c "ls '$scratch'/seed-*.json | xargs -n 1000 '$muster' cell replay $* >'$scratch/said' ||
        { grep -A 3 '^FAIL' '$scratch/said' | head -40; exit 1; }"
}

accepts "the model records $2 scripts of $3 steps" python3 -B "$record" "$scratch" "$1" "$2" "$3"
replay "all answers are the model's" --as described
# The same as HiveD itself.
rm -f "$scratch"/seed-*
accepts "as many as HiveD itself" python3 -B "$record" "$scratch" "$1" "$2" "$3" hived
replay "all answers are the model's in that manner" --as hived
replay "untold, the manner they were recorded in is found" --as either
# One script that is long.
rm -f "$scratch"/seed-*
accepts "a script of thousands of steps" sh -c "python3 -B '$record' '$scratch' 900 1 2500 &&
    '$muster' cell replay --as described '$scratch/seed-900.json'"
finish
