#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# agent.sh - builds and runs agent.c with the C compiler alone: for machines with a GPU that lack the other libraries.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
command -v nvidia-smi >/dev/null || { echo "SKIP no GPU here" && exit 77; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# The sources only mention its types.
echo 'typedef struct json_t json_t;' >"$out/jansson.h"
${CC:-cc} -std=gnu17 -D_GNU_SOURCE -O1 -g -I"$out" -I"$root/src" -o "$out/agent" "$root/tests/gpu/agent.c" \
    "$root/src/gpu/gpu_nvml.c" "$root/src/gpu/gpu_fake.c" "$root/src/agent/task/cgroup.c" "$root/src/agent/task/cgroup_device.c" \
    "$root/src/base/alloc.c" "$root/src/base/error.c" -ldl
"$out/agent"
