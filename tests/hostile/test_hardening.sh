#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_hardening.sh KIND=FILE... - what makes a mistake harder to use is in the programs that were built. TAP.
#
# KIND: program (position-independent, linked at its start, read-only after, stack protector, fortified), static (as far
# as a program without a loader can), preloaded (linked at its start, read-only after; docs/security.md says why no more).
set -u
n=0 failed=0
if ! command -v readelf >/dev/null; then
    echo "1..0 # SKIP no readelf"
    exit 0
fi

# check WORDS COMMAND... - a test, passed when the command succeeds.
check() {
    words=$1
    shift
    n=$((n + 1))
    if "$@"; then
        echo "ok $n - $words"
    else
        echo "not ok $n - $words"
        failed=1
    fi
}
header() { readelf -hW "$1" | grep -Eq "$2"; }
segments() { readelf -lW "$1" | grep -Eq "$2"; }
dynamic() { readelf -dW "$1" | grep -Eq "$2"; }
symbols() { readelf -sW "$1" | grep -Eq "$2"; }
stack_plain() { ! readelf -lW "$1" | grep GNU_STACK | grep -q E; }

for argument; do
    kind=${argument%%=*} file=${argument#*=}
    name=${file##*/}
    check "$name: no stack that can be executed" stack_plain "$file"
    check "$name: relocations are read-only after the start" segments "$file" GNU_RELRO
    if [ "$kind" != static ]; then
        check "$name: all symbols are looked up at the start" dynamic "$file" 'BIND_NOW|FLAGS.*NOW'
    fi
    if [ "$kind" != preloaded ]; then
        check "$name: stack protector" symbols "$file" '__stack_chk_fail'
        check "$name: fortified calls" symbols "$file" '__(memcpy|snprintf|vsnprintf|fprintf|printf|read|memset)_chk'
    fi
    if [ "$kind" = program ]; then
        check "$name: position-independent" header "$file" 'Type: *DYN'
    fi
done
echo "1..$n"
exit $failed
