#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pack.sh [DIR] - the runtime, built and stripped, in one folder (.device-gpu) to be carried to a machine with a GPU that has neither meson nor
# the libraries; all.sh uses it there when it is of the same sources. pack.sh --sources prints what says so.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
sources() {
    (cd "$root" && find src/shim src/gpurt src/coord src/gpu src/base tests/gpu/build.sh tests/gpu/*.c src/cli/verbs/cmd_gpu*.c -type f \
        | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1)
}
[ "${1:-}" != --sources ] || { sources && exit 0; }
out=${1:-$root/.device-gpu}
rm -rf "$out"
sh "$root/tests/gpu/build.sh" "$out"
strip --strip-debug "$out/muster" "$out/libmuster_gpu.so" "$out/launch_bench" "$out/pages"
sources >"$out/sources"
"$out/muster" gpu --help >/dev/null
echo "$out: $(du -sk "$out" | cut -f1) KiB"
