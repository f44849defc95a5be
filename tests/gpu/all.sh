#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# all.sh [EXPERIMENT...] - builds the runtime and runs the experiments on this machine's GPU; one RESULT line each.
# Exits 77 where there is no GPU or no PyTorch.
set -u
cd "$(dirname "$0")/../.." || exit 1
nvidia-smi -L >/dev/null 2>&1 || { echo "SKIP no NVIDIA GPU"; exit 77; }
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
    { echo "SKIP no PyTorch that sees the GPU"; exit 77; }
export MUSTER_GPU_BUILD=${MUSTER_GPU_BUILD:-/tmp/muster-gpu-build} PYTHONUNBUFFERED=1
sh tests/gpu/build.sh "$MUSTER_GPU_BUILD" || exit 1
echo "RESULT machine $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tr ' ' '_') \
torch=$(python3 -c 'import torch; print(torch.__version__)') date=$(date -u +%F)"
want=${*:-abi coverage overhead small hold alternate memory expandable pair nogap hostile phases burst tiers ranks slices death soak nvml agent}
limit() { echo "== $*"; timeout "$@" 2>&1; echo "== exit $? at $(date -u +%T)"; }
for what in $want; do
    case $what in
    abi) limit 60 python3 tests/gpu/abi_check.py "$(find /usr/local/cuda*/ -name cuda.h -path '*include*' | head -1)" ;;
    coverage) limit 120 env LD_PRELOAD="$MUSTER_GPU_BUILD/libmuster_gpu.so" MUSTER_GPU_COUNT=1 \
        python3 tests/gpu/coverage.py ;;
    overhead) limit 200 python3 tests/gpu/overhead.py ;;
    small) limit 120 python3 tests/gpu/suspend.py small ;;
    hold) limit 150 python3 tests/gpu/suspend.py hold 40 ;;
    alternate) limit 150 python3 tests/gpu/suspend.py alternate 40 ;;
    hold8) limit 100 python3 tests/gpu/suspend.py hold 8 ;;
    memory) limit 180 python3 tests/gpu/memory.py ;;
    cold) limit 90 python3 tests/gpu/memory.py cold ;;
    pair) limit 220 python3 tests/gpu/pair.py 8 14 ;;
    tiers) limit 120 python3 tests/gpu/tiers.py ;;
    hostile) limit 150 python3 tests/gpu/hostile.py ;;
    phases) limit 120 python3 tests/gpu/phases.py ;;
    burst) limit 90 python3 tests/gpu/burst.py ;;
    slices) limit 120 python3 tests/gpu/slices.py ;;
    death) limit 180 python3 tests/gpu/death.py ;;
    soak) limit 300 python3 tests/gpu/soak.py "${SOAK_SECONDS:-60}" ;;
    ranks) limit 120 python3 tests/gpu/ranks.py ;;
    expandable) limit 120 python3 tests/gpu/memory.py expandable ;;
    nvml) limit 30 env LD_PRELOAD="$MUSTER_GPU_BUILD/libmuster_gpu.so" MUSTER_GPU_MEMORY=20G MUSTER_GPU_NVML_VIEW=1 nvidia-smi \
        --query-gpu=memory.total,memory.used --format=csv,noheader ;;
    agent) limit 60 sh tests/gpu/agent.sh ;;
    record) limit 120 sh tests/gpu/record.sh "${OUT:-/tmp/muster-gpu-traces}" ;;
    nogap) limit 150 python3 tests/gpu/pair.py 0 12 warm,eps40 ;;
    *) echo "unknown experiment: $what" ;;
    esac
done
