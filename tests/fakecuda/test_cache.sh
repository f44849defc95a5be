#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_cache.sh MUSTER LIBRARY JOB FAKE_DIR - a limit that a framework's cache is enough for moves nothing, whatever the program does when it is
# set: it waits for the GPU, or is in the middle of a step. TAP on standard output.
muster=$1 library=$2 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=512
python_begins
for how in waits works; do
    rm -f "$dir/steps"
    env PYTHONPATH="$here/stub" "$muster" gpu run --role opportunistic --memory 256M -- python3 -B "$here/cache.py" "$dir/steps" $how & pid=$!
    own $pid
    until_true 30 '[ "$(grep -c "^1$" "$dir/steps")" -ge 4 ]'
    nothing=0 said=
    for _ in 1 2 3 4 5; do
        said="$said
$("$muster" gpu set $pid memory=96M)"
        "$muster" gpu set $pid memory=256M >/dev/null
        before=$(wc -l <"$dir/steps")
        until_true 10 '[ $(wc -l <"$dir/steps") -gt $((before + 1)) ]'
    done
    nothing=$(echo "$said" | grep -c ", 0 bytes moved")
    echo "#$said" | sed 's/^\([^#]\)/# \1/'
    # One in five is a machine's that had other work.
    check "$how: nothing is moved where the cache is enough ($nothing of 5)" '[ "$nothing" -ge 4 ]'
    kill -9 $pid; wait $pid 2>/dev/null
done
done_testing
