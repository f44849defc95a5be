#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_everyone.sh MUSTER LIBRARY JOB FAKE_DIR - one node side for the programs of every user: who may register, look and order.
# TAP on standard output; needs root, and a build that others can reach.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
if [ "$(id -u)" != 0 ] || ! setpriv --reuid 65534 --clear-groups "$muster" gpu --help >/dev/null 2>&1; then
    echo "1..0 # SKIP needs root, setpriv and a build that others can reach"
    exit 0
fi
# as UID COMMAND... - as another user, with a run directory of its own; the same process.
cat >"$dir/as" <<'AS'
#!/bin/sh
user=$1; shift
exec setpriv --reuid "$user" --regid "$user" --clear-groups env MUSTER_GPU_RUN_DIR="$(dirname "$0")/run-$user" "$@"
AS
chmod 755 "$dir/as"
chmod 711 "$dir"
mkdir -m 777 "$dir/cuda"
mkdir -m 700 "$dir/run" "$dir/run-65533" "$dir/run-65534"
chown 65533 "$dir/run-65533"
chown 65534 "$dir/run-65534"
export FAKE_CUDA_DIR="$dir/cuda" FAKE_CUDA_MEMORY=256 MUSTER_GPU_RUN_DIR="$dir/run" MUSTER_GPU_SOCKET="$dir/gpu.sock"
MUSTER_GPU_EVERYONE=1 "$muster" gpu agent >/dev/null & agent=$!
own $agent
answers
"$dir/as" 65534 env LD_PRELOAD="$library" MUSTER_GPU_ROLE=opportunistic MUSTER_JOB_ID=7 "$job" 32 1000000 4 >/dev/null 2>&1 & pid=$!
own $pid
"$dir/as" 65533 env LD_PRELOAD="$library" MUSTER_GPU_ROLE=opportunistic MUSTER_JOB_ID=7 "$job" 16 1000000 4 >/dev/null 2>&1 & second=$!
own $second
check "programs of two users run under one node side" 'until_true 8 "[ \"\$(field $pid steps)\" -gt 3 ] && [ \"\$(field $second steps)\" -gt 3 ]"'
check "each user sees what is its own" \
    '"$dir/as" 65534 "$muster" gpu ls --json >"$dir/theirs"; grep -q "\"pid\":$pid," "$dir/theirs" && ! grep -q "\"pid\":$second," "$dir/theirs"'
check "in the tables too" '"$dir/as" 65534 "$muster" gpu ls >"$dir/theirs"; grep -q "^$pid " "$dir/theirs" && ! grep -q "^$second " "$dir/theirs"'
check "root sees all" '"$muster" gpu ls | grep -q "^$pid " && "$muster" gpu ls | grep -q "^$second "'
for order in "pause $second" "pause $pid" "set $pid memory=0" "set $pid share=1" "release $pid" "signal $pid 9" "detach $pid 5" stop; do
    check "no order from a user: $order" \
        '! "$dir/as" 65534 "$muster" gpu $order >"$dir/said" 2>&1 && kill -0 $agent && [ "$(field $pid state)" = running ] && [ "$(field $second state)" = running ]'
done
"$dir/as" 65534 "$muster" gpu pause "$pid" >"$dir/said" 2>&1
check "it is said who gives them" 'grep -q "this node side serves a cluster, which gives the orders; .muster suspend" "$dir/said"'
check "an estimate of what is one's own" '"$dir/as" 65534 "$muster" gpu estimate $pid | grep -q evict'
"$dir/as" 65534 "$muster" gpu estimate "$second" >"$dir/said" 2>&1
check "not of another's" 'grep -q "no program of yours is process $second" "$dir/said"'
check "root orders: released, and back with its bytes" \
    '"$muster" gpu release $pid >/dev/null && [ "$(field $pid state)" = released ] && "$muster" gpu resume $pid >/dev/null && moves $pid'
# A job's number is its own word. As ranks of one job they would not be held between two launches.
JOB_GAP_US=8000 LD_PRELOAD="$library" MUSTER_GPU_ROLE=guaranteed MUSTER_JOB_ID=9 "$job" 16 1000000 4 >/dev/null 2>&1 & guaranteed=$!
own $guaranteed
check "programs of two users are no ranks of one job, whatever they say" 'until_true 10 "[ \"\$(field $pid gate)\" = harvest ]"'
kill -9 $guaranteed
# Roles are the cluster's, by the control group a program is in: no program's own word.
"$dir/as" 65533 env LD_PRELOAD="$library" MUSTER_GPU_ROLE=guaranteed MUSTER_JOB_ID=7 "$job" 16 1000000 4 >/dev/null 2>&1 & liar=$!
own $liar
check "who is in no job is no guaranteed one" 'until_true 8 "[ \"\$(field $liar steps)\" -gt 3 ]" && [ "$(field $liar role)" = - ]'
kill -9 $liar
tree=/sys/fs/cgroup
[ -e $tree/cgroup.procs ] || tree=/sys/fs/cgroup/unified
if [ -e $tree/cgroup.procs ] && mkdir "$tree/mt-grant-$$" 2>/dev/null; then
    group=$tree/mt-grant-$$
    mkdir "$group/51.0.0" "$group/52.0.0" "$group/51.0.0/inner"
    mkdir -p -m 700 "$dir/run/grants"
    # note TASK ROLE MEMORY: as the agent writes it; 1 guaranteed, 2 opportunistic.
    note() { printf '/mt-grant-%s/%s\n%s 0 %s\n%s\n' $$ "$1" "$2" "$3" "${1%%.*}" >"$dir/run/grants/$1"; }
    note 51.0.0 1 0
    note 52.0.0 2 33554432
    # within GROUP UID NAME=VALUE...: a program of that user in that group.
    within() { sh -c 'echo $$ >"$0/cgroup.procs" && shift && exec "$@"' "$group/$1" x "$dir/as" "$2" env LD_PRELOAD="$library" "$3" "$4" "$job" 16 1000000 4 >/dev/null 2>&1 & }
    within 51.0.0/inner 65533 MUSTER_GPU_ROLE=opportunistic MUSTER_JOB_ID=999; first=$!
    own $first
    check "a program of a guaranteed job is that, below its group too" 'until_true 8 "[ \"\$(field $first role)\" = guaranteed ]" && [ "$(field $first job)" = 51 ]'
    within 52.0.0 65533 MUSTER_GPU_ROLE=guaranteed MUSTER_GPU_MEMORY=33554432; second=$!
    own $second
    check "one of an opportunistic job does not become another by saying so" 'until_true 8 "[ \"\$(field $second role)\" = opportunistic ]" && [ "$(field $second job)" = 52 ]'
    within 52.0.0 65533 MUSTER_GPU_ROLE=opportunistic MUSTER_GPU_MEMORY=67108864; third=$!
    own $third
    sleep 2
    check "and with more memory than its job was given it is not taken" '! "$muster" gpu ls --json | grep -q "\"pid\":$third,"'
    mkdir "$tree/mt-grant-$$-own" "$tree/mt-grant-$$-own/51.0.0"
    group=$tree/mt-grant-$$-own
    within 51.0.0 65533 MUSTER_GPU_ROLE=guaranteed MUSTER_JOB_ID=51; fourth=$!
    own $fourth
    check "a group elsewhere with the name of a job's is not that job's" 'until_true 8 "[ \"\$(field $fourth steps)\" -gt 3 ]" && [ "$(field $fourth role)" = - ]'
    kill -9 $first $second $third $fourth
    sleep 0.5
    rmdir "$tree/mt-grant-$$/51.0.0/inner" "$tree/mt-grant-$$"/5?.0.0 "$tree/mt-grant-$$" "$tree/mt-grant-$$-own/51.0.0" "$tree/mt-grant-$$-own"
fi
# Connections that say nothing: one user's do not keep another's programs out.
"$dir/as" 65534 python3 - "$dir/gpu.sock" >/dev/null <<'PY' & hog=$!
import socket, sys, time
held = []
for _ in range(600):
    try:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(sys.argv[1])
        held.append(s)
    except OSError:
        pass
print(len(held), flush=True)
time.sleep(60)
PY
own $hog
sleep 1
"$dir/as" 65533 env LD_PRELOAD="$library" MUSTER_GPU_ROLE=opportunistic "$job" 16 1000000 4 >/dev/null 2>&1 & third=$!
own $third
check "six hundred silent connections of one user keep no other out" 'until_true 8 "[ \"\$(field $third steps)\" -gt 3 ]"'
done_testing
