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
check "the summary names every target once" '[ "$(python3 "$here/report.py" --summary "$here/recorded.jsonl" | grep -c "^met\|^missed\|^not measured")" = 34 ]'
# judged LINES VERDICT ROW - what the summary of these lines says of a row.
judged() { printf '%s\n' "$1" | sed 's/^{/{"run": "r", "experiment": "e", /' >"$OUT/lines" && python3 "$here/report.py" --summary "$OUT/lines" | grep -q "^$2  *$3"; }
lowered='{"name": "memory-cold", "seconds": 0.1, "rc": 0}
{"name": "memory-cold", "seconds": 0.1, "rc": 0}
{"name": "memory-cold-curve", "equal": true, "error": ""}'
check "limits that all held in time are met" 'judged "$lowered" met "limit lowered"'
check "one order that was late is a miss, whatever the median" 'judged "$lowered
{\"name\": \"memory-cold\", \"seconds\": 0.2, \"rc\": 0}" missed "limit lowered.*1 of them late"'
check "results that differed in one of two runs are a miss" 'judged "{\"name\": \"memory-cold-curve\", \"equal\": false, \"error\": \"\"}
$lowered" missed "limit lowered.*not equal"'
content='{"name": "hold-content", "bad": 0, "checks": 5}'
check "contents are judged by every run" 'judged "$content" met "its content.*5 times" && judged "{\"name\": \"hold-content\", \"bad\": 1, \"checks\": 5}
$content" missed "its content.*10 times compared, 1 wrong"'
check "a case of coverage that was not reached, or not seen, is a miss" 'judged "{\"name\": \"coverage\", \"case\": \"eager\", \"launches\": 3, \"cupti\": 3}" missed "coverage.*eager 3/3; cudnn not reached"'
evicted='{"name": "small", "experiment": "small", "verb": "evict", "save_s": 0.1, "restore_s": 0.1, "rc": 0}'
check "an order that failed is a miss" 'judged "$evicted" met "evict of a small" && judged "$evicted
{\"name\": \"small\", \"experiment\": \"small\", \"verb\": \"evict\", \"save_s\": null, \"rc\": 1}" missed "evict of a small.*an order failed"'

# Recording: what is captured by two threads is in the trace, between the begin and the end of the capture, and can be replayed.
fake=$MUSTER_GPU_BUILD/tests/fakecuda
check "calls are recorded, of every kind" 'RECORD_JOBS=standin.py LD_LIBRARY_PATH="$fake" sh "$here/record.sh" "$OUT/traces" >"$OUT/said" 2>&1 || ! cat "$OUT/said" >&2;
    [ "$(grep -c "^RESULT record" "$OUT/said")" = 4 ]'
check "a captured step is whole: what both threads launched lies inside" \
    '[ "$(sed -n "/^B /,/^K /p" "$OUT/traces/step.txt" | grep -c "^L ")" = 10 ] && [ "$(sed -n "/^B /,/^K /p" "$OUT/traces/graph.txt" | grep -c "^L ")" = 3 ] && [ "$(grep -c "^J " "$OUT/traces/step.txt")" = 3 ]'
check "and it can be replayed" 'LD_PRELOAD="$MUSTER_GPU_BUILD/libmuster_gpu.so" LD_LIBRARY_PATH="$fake" MUSTER_GPU_COUNT=1 MUSTER_GPU_CONTEXT=0 "$fake/fake_replay" "$OUT/traces/step.txt" >"$OUT/said" 2>&1 || ! cat "$OUT/said" >&2'
rm -rf "$OUT/traces"

# The scripts.
small="hold overhead tiers caps capture"
[ -z "${MUSTER_GPU_SCRIPTS:-}" ] || small="--part 1 --part 2 --part 3 --part 4 sweep-release --limit 1500"
bash "$here/all.sh" --fake $small nonsense >"$OUT/said" 2>&1
results=$(ls "$OUT"/results-*.jsonl)
check "every experiment ran to its end" '! grep "\"name\": \"piece\"" "$results" | grep -v nonsense | grep -v "\"rc\": 0,"'
check "none of them failed inside" '! grep -n "Traceback\|-error " "$OUT/said" >&2'
check "one that is not known is recorded, and stops nobody" 'grep -q "\"experiment\": \"nonsense\".*\"rc\": 2" "$results"'
check "the content was compared and is right" 'grep "hold-content" "$results" | grep -q "\"bad\": 0, \"checks\": 5"'
check "the limits between jobs were kept" 'grep "\"name\": \"caps-home\"" "$results" | grep -q "\"bad\": 0"'
check "graphs of whole steps gave what the steps give" 'grep -q "^met  *graphs of whole steps" "$OUT"/summary-*.txt'
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
