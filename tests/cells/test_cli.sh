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
refuses "and where" 'wrong.json:[0-9]*: step 1 (schedule)' "$muster" cell replay "$scratch/wrong.json"
echo '{"format":1,"cases":[{"id":"x","cluster":"l1.yaml","steps":[{"op":"dance"}]}]}' >"$scratch/op.json"
code "a bad script: 2" 2 "$muster" cell replay "$scratch/op.json"
refuses "an unknown step is named, with its line" "op.json:1:61: unknown op 'dance'" "$muster" cell replay "$scratch/op.json"
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
cat >"$scratch/words.yaml" <<'END'
racks:
  - {count: 2, nodes: {count: 4, gpus: 8, sku: H100, sockets: 2}}
vcs:
  nlp: {guarantee: {H100: "4 nodes"}}
  cv: {guarantee: {H100: "1 node + 16 gpus in 4s"}}
END
accepts "words are explained" sh -c "'$muster' cell expand '$scratch/words.yaml' | grep -q '^# cv: H100: 16 gpus in 4s = 4 sockets\$'"
"$muster" cell expand "$scratch/words.yaml" >"$scratch/hived.yaml"
accepts "words and HiveD's form are the same cells" sh -c "'$muster' cell tree '$scratch/words.yaml' >'$scratch/a' &&
    '$muster' cell tree -c '$scratch/hived.yaml' >'$scratch/b' && cmp '$scratch/a' '$scratch/b'"
accepts "words as JSON" sh -c "'$muster' cell expand --json '$scratch/words.yaml' | grep -q 'cv: H100: 16 gpus in 4s = 4 sockets'"
accepts "cells of a short string" sh -c "'$muster' cell ls -c 4x8:H100 | grep -q '^default  *H100-RACK  *H100-NODE  *4  *32'"
sed 's/4 nodes/8 nodes/' "$scratch/words.yaml" >"$scratch/much.yaml"
refuses "too much is refused with what can be had" "much.yaml:5:26: H100: 1 node cannot be had: the others have all of it" "$muster" cell ls "$scratch/much.yaml"
# A node that is apart breaks up its rack and no other; only opportunistic jobs run there.
cat >"$scratch/apart.yaml" <<'END'
racks:
  - {nodes: [{count: 3, gpus: 2, sku: G}, {gpus: 2, sku: G, apart: true}]}
  - {nodes: {count: 4, gpus: 2, sku: G}}
vcs:
  a: {guarantee: 1 rack}
  b: {guarantee: 3 nodes}
END
accepts "apart: the rest is granted" sh -c "'$muster' cell ls '$scratch/apart.yaml' | grep -q '^b  *G-RACK  *G-NODE  *3  *6'"
sed 's/3 nodes/4 nodes/' "$scratch/apart.yaml" >"$scratch/apart2.yaml"
refuses "apart: and no more" "apart2.yaml:6:18: G: 4 nodes cannot be had; beside what the others have, the most is 3 nodes" \
    "$muster" cell ls "$scratch/apart2.yaml"
sed 's/1 rack/2 racks/' "$scratch/apart.yaml" >"$scratch/apart2.yaml"
refuses "apart: its rack is none" "apart2.yaml:5:18: G: 2 racks cannot be had; beside what the others have, the most is 1 rack" \
    "$muster" cell ls "$scratch/apart2.yaml"
sed 's/apart: true/apart: 7/' "$scratch/apart.yaml" >"$scratch/apart2.yaml"
refuses "apart: true or false" "apart2.yaml:2:68: apart: expected true or false" "$muster" cell ls "$scratch/apart2.yaml"
cat >"$scratch/apart.csv" <<'END'
id,submit,duration,gpus,vc,class
1,0,9,8,a,guaranteed
2,0,9,6,b,guaranteed
3,0,9,2,b,opportunistic
4,1,9,2,b,opportunistic
END
accepts "apart: simulated" "$muster" sim run -c "$scratch/apart.yaml" -t "$scratch/apart.csv" --policy fifo-skip --log "$scratch/apart.log"
accepts "apart: guarantees lie beside it, a guest on it" sh -c "grep -q '^0 start 3 n3:0,1\$' '$scratch/apart.log' &&
    grep -q '^0 start 1 n4:0,1 n5:0,1 n6:0,1 n7:0,1\$' '$scratch/apart.log' && grep -q '^9 start 4' '$scratch/apart.log'"
# A machine with two types of devices is a node of each in the simulator; it breaks, and comes back, as one.
cat >"$scratch/two.csv" <<'END'
id,submit,duration,gpus,vc,sku
1,0,10,4,v,A
2,0,10,1,v,B
3,1,10,4,v,A
END
printf 'at,node,gpu,state\n5,m,,down\n7,m,,up\n15,m,4,down\n16,m,4,up\n' >"$scratch/two.faults"
sim_two() {
    "$muster" sim run -c "$cells/two_chains.yaml" -t "$scratch/two.csv" --policy fifo --log "$scratch/two.log" "$@"
}
accepts "two chains: both types are used" sim_two
accepts "two chains: each job on its type" grep -q '^0 start 2 n1:0$' "$scratch/two.log"
accepts "two chains: a machine breaks" sim_two --set "faults=$scratch/two.faults"
accepts "two chains: with all its devices, and only one of them by itself" sh -c "
    [ \$(grep -c '^5 kill' '$scratch/two.log') -eq 2 ] && [ \$(grep -c '^15 kill 2 ' '$scratch/two.log') -eq 1 ] &&
    [ \$(grep -c '^7 start' '$scratch/two.log') -eq 2 ] && [ \$(grep -c kill '$scratch/two.log') -eq 3 ]"
printf 'at,node,gpu,state\n5,m,5,down\n' >"$scratch/two.faults"
refuses "two chains: it has five devices" "two.faults:2:5: gpu: expected .* from 0 to 4" sim_two --set "faults=$scratch/two.faults"
finish
