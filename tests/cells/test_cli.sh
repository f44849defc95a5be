#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# muster cell as a user meets it: exit codes, messages, tables.
. "${MUSTER_SOURCE:-.}/tests/tools/tap.sh"
muster=${MUSTER_BUILD:-build}/muster
cells=$root/tests/cells

code() { # code TEXT STATUS COMMAND...
    text=$1
    want=$2
    shift 2
    "$@" >"$scratch/output" 2>&1
    [ $? -eq "$want" ]
    result $? "$text"
}

accepts "the labs pass" "$muster" cell replay "$cells/labs.json"
says "totals" "5 cases: 5 passed, 0 failed; 52 steps; answers: 32 exact, 1 equivalent" "$muster" cell replay "$cells/labs.json"
sed 's/"node": "d"/"node": "c"/' "$cells/labs.json" >"$scratch/wrong.json"
cp "$cells/l1.yaml" "$cells/l2.yaml" "$scratch/"
code "a failing case: 1" 1 "$muster" cell replay "$scratch/wrong.json"
refuses "it says what came" 'got      bind d' "$muster" cell replay "$scratch/wrong.json"
echo '{"format":1,"cases":[{"id":"x","cluster":"l1.yaml","steps":[{"op":"dance"}]}]}' >"$scratch/op.json"
code "a bad script: 2" 2 "$muster" cell replay "$scratch/op.json"
refuses "an unknown step is named" "cases\[0\].steps\[0\]: unknown op 'dance'" "$muster" cell replay "$scratch/op.json"
echo '{"format":1' >"$scratch/cut.json"
code "no JSON: 2" 2 "$muster" cell replay "$scratch/cut.json"
accepts "as JSON" sh -c "'$muster' cell replay --json '$cells/labs.json' | grep -q '\"failed\": 0'"
accepts "the tree" sh -c "'$muster' cell tree '$cells/racks.yaml' | grep -q 'NODE  4 leaf cells  vc a  pinned  = a/1'"
accepts "the grants" sh -c "'$muster' cell ls '$cells/racks.yaml' | grep -q '^b  *RACK  *SWITCH  *4  *8'"
accepts "one cell" "$muster" cell show "$cells/racks.yaml" b/3/0
code "no such cell: 3" 3 "$muster" cell show "$cells/racks.yaml" b/9
refuses "errors have a place" "bad_pin.yaml:13:36: no physical cell has pinnedCellId 'NOBODY'" "$muster" cell tree "$cells/bad_pin.yaml"
sed 's/    pinnedCells:/    pinedCells:/' "$cells/racks.yaml" >"$scratch/typo.yaml"
accepts "unknown keys are told" sh -c "'$muster' cell ls '$scratch/typo.yaml' 2>&1 | grep -q 'typo.yaml:.*unknown key .pinedCells. in a virtual cluster is ignored'"
finish
