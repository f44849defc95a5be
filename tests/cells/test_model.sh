#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The allocator against tests/cells/model.py, step by step, on random scripts. By hand, many more:
#     CELL_MODEL='1 2000 300' MUSTER_BUILD=build sh tests/cells/test_model.sh      (first seed, seeds, steps)
. "${MUSTER_SOURCE:-.}/tests/tools/tap.sh"
muster=${MUSTER_BUILD:-build}/muster
# shellcheck disable=SC2086
set -- ${CELL_MODEL:-1 40 200}

accepts "the model records $2 scripts of $3 steps" python3 "$root/tests/cells/model.py" "$scratch" "$1" "$2" "$3"
accepts "all answers are the model's" sh -c "ls '$scratch'/seed-*.json | xargs -n 1000 '$muster' cell replay >'$scratch/said' ||
    { grep -A 3 '^FAIL' '$scratch/said' | head -40; exit 1; }"
# One script that is long.
rm -f "$scratch"/seed-*
accepts "a script of thousands of steps" sh -c "python3 '$root/tests/cells/model.py' '$scratch' 900 1 2500 &&
    '$muster' cell replay '$scratch/seed-900.json'"
finish
