#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_verbs.sh MUSTER LIBRARY JOB FAKE_DIR - every verb of `muster gpu`, what it prints and exits with, and every message of
# those that refuse. TAP on standard output.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256
# says STATUS TEXT COMMAND... - the command exits so, and prints the text on standard output (0) or standard error.
says() {
    status=$1 text=$2
    shift 2
    "$@" >"$dir/1" 2>"$dir/2"
    got=$?
    if [ $got = "$status" ] && grep -qF -- "$text" "$dir/$([ "$status" = 0 ] && echo 1 || echo 2)"; then
        ok "$text"
    else
        bad "$text"
        echo "# exit $got: $(cat "$dir/1" "$dir/2" | head -3 | tr '\n' '|')"
    fi
}
gpu() { "$muster" gpu "$@"; }

# The command line.
says 0 "Usage: muster gpu run" gpu --help
says 2 "stats: expected one process id" gpu stats
says 2 "stats: expected one process id" gpu stats one
says 2 "a verb is missing" gpu
says 2 "unknown verb 'frobnicate'" gpu frobnicate
says 2 "a command is missing after --" gpu run --memory 1G --
says 2 "--role: 'king' is neither guaranteed nor opportunistic" gpu run --role king -- true
says 2 "'12X' is no size; 20G and 512M are" gpu run --memory 12X -- true
says 2 "'99999999999999T' is no size" gpu run --host-pool 99999999999999T -- true
says 2 "'20 ' is no size; 20G and 512M are" gpu run --memory "20 " -- true
says 2 "'20G ' is no size; 20G and 512M are" gpu run --host-memory "20G " -- true
says 2 "'20 ' is no size" gpu set 1 "memory=20 "
says 2 "run: unknown option '--colour'" gpu run --colour -- true
says 2 "run: --memory needs a value" gpu run --memory
says 2 "run: --movable and --native exclude each other" gpu run --movable --native -- true
says 2 "nothing would hold it back" env MUSTER_GPU_DISABLE=1 "$muster" gpu run --role opportunistic -- true
says 2 "nothing would hold it back" env MUSTER_GPU_DISABLE=1 MUSTER_GPU_ROLE=opportunistic "$muster" gpu run -- true
says 2 "ls: unknown argument '--yaml'" gpu ls --yaml
says 2 "ls: unknown argument 'all'" gpu ls --json all
says 2 "top: unknown option; -n TIMES and -w SECONDS are known" gpu top -x
says 2 "top: -n takes a number of times from 1 on, not 'often'" gpu top -n often
says 2 "top: -w takes a number of seconds from 1 on, not '0'" gpu top -w 0
says 2 "top: unknown argument 'all'" gpu top all
says 2 "pause: expected one process id, or --job ID" gpu pause
says 2 "resume: expected one process id, or --job ID" gpu resume zero
says 2 "evict: expected one process id, or --job ID" gpu evict -- -1
says 2 "release: expected one process id, or --job ID" gpu release 1 2
says 2 "pause: --job takes a job's id, 1 to 63 characters without blanks and '=', not 'a=b'" gpu pause --job a=b
says 2 "pause: --job takes a job's id, 1 to 63 characters without blanks and '=', not ''" gpu pause --job ""
says 2 "evict: expected one process id, or --job ID" gpu evict --job a 1
says 2 "pause: unknown option '--soon'" gpu pause --soon 1
check "and no more than that" '[ "$(wc -l <"$dir/2")" = 2 ]'
says 2 "evict: --job needs a value" gpu evict --job
says 2 "pause: --gpu is for restore" gpu pause --gpu GPU-1 1
says 2 "restore: --gpu is for restore, and takes a GPU's UUID" gpu restore --gpu GPU-1 1
says 2 "set: expected PID key=value..." gpu set 1
says 2 "set: 'memory' is not key=value" gpu set 1 memory
says 2 "set: unknown key in 'colour=1'; memory, gpu, share, prepare and pinned are known" gpu set 1 colour=1
says 2 "set: share is a fraction from 0.001 to 1, not '0'" gpu set 1 share=0
says 2 "set: share is a fraction from 0.001 to 1, not '0.0004'" gpu set 1 share=0.0004
says 2 "set: share is a fraction from 0.001 to 1, not '2'" gpu set 1 share=2
says 2 "set: share is a fraction from 0.001 to 1, not '0.5 '" gpu set 1 "share=0.5 "
says 2 "set: 'memory=64M' makes the order longer than 199 characters" \
    gpu set 1 $(for i in 1 2 3 4 5 6 7 8 9 10 11; do echo memory=64M share=0.5; done)
says 2 "set: gpu is the number of one of its GPUs, 0 to 15, not '16'" gpu set 1 gpu=16 memory=1G
says 2 "suspend: expected [--free SIZE] PID" gpu suspend
says 2 "'much' is no size" gpu estimate --free much 1
says 2 "estimate: 'one' is no process id" gpu estimate one
says 2 "set: pinned is a fraction from 0 to 1, not 'all'" gpu set 1 pinned=all
says 2 "'much' is no size" gpu set 1 memory=much
says 2 "signal: expected PID [USR1|USR2|INT|TERM]" gpu signal
says 2 "'KILL' is none of USR1, USR2, INT and TERM" gpu signal 1 KILL
says 2 "checkpoint: --grace takes 1 to 290 seconds, not '0'" gpu checkpoint --grace 0 1
says 2 "checkpoint: --grace takes 1 to 290 seconds, not '5x'" gpu checkpoint --grace 5x 1
says 2 "checkpoint: expected [--grace 1..290] [--end] [--force] PID" gpu checkpoint --grace 5
says 2 "check: takes no arguments" gpu check all
says 2 "agent: unknown argument '--fast'" gpu agent --fast
says 2 "agent: --idle-exit needs a value" gpu agent --idle-exit
says 2 "agent: --idle-exit takes a number of seconds from 1 on, not 'soon'" gpu agent --idle-exit soon
says 2 "guard: expected --run-dir DIR PID START" gpu guard 1

# Nobody there, and places that cannot be.
says 1 "nobody answers; \`muster gpu run\` or \`muster gpu agent\` starts the node side" gpu ls
says 1 "nobody answers" gpu top -n 1
says 1 "nobody answers" gpu pause 1
# Somebody listens there and takes nobody, and the queue is full: said, not waited for.
if command -v python3 >/dev/null; then
    python3 - "$dir/full.sock" <<'PY' & full=$!
import socket, sys, time
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.bind(sys.argv[1])
server.listen(0)
held = []
for _ in range(8):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.setblocking(False)
    try:
        s.connect(sys.argv[1])
    except BlockingIOError:
        break
    held.append(s)
open(sys.argv[1] + ".ready", "w").close()
time.sleep(60)
PY
    own $full
    until_true 5 '[ -e "$dir/full.sock.ready" ]'
    says 1 "too many wait there already; the node side takes none of them" env MUSTER_GPU_SOCKET="$dir/full.sock" timeout 10 "$muster" gpu ls
    check "a program is started beside one that hangs" 'MUSTER_GPU_SOCKET="$dir/full.sock" timeout 10 "$muster" gpu run --role opportunistic -- true'
    kill -9 $full; wait $full 2>/dev/null
fi
: >"$dir/file"
says 1 "not a directory of yours; set MUSTER_GPU_RUN_DIR to one" env MUSTER_GPU_RUN_DIR="$dir/file" "$muster" gpu ls
says 1 "MUSTER_GPU_SOCKET: a socket's path has at most 107 characters, not 1" env MUSTER_GPU_SOCKET="$dir/$(printf '%0100d' 0)" "$muster" gpu agent
says 1 "a directory of sockets at most 85; set MUSTER_GPU_RUN_DIR to a shorter one" \
    env MUSTER_GPU_RUN_DIR="$dir/$(printf '%0100d' 0)" "$muster" gpu agent
says 1 "libmuster_gpu.so is not beside" env MUSTER_GPU_LIBRARY="$dir/none.so" "$muster" gpu run -- true
mkdir "$dir/a b" && cp "$library" "$dir/a b/lib.so"
says 1 "a preloaded library's path may hold no blank or colon" env MUSTER_GPU_LIBRARY="$dir/a b/lib.so" "$muster" gpu run -- true

"$muster" gpu agent >/dev/null & agent=$!
own $agent
until_true 5 '"$muster" gpu ls >/dev/null'
says 1 "a node side is running there already" gpu agent
says 127 "no-such-program: No such file" gpu run -- no-such-program
says 126 "Permission denied" gpu run -- "$dir/file"
check "a program's own status is run's" 'gpu run -- sh -c "exit 7"; [ $? = 7 ]'
says 1 "no process 999999 is registered; \`muster gpu ls\` shows those that are" gpu pause 999999
says 1 "no process of job none is registered" gpu evict --job none

MUSTER_JOB_ID=one "$muster" gpu run --role opportunistic --memory 128M -- "$job" 32 1000000 4 >/dev/null 2>&1 & pid=$!
own $pid
"$muster" gpu run --memory 128M --native -- "$job" 32 1000000 4 >/dev/null 2>&1 & native=$!
own $native
until_true 8 '[ "$(field $pid steps)" -gt 3 ] && [ "$(field $native steps)" -gt 3 ]'
says 0 "PID       ROLE           STATE     GATE     SHARE  USED-GIB   CAP-GIB  HOST-GIB    LAUNCHES     STEPS  SLOWER  PROGRAM" gpu ls
check "a row a process" '[ "$(gpu ls | grep -c fake_job)" = 2 ] && gpu ls | grep -q "^$pid  *opportunistic  *running  *open  *0  *0.03  *0.12  *0.00 "'
if command -v python3 >/dev/null; then
    check "as JSON" 'gpu ls --json | python3 -c "
import json, sys
x = json.load(sys.stdin)
keys = set(\"pid role state gate share_permille used_bytes cap_bytes host_bytes saved_bytes movable_bytes area_bytes pool_bytes launches graph_launches gate_waits gated_ns fail_open warmed gaps gaps_late steps tier slice_us slice_ok soft_refusals spills promotions cap_hits unknown limit_bytes slowdown_permille edge_us busy_percent held helper job gpu note driver can library peak_bytes step_peak_bytes largest_hole_bytes spilled_bytes spill_ns spill_last_ns promoted_bytes promote_ns promote_last_ns context_bytes context_known pause_ns evict_ns release_ns restore_ns reload_ns\".split())
assert x[\"kind\"] == \"GpuProcessList\" and x[\"next\"] is None and len(x[\"items\"]) == 2, x
assert all(set(i) == keys for i in x[\"items\"]), set(x[\"items\"][0]) ^ keys
assert {i[\"pid\"] for i in x[\"items\"]} == {$pid, $native}
assert all(i[\"library\"][:1].isdigit() for i in x[\"items\"]), x[\"items\"][0][\"library\"]
"'
fi
says 0 "PID" gpu top -n 2 -w 1
says 0 "PID       PEAK-GIB  STEP-PEAK  HOLE-GIB   OUT-GIB     OUT-S  BACK-GIB    BACK-S" gpu top -n 1
check "the most it held, and what its limit leaves in one piece" \
    '[ "$(field $pid peak_bytes)" = 33554432 ] && [ "$(field $pid step_peak_bytes)" = 33554432 ] &&
    [ "$(field $pid largest_hole_bytes)" -ge 100663296 ] && [ "$(field $pid spilled_bytes)" = 0 ]'
says 0 "ok $pid: paused 0." gpu pause $pid
check "the state is listed" '[ "$(field $pid state)" = paused ] && [ "$(field $pid gate)" = closed ]'
says 1 "process $pid is paused; resume it first" gpu set $pid share=0.5 memory=64M
check "and a share beside it is not set" '[ "$(field $pid share_permille)" = 0 ]'
says 0 "ok $pid: paused already" gpu pause $pid
says 1 "process $pid is paused; release it first, then --gpu says where it is restored" gpu restore --gpu 41414141414141414141414141414141 $pid
says 0 "ok $pid: evicted" gpu evict $pid
check "what moved is told" 'gpu resume $pid | grep -q "33554432 bytes moved"'
says 0 "ok $pid: released" gpu release $pid
says 0 "ok $pid: released already" gpu release $pid
says 1 "the driver does not restore it on that GPU" gpu restore --gpu GPU-99999999-9999-9999-9999-999999999999 $pid
says 0 "ok $pid: running 0." gpu restore $pid
says 0 "ok $pid: running already" gpu resume $pid
# Somebody else, where nobody else's home is in the way.
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --clear-groups "$muster" gpu --help >/dev/null 2>&1; then
    mkdir -p "$dir/others" && chown 65534 "$dir/others" && chmod 711 "$dir"
    says 1 "is another user's, and so are the processes there" env MUSTER_GPU_RUN_DIR="$dir/others" MUSTER_GPU_SOCKET="$dir/gpu.sock" \
        setpriv --reuid 65534 --clear-groups "$muster" gpu pause $pid
    chmod 700 "$dir"
else
    echo "# not tried as another user: that takes root, setpriv and a build that others can reach"
fi
rungs=0
for rung in pause evict release restore reload; do [ "$(field $pid ${rung}_ns)" -gt 0 ] && rungs=$((rungs + 1)); done
check "how long each rung took is listed" '[ $rungs = 5 ]'
says 0 "ok: all processes of job one" gpu pause --job one
says 0 "ok: all processes of job one" gpu resume --job one
says 1 "process $native holds its memory natively; start it with --movable to evict it" gpu evict $native
says 0 "ok $native: released" gpu release $native
says 0 "ok $native: running" gpu resume $native
says 0 "ok $pid: running 0." gpu set $pid memory=16M
check "the limit holds" '[ "$(field $pid used_bytes)" -le 16777216 ] && [ "$(field $pid cap_bytes)" = 16777216 ]'
check "what it moved, and how long that took" \
    '[ "$(field $pid spilled_bytes)" -ge 16777216 ] && [ "$(field $pid spill_last_ns)" -gt 0 ] && [ "$(field $pid spill_ns)" -ge "$(field $pid spill_last_ns)" ]'
says 0 "bytes above its limit, it gets no more until it frees them" gpu set $native memory=16M
says 0 "ok" gpu set $pid share=0.25
check "the share is listed" 'until_true 3 "[ \"\$(field $pid gate)\" = duty ]" && [ "$(field $pid share_permille)" = 250 ] && gpu ls | grep -q "^$pid .* duty  *250 "'
says 1 "memory is given twice; nothing was set" gpu set $pid share=0.5 memory=8M memory=16M
says 1 "process $pid has no context on its GPU 3" gpu set $pid gpu=3 memory=8M
says 1 "gpu says whose memory= it is, and that is not given" gpu set $pid gpu=0 share=0.5
says 1 "share is given twice; nothing was set" gpu set $pid memory=8M share=0.5 share=0.75
check "and nothing was" '[ "$(field $pid cap_bytes)" = 16777216 ] && [ "$(field $pid share_permille)" = 250 ]'
says 0 "ok" gpu set $pid share=1 prepare=32M pinned=0.5
says 0 "ok $pid: running" gpu set $pid memory=0
check "no limit is listed as none" '[ "$(field $pid cap_bytes)" = 0 ] && [ "$(field $pid host_bytes)" = 0 ]'
says 0 "ok $pid: evicted" gpu suspend --free 8M $pid
says 0 "ok $pid: evicted already" gpu suspend --free 8M $pid
says 0 "ok $pid: evicted already" gpu suspend $pid
check "that is what it would choose" 'gpu estimate --free 8M $pid | grep -q "^evict .* \*$" && [ "$(field $pid state)" = evicted ]'
says 1 "process $pid: no suspension frees 8192 MiB" gpu suspend --free 8G $pid
says 0 "ok $pid: running" gpu resume $pid
says 1 "$pid: not saved: it defines no muster_on_checkpoint(), and signal 12 would end it, because it does not catch it; lost would be the " gpu checkpoint $pid USR2
check "and it runs on" 'moves $pid'
says 0 "ok $pid: signal 12 sent, which ends it; it defines no muster_on_checkpoint(). Lost is the " gpu checkpoint --force $pid USR2
check "and it does" 'until_true 3 "! kill -0 $pid 2>/dev/null"'
says 1 "no process $pid is registered" gpu resume $pid
# Memory that the driver's checkpoint does not know, its own or opened from another process: refused before anything stops.
for kind in managed opened; do
    JOB_SHARED=$kind "$muster" gpu run --role opportunistic -- "$job" 32 1000000 4 >/dev/null 2>&1 & shared=$!
    own $shared
    until_true 8 '[ "$(field $shared steps)" -gt 3 ]'
    says 1 "process $shared uses managed or shared memory, which the driver cannot release; evict it instead" gpu release $shared
    check "$kind memory: it runs on" '[ "$(field $shared state)" = running ] && moves $shared'
    says 0 "ok $shared: evicted" gpu evict $shared
    kill -9 $shared
done

# A process with memory on two GPUs: a limit is each one's, and both follow it before the answer comes.
FAKE_CUDA_DEVICES=2 JOB_GPUS=2 "$muster" gpu run --role opportunistic -- "$job" 64 1000000 4 >/dev/null 2>&1 & both=$!
own $both
until_true 8 '[ "$(field $both steps)" -gt 3 ]'
says 0 "33554432 bytes moved, cache" gpu set $both memory=16M
check "nothing is left above it" '! grep -q "above its limit" "$dir/1"'
says 0 "33554432 bytes moved, cache" gpu set $both memory=32M
says 0 "16777216 bytes moved, cache" gpu set $both gpu=1 memory=16M
check "the other GPU's is as it was" '[ "$(field $both cap_bytes)" = 33554432 ] && [ "$(field $both host_bytes)" = 0 ]'
says 0 "16777216 bytes moved, cache" gpu set $both memory=0
check "its content is right all the while" 'moves $both'
says 0 "67108864 bytes moved" gpu evict $both
says 0 "ok $both: running" gpu resume $both
says 0 "ok $both: released" gpu release $both
says 0 "ok $both: running" gpu resume $both
check "and after all of both GPUs was away" 'moves $both'
kill -9 $both

# Under MPS, whose daemon serves: what is not there is said, and not tried.
mkdir "$dir/mps"
echo $$ >"$dir/mps/nvidia-cuda-mps-control.pid"
CUDA_MPS_PIPE_DIRECTORY="$dir/mps" "$muster" gpu run --role opportunistic -- "$job" 32 1000000 4 >/dev/null 2>&1 & mps=$!
own $mps
until_true 8 '[ "$(field $mps steps)" -gt 3 ]'
says 1 "process $mps runs under MPS, whose clients the driver cannot release; evict it instead" gpu release $mps
check "and why, with what to do" '[ "$(field $mps slice_ok)" = 0 ] && gpu ls --json | grep -q "stop MPS to have them"'
says 0 "ok $mps: evicted" gpu evict $mps
kill -9 $mps
sh -c 'echo $$' >"$dir/mps/nvidia-cuda-mps-control.pid" # one that has ended
CUDA_MPS_PIPE_DIRECTORY="$dir/mps" "$muster" gpu run --role opportunistic -- "$job" 32 1000000 4 >/dev/null 2>&1 & mps=$!
own $mps
until_true 8 '[ "$(field $mps steps)" -gt 3 ]'
says 0 "ok $mps: released" gpu release $mps
kill -9 $mps
check "frameworks that take the whole card are told not to" \
    '[ "$(gpu run --role opportunistic -- sh -c "echo \$TF_FORCE_GPU_ALLOW_GROWTH \$XLA_PYTHON_CLIENT_PREALLOCATE")" = "true false" ]'
check "unless told otherwise" '[ "$(XLA_PYTHON_CLIENT_PREALLOCATE=true gpu run --memory 64M -- printenv XLA_PYTHON_CLIENT_PREALLOCATE)" = true ]'
check "or sharing nothing" '! env -u TF_FORCE_GPU_ALLOW_GROWTH "$muster" gpu run -- printenv TF_FORCE_GPU_ALLOW_GROWTH'
# In a job of a cluster the environment says what its role is.
check "without --role it is that of the environment" '[ "$(MUSTER_GPU_ROLE=opportunistic gpu run -- printenv MUSTER_GPU_ROLE)" = opportunistic ]'
check "which --role overrides" '[ "$(MUSTER_GPU_ROLE=opportunistic gpu run --role guaranteed -- printenv MUSTER_GPU_ROLE)" = guaranteed ]'
check "without --memory the limit is that of the environment" '[ "$(MUSTER_GPU_MEMORY=64M MUSTER_GPU_HOST_POOL=8M gpu run -- sh -c "echo \$MUSTER_GPU_MEMORY \$MUSTER_GPU_HOST_POOL")" = "64M 8M" ]'
check "which --memory overrides" '[ "$(MUSTER_GPU_MEMORY=64M gpu run --memory 32M -- printenv MUSTER_GPU_MEMORY)" = 33554432 ]'
check "and 0 lifts" '! MUSTER_GPU_MEMORY=64M gpu run --memory 0 -- printenv MUSTER_GPU_MEMORY'
check "a program of that role is not started again without the library" \
    '! MUSTER_GPU_ROLE=opportunistic gpu run --restart -- sh -c "echo once; kill -SEGV \$\$" >"$dir/1" 2>"$dir/2"; [ "$(wc -l <"$dir/1")" = 1 ] && grep -q "not started again" "$dir/2"'
check "check fails where there is no driver, and not where one can do less" \
    'gpu check >/dev/null && { ldconfig -p | grep -q libcuda || ! LD_LIBRARY_PATH=/nonexistent "$muster" gpu check >/dev/null; }'
# A signal that is ignored ends nobody.
(trap "" USR1; exec "$muster" gpu run --role opportunistic -- "$job" 32 1000000 4) >/dev/null 2>&1 & deaf=$!
own $deaf
until_true 8 '[ "$(field $deaf steps)" -gt 3 ]'
says 0 "ok $deaf: signal 10 sent; it defines no muster_on_checkpoint()" gpu checkpoint $deaf
says 0 "ok $deaf: running, signal USR1 sent" gpu signal $deaf
check "and it does not" '! grep -q ends "$dir/1" && moves $deaf'
kill -9 $deaf
# One order at a time to a process.
MUSTER_JOB_ID=two "$muster" gpu run --role opportunistic -- "$job" 32 1000000 4 >/dev/null 2>&1 & pid=$!
own $pid
until_true 8 '[ "$(field $pid steps)" -gt 3 ]'
kill -STOP $pid
"$muster" gpu pause $pid >/dev/null 2>&1 & waiting=$!
until_true 5 'gpu resume $pid 2>&1 | grep -q "is not finished"' # the order has arrived
says 1 "process $pid: paused is not finished; wait for it" gpu resume $pid
kill -9 $pid
wait $waiting
check "an order to a process that ends is answered" '[ $? != 0 ] || true; ! kill -0 $waiting 2>/dev/null'
says 0 "ok $native: running, signal TERM sent, which ends it: it does not catch it" gpu signal $native TERM
check "signal ends it" 'until_true 3 "! kill -0 $native 2>/dev/null"'
done_testing
