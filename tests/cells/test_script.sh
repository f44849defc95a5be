#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Replay scripts: what makes one bad and how that is told, several at a time, what a failure shows, what --json has.
. "${MUSTER_SOURCE:-.}/tests/tools/tap.sh"
muster=${MUSTER_BUILD:-build}/muster
cells=$root/tests/cells
cp "$cells"/*.yaml "$scratch/"

# bad TEXT MESSAGE: the script is refused with exit status 2 and the place of what is wrong.
bad() {
    "$muster" cell replay "$scratch/s.json" >"$scratch/output" 2>&1
    [ $? -eq 2 ] && grep -qF "s.json:$2" "$scratch/output"
    result $? "$1"
}
# step TEXT MESSAGE STEP: the same with one step; ask TEXT MESSAGE MEMBERS: with a question that has these members.
step() {
    printf '{"format":1,"cases":[{"id":"x","cluster":"quad.yaml","steps":[\n%s]}]}\n' "$3" >"$scratch/s.json"
    bad "$1" "2:1: $2"
}
ask() { step "$1" "$2" "{\"op\":\"schedule\",\"pod\":\"p\",\"spec\":{},$3}"; }
whole() {
    printf '%s\n' "$3" >"$scratch/s.json"
    bad "$1" "$2"
}

whole "no JSON" "2:1:" '{"format":1'
whole "not this format" '1:1: expected an object with "format": 1' '{"format":2,"cases":[]}'
whole "no cases" "1:1: cases: expected a list" '{"format":1}'
whole "cases are a list" "1:22: cases: expected a list" '{"format":1, "cases":{}}'
whole "defaults are an object" "1:25: defaults: expected an object" '{"format":1, "defaults":[], "cases":[]}'
whole "a phase" "1:25: phase: expected Filtering or Preempting" '{"format":1, "defaults":{"phase":"Binding"}, "cases":[]}'
whole "commit" "1:25: commit: expected true or false" '{"format":1, "defaults":{"commit":"no"}, "cases":[]}'
whole "a case has an id" "1:22: expected a case: an object with id and cluster" '{"format":1,"cases":[{"cluster":"quad.yaml","steps":[]}]}'
whole "a case has a cluster" "1:22: expected a case" '{"format":1,"cases":[{"id":"x","steps":[]}]}'
whole "a case has steps" "1:22: expected a list of steps" '{"format":1,"cases":[{"id":"x","cluster":"quad.yaml"}]}'
whole "expectLoad" "1:22: expectLoad: expected error" '{"format":1,"cases":[{"id":"x","cluster":"c","expectLoad":"fine"}]}'
whole "chainOrder" "1:22: chainOrder: expected {leaf type: [chain, ...]}" '{"format":1,"cases":[{"id":"x","cluster":"c","steps":[],"chainOrder":{"A":"B"}}]}'
whole "maxStepMillis" "1:22: maxStepMillis: expected a number" '{"format":1,"cases":[{"id":"x","cluster":"c","steps":[],"maxStepMillis":"1s"}]}'
step "a step is an object" "expected a step" '7'
step "an unknown op" "unknown op 'dance'" '{"op":"dance"}'
step "no op" "unknown op ''" '{"pod":"p"}'
step "a pod" "'pod' is missing" '{"op":"cancel"}'
step "a spec" "'spec' is missing" '{"op":"schedule","pod":"p"}'
step "health" "'healthy' is missing: expected true or false" '{"op":"node","name":"n0"}'
step "health is no word" "healthy: expected true or false" '{"op":"node","name":"n0","healthy":"yes"}'
step "ifAllocated" "ifAllocated: expected true or false" '{"op":"release","pod":"p","ifAllocated":1}'
step "a key with a slip in it" "unknown key 'ifAlocated'; did you mean 'ifAllocated'?" '{"op":"release","pod":"p","ifAlocated":true}'
step "a key in another case" "unknown key 'leafcells'; did you mean 'leafCells'?" '{"op":"schedule","pod":"p","spec":{},"expect":{"result":"bind","leafcells":[0]}}'
step "a predicate with a slip" "unknown key 'sameNodeas'" '{"op":"schedule","pod":"p","spec":{},"expect":{"result":"bind","accept":{"sameNodeas":"q"}}}'
step "a member of sameCellAs" "unknown key 'pods'" '{"op":"schedule","pod":"p","spec":{},"expect":{"result":"bind","accept":{"sameCellAs":{"pods":"q","pod":"q","cellType":"T"}}}}'
step "a member of what is allowed" "unknown key 'stat'" '{"op":"expectLeafCells","node":"n0","allow":[{"stat":"Free","priority":-2}]}'
whole "a key of a script" "1:1: unknown key 'case'" '{"format":1,"case":[],"cases":[]}'
whole "a key of a case" "1:22: unknown key 'chainorder'" '{"format":1,"cases":[{"id":"x","cluster":"c","steps":[],"chainorder":{}}]}'
whole "a key of the defaults" "1:25: unknown key 'commits'" '{"format":1, "defaults":{"commits":true}, "cases":[]}'
step "nothing that is allowed" "allow: expected a state, a priority or both" '{"op":"expectLeafCells","node":"n0","allow":[{"notes":"any"}]}'
step "a state" "state: expected Allocated, Preempting, BeingPreempted or absent" '{"op":"expectGroup","group":"g","state":"or"}'
step "lazyPreempted" "lazyPreempted: expected true or false" '{"op":"expectGroup","group":"g","state":"absent","lazyPreempted":0}'
step "healthiness" "healthiness: expected Healthy or Bad" '{"op":"expectVcCells","vc":"v","chain":"NODE","cellType":"NODE","healthiness":"Good"}'
step "which" "which: expected all or free" '{"op":"expectVcCells","vc":"v","chain":"NODE","cellType":"NODE","healthiness":"Bad","which":"some"}'
step "allow" "'allow' is missing" '{"op":"expectLeafCells","node":"n0"}'
step "what is allowed" "state: expected Free, Used, Reserving or Reserved" '{"op":"expectLeafCells","node":"n0","allow":[{"state":"Idle"}]}'
step "a priority" "priority: expected a whole number" '{"op":"expectLeafCells","node":"n0","allow":[{"priority":"low"}]}'
ask "suggested" "suggested: expected all, all-except:NODE or a list of nodes" '"suggested":"none"'
ask "suggested nodes have names" "suggested: expected all" '"suggested":[1]'
ask "expect" "expect: expected an object" '"expect":"bind"'
ask "a result" "result: expected bind, wait, preempt, userError or any" '"expect":{"result":"bound"}'
ask "a node" "node: expected the name of a node" '"expect":{"result":"bind","node":3}'
ask "leafCells" "leafCells: expected a list of device numbers" '"expect":{"result":"bind","leafCells":["0"]}'
ask "victims" "victims: expected a list of pods" '"expect":{"result":"preempt","victims":"x"}'
ask "accept" "accept: expected an object" '"expect":{"result":"bind","accept":[]}'
ask "a result is expected" "'result' is missing" '"expect":{"node":"n0"}'
ask "leafCount is whole" "leafCount: expected a whole number" '"expect":{"result":"bind","accept":{"leafCount":1.0}}'
step "so is a priority" "priority: expected a whole number" '{"op":"expectLeafCells","node":"n0","allow":[{"priority":0.0}]}'
ask "leafCount" "leafCount: expected a whole number" '"expect":{"result":"bind","accept":{"leafCount":"1"}}'
ask "sameCellAs" "'cellType' is missing" '"expect":{"result":"bind","accept":{"sameCellAs":{"pod":"x"}}}'

# What is not as expected: exit status 1, and what came.
fails() { # fails TEXT GOT STEPS
    printf '{"format":1,"cases":[{"id":"x","cluster":"quad.yaml","steps":[\n%s]}]}\n' "$3" >"$scratch/f.json"
    "$muster" cell replay "$scratch/f.json" >"$scratch/output" 2>&1
    [ $? -eq 1 ] && grep -qF "$2" "$scratch/output"
    result $? "$1"
}
ask='{"op":"schedule","pod":"p","spec":{"virtualCluster":"v","leafCellNumber":1},"expect":'
fails "another result" "got      bind n0 [0]" "$ask{\"result\":\"wait\"}}"
fails "another node" "f.json:2: step 1 (schedule)" "$ask{\"result\":\"bind\",\"node\":\"n1\",\"leafCells\":[0]}}"
fails "other devices" 'expected {"result":"bind","node":"n0","leafCells":[1]}' "$ask{\"result\":\"bind\",\"node\":\"n0\",\"leafCells\":[1]}}"
fails "devices alone" "got      bind n0 [0]" "$ask{\"result\":\"bind\",\"leafCells\":[3]}}"
fails "too few devices" "got      bind n0 [0]" "$ask{\"result\":\"bind\",\"node\":\"n0\",\"leafCells\":[]}}"
for predicate in '"nodes":["n1"]' '"leafCount":2' '"lcaCellType":"NONE"' '"sameNodeAs":"nobody"' '"sameCellAs":{"pod":"nobody","cellType":"NODE"}'; do
    fails "not accepted: $predicate" "got      bind n0 [0]" "$ask{\"result\":\"bind\",\"accept\":{\"notes\":1,$predicate}}}"
done
fails "not on a different node" "got      bind n0 [1]" "$ask{\"result\":\"bind\"}},{\"op\":\"schedule\",\"pod\":\"q\",\"spec\":{\"virtualCluster\":\"v\",\"leafCellNumber\":1},\"expect\":{\"result\":\"bind\",\"accept\":{\"differentNodeFrom\":\"p\"}}}"
fails "nobody to release" "pod 'q' is not allocated" '{"op":"release","pod":"q"}'
fails "no such node" "no node 'm'" '{"op":"node","name":"m","healthy":true}'
fails "another state" "group 'g' is absent" '{"op":"expectGroup","group":"g","state":"Allocated"}'
fails "other cells" "cell v/0 is Healthy" '{"op":"expectVcCells","vc":"v","chain":"NODE","cellType":"NODE","healthiness":"Bad"}'
fails "other devices' state" "leaf n0/0/0 is Free with priority -2" '{"op":"expectLeafCells","node":"n0","allow":[{"state":"Used","priority":0}]}'
fails "no such virtual cluster" "no virtual cluster 'nobody'" '{"op":"expectVcCells","vc":"nobody","chain":"NODE","cellType":"NODE","healthiness":"Healthy"}'
fails "which is told with its line" "f.json:3: step 2 (expectVcCells)" '{"op":"node","name":"n0","healthy":true},
{"op":"expectVcCells","vc":"nobody","chain":"NODE","cellType":"NODE","healthiness":"Healthy"}'
fails "no such cells" "'v' is granted no 'NOD' in chain 'NODE'" '{"op":"expectVcCells","vc":"v","chain":"NODE","cellType":"NOD","healthiness":"Healthy"}'
fails "no such chain" "in chain 'POOL'" '{"op":"expectVcCells","vc":"v","chain":"POOL","cellType":"NODE","healthiness":"Healthy"}'
fails "nobody to cancel" "there was no pod 'q'" '{"op":"cancel","pod":"q"}'
fails "nobody to be elsewhere from" "there was no pod 'nobody'" "$ask{\"result\":\"bind\",\"accept\":{\"differentNodeFrom\":\"nobody\"}}}"
fails "a predicate nobody knows" "accept: 'onTheMoon' is not known" "$ask{\"result\":\"bind\",\"accept\":{\"onTheMoon\":true}}}"
fails "no node to leave out" "suggested: no node 'm'" '{"op":"schedule","pod":"p","spec":{"virtualCluster":"v","leafCellNumber":1},"suggested":"all-except:m"}'
printf '{"format":1,"cases":[{"id":"x","cluster":"quad.yaml","steps":[\n%s\n]}]}' '{"op":"schedule","later":7,"notes":"n","pod":"p","spec":{"virtualCluster":"","leafCellNumber":1},"expect":{"result":"userError","why":"w"}},{"op":"cancel","pod":"p"},{"op":"expectVcCells","vc":"v","chain":"NODE","cellType":"NODE","which":"free","healthiness":"Healthy"}' >"$scratch/own.json"
accepts "keys of somebody's own are passed over; a pod that was refused can be cancelled" "$muster" cell replay "$scratch/own.json"
fails "no such file" "no-such.yaml" '{"op":"reconfigure","cluster":"no-such.yaml"}'
printf '{"format":1,"cases":[{"id":"x","cluster":"quad.yaml","expectLoad":"error"},{"id":"y","cluster":"bad_pin.yaml","steps":[]}]}' >"$scratch/load.json"
"$muster" cell replay "$scratch/load.json" >"$scratch/output" 2>&1
grep -q "got      the cluster was loaded" "$scratch/output" && grep -q "bad_pin.yaml:13:36: no physical cell" "$scratch/output" &&
    grep -q "2 cases: 0 passed, 2 failed" "$scratch/output"
result $? "loading is checked both ways"

# Several scripts: all are run, and the worst of them is told by the exit status.
"$muster" cell replay "$cells/labs.json" "$scratch/s.json" "$scratch/f.json" "$cells/format.json" >"$scratch/output" 2>&1
[ $? -eq 2 ] && grep -q "^13 cases: 12 passed, 1 failed" "$scratch/output"
result $? "a bad script does not stop the others"
"$muster" cell replay --json "$cells/format.json" "$scratch/f.json" >"$scratch/output" 2>&1
[ $? -eq 1 ] && python3 - "$scratch/output" <<'END'
import json, sys
o = json.load(open(sys.argv[1]))
last = o['items'][-1]
assert (o['kind'], o['passed'], o['failed'], len(o['items'])) == ('CellReplay', 7, 1, 8), o
assert (last['result'], last['step'], last['op'], last['line'], last['as']) == ('fail', 1, 'reconfigure', 2, 'described'), last
assert last['expected'] and 'no-such.yaml' in last['got'], last
assert all(i['result'] == 'pass' and i['id'] and i['as'] == 'described' for i in o['items'][:-1])
END
result $? "all of it as JSON"

# HiveD's own order of free cells: the second node out of a fresh pool of four is the fourth.
cat >"$scratch/four.yaml" <<'END'
physicalCluster:
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 1, isNodeLevel: true}
    POOL: {childCellType: NODE, childCellNumber: 4}
  physicalCells: [{cellType: POOL, cellChildren: [{cellAddress: n0}, {cellAddress: n1}, {cellAddress: n2}, {cellAddress: n3}]}]
virtualClusters: {v: {virtualCells: [{cellType: POOL.NODE, cellNumber: 4}]}}
END
node() { echo "{\"op\":\"schedule\",\"pod\":\"$1\",\"spec\":{\"virtualCluster\":\"v\",\"leafCellNumber\":1},\"expect\":{\"result\":\"bind\",\"node\":\"$2\",\"leafCells\":[0]}}"; }
echo "{\"format\":1,\"cases\":[{\"id\":\"bag\",\"cluster\":\"four.yaml\",\"steps\":[$(node a n0),$(node b n3),$(node c n2),{\"op\":\"release\",\"pod\":\"b\"},$(node d n1)]}]}" >"$scratch/bag.json"
says "it is found" "1 of them as HiveD itself" "$muster" cell replay "$scratch/bag.json"
accepts "and told" sh -c "'$muster' cell replay --as hived '$scratch/bag.json' | grep -qF 'pass  bag  [as HiveD itself]'"
refuses "not in the order of the file" "got      bind n1 \[0\]" "$muster" cell replay --as described "$scratch/bag.json"
refuses "an order that is none" "expected described, hived or either, not 'wild'" "$muster" cell replay --as wild "$scratch/bag.json"

# Addresses that are left out: numbers go on from the parent's above the node and begin again below it.
cat >"$scratch/row.yaml" <<'END'
physicalCluster:
  cellTypes:
    PAIR: {childCellType: GPU, childCellNumber: 2}
    NODE: {childCellType: PAIR, childCellNumber: 2, isNodeLevel: true}
    RACK: {childCellType: NODE, childCellNumber: 1}
    ROW: {childCellType: RACK, childCellNumber: 2}
  physicalCells:
  - {cellType: ROW, cellChildren: [{cellChildren: [{cellAddress: m0}]}, {cellAddress: far, cellChildren: [{cellAddress: 8}]}]}
  - {cellType: ROW, cellAddress: null}
virtualClusters: {v: {virtualCells: [{cellType: ROW.RACK, cellNumber: 1}, {cellType: ROW, cellNumber: 1}]}}
END
for address in 0/0/m0/0/1 0/0/m0/1/3 0/far/8/1/2 1/2/2/0/0 1/3/3/1/3 v/0/0/1/3 v/1/1/1/3/7; do
    accepts "address $address" "$muster" cell show "$scratch/row.yaml" "$address"
done
finish
