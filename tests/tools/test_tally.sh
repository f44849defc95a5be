#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/tap.sh"

tally() { "$root/tools/tally" "$@"; }
log() { printf '{"name": "x", "stdout": "%s", "result": "%s", "starttime": 1.0, "returncode": 0}\n' "$1" "$2"; }
cd "$scratch"

log '1..2\nok 1 - a\nok 2 - b\n' OK >tap
says 'cases of a TAP program count one by one' '2 passed, 0 failed' tally tap
log '1..3\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no data\n' FAIL >mixed
says 'failed and skipped cases' '1 passed, 1 failed, 1 skipped' tally mixed
log '1..2\nok 1 - a\n' ERROR >crash
says 'a crash after a good case' '1 passed, 1 failed' tally crash
log 'fine, \"result\": \"FAIL\" it said' OK >plain
says 'a program without TAP counts as one' '1 passed, 0 failed' tally plain
log '' TIMEOUT >late
says 'a time-out is a failure' '0 passed, 1 failed' tally late
log 'SKIP no data' SKIP >skip
says 'a skipped program' '0 passed, 0 failed, 1 skipped' tally skip
refuses 'a failed case is named' 'failed: mixed: x not ok 2 - b' tally mixed
refuses 'a crash is named' 'failed: crash: x ERROR' tally crash
printf 'layers OK\ntidy FAIL\n' >lint
says 'a list of results' '1 passed, 1 failed' tally lint
refuses 'a failed line is named' 'failed: lint: tidy FAIL' tally lint
echo '7 passed, 2 failed, 3 skipped' >sum
says 'sums add up' '10 passed, 3 failed, 3 skipped' tally sum tap lint
: >empty
says 'an empty log is a failure' '2 passed, 1 failed' tally tap empty
says 'a missing log is a failure' '2 passed, 1 failed' tally tap nothing
accepts 'exit 0 when nothing failed' tally tap skip
refuses 'exit 1 when something failed' '1 failed' tally tap lint
finish
