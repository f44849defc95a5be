#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# HiveD's configuration: every mistake is told at its line and column; what is legal loads.
. "${MUSTER_SOURCE:-.}/tests/tools/tap.sh"
muster=${MUSTER_BUILD:-build}/muster
types='cellTypes: {SW: {childCellType: G, childCellNumber: 2}, NODE: {childCellType: SW, childCellNumber: 2, isNodeLevel: true}, RACK: {childCellType: NODE, childCellNumber: 2}}'
cells='physicalCells: [{cellType: RACK, cellChildren: [{cellAddress: n0, pinnedCellId: P}, {cellAddress: n1}]}, {cellType: RACK, cellChildren: [{cellAddress: n2}, {cellAddress: n3}]}]'

# physical TYPES CELLS, then virtual VCS: the file, the types on line 2, the cells on line 3, the virtual clusters from line 5.
physical() { printf 'physicalCluster:\n  %s\n  %s\n' "$1" "$2" >"$scratch/c.yaml"; }
virtual() {
    physical "$types" "$cells"
    printf 'virtualClusters:\n  %s\n' "$1" >>"$scratch/c.yaml"
}
no() { # no TEXT MESSAGE: refused so
    "$muster" cell ls "$scratch/c.yaml" >"$scratch/output" 2>&1
    [ $? -eq 2 ] && grep -qF "c.yaml:$2" "$scratch/output"
    result $? "refused: $1"
}
yes() { accepts "legal: $1" "$muster" cell tree "$scratch/c.yaml"; }

printf 'physicalCluster: [\n' >"$scratch/c.yaml"
no "no YAML" "2:1:"
physical 'cellTypes: [A]' 'physicalCells: []'
no "types are a mapping" "2:14: cellTypes: expected a mapping"
physical 'cellTypes: {A: {childCellType: G}}' 'physicalCells: []'
no "a type has children" "2:18: expected childCellType and childCellNumber"
physical 'cellTypes: {A: {childCellType: G, childCellNumber: 0}}' 'physicalCells: []'
no "no children at all" "2:54: "
physical 'cellTypes: {A: {childCellType: G, childCellNumber: 2, isNodeLevel: maybe}}' 'physicalCells: []'
no "neither true nor false" "2:70: isNodeLevel: expected true or false"
physical 'cellTypes: {A: {childCellType: A, childCellNumber: 2}}' 'physicalCells: []'
no "a type inside itself" "2:18: cell type 'A': more than 12 levels, too many devices, or it contains itself"
physical 'cellTypes: {A: {childCellType: G, childCellNumber: 2, isNodeLevel: true}, B: {childCellType: A, childCellNumber: 2, isNodeLevel: true}}' 'physicalCells: []'
no "two node levels" "2:80: cell type 'B': two node levels"
physical 'cellTypes: {A: {childCellType: G, childCellNumber: 300, isNodeLevel: true}}' 'physicalCells: [{cellType: A, cellAddress: n}]'
no "too many devices a node" "2:18: cell type 'A': more than 256 devices a node"
physical "$types" 'physicalCells: {cellType: RACK}'
no "cells are a list" "3:18: physicalCells: expected a list"
physical "$types" 'physicalCells: [{cellAddress: n}]'
no "a top cell has a type" "3:19: key 'cellType' is missing"
physical "$types" 'physicalCells: [{cellType: ROW}]'
no "an unknown type" "3:30: cell type 'ROW' is not among cellTypes"
physical "$types" 'physicalCells: [{cellType: SW}]'
no "a top cell below the node" "3:30: cell type 'SW' is below the node level"
physical "$types" 'physicalCells: [{cellType: RACK, cellChildren: [{cellAddress: n0}]}]'
no "children that do not match" "3:50: cellChildren: 1 listed, a RACK has 2"
physical "$types" 'physicalCells: [{cellType: RACK, cellChildren: [{cellAddress: n0, cellType: SW}, {cellAddress: n1}]}]'
no "a child of another type" "3:79: a child here is a 'NODE'"
physical "$types" 'physicalCells: [{cellType: NODE, cellAddress: n0, cellChildren: [{cellChildren: [{cellAddress: a}, {}]}, {}]}]'
no "a device without a number" "3:98: the address of a device is a number, not 'a'"
physical "$types" 'physicalCells: [{cellType: NODE, cellAddress: n0, cellChildren: [{cellChildren: [{cellAddress: 0}, {cellAddress: 0}]}, {}]}]'
no "a device twice" "3:18: node 'n0' has device 0 twice"
physical "$types" 'physicalCells: [{cellType: NODE, cellAddress: n0}, {cellType: NODE, cellAddress: n0}]'
no "a node twice" "3:18: node 'n0' comes twice in chain 'NODE'"
physical "$types" 'physicalCells: [{cellType: NODE, cellAddress: n0, pinnedCellId: P}, {cellType: NODE, cellAddress: n1, pinnedCellId: P}]'
no "a pin twice" "3:119: pinnedCellId 'P' comes twice"
virtual 'a: {virtualCells: {cellType: RACK}}'
no "grants are a list" "5:21: virtualCells: expected a list"
virtual 'a: {virtualCells: [{cellNumber: 1}]}'
no "a grant has a path" "5:22: key 'cellType' is missing"
virtual 'a: {virtualCells: [{cellType: ROW, cellNumber: 1}]}'
no "an unknown chain" "5:33: no cell type 'ROW'"
virtual 'a: {virtualCells: [{cellType: NODE, cellNumber: 1}]}'
no "a type that is no chain" "5:33: no physical cell is a 'NODE'"
virtual 'a: {virtualCells: [{cellType: RACK.SW.NODE, cellNumber: 1}]}'
no "a path that does not lead down" "5:33: 'NODE' is not inside 'SW'"
virtual 'a: {virtualCells: [{cellType: RACK, cellNumber: -1}]}'
no "fewer than none" "5:51: "
virtual 'a: {pinnedCells: [{}]}'
no "a pin without a name" "5:21: key 'pinnedCellId' is missing"
virtual 'a: {pinnedCells: [{pinnedCellId: Q}]}'
no "a pin that is not there" "5:36: no physical cell has pinnedCellId 'Q'"
virtual 'a: {pinnedCells: [{pinnedCellId: P}, {pinnedCellId: P}]}'
no "a pin granted twice" "5:55: pinnedCellId 'P' is granted twice"
physical "$types" 'physicalCells: [{cellType: RACK, pinnedCellId: P, cellChildren: [{cellAddress: n0, pinnedCellId: Q}, {cellAddress: n1}]}]'
printf 'virtualClusters:\n  a: {pinnedCells: [{pinnedCellId: P}, {pinnedCellId: Q}]}\n' >>"$scratch/c.yaml"
no "a pin inside another" "5:55: pinned cell 'Q' lies inside, or holds, pinned cell 'P'"
virtual 'a: {virtualCells: [{cellType: RACK, cellNumber: 3}]}'
no "more than there is" "5:3: the virtual clusters are granted 1 more 'RACK' in chain 'RACK' than there are"
virtual 'a: {virtualCells: [{cellType: RACK, cellNumber: 1}, {cellType: RACK.NODE.SW, cellNumber: 5}]}'
no "more below than is left" "5:3: the virtual clusters are granted 1 more 'SW' in chain 'RACK' than there are"
virtual 'a: {virtualCells: [{cellType: RACK, cellNumber: 2}], pinnedCells: [{pinnedCellId: P}]}'
no "a pin counts" "5:3: the virtual clusters are granted 1 more 'NODE' in chain 'RACK' than there are"
# Two racks, each with a pinned node: no rack is left whole, though there are nodes enough.
physical "$types" 'physicalCells: [{cellType: RACK, cellChildren: [{cellAddress: n0, pinnedCellId: P}, {cellAddress: n1}]}, {cellType: RACK, cellChildren: [{cellAddress: n2}, {cellAddress: n3, pinnedCellId: Q}]}]'
cp "$scratch/c.yaml" "$scratch/pins.yaml"
printf 'virtualClusters:\n  a: {pinnedCells: [{pinnedCellId: P}, {pinnedCellId: Q}]}\n  b: {virtualCells: [{cellType: RACK.NODE, cellNumber: 0}, {cellType: RACK, cellNumber: 1}]}\n' >>"$scratch/c.yaml"
no "pins that break up a rack, at the grant of it" "6:60: 'b' cannot be granted 1 'RACK': pinned cells break up what the others leave"
cp "$scratch/pins.yaml" "$scratch/c.yaml"
printf 'virtualClusters:\n  a: {pinnedCells: [{pinnedCellId: P}]}\n  b: {virtualCells: [{cellType: RACK, cellNumber: 1}, {cellType: RACK.NODE, cellNumber: 1}]}\n' >>"$scratch/c.yaml"
yes "one that leaves a rack whole, to the last node"
cp "$scratch/pins.yaml" "$scratch/c.yaml"
printf 'virtualClusters:\n  a: {pinnedCells: [{pinnedCellId: P}]}\n  b: {virtualCells: [{cellType: RACK, cellNumber: 1}]}\n  c: {virtualCells: [{cellType: RACK.NODE.SW, cellNumber: 2}]}\n' >>"$scratch/c.yaml"
yes "and parts of what is left of the other"
printf 'physicalCluster: {}\nforcePodBindThreshold: many\n' >"$scratch/c.yaml"
no "a number" "2:24: "

virtual 'a: {virtualCells: [{cellType: RACK, cellNumber: 1}, {cellType: RACK.NODE, cellNumber: 1}], pinnedCells: [{pinnedCellId: P}]}'
yes "all of it, to the last node"
virtual 'a: {virtualCells: [{cellType: RACK.SW, cellNumber: 0}, {cellType: RACK.G, cellNumber: 8}]}'
yes "a path that leaves levels out, and none of something"
virtual 'a: null'
yes "a virtual cluster that owns nothing"
physical "$types" "$cells"
yes "no virtual cluster at all"
physical "$types" 'physicalCells: [{cellType: NODE, cellAddress: 7, cellChildren: [{cellAddress: sw, cellChildren: [{cellAddress: 5}, {cellAddress: 4}]}, null]}]'
yes "numbers as names, devices in any order, a child left out"
printf 'webServerAddress: ":9096"\nkubeApiServerAddress: http://k\nkubeConfigFilePath: /k\nforcePodBindThreshold: 3\nwaitingPodSchedulingBlockMilliSec: 0\n' >"$scratch/all"
physical "skuTypes: {G: {gpu: 1, cpu: 5, memory: 54Gi}}
  $types" "$cells"
cat "$scratch/all" >>"$scratch/c.yaml"
yes "every key of HiveD's"
accepts "and none is told unknown" sh -c "! '$muster' cell ls '$scratch/c.yaml' 2>&1 | grep -q unknown"
physical "skuTypes: {G: {cpu: many}}
  $types" "$cells"
no "CPUs of a device are a number" "2:23: "
physical "skuTypes: {G: {memory: lots}}
  $types" "$cells"
no "its memory is a size" "2:26: expected a size such as 512G"
# The same cells, of nodes that a cluster file describes.
physical "$types" "$cells"
printf 'nodes: [{name: n0, gpus: 4, sku: G}, {name: n1, gpus: 4, sku: G}, {name: n2, gpus: 4, sku: G}, {name: n3, gpus: %s, sku: G}]\n' 4 >"$scratch/nodes"
cat "$scratch/nodes" >>"$scratch/c.yaml"
yes "beside nodes of our own"
sed -i 's/n3, gpus: 4/n3, gpus: 2/' "$scratch/c.yaml"
no "that are as it says" "2:3: node 'n3' has 4 x G in physicalCells, and really 2 x G"
sed -i 's/{name: n3, gpus: 2, sku: G}/{name: m, gpus: 4, sku: G}/' "$scratch/c.yaml"
no "and all of them" "2:3: node 'n3' of physicalCells is not among the nodes"
physical "skuTypes: {G: {gpu: 1, cpu: 5}}
  $types" "$cells"
cat "$scratch/all" >>"$scratch/c.yaml"
echo "surprise: 1" >>"$scratch/c.yaml"
accepts "an unknown key is told and passed over" sh -c "'$muster' cell ls '$scratch/c.yaml' 2>&1 | grep -qF \"c.yaml:10:1: unknown key 'surprise' in the file is ignored\""
finish
