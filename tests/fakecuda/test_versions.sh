#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_versions.sh LIBRARY PROGRAM FAKE_DIR - the matrix of routes with drivers of several versions, which hide what is newer. TAP on
# standard output.
set -u
library=$1 program=$2 fake=$3 n=0 failed=0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 CMOCKA_MESSAGE_OUTPUT=STDOUT
for version in 11040 12020 12080 13000; do
    mkdir "$dir/$version"
    [ $version = 13000 ] && from=$fake/libcuda.so.1 || from=$fake/libcuda-$version.so
    cp "$from" "$dir/$version/libcuda.so.1"
    n=$((n + 1))
    if env LD_LIBRARY_PATH="$dir/$version" LD_PRELOAD="$library" MUSTER_GPU_COUNT=1 "$program" $version >"$dir/out" 2>&1; then
        echo "ok $n - a driver of version $version: $(sed -n 's/^# //p' "$dir/out")"
    else
        echo "not ok $n - a driver of version $version"
        sed 's/^/# /' "$dir/out"
        failed=1
    fi
done
echo "1..$n"
exit $failed
