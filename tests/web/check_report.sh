#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_report.sh MAKE_REPORT [MUSTER] - opens reports in a real, headless Chromium and looks at what became of them: no error of
# the script, every plot drawn, pointer and keyboard answered, nothing wider than a phone, the numbers there without
# JavaScript, nothing fetched from elsewhere. Prints TAP; skipped without a browser. KEEP=DIR keeps pages and
# screenshots there.
set -u

make_report=$1
muster=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
browser=$(command -v chromium || command -v chromium-browser || true)
if [ -z "$browser" ]; then
    echo "1..0 # SKIP no chromium"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0
failed=0

# open PAGE WIDTH,HEIGHT [FLAG...]: what Chromium does with it, on stdout.
open() {
    file=$1 window=$2
    shift 2
    # A user's session, sandboxes and the network have no part in this; a fresh profile for each page.
    rm -rf "$work/profile"
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars \
        --disable-background-networking --disable-component-update --disable-sync --virtual-time-budget=5000 \
        --user-data-dir="$work/profile" --window-size="$window" "$@" "file://$file" 2>"$work/stderr"
}

is() { # NAME COMMAND...: a test, passed when the command succeeds
    title=$1
    shift
    number=$((number + 1))
    if "$@" >"$work/why" 2>&1; then
        echo "ok $number - $title"
    else
        echo "not ok $number - $title"
        sed 's/^/# /' "$work/why"
        failed=$((failed + 1))
    fi
}

has() { grep -q -e "$1" "$2" || { echo "no $1 in $2"; return 1; }; }
both() { has "$1" "$3" && has "$2" "$3"; }
lacks() { ! grep -o -e "$1" "$2"; }
clean() { # DOM: the probe ran and found nothing
    grep -o 'data-error="[^"]*"' "$1" && return 1
    has 'data-probed="[1-9]' "$1" && has 'data-found=""' "$1" || { grep -o 'data-found="[^"]*"' "$1" | tr '|' '\n'; return 1; }
}
small() { test "$(wc -c <"$1")" -lt 5242880; }

# NAME WIDTH,HEIGHT PLOTS ARGUMENTS...: one report, probed.
probe() {
    name=$1 size=$2 plots=$3
    shift 3
    if [ "$1" = sim ]; then
        "$muster" "$@" --report "$work/$name.html" >"$work/table" 2>"$work/talk" || { echo "Bail out! muster failed"; exit 1; }
    else
        "$make_report" "$work/$name.html" "$@" >"$work/table" || { echo "Bail out! make_report failed"; exit 1; }
    fi
    # The probe is one more script, behind the report's own.
    awk -v probe="$here/probe.js" '/^<\/body>/ { print "<script>"; while ((getline line < probe) > 0) print line; print "</script>" } { print }' \
        "$work/$name.html" >"$work/$name-probe.html"
    open "$work/$name-probe.html" "$size" --dump-dom >"$work/$name.dom"
    is "$name: drawn, pointed at, typed at" clean "$work/$name.dom"
    is "$name: $plots figures" has "data-ready=\"$plots\"" "$work/$name.dom"
    is "$name: below 5 MiB" small "$work/$name.html"
    if [ -n "${KEEP:-}" ]; then
        mkdir -p "$KEEP"
        cp "$work/$name.html" "$KEEP/"
        open "$work/$name.html" "$size" --screenshot="$KEEP/$name.png" >/dev/null
        open "$work/$name.html" "$size" --blink-settings=preferredColorScheme=0 --screenshot="$KEEP/$name-dark.png" >/dev/null
    fi
}

probe compare 1400,6000 10 480 1 4 r1
probe phone 500,9000 10 480 1 4 r1
probe seeds 1400,5000 10 200 5 3 r1
probe single 1400,5000 10 300 1 1 r1
probe idle 1400,5000 9 30 1 2 r1-low
probe tiny 1400,5000 8 1 1 1 r1
if [ -n "$muster" ]; then
    "$muster" sim gen --shape r1 -o "$work/r1.csv" || { echo "Bail out! muster sim gen failed"; exit 1; }
    probe real 1400,5000 8 sim compare --cluster 15x4 --trace "$work/r1.csv" --policy fifo,fifo-skip,srtf,srsf
    probe queues 1400,6000 9 sim compare --cluster 15x4 --trace "$work/r1.csv" --policy las,gittins --set knob=8
    awk -F, -v OFS=, 'NR == 1 { print $0, "gpus_min", "gpus_max"; next } { print $0, 1, 16 }' "$work/r1.csv" >"$work/elastic.csv"
    probe predictions 1400,6000 9 sim run --cluster 30x4 --trace "$work/elastic.csv" --policy optimus
    probe yarn 1400,5000 8 sim run --cluster "racks:2 nodes:4 gpus:8" --trace "$work/r1.csv" --policy yarn-cs
    # What is done to running jobs: the same small runs as in tests/unit/test_gantt.c, and pairs that stay.
    printf 'id,submit,duration,gpus,gpus_min,gpus_max\ne,0,1000,2,2,4\nn,100,500,1,1,1\n' >"$work/sizes.csv"
    probe sizes 1400,5000 7 sim run --cluster 1x4 --trace "$work/sizes.csv" --policy gandiva --set costs=gandiva
    is "sizes: triangles, up and down" both 'class="grown"' 'class="shrunk"' "$work/sizes.dom"
    is "sizes: a key says what they are" both '<b>triangle up</b>more GPUs' '<b>triangle down</b>fewer GPUs' "$work/sizes.dom"
    is "sizes: in the table, from 2 to 4" has 'job e grows, 2 → 4' "$work/sizes.dom"
    printf 'id,submit,duration,gpus\n%s\n' "$(i=0; for run in 100 100 100 1 1 100 900 900; do echo "f$i,0,$run,1"; i=$((i + 1)); done; echo "g,0,500,2")" >"$work/moves.csv"
    probe moves 1400,5000 8 sim run --cluster 2x4 --trace "$work/moves.csv" --policy fifo --set optimise=migrate --set costs=gandiva
    is "moves: an arrow with a head" has 'class="move" d="M[^"]*" marker-end="url(#gantt-head)"' "$work/moves.dom"
    is "moves: a key says what it is" has '<b>arrow</b>moved' "$work/moves.dom"
    is "moves: in the table, from where and to where" has 'job g moves</td><td>n0:3, n1:0</td><td>n1:0–1' "$work/moves.dom"
    is "moves: pointing at it says so" has 'data-marks="[^"]*job g moves' "$work/moves.dom"
    printf 'id,submit,duration,gpus,model\na,0,4000,1,m\nb,0,4000,1,m\nc,10,400,1,other\n' >"$work/pairs.csv"
    printf 'model_a,model_b,rate_a,rate_b\nm,m,0.7,0.7\nm,other,0,0\n' >"$work/rates.csv"
    probe pairs 1400,5000 8 sim run --cluster 1x2 --trace "$work/pairs.csv" --policy fifo-skip+pack --set pairs="$work/rates.csv"
    is "pairs: a circle" has 'class="packed"' "$work/pairs.dom"
    is "pairs: in the table" has 'job a is packed' "$work/pairs.dom"
    printf 'id,submit,duration,gpus,class,utilisation\no,0,100,1,opportunistic,40\ng,10,50,1,guaranteed,50\n' >"$work/guests.csv"
    probe guests 1400,5000 7 sim run --cluster 1x1 --trace "$work/guests.csv" --policy antman
    is "guests: dots, and a key" both 'fill="url(#gantt-guest)"' '<b>dots</b>guest' "$work/guests.dom"
    is "guests: what it may have" both 'o 10%' 'job o may have 10 % of the time' "$work/guests.dom"
    printf 'id,submit,duration,gpus,tier\na,0,9000,8,standard\nb,0,9000,8,standard\nc,60,9000,8,standard\n' >"$work/splices.csv"
    probe splices 1400,5000 7 sim run --cluster 1x20 --trace "$work/splices.csv" --policy singularity --set costs=singularity --set turns=0
    is "splices: lines, and a key" both 'fill="url(#gantt-splice)"' '<b>lines</b>spliced' "$work/splices.dom"
    is "splices: in the table" has 'job b shrinks, its workers as they are, 8 → 4' "$work/splices.dom"
    is "no marks, no keys of marks" lacks 'class="sign"' "$work/compare.dom"
fi

page=$work/compare.html
sed "s/script-src 'unsafe-inline'/script-src 'none'/" "$page" >"$work/plain.html"
open "$work/plain.html" 1400,3000 --dump-dom >"$work/plain.dom"
is "without JavaScript: no script ran" lacks 'data-ready=' "$work/plain.dom"
is "without JavaScript: the numbers are there" has '<td class="best"' "$work/plain.dom"
is "without JavaScript: a word about the plots" has '<noscript>.*plots need JavaScript' "$page"
is "nothing from elsewhere" lacks '\(src\|href\)="[^"#]*"\|url([^#)][^)]*)\|@import\|https\?://[^w][^"]*' "$page"
is "names are escaped" lacks '<img' "$page"
is "one data block, not broken out of" test "$(grep -c '</script>' "$page")" = 2
is "says how to get it again" has 'muster sim run --cluster 8x8 --trace &#39;busy week &amp; more.csv&#39; --policy fifo' "$page"

echo "1..$number"
test "$failed" -eq 0
