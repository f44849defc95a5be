# SPDX-License-Identifier: Apache-2.0
# tap.sh - sourced by the tests of the tools: a scratch folder and TAP lines.
root=${MUSTER_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cases=0
failures=0

result() { # result STATUS TEXT
    cases=$((cases + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $cases - $2"
    else
        echo "not ok $cases - $2"
        failures=$((failures + 1))
        sed 's/^/# /' "$scratch/output"
    fi
}

# accepts TEXT COMMAND...: the command succeeds.
accepts() {
    text=$1
    shift
    "$@" >"$scratch/output" 2>&1
    result $? "$text"
}

# refuses TEXT PATTERN COMMAND...: the command fails and says something that matches the pattern.
refuses() {
    text=$1
    pattern=$2
    shift 2
    if "$@" >"$scratch/output" 2>&1; then
        result 1 "$text"
    else
        grep -q -e "$pattern" "$scratch/output"
        result $? "$text"
    fi
}

# says TEXT LINE COMMAND...: the last line the command prints is LINE, whatever its status.
says() {
    text=$1
    line=$2
    shift 2
    "$@" >"$scratch/output" 2>&1
    [ "$(tail -n 1 "$scratch/output")" = "$line" ]
    result $? "$text"
}

finish() {
    echo "1..$cases"
    [ $failures -eq 0 ]
    exit
}
