# SPDX-License-Identifier: Apache-2.0
"""E13: kill -9 of the node side, the guaranteed job, the guardian, in each state; how long until the job makes steps again."""
import os
import signal
import sys
import time

from lab import STANDIN, Job, gate_of, listed, node_pid, order, own_node, result


def moved(job, within):
    """Seconds until the job's log grows by three lines."""
    start, n = time.monotonic(), len(job.lines())
    while time.monotonic() - start < within:
        if len(job.lines()) >= n + 3:
            return time.monotonic() - start
        time.sleep(0.05)
    return float("nan")


def guaranteed_dies(job):
    """The gate is asked for over the socket, from the kill on: a look takes a millisecond, a step of the job far more."""
    rg = Job(["rg", 100], ["--role", "guaranteed"])
    rg.wait_steps(30)
    time.sleep(3)
    before, lines, slow = gate_of(job.pid), len(job.lines()), 0.0
    rg.proc.send_signal(signal.SIGKILL)
    killed, ended, opened = time.monotonic(), None, None
    while time.monotonic() - killed < 10 and not (ended and opened):
        asked = time.monotonic()
        gate = gate_of(job.pid)
        slow = max(slow, time.monotonic() - asked)
        if gate == "open" and not opened:
            opened = time.monotonic()
        if not ended and rg.proc.poll() is not None:
            ended = time.monotonic()
    while len(job.lines()) < lines + 3 and time.monotonic() - killed < 10:
        time.sleep(0.01)
    again, nan = time.monotonic(), float("nan")
    ended = ended or killed
    result("death", who="guaranteed", state="pair", resumed_s=again - ended, open_s=max(0.0, opened - ended) if opened else nan, bound_s=0.2,
           open_after_kill_s=opened - killed if opened else nan, ended_s=ended - killed, slowest_look_s=slow, gate_before=before)


def guardian_of(pid):
    """The process that guards `pid`."""
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[1:3] == [b"gpu", b"guard"] and str(pid).encode() in words:
            return int(p)
    return None


def back(job, seconds=15):
    """A new node side; the job registers by itself."""
    Job(["slices", 1], ["--role", "guaranteed"]).finish(60)  # `muster gpu run` starts one
    end = time.monotonic() + seconds
    # NVML shows a process on the card before it has registered: until then it is foreign, and takes no orders.
    while listed(job.pid).get("role", "foreign") == "foreign" and time.monotonic() < end:
        time.sleep(0.2)
    return listed(job.pid).get("role", "foreign") != "foreign"


def gone():
    """The last of them alone, three times."""
    own_node("gone")
    job = Job(["hold", 0.05 if STANDIN else 4, 300], ["--role", "opportunistic"])
    job.wait_steps(5)
    for _ in range(3):
        guaranteed_dies(job)
    result("gone-content", bad=job.stop().get("bad"))


def main():
    own_node("death")
    os.environ["MUSTER_GPU_CLAIM_SECONDS"] = "5"
    job = Job(["hold", 0.05 if STANDIN else 4, 300], ["--role", "opportunistic"])
    job.wait_steps(5)
    order("set", job.pid, "prepare=5G")
    time.sleep(3)
    for state, bound in (("running", 1), ("pause", 8), ("evict", 10), ("release", 25)):
        rc, text = order(state, job.pid)[1:] if state != "running" else (0, "")
        os.kill(node_pid(), signal.SIGKILL)
        seconds = moved(job, bound + 20)
        result("death", who="node", state=state, resumed_s=seconds, bound_s=bound, known_again=back(job), rc=rc, said=text)
    for state in ("release", "release and asked"):
        rc, text = order("release", job.pid)[1:]
        first = guardian_of(job.pid)
        if not first:
            result("death-error", who="guardian", text="no guardian was found: " + text)
            break
        os.kill(first, signal.SIGKILL)
        start = time.monotonic()
        if state == "release":  # the node side starts another by itself
            while guardian_of(job.pid) in (None, first) and time.monotonic() - start < 15:
                time.sleep(0.05)
            result("death-successor", seconds=time.monotonic() - start, there=guardian_of(job.pid) is not None)
        start = time.monotonic()
        rc, text = order("restore", job.pid)[1:]
        result("death", who="guardian", state=state, resumed_s=time.monotonic() - start + moved(job, 20), bound_s=12, rc=rc, said=text)
    guaranteed_dies(job)
    open(job.log + ".check", "w").close()
    time.sleep(1)
    r = job.stop()
    result("death-content", bad=r.get("bad"), checks=r.get("checks"))


gone() if sys.argv[1:] == ["gone"] else main()
