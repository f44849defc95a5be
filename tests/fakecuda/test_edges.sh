#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_edges.sh MUSTER LIBRARY JOB SPEAK SECOND - what happens at the edges: nothing asked, nobody there, other
# preloads, neighbours and node sides that die, many processes at once. TAP on standard output.
set -u
muster=$1 library=$2 job=$3 speak=$4 second=$5 fake=$(dirname "$3")
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256
agent='' rg='' ot=''
with() { env LD_PRELOAD="$library" "$@"; }
cleanup() {
    for p in $rg $ot $agent; do kill -9 "$p" 2>/dev/null; done
    rm -rf "$dir"
}

check "with nothing asked the library is inert" '[ "$(with "$speak" on)" = 0 ]'
check "and memory is what the driver says" '[ "$(with "$speak" total)" = 256 ]'
check "switched off it is inert" '[ "$(with MUSTER_GPU_MEMORY=64M MUSTER_GPU_DISABLE=1 "$speak" on)" = 0 ]'
check "an opportunistic job cannot be switched off" '! MUSTER_GPU_DISABLE=1 "$muster" gpu run --role opportunistic -- true 2>/dev/null'
check "nor from within" '[ "$(with MUSTER_GPU_ROLE=opportunistic MUSTER_GPU_DISABLE=1 "$speak" on 2>"$dir/2")" = 1 ] &&
    [ "$(grep -c "MUSTER_GPU_DISABLE is ignored" "$dir/2")" = 1 ]'
check "a limit in terabytes is one" '[ "$(with MUSTER_GPU_MEMORY=20T "$speak" total)" = 256 ]'
check "a bare number is bytes" '[ "$(with MUSTER_GPU_MEMORY=67108864 "$speak" total)" = 64 ]'
for bad in "20X" "20G " "64MB" "-1" "99999999999T" much; do
    quoted="'$bad'"
    check "'$bad' is no limit, and said to be none" '[ "$(with MUSTER_GPU_COUNT=1 MUSTER_GPU_MEMORY="$bad" "$speak" total 2>"$dir/2")" = 256 ] &&
        [ "$(grep -cF "MUSTER_GPU_MEMORY: $quoted is no size" "$dir/2")" = 1 ]'
done
check "another preload finds what is behind it" '[ "$(env LD_PRELOAD="$library:$second" "$speak")" = "second: hello" ]'
check "in either order" '[ "$(env LD_PRELOAD="$second:$library" "$speak")" = "second: hello" ]'
check "without a node side the limit of the environment holds" \
    '[ "$(with MUSTER_GPU_SOCKET="$dir/none" MUSTER_GPU_MEMORY=32M "$speak" alloc)" = 2 ]'
check "and is what the program sees" '[ "$(with MUSTER_GPU_SOCKET="$dir/none" MUSTER_GPU_MEMORY=32M "$speak" total)" = 32 ]'
check "where a node side is required, memory is refused" \
    '[ "$(with MUSTER_GPU_SOCKET="$dir/none" MUSTER_GPU_REQUIRED=1 "$speak" alloc)" = 2 ]'
check "but launches are not" '[ "$(with MUSTER_GPU_SOCKET="$dir/none" MUSTER_GPU_REQUIRED=1 "$speak" launch)" = 0 ]'
# What reaches the driver is the same with the library inert as without it, call for call; it may look functions up at its start.
FAKE_CUDA_TRACE="$dir/without" "$speak" launch >/dev/null
with FAKE_CUDA_TRACE="$dir/inert" "$speak" launch >/dev/null
check "inert it adds no call and changes no order" \
    'grep -q cuLaunchKernel "$dir/without" && grep -v GetProcAddress "$dir/inert" | cmp -s - "$dir/without"'
for version in 11040 12020 12080; do
    mkdir "$dir/$version" && cp "$fake/libcuda-$version.so" "$dir/$version/libcuda.so.1"
    check "a driver of version $version works" '[ "$(with LD_LIBRARY_PATH="$dir/$version" MUSTER_GPU_COUNT=1 "$speak" launch)" = 0 ]'
done

# A driver that lacks most functions, and one that answers no more.
if command -v python3 >/dev/null; then
    old="LD_LIBRARY_PATH=$(dirname "$job")/old"
    small='import ctypes; c = ctypes.CDLL("libcuda.so.1"); x = ctypes.c_void_p(); c.cuInit(0)
c.cuDevicePrimaryCtxRetain(ctypes.byref(x), 0); p = ctypes.c_uint64(); print(c.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4 << 20)))'
    check "a driver without most functions still allocates" '[ "$(with $old MUSTER_GPU_ROLE=opportunistic python3 -c "$small")" = 0 ]'
    check "what is missing is said, with what to do" \
        'with $old MUSTER_GPU_ROLE=opportunistic MUSTER_GPU_DEBUG=1 python3 -c "$small" 2>&1 | grep -q "cannot map memory"'
    check "check says what an old driver cannot do" \
        'env $old "$muster" gpu check | grep -q "^no  memory can be moved" && env $old "$muster" gpu check | grep -q "^no  processes can be released"'
fi
# A node side that listens and never answers: the first call takes its 50 ms, and a thread that comes meanwhile waits for it.
if command -v python3 >/dev/null; then
    python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.bind(sys.argv[1]); s.listen(64); time.sleep(600)' "$dir/mute" & mute=$!
    until_true 10 '[ -S "$dir/mute" ]'
    check "who comes while another thread makes the first call finds the library active" \
        '[ "$(for i in 1 2 3 4 5; do with MUSTER_GPU_SOCKET="$dir/mute" "$speak" together; done | tr -d "\n")" = 11111 ]'
    kill -9 $mute; wait $mute 2>/dev/null
fi
if command -v python3 >/dev/null; then
    nvml='import ctypes
n = ctypes.CDLL("libnvidia-ml.so.1"); c = ctypes.CDLL("libcuda.so.1"); x = ctypes.c_void_p(); d = ctypes.c_void_p()
c.cuInit(0); c.cuDevicePrimaryCtxRetain(ctypes.byref(x), 0); c.cuCtxSetCurrent(x)
p = ctypes.c_uint64(); c.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(8 << 20))
n.nvmlInit_v2(); n.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(d)); m = (ctypes.c_uint64 * 3)(); n.nvmlDeviceGetMemoryInfo(d, m)
k = ctypes.c_uint(8); r = (ctypes.c_uint64 * 24)(); n.nvmlDeviceGetComputeRunningProcesses_v3(d, ctypes.byref(k), r)
print(m[0] >> 20, m[1] >> 20, m[2] >> 20, k.value)'
    check "NVML is as it is" '[ "$(with MUSTER_GPU_MEMORY=64M python3 -c "$nvml")" = "256 156 100 2" ]'
    check "with the view it shows the limit, what is used of it, and nobody else" \
        '[ "$(with MUSTER_GPU_MEMORY=64M MUSTER_GPU_NVML_VIEW=1 python3 -c "$nvml")" = "64 56 8 1" ]'
fi
check "a tool in front of the look-up is kept in the chain, and seen through" '[ "$(with FAKE_CUDA_TOOL=1 MUSTER_GPU_COUNT=1 "$speak" lookup)" = "1 1" ]'
check "check finds the rest in a new one" '"$muster" gpu check | grep -q "^ok  processes can be released"'
check "without a driver check says so" 'LD_LIBRARY_PATH=/nonexistent "$muster" gpu check | grep -q "^no  a CUDA driver" || ldconfig -p | grep -q libcuda'

# Of several that start at the same moment one stays, and whoever was refused says so.
for i in 1 2 3 4 5 6 7 8; do MUSTER_GPU_EPS=100 "$muster" gpu agent 2>>"$dir/refused" & pids="${pids:-} $!"; done
until_true 10 '[ "$(grep -c "running there already" "$dir/refused")" = 7 ]'
for p in $pids; do kill -0 "$p" 2>/dev/null && agent="$agent $p"; done
check "of eight node sides that start at once, one stays" '[ "$(echo $agent | wc -w)" = 1 ] && "$muster" gpu ls >/dev/null'
agent=$(echo $agent)
check "a forked child is inert and holds neither page nor socket; its parent goes on" \
    '[ "$(with MUSTER_GPU_SOCKET="$dir/gpu.sock" "$speak" fork | tr "\n" " ")" = "0 0 0 1 1 1 " ]'
check "a program that is started instead inherits nothing, and begins anew" \
    '[ "$(with MUSTER_GPU_SOCKET="$dir/gpu.sock" "$speak" exec)" = "0 1 1" ]'
# A first call has 50 ms to register; on a busy machine most take their welcome later, from their helper.
# Two seconds are the bound for all of them; where the machine had other things to do, the best of three counts.
took() { sed -n 's/^300 registered.* \([0-9]*\) ms$/\1/p' "$dir/crowds" | sort -n | head -1; }
for try in 1 2 3; do
    with MUSTER_GPU_SOCKET="$dir/gpu.sock" "$fake/fake_crowd" 300 </dev/null >>"$dir/crowds"
    until_true 10 '[ "$("$muster" gpu ls | grep -c fake_crowd)" = 0 ]'
    [ "$(took)" -le 2000 ] 2>/dev/null && break
done
check "three hundred processes register within two seconds" 'sed "s/^/# /" "$dir/crowds"; [ "$(took)" -le 2000 ]'
mkfifo "$dir/hold"
with MUSTER_GPU_SOCKET="$dir/gpu.sock" "$fake/fake_crowd" 300 <"$dir/hold" >"$dir/crowd" & crowd=$!
exec 3>"$dir/hold"
until_true 60 'grep -q registered "$dir/crowd"'
echo "# $(cat "$dir/crowd")"
check "three hundred processes start at once, and all are registered" 'grep -q "^300 registered" "$dir/crowd"'
until_true 10 '[ "$("$muster" gpu ls | grep -c fake_crowd)" = 300 ]'
check "all are listed" '[ "$("$muster" gpu ls | grep -c fake_crowd)" = 300 ]'
check "as JSON as well, in one document" \
    '[ "$("$muster" gpu ls --json | grep -o "{.pid.:[0-9]*," | sort -u | wc -l)" = 300 ] && [ "$("$muster" gpu ls --json | grep -c "next.:null")" = 1 ]'
check "none says that it found nobody" '! "$muster" gpu ls --json | grep -q "no node side"'
exec 3>&-
wait $crowd
until_true 10 '[ "$("$muster" gpu ls | grep -c fake_crowd)" = 0 ]'
check "and are gone when they have ended" '[ "$("$muster" gpu ls | grep -c fake_crowd)" = 0 ]'

# A pair: the guaranteed job has no gaps here, so the other gets next to nothing until it is gone.
"$muster" gpu run --role guaranteed -- "$job" 16 1000000 4 >/dev/null & rg=$!
until_true 8 'moves $rg'
JOB_TALK=1 "$muster" gpu run --role opportunistic -- "$job" 16 1000000 4 >/dev/null 2>"$dir/talk" & ot=$!
until_true 10 '[ "$(field $ot slice_us)" = 200 ] && [ "$(field $rg slice_us)" = 10000 ] && [ "$(field $rg steps)" -gt 50 ]'
check "the neighbour is held back" '[ "$(field $ot gate)" = harvest ] || [ "$(field $ot gate)" = closed ]'
check "its time slice is short, the other one long" '[ "$(field $ot slice_us)" = 200 ] && [ "$(field $rg slice_us)" = 10000 ]'
check "steps of the guaranteed job are seen" '[ "$(field $rg steps)" -gt 50 ] && [ "$(field $rg tier)" = 0 ]'
kill -9 $rg; wait $rg 2>/dev/null
check "a guaranteed job that died holds nobody back" 'until_true 5 "[ \"\$(field $ot gate)\" = open ]" && gets_on $ot steps 20'

# harvests PID - twenty launches of it enter while its gate lets it into gaps only; the longest wait of one is two seconds, so that
# these were let in. A machine that is busy has the neighbour paused now and then: one such moment is enough.
harvests() {
    from=$(field "$1" launches) polls=0
    while [ "$(field "$1" gate)" = harvest ] && [ $polls -lt 30 ]; do
        [ "$(field "$1" launches)" -ge $((from + 20)) ] && return 0
        sleep 0.1
        polls=$((polls + 1))
    done
    return 1
}
# shares WHAT PID... - all of them do.
shares() {
    what=$1 all=1
    shift
    for one in "$@"; do
        until=$(($(date +%s) + 60))
        until harvests "$one"; do
            [ "$(date +%s)" -lt $until ] || { all=0 && break; }
            sleep 0.2
        done
    done
    echo "# share $(field $ot share_permille), slower by $(field $rg slowdown_permille) permille"
    if [ $all = 1 ]; then ok "$what"; else bad "$what"; fi
}
# Gaps of 20 ms: the neighbour gets on, whether the guaranteed job waits for the GPU or never does.
for wait in "" JOB_NO_WAIT=1; do
    env JOB_GAP_US=20000 $wait "$muster" gpu run --role guaranteed -- "$job" 16 1000000 4 >/dev/null & rg=$!
    until_true 8 'moves $rg'
    shares "a neighbour harvests gaps${wait:+ of a job that never waits}" $ot
    kill -9 $rg; wait $rg 2>/dev/null
    gone $rg
done

# Two neighbours take turns.
env JOB_GAP_US=20000 "$muster" gpu run --role guaranteed -- "$job" 16 1000000 4 >/dev/null & rg=$!
"$muster" gpu run --role opportunistic -- "$job" 16 1000000 4 >/dev/null & other=$!
own $other
until_true 8 'moves $rg'
shares "two neighbours share the gaps" $ot $other
kill -9 $rg $other; wait $rg $other 2>/dev/null
gone $rg; gone $other

check "a share is kept" '"$muster" gpu set $ot share=0.1 >/dev/null && until_true 5 "[ \"\$(field $ot gate)\" = duty ]"'
begin=$(date +%s%N) a=$(field $ot gated_ns)
check "the job gets on" 'gets_on $ot launches 200'
check "and is held back for most of the time" '[ $((($(field $ot gated_ns) - a) * 100 / ($(date +%s%N) - begin))) -gt 40 ]'
"$muster" gpu set $ot share=1 >/dev/null
# The node side dies while the job is paused: it goes on by itself within the lease and a little.
"$muster" gpu pause $ot >/dev/null
kill -9 $agent; wait $agent 2>/dev/null
a=$(grep -c "^step" "$dir/talk")
check "a paused job outlives the node side" 'until_true 20 "[ \$(grep -c \"^step\" \"$dir/talk\") -gt $a ]"'
"$muster" gpu agent & agent=$!
check "and comes to the next one" 'until_true 20 "[ -n \"\$(field $ot steps)\" ]" && moves $ot'
check "a paused job is resumed before its signal" \
    '"$muster" gpu pause $ot >/dev/null && "$muster" gpu signal $ot TERM >/dev/null && until_true 5 "! kill -0 $ot 2>/dev/null"'
if command -v python3 >/dev/null; then
    python3 - "$dir/gpu.sock" <<'END'
import os, random, socket, struct, sys
random.seed(1)
for i in range(300):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(sys.argv[1])
    size = random.choice([1, 7, 8, 40, 200, 4000])
    data = bytearray(random.randbytes(size))
    if size >= 8 and i % 2:
        data[0:8] = struct.pack("<II", random.choice([1, 3, 7, 64, 99]), size)
    fds = [os.memfd_create("x")] if i % 3 == 0 else []
    socket.send_fds(s, [bytes(data)], fds)
    for fd in fds:
        os.close(fd)
    s.close()
END
    check "three hundred messages of nonsense leave the node side standing" '"$muster" gpu ls >/dev/null && kill -0 $agent'
    python3 - "$dir/gpu.sock" >"$dir/pages" <<'END'
import fcntl, os, socket, struct, sys, time
def register(sealed):
    fd = os.memfd_create("page", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 16384)
    os.pwrite(fd, struct.pack("<QII", 0x6d75737465726770, 1, 16384), 0)
    if sealed:
        fcntl.fcntl(fd, 1033, 2 | 4) # F_ADD_SEALS: neither smaller nor larger
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(sys.argv[1])
    hello = struct.pack("<II4I4Q2I64s64s", 1, 192, 1, 0, os.getpid(), 1, 0, 0, 0, 0, 0, 0, b"", b"shrinker")
    socket.send_fds(s, [hello], [fd])
    s.settimeout(20)
    try:
        answer = s.recv(4096)
    except ConnectionResetError:
        answer = b""
    if not sealed:
        os.ftruncate(fd, 0)
        time.sleep(0.3)
    s.close()
    os.close(fd)
    return len(answer) >= 8 and struct.unpack_from("<I", answer)[0] == 2
print("sealed", register(True), "open", register(False))
END
    check "a page that its process could shrink is not taken, a sealed one is" 'sed "s/^/# /" "$dir/pages"; [ "$(cat "$dir/pages")" = "sealed True open False" ] && "$muster" gpu ls >/dev/null && kill -0 $agent'
fi
"$muster" gpu run --memory 64M --native -- "$job" 32 1000000 4 >/dev/null & ot=$!
until_true 5 '[ "$(field $ot used_bytes)" -ge 33554432 ]'
check "a limit below what a native job holds is told, and holds" \
    '"$muster" gpu set $ot memory=16M | grep -q "16777216 bytes above its limit" && [ "$(field $ot cap_bytes)" = 16777216 ]'
check "it cannot be evicted, and is told why" '"$muster" gpu evict $ot 2>&1 | grep -q -- --movable'
kill -9 $ot; wait $ot 2>/dev/null
FAKE_CUDA_GONE="$dir/gone" "$muster" gpu run --role opportunistic -- "$job" 32 1000000 4 >/dev/null 2>"$dir/err" & ot=$!
until_true 5 '[ "$(field $ot steps)" -gt 3 ]'
"$muster" gpu pause $ot >/dev/null
: >"$dir/gone"
check "a GPU that is gone: the order says so" '"$muster" gpu evict $ot 2>&1 | grep -q "GPU does not answer"'
check "and the process is still known" '[ "$(field $ot state)" = paused ]'
"$muster" gpu resume $ot >/dev/null
check "the program gets the driver's own error and ends" 'until_true 5 "! kill -0 $ot 2>/dev/null" && grep -q "launch failed" "$dir/err"'
# The same while its memory is away: there is nothing left to come home to, and nothing left to wait for.
for rung in evict release; do
    rm -f "$dir/gone"
    FAKE_CUDA_GONE="$dir/gone" "$muster" gpu run --role opportunistic -- "$job" 32 1000000 4 >/dev/null 2>"$dir/err" & ot=$!
    until_true 5 '[ "$(field $ot steps)" -gt 3 ]'
    "$muster" gpu $rung $ot >/dev/null
    : >"$dir/gone"
    check "a GPU that goes after $rung: resume says that it is lost, and what to do" \
        '! "$muster" gpu resume $ot 2>"$dir/said" && sed "s/^/# /" "$dir/said" && grep -q "was lost (driver error 46), .* end it" "$dir/said"'
    check "and the program gets the driver's own error, and ends" 'until_true 10 "! kill -0 $ot 2>/dev/null" && grep -q "launch failed" "$dir/err"'
done
# One that does not end by that is listed as what it is.
rm -f "$dir/gone"
FAKE_CUDA_GONE="$dir/gone" JOB_DEAF=1 "$muster" gpu run --role opportunistic -- "$job" 32 1000000 4 >/dev/null 2>&1 & ot=$!
until_true 5 '[ "$(field $ot steps)" -gt 3 ]'
"$muster" gpu evict $ot >/dev/null
: >"$dir/gone"
"$muster" gpu resume $ot >/dev/null 2>&1
check "one that does not end by that is listed as lost" '[ "$(field $ot state)" = lost ] && "$muster" gpu ls --json | grep -q "the GPU or its context was lost"'
kill -9 $ot; wait $ot 2>/dev/null
if command -v python3 >/dev/null; then
    rm -f "$dir/gone"
    "$muster" gpu run -- python3 "$(dirname "$0")/saver.py" "$dir/saved" & ot=$!
    until_true 5 '[ "$(field $ot steps)" -gt 3 ]'
    check "a program saves itself at the end of a step" \
        '"$muster" gpu checkpoint $ot | grep -q "muster_on_checkpoint() in" && grep -q "between steps" "$dir/saved"'
    check "one whose checkpoint fails is sent the signal" \
        '"$muster" gpu checkpoint $ot USR2 | grep -q "raised an exception" && until_true 5 "grep -q signal \"$dir/saved\""'
    kill -9 $ot; wait $ot 2>/dev/null
    "$muster" gpu run -- python3 "$(dirname "$0")/saver.py" "$dir/saved" none & ot=$!
    until_true 5 '[ "$(field $ot steps)" -gt 3 ]'
    check "one that defines none as well" '"$muster" gpu checkpoint $ot USR2 | grep -q "defines no muster_on_checkpoint"'
    kill -9 $ot; wait $ot 2>/dev/null
fi
check "a second node side is refused" '! "$muster" gpu agent 2>/dev/null'
check "nonsense is answered" '"$muster" gpu frobnicate 2>&1 | grep -q "unknown verb"'
# A crash under the library: once more without it, where nobody depends on it.
cat >"$dir/crash" <<'END'
#!/bin/sh
echo "${MUSTER_GPU_DISABLE:-on}" >>"$1"
[ -n "${MUSTER_GPU_DISABLE:-}" ] && exit 5
kill -SEGV $$
END
chmod +x "$dir/crash"
check "a program that crashes under the library is started once more without it" \
    '"$muster" gpu run --restart -- "$dir/crash" "$dir/crashes" 2>"$dir/err"; [ $? = 5 ] && [ "$(cat "$dir/crashes" | tr "\n" " ")" = "on 1 " ] &&
    grep -q "died by signal 11 .* once more without the library" "$dir/err"'
rm -f "$dir/crashes"
check "an opportunistic one is not, and why" \
    '"$muster" gpu run --restart --role opportunistic -- "$dir/crash" "$dir/crashes" 2>"$dir/err"; [ $? = 139 ] && [ "$(cat "$dir/crashes")" = on ] &&
    grep -q "nothing would hold an opportunistic job back" "$dir/err"'
check "what ends by itself is left at that" '"$muster" gpu run --restart -- sh -c "exit 3"; [ $? = 3 ]'
check "signals reach it" '"$muster" gpu run --restart -- sh -c "trap \"exit 9\" TERM; : >\"$dir/armed\"; sleep 10 >/dev/null 2>&1 & wait" & p=$!; until_true 5 "[ -e \"$dir/armed\" ]"; kill -TERM $p; wait $p; [ $? = 9 ]'

check "top shows the header" '"$muster" gpu top -n 1 | grep -q "^PID"'
echo "1..$n"
exit $failed
