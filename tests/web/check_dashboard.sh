#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_dashboard.sh parts|browser - tests of the dashboard, by node. Skipped where there is none; `tools/setup web` installs it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v node >/dev/null; then
    echo "1..0 # SKIP no node; tools/setup web installs it"
    exit 0
fi
if [ "$1" = browser ]; then
    exec node "$here/browser.mjs"
fi
# Its own reporter says more than we want; lines at the margin are the results.
node --test "$here/parts.mjs" >/dev/null 2>&1 && tap=ok || tap=not
if [ $tap = ok ]; then
    echo "ok 1 - parts of the dashboard without a browser"
else
    echo "not ok 1 - parts of the dashboard without a browser"
    node --test "$here/parts.mjs" 2>&1 | tail -n 60 | sed 's/^/# /'
fi
echo "1..1"
test $tap = ok
