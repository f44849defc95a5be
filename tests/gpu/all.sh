#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# all.sh [--part 1|2|3|4] [--only NAME]... [--limit SECONDS] [--fake] [NAME...] - the experiments on this machine's GPU.
#
# Results are JSON lines in $OUT/results-WHAT.jsonl, what was printed in $OUT/log-WHAT.txt, the table of targets in
# $OUT/summary-WHAT.txt (OUT: /tmp/muster-gpu-results). Every experiment has a time limit of its own and the whole has one (535
# s); one that fails or is cut off is recorded as such and never stops the next. Parts 1 to 3 are
# the targets, 4 the rest; `gone`, `cold`, `hot`, `expandable`, `record`, `sweep-release` and `sweep-pages` are in none and run by name. Settings of the runtime (MUSTER_GPU_AIM, ...) in the environment are kept; MUSTER_GPU_SETTINGS=default leaves the driver's own
# pair out of pair and nogap. Exits 77 where there is no GPU or no PyTorch.
#
# --fake: on the fake driver of an ordinary build (MUSTER_GPU_BUILD, default build), without GPU and PyTorch: tries the scripts.
set -u
cd "$(dirname "$0")/../.." || exit 1
# Three parts for a card that is lent ten minutes at a time; what each takes is beside limit_of. Part 1 has the settings of the gate side
# by side before the default is measured: nothing is chosen by itself. Part 4 is the rest.
part1="sweep-gate pair nogap overhead"
part2="hold small alternate memory ranks caps coverage foreign nvml abi"
part3="death hostile soak surge duty split trial"
part4="phases burst tiers slices agent capture"
fake='' what='' limit=535 names=''
while [ $# -gt 0 ]; do
    case $1 in
    --fake) fake=1 ;;
    --part)
        case ${2:-} in
        1) names="$names $part1" ;;
        2) names="$names $part2" ;;
        3) names="$names $part3" ;;
        4) names="$names $part4" ;;
        *) echo "all.sh: --part is 1, 2, 3 or 4" >&2 && exit 2 ;;
        esac
        what=${what:+$what-}part$2
        shift
        ;;
    --only) names="$names ${2:?a name}" && shift ;;
    --limit) limit=${2:?seconds} && shift ;;
    -*) echo "all.sh: unknown option $1" >&2 && exit 2 ;;
    *) names="$names $1" ;;
    esac
    shift
done
[ -n "$names" ] || { names="$part1 $part2 $part3 $part4" limit=${limit/#535/3600}; }
what=${what:-some}
out=${OUT:-/tmp/muster-gpu-results}
mkdir -p "$out"
export MUSTER_GPU_RESULTS="$out/results-$what.jsonl" PYTHONUNBUFFERED=1 MUSTER_GPU_RUN
MUSTER_GPU_RUN=$(date -u +%FT%TZ)
log="$out/log-$what.txt"

# The runtime: of a build for --fake, carried here by pack.sh if it is of these sources, else made by the C compiler.
if [ -n "$fake" ]; then
    export MUSTER_GPU_STANDIN=1 MUSTER_GPU_BUILD=${MUSTER_GPU_BUILD:-$PWD/build} MUSTER_GPU_CONTEXT=0 MUSTER_GPU_SLICE=1
    export MUSTER_GPU_EPS=${MUSTER_GPU_EPS:-100}
    export FAKE_CUDA_MEMORY=512 FAKE_CUDA_DIR LD_LIBRARY_PATH="$MUSTER_GPU_BUILD/tests/fakecuda"
    FAKE_CUDA_DIR=$(mktemp -d)
    trap 'rm -rf "$FAKE_CUDA_DIR"' EXIT
else
    nvidia-smi -L >/dev/null 2>&1 || { echo "SKIP no NVIDIA GPU"; exit 77; }
    python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
        { echo "SKIP no PyTorch that sees the GPU"; exit 77; }
    if [ -z "${MUSTER_GPU_BUILD:-}" ]; then
        MUSTER_GPU_BUILD=$PWD/.device-gpu
        if [ "$(cat "$MUSTER_GPU_BUILD/sources" 2>/dev/null)" != "$(sh tests/gpu/pack.sh --sources)" ] ||
            ! "$MUSTER_GPU_BUILD/muster" gpu --help >/dev/null 2>&1; then
            MUSTER_GPU_BUILD=/tmp/muster-gpu-build
            sh tests/gpu/build.sh "$MUSTER_GPU_BUILD" || exit 1
        fi
    fi
    export MUSTER_GPU_BUILD
fi
python3 tests/gpu/machine.py | tee -a "$log"

# How long each may take, and what it took on an H200 where that is known: one that hangs costs its own limit and nobody else's.
limit_of() {
    case $1 in
    sweep-gate) echo 245 ;;          # 201 to 227 with four settings; there are three now
    pair) echo 190 ;;                # 104 to over 135: mostly PyTorch's start, seven times
    nogap) echo 170 ;;               # 136 with a neighbour's first step in it
    overhead) echo 150 ;;            # 62 to over 93
    hold) echo 60 ;;                 # 40
    small) echo 110 ;;               # 85 to 87
    alternate) echo 110 ;;           # 66 to over 87
    memory) echo 190 ;;
    cold | hot | expandable) echo 100 ;; # a part of it each
    ranks) echo 95 ;;                # 58 to 75
    coverage) echo 45 ;;             # 19 to 25
    death) echo 140 ;;
    gone) echo 70 ;;                 # of death, the guaranteed job's
    hostile) echo 95 ;;
    soak) echo $((70 + ${SOAK_SECONDS:-25})) ;;
    duty) echo 170 ;;                # more than 95
    trial) echo 130 ;;               # 107
    caps | surge | split) echo 75 ;;
    foreign | abi) echo 40 ;;
    nvml) echo 15 ;;
    sweep-pages) echo 60 ;;          # 46
    sweep-release) echo 70 ;;        # 44
    capture) echo 200 ;;             # not known yet
    phases | burst | slices | tiers) echo 110 ;;
    *) echo 60 ;;
    esac
}
# shellcheck disable=SC2086 # settings are words
run() {
    case $1 in
    abi) python3 tests/gpu/neighbours.py abi "$(find /usr/local/cuda*/ -name cuda.h -path '*include*' | head -1)" ;;
    caps | surge | trial | foreign | split | nvml) python3 tests/gpu/neighbours.py "$1" ;;
    duty) MUSTER_GPU_WINDOWS=1 python3 tests/gpu/pair.py 8 LAW=duty ;;
    coverage) env LD_PRELOAD="$MUSTER_GPU_BUILD/libmuster_gpu.so" MUSTER_GPU_COUNT=1 python3 tests/gpu/coverage.py ;;
    overhead) python3 tests/gpu/overhead.py "${OVERHEAD_PAIRS:-500}" ;;
    small) python3 tests/gpu/suspend.py small ;;
    hold) python3 tests/gpu/suspend.py hold 40 ;;
    alternate) python3 tests/gpu/suspend.py alternate 40 ;;
    memory) python3 tests/gpu/memory.py ;;
    cold | hot | expandable) python3 tests/gpu/memory.py "$1" ;;
    pair) python3 tests/gpu/pair.py 8 ${MUSTER_GPU_SETTINGS:-driver default} ;;
    nogap) python3 tests/gpu/pair.py 0 ${MUSTER_GPU_SETTINGS:-driver default} ;;
    soak) python3 tests/gpu/soak.py "${SOAK_SECONDS:-25}" ;;
    hostile) python3 tests/gpu/hostile.py muster ;;
    agent) sh tests/gpu/agent.sh ;;
    record) sh tests/gpu/record.sh "$out/traces" ;;
    sweep-gate | sweep-release | sweep-pages) sh tests/gpu/sweep.sh "${1#sweep-}" ;;
    phases | burst | tiers | slices | death | ranks | capture) python3 "tests/gpu/$1.py" ;;
    gone) python3 tests/gpu/death.py gone ;;
    *) echo "unknown experiment: $1" && return 2 ;;
    esac
}
piece() { # NAME RC SECONDS
    printf '{"name": "piece", "experiment": "%s", "run": "%s", "rc": %s, "seconds": %s}\n' "$1" "$MUSTER_GPU_RUN" "$2" "$3" \
        >>"$MUSTER_GPU_RESULTS"
}
export -f run
for name in $names; do
    left=$((limit - SECONDS - 5)) own=$(limit_of "$name") begin=$SECONDS rc=0
    case $fake$name in
    1coverage | 1nvml | 1abi | 1agent | 1record | 1sweep-pages | 1foreign) echo "== $name: needs a GPU" | tee -a "$log" && continue ;;
    esac
    if [ $left -lt 20 ]; then
        echo "== $name: no time left" | tee -a "$log"
        piece "$name" 75 0
        continue
    fi
    echo "== $name at $(date -u +%T)" | tee -a "$log"
    MUSTER_GPU_EXPERIMENT=$name out="$out" timeout -k 10 $((own < left ? own : left)) bash -c 'run "$0"' "$name" 2>&1 | tee -a "$log"
    rc=${PIPESTATUS[0]}
    echo "== $name exit $rc after $((SECONDS - begin)) s" | tee -a "$log"
    piece "$name" "$rc" $((SECONDS - begin))
done
python3 tests/gpu/report.py --summary "$MUSTER_GPU_RESULTS" | tee "$out/summary-$what.txt"
