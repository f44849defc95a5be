#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# record.sh DIR - records the driver calls of small PyTorch programs on this machine's GPU and writes DIR/eager.txt,
# DIR/expandable.txt, DIR/graph.txt and DIR/step.txt (a whole mini-batch as one graph), which tests/fakecuda/traces keeps.
# RECORD_JOBS=standin.py tries it without a GPU.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:?a directory to write to}
mkdir -p "$out"
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
${CC:-cc} -std=gnu17 -D_GNU_SOURCE -O1 -I"$root/src" -fPIC -fvisibility=hidden -shared \
    -Wl,--version-script="$root/src/shim/libmuster_gpu.map" -o "$temp/librecord.so" "$root/tests/gpu/record.c" \
    "$root/src/shim/resolve.c" "$root/src/shim/dlsym.S" -lpthread
jobs=${RECORD_JOBS:-jobs.py} version=none
[ "$jobs" != jobs.py ] || version=$(python3 -c 'import torch; print(torch.__version__)')
for kind in eager expandable graph step; do
    conf=
    [ $kind = expandable ] && conf=expandable_segments:True
    RECORD_FILE="$temp/$kind" PYTORCH_CUDA_ALLOC_CONF="$conf" LD_PRELOAD="$temp/librecord.so" \
        python3 "$root/tests/gpu/$jobs" tiny $kind >/dev/null
    python3 "$root/tests/gpu/condense.py" "$temp/$kind" "three steps of a small transformer, $kind, PyTorch $version" >"$out/$kind.txt"
    echo "RESULT record kind=$kind calls=$(wc -l <"$temp/$kind") lines=$(wc -l <"$out/$kind.txt") bytes=$(wc -c <"$out/$kind.txt")"
done
