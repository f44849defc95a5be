#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_scripts.sh BUILD - the experiments' scripts on the fake driver, and the tables made of what they write; so that nothing
# is tried for the first time on a card. A few experiments; all of them with MUSTER_GPU_SCRIPTS=1. TAP on standard output.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export MUSTER_GPU_BUILD=$1 OUT MUSTER_GPU_EPS=100
command -v python3 >/dev/null || { echo "1..0 # SKIP no python3" && exit 0; }
OUT=$(mktemp -d)
trap 'rm -rf "$OUT"' EXIT
n=0 failed=0
check() { n=$((n + 1)) && if eval "$2"; then echo "ok $n - $1"; else failed=1 && echo "not ok $n - $1"; fi; }

# The tables.
check "the tables of recorded lines" 'python3 "$here/report.py" "$here/recorded.jsonl" | diff - "$here/recorded.md" >&2'
printf '# Title\n\n<!-- tables -->\nold\n<!-- end -->\n\nrest\n' >"$OUT/document"
check "they go between the marks of a document" 'python3 "$here/report.py" --update "$OUT/document" "$here/recorded.jsonl" &&
    ! grep -q "^old" "$OUT/document" && grep -q "^# Title" "$OUT/document" && grep -q "^rest" "$OUT/document" && grep -q "Against the targets" "$OUT/document"'
echo 'no marks' >"$OUT/document"
check "a document without marks is left alone" '! python3 "$here/report.py" --update "$OUT/document" "$here/recorded.jsonl" 2>/dev/null && [ "$(cat "$OUT/document")" = "no marks" ]'
check "a line that is no JSON is named" 'echo "{" >"$OUT/bad"; python3 "$here/report.py" "$OUT/bad" 2>&1 | grep -q "bad:1: expected a JSON object"'
check "the summary names every target once" '[ "$(python3 "$here/report.py" --summary "$here/recorded.jsonl" | grep -c "^met\|^missed\|^not measured")" = 33 ]'

# The scripts.
small="hold overhead tiers caps"
[ -z "${MUSTER_GPU_SCRIPTS:-}" ] || small="--part 1 --part 2 --part 3 --part 4 sweep-release --limit 1500"
bash "$here/all.sh" --fake $small nonsense >"$OUT/said" 2>&1
results=$(ls "$OUT"/results-*.jsonl)
check "every experiment ran to its end" '! grep "\"name\": \"piece\"" "$results" | grep -v nonsense | grep -v "\"rc\": 0,"'
check "none of them failed inside" '! grep -n "Traceback\|-error " "$OUT/said" >&2'
check "one that is not known is recorded, and stops nobody" 'grep -q "\"experiment\": \"nonsense\".*\"rc\": 2" "$results"'
check "the content was compared and is right" 'grep "hold-content" "$results" | grep -q "\"bad\": 0, \"checks\": 5"'
check "the limits between jobs were kept" 'grep "\"name\": \"caps-home\"" "$results" | grep -q "\"bad\": 0"'
check "a summary" 'grep -q "^met  *its content, by checksum" "$OUT"/summary-*.txt'
check "no more than eight files" '[ "$(ls "$OUT" | grep -c -- -)" -le 8 ]'
rm -f "$OUT"/*-some*
bash "$here/all.sh" --fake --limit 1 --only hold >"$OUT/said" 2>&1
check "without time left nothing is begun, and that is recorded" 'grep -q "\"experiment\": \"hold\".*\"rc\": 75" "$OUT/results-some.jsonl"'
check "the limits of a part are those of its experiments, and every one of them is known" 'for part in 1 2 3 4; do
    for name in $(sed -n "s/^part$part=\"\(.*\)\"/\1/p" "$here/all.sh"); do grep -q "[ |]$name[ )|]" "$here/all.sh" || { echo "$name" >&2 && false; } || exit 1; done; done'
check "a part that is not there is refused" '! bash "$here/all.sh" --part 9 2>/dev/null'
echo "1..$n"
exit $failed
