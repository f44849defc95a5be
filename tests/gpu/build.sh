#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh DIR - libmuster_gpu.so and `muster` with its gpu verb alone, by the C compiler and nothing else. For machines
# with a GPU that lack meson or the libraries of the rest.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:?a directory to build in}
mkdir -p "$out"
cc=${CC:-cc}
flags="-std=gnu17 -D_GNU_SOURCE -O2 -g -Wall -Wextra -I$root/src"
# shellcheck disable=SC2086
$cc $flags -fPIC -fvisibility=hidden -fno-semantic-interposition -fno-stack-protector -shared \
    -Wl,-z,now -Wl,--version-script="$root/src/shim/libmuster_gpu.map" \
    -o "$out/libmuster_gpu.so" $(find "$root/src/shim" -name "*.c") "$root/src/shim/dlsym.S" -lpthread
# shellcheck disable=SC2086
$cc $flags -o "$out/muster" "$root/tests/gpu/main.c" "$root"/src/cli/verbs/cmd_gpu*.c $(find "$root/src/gpurt" -name "*.c") "$root"/src/coord/*.c \
    "$root/src/gpu/gpu_nvml.c" "$root/src/gpu/gpu_link.c" "$root/src/gpu/gpu_fake.c" \
    "$root/src/shim/gate/admit.c" "$root/src/base/error.c" "$root/src/base/alloc.c" -lpthread -ldl
mkdir -p "$out/src/shim/python"
cp "$root/src/shim/python/sitecustomize.py" "$out/src/shim/python/"
# shellcheck disable=SC2086
$cc $flags -o "$out/launch_bench" "$root/tests/gpu/launch_bench.c" -ldl -lm
# shellcheck disable=SC2086
$cc $flags -o "$out/pages" "$root/tests/gpu/pages.c" -ldl
