#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_docs.sh MUSTER - holds the documents against the program. Prints TAP.
#
# Every option and setting the program knows is in its manual page, every policy's page has its settings with their
# defaults, every reason and trace column is described, links resolve, and every console block shows what the commands
# print. Documents that fail the last are brought up to date with tests/docs/refresh.sh build/muster.
set -u

muster=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0
failed=0

is() { # NAME FILE: a test, passed when the file of complaints is empty
    number=$((number + 1))
    if [ -s "$2" ]; then
        echo "not ok $number - $1"
        sed 's/^/# /' "$2"
        failed=$((failed + 1))
    else
        echo "ok $number - $1"
    fi
}

# PAGE WORD...: complains of words that are not in the page as words of their own.
missing() {
    page=$1
    shift
    for word in "$@"; do
        grep -q -E -e "(^|[^a-z0-9_-])$word([^a-z0-9_-]|\$)" "$page" || echo "$page: no '$word'"
    done
}

flags() { "$muster" "$@" --help | grep -o -E -e '^ +-.*' | grep -o -E -e '--[a-z][a-z-]*|^ +-[a-zA-Z],' | tr -d ' ,' | sort -u; }

# Options.
for verb in run compare gen policies; do
    missing man/muster-sim.1.scd $(flags sim $verb)
done >"$work/sim"
is 'muster-sim(1) has every option' "$work/sim"
for verb in import stat; do
    missing man/muster-trace.1.scd $(flags trace $verb)
    missing man/muster-trace.1.scd $("$muster" trace $verb --help | awk '/^Formats:/ { on = 1; next } on { print $1 }')
done >"$work/trace"
is 'muster-trace(1) has every option and format' "$work/trace"
for verb in $("$muster" cell --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    missing man/muster-cell.1.scd "$verb" $(flags cell "$verb")
done >"$work/cell"
is 'muster-cell(1) has every option and verb' "$work/cell"
missing man/muster-gpu.1.scd $("$muster" gpu --help | grep -o -E -e '--[a-z][a-z-]*|^ +muster gpu [a-z]+' | sed 's/.* //' | sort -u) \
    >"$work/gpu"
is 'muster-gpu(1) has every option and verb' "$work/gpu"
: >"$work/k8s"
[ ! -x "$(dirname "$muster")/muster-k8s" ] ||
    missing man/muster-k8s.8.scd $("$(dirname "$muster")/muster-k8s" --help | grep -o -E -e '--[a-z][a-z-]*' | sort -u) >"$work/k8s"
is 'muster-k8s(8) has every option' "$work/k8s"
for group in sim trace cell; do
    for verb in $("$muster" $group --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
        missing man/muster.1.scd "$group $verb"
    done
done >"$work/verbs"
missing man/muster.1.scd $("$muster" --help | sed -n 's/^  \([a-z]*\) .*/\1/p') >>"$work/verbs"
is 'muster(1) has every verb' "$work/verbs"

# Settings: the message about an unknown one lists those of world and run; `policies` those of policies.
"$muster" sim gen --shape r1 --jobs 1 -o "$work/one.csv"
known=$("$muster" sim run -c 1x16 -t "$work/one.csv" -P fifo -s no-such-setting=1 2>&1 |
    sed -n 's/.*the world \(.*\); the run \(.*\)/\1, \2/p' | tr -d ',')
: >"$work/settings"
[ -n "$known" ] || echo "the program no longer lists its settings" >"$work/settings"
missing man/muster-sim.1.scd $known $("$muster" sim policies | sed -n 's/^    --set \([a-z-]*\)=.*/\1/p' | sort -u) >>"$work/settings"
missing docs/world-model.md $("$muster" sim run -c 1x16 -t "$work/one.csv" -P fifo -s no-such-setting=1 2>&1 |
    sed -n 's/.*the world \(.*\); the run .*/\1/p' | tr -d ',') >>"$work/settings"
is 'every setting is described' "$work/settings"

"$muster" sim policies | awk '
    /^[a-z]/ { name = $1; next }
    /^    --set / { split($2, set, "="); print name, set[1], set[2] }' | while read -r name key value; do
    page=docs/policies/$name.md
    grep -q -F -e "| \`$key\` | \`$value\` |" -e "| $key | \`$value\` |" "$page" 2>/dev/null ||
        echo "$page: no setting $key with the default $value"
done >"$work/knobs"
is 'every page of a policy has its settings and defaults' "$work/knobs"

policies=$("$muster" sim policies | grep -o '^[a-z][a-z0-9-]*')
for page in README.md docs/policies/README.md; do
    for name in $policies; do
        grep -q -F "[$name](" "$page" || echo "$page: no '$name'"
    done
done >"$work/policies"
is 'every policy is in the tables' "$work/policies"
places=$("$muster" sim run -c 1x16 -t "$work/one.csv" -P fifo -s place=no-such-place 2>&1 |
    sed -n 's/.*place: expected \(.*\), got.*/\1/p' | sed 's/,\| or / /g')
: >"$work/places"
[ -n "$places" ] || echo "the program no longer lists its placements" >"$work/places"
for page in README.md docs/policies/placement.md man/muster-sim.1.scd; do
    for name in $places; do
        grep -q -E "[\`|=_]$name[\`|_]" "$page" || echo "$page: no '$name'"
    done
done >>"$work/places"
is 'every placement is described' "$work/places"

# Words of the program.
missing man/muster-reasons.7.scd $(sed -n 's/^ *X([A-Z_]*, "\([A-Za-z]*\)".*/\1/p' src/model/reason.h) >"$work/reasons"
is 'muster-reasons(7) has every reason' "$work/reasons"
columns=$(sed -n 's/^ *X([A-Z_]*, "\([a-z_]*\)".*/\1/p' src/wire/trace/trace_columns.h)
missing man/muster-trace.5.scd $columns >"$work/columns"
missing docs/trace-format.md $columns >>"$work/columns"
is 'every column of a trace is described' "$work/columns"

# What readers see.
find man -name '*.scd' | sort | while read -r page; do
    [ -n "$(command -v scdoc)" ] || break
    scdoc <"$page" 2>&1 >/dev/null | sed "s|^|$page: |"
done >"$work/scdoc"
is 'manual pages are well formed' "$work/scdoc"
tools/links >"$work/links" 2>&1
is 'links lead somewhere' "$work/links"
MUSTER_DOCS=$$ # a mark that everything they start has in its environment
export MUSTER_DOCS
for file in $(grep -l -r --include='*.md' '^```console' README.md docs | sort); do
    tests/docs/console.sh "$muster" "$file" >"$work/now" 2>"$work/why"
    diff "$file" "$work/now" >>"$work/why" 2>&1
    is "$file shows what its commands print" "$work/why"
done
sleep 1
for process in $(grep -l -z -x "MUSTER_DOCS=$$" /proc/[0-9]*/environ 2>/dev/null); do
    name=$(cat "${process%environ}comm" 2>/dev/null)
    case $name in muster*) echo "$process: $name" ;; esac
done >"$work/left"
is 'nothing that they started is left running' "$work/left"
echo "1..$number"
[ $failed -eq 0 ]
