#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# console.sh MUSTER FILE.md - runs the commands of a document and prints it with what they print now.
#
# Commands are the lines that begin with `$ ` in blocks marked ```console, and lines right after that begin with `> `
# and continue them; they run in one folder, which is thrown away,
# with `muster` and `build/muster` standing for MUSTER and `tests` for the project's. Standard output and standard error are shown together. Where the
# document ends an output with a line `…`, as many lines as it has there are kept. So a document is true when this
# prints the document itself, and is brought up to date by writing this over it.
set -eu

muster=$(realpath "$1")
file=$(realpath "$2")
source=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/build"
ln -s "$source/tests" "$work/tests"
ln -s "$muster" "$work/bin/muster"
ln -s "$muster" "$work/build/muster"
cd "$work"
PATH=$work/bin:$PATH
export PATH NO_COLOR=1 LC_ALL=C.UTF-8
# Held back until it is known how much of the old output there is to match.
awk '
function flush(    line, kept) {
    if (command == "") return
    print command > ".command"
    close(".command")
    shell = "sh .command 2>&1 </dev/null"
    kept = 0
    while ((shell | getline line) > 0)
        if (limit < 0 || kept < limit) { print line; kept++ }
    close(shell)
    if (limit >= 0) print "…"
    command = ""
}
/^```/ { flush(); inside = !inside && /^```console$/; print; next }
inside && /^\$ / {
    flush()
    print
    command = substr($0, 3)
    limit = -1
    old = 0
    next
}
inside && command != "" && old == 0 && /^> / { print; command = command "\n" substr($0, 3); next }
inside && command != "" { if ($0 == "…") limit = old; old++; next }
{ print }
END { flush() }
' "$file"
