#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_grow.sh GROW - how the instructions of each verb grow with the array it is about: ten times the elements may cost
# 1.1 times what n log n allows. Counted by valgrind, so other programs on the machine change nothing.
set -u
grow=${1:?}
few=150 many=1500
unset MALLOC_PERTURB_ # what it fills would be counted
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

if ! command -v valgrind >/dev/null; then
    echo "1..0 # SKIP no valgrind"
    exit 0
fi

# count ELEMENTS: a line a case, its name and its instructions.
count() {
    mkdir "$work/$1"
    valgrind --tool=callgrind --callgrind-out-file="$work/$1/out" --instr-atstart=no "$grow" "$1" >"$work/$1/names" 2>"$work/$1/log" || {
        cat "$work/$1/log" >&2
        return 1
    }
    n=0
    while read -r name; do
        n=$((n + 1))
        printf '%s\t%s\n' "$(sed -n 's/^\(summary\|totals\): *//p' "$work/$1/out.$n" | head -n 1)" "$name"
    done <"$work/$1/names"
}

count $few >"$work/few" || exit 1
count $many >"$work/many" || exit 1
# ln(1,500) / ln(150) = 1.46.
paste "$work/few" "$work/many" | awk -F '\t' '
    {
        ratio = $1 > 0 ? $3 / $1 : 0
        good = ratio > 0 && ratio <= 10 * 1.46 * 1.1
        printf "%s %d - %s: %.2f times the instructions, at most 16.06 (%.1f and %.1f million)\n",
            good ? "ok" : "not ok", NR, $2, ratio, $1 / 1e6, $3 / 1e6
    }
    END { printf "1..%d\n", NR }'
