#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_site.sh MUSTER LIBRARY JOB FAKE_DIR - ends of steps by the hook on an optimizer: put there through the interpreter, or by
# sitecustomize.py where that cannot be looked into. Two optimizers are one mini-batch either way. TAP on standard output.
muster=$1 library=$2 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256
python_begins
for how in inside site; do
    rm -f "$dir/said"
    env MUSTER_GPU_PYTHON=$how PYTHONPATH="$here/stub" "$muster" gpu run --role opportunistic -- \
        python3 -B "$here/gan.py" "$dir/said" 2>"$dir/err" & pid=$!
    own $pid
    until_true 30 'grep -q ready "$dir/said"'
    check "$how: fifty rounds of two optimizers are fifty mini-batches" 'grep -qx "batches 50" "$dir/said"'
    check "$how: there is one hook" 'grep -qx "hooks 1" "$dir/said"'
    check "$how: tier 1" 'grep -qx "tier 1" "$dir/said" && [ "$(field $pid tier)" = 1 ]'
    check "$how: the program's own sitecustomize has run" 'grep -qx "own $here/stub/sitecustomize.py" "$dir/said" && grep -qx "module $here/stub/sitecustomize.py" "$dir/said"'
    check "$how: it saves itself at the end of a step" '"$muster" gpu checkpoint $pid | grep -q "muster_on_checkpoint() in" && grep -qx saved "$dir/said"'
    check "$how: nothing is told of PyTorch's own book before somebody asks" '[ -z "$(field $pid torch_allocated_bytes)" ]'
    check "$how: it is read at the end of a step" '"$muster" gpu stats $pid >"$dir/book" && grep -q "GPU 0: allocated 10.0 MiB, at most 11.0; reserved 20.0, at most 21.0; active 30.0, at most 31.0; inactive and split 40.0, at most 41.0" "$dir/book"'
    check "$how: and listed from then on" '[ "$(field $pid torch_allocated_bytes)" = 10485760 ] && [ "$(field $pid torch_inactive_split_peak_bytes)" = 42991616 ] && [ -n "$(field $pid torch_age_ms)" ] && [ -n "$(field $pid reload_ns)" ]'
    check "$how: in top too" '"$muster" gpu top -n 1 | grep -A 1 TORCH-GIB | grep -q "^$pid  *0.01 "'
    touch "$dir/said.raise"
    check "$how: an exception of it is the answer, and nobody else sees it" 'until_true 10 "grep -qx raises "$dir/said"" && ! "$muster" gpu stats $pid 2>"$dir/no" && grep -q "memory_stats() failed in it" "$dir/no" && moves $pid'
    rm -f "$dir/said.raise"
    until_true 10 'grep -qx "raises no more" "$dir/said"'
    "$muster" gpu set $pid memory=64M >/dev/null
    check "$how: its cache is dropped before anything is moved" 'until_true 10 "grep -qx trimmed \"$dir/said\""'
    check "$how: nothing is said on standard error" '[ ! -s "$dir/err" ]'
    kill -9 $pid; wait $pid 2>/dev/null
done
check "without the library the folder does nothing but step aside" \
    '[ "$(PYTHONPATH="$(dirname "$library")/src/shim/python:$here/stub" python3 -B -c "import sys, builtins; print(builtins.own_sitecustomize, len([f for f in sys.meta_path if getattr(f, \"__module__\", \"\") == \"sitecustomize\"]))")" = "$here/stub/sitecustomize.py 0" ]'
check "and an error in the program's own is the program's" \
    'mkdir "$dir/broken" && echo "1 / 0" >"$dir/broken/sitecustomize.py" && PYTHONPATH="$(dirname "$library")/src/shim/python:$dir/broken" python3 -B -c "pass" 2>&1 | grep -q ZeroDivisionError'
done_testing
