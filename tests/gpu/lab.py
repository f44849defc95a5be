# SPDX-License-Identifier: Apache-2.0
"""What the experiments share: starting jobs with and without the runtime, asking the node side, results as lines."""
import atexit
import json
import math
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("MUSTER_GPU_BUILD", os.path.join(HERE, "../../build"))
MUSTER = os.path.join(BUILD, "muster")
LIBRARY = os.path.join(BUILD, "libmuster_gpu.so")
STANDIN = os.environ.get("MUSTER_GPU_STANDIN") == "1"  # the fake driver: tries the scripts, measures nothing
JOBS = os.path.join(HERE, "standin.py" if STANDIN else "jobs.py")
TEMP = tempfile.mkdtemp(prefix="muster-gpu-lab-")


def plain(value):
    """Fit for JSON: no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


BEGAN = time.monotonic()


def result(name, **values):
    """One line for people, and one of JSON in $MUSTER_GPU_RESULTS, from which report.py makes the tables; at_s tells what took long."""
    values["at_s"] = round(time.monotonic() - BEGAN, 1)
    text = " ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={str(v).replace(' ', '_').replace(chr(10), '|')}" for k, v in values.items())
    print(f"RESULT {name} {text}", flush=True)
    path = os.environ.get("MUSTER_GPU_RESULTS")
    if path:
        line = {"name": name, "experiment": os.environ.get("MUSTER_GPU_EXPERIMENT", ""), "run": os.environ.get("MUSTER_GPU_RUN", ""),
                **{k: plain(v) for k, v in values.items()}}
        with open(path, "a") as f:
            f.write(json.dumps(line, default=str) + "\n")


JOBS_STARTED = []


@atexit.register
def jobs_end():
    """No job outlives its experiment, or it would spoil the next one's figures."""
    for job in JOBS_STARTED:
        job.kill()


signal.signal(signal.SIGTERM, lambda *_: sys.exit(124))


class Job:
    """A job of jobs.py in the background. mode: None (no library), 'inert', 'count', or arguments of `muster gpu run`."""

    def __init__(self, args, mode=None, env=None, prefix=()):
        self.log = os.path.join(TEMP, f"log-{time.monotonic_ns()}")
        self.err = open(self.log + ".err", "w")
        env = {**os.environ, "JOB_LOG": self.log, **(env or {})}
        cmd = [sys.executable, JOBS] + [str(a) for a in args]
        if mode in ("inert", "count"):
            env["LD_PRELOAD"] = LIBRARY
            if mode == "count":
                env["MUSTER_GPU_COUNT"] = "1"
        elif mode is not None:
            cmd = [MUSTER, "gpu", "run"] + mode + ["--"] + cmd
        cmd = list(prefix) + cmd
        self.proc = subprocess.Popen(cmd, env=env, stdout=subprocess.PIPE, stderr=self.err, text=True)
        self.pid = self.proc.pid
        JOBS_STARTED.append(self)

    def lines(self):
        try:
            with open(self.log) as f:
                return [line.split() for line in f if line.count(" ") == 2]
        except OSError:
            return []

    def wait_steps(self, count=1, timeout=90):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if len(self.lines()) >= count:
                return True
            if self.proc.poll() is not None:
                return False
            time.sleep(0.05)
        return False

    def finish(self, timeout=120):
        try:
            out, _ = self.proc.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.communicate()
            return {"error": "timeout", "err": self.tail()}
        for line in reversed(out.splitlines()):
            if line.startswith("{"):
                return json.loads(line)
        return {"error": f"exit {self.proc.returncode}", "err": self.tail()}

    def tail(self):
        with open(self.log + ".err") as f:
            return f.read()[-600:]

    def stop(self):
        open(self.log + ".check.stop", "w").close()
        return self.finish(60)

    def kill(self):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.communicate()


def order(*words, timeout=200):
    """`muster gpu WORDS`: seconds it took and what it said."""
    start = time.monotonic()
    p = subprocess.run([MUSTER, "gpu"] + [str(w) for w in words], capture_output=True, text=True, timeout=timeout)
    return time.monotonic() - start, p.returncode, (p.stdout + p.stderr).strip()


def took(text):
    """What the answer to an order says it took, in seconds."""
    m = re.search(r"(?:running|paused|evicted|released) ([0-9.]+) s", text)
    return float(m.group(1)) if m else float("nan")


def orders(name, job, there, back, **more):
    """One way and back, timed; the answers' own times are the figures, the tool's are beside them."""
    out, rc, text = order(there, job.pid)
    left = used_mib()
    home, rc2, text2 = order(back, job.pid)
    result(name, save_s=took(text), restore_s=took(text2), save_wall_s=out, restore_wall_s=home, left_mib=left, rc=rc or rc2,
           said=f"{text} | {text2}", **more)
    return rc == 0 and rc2 == 0


def listed(pid):
    p = subprocess.run([MUSTER, "gpu", "ls", "--json"], capture_output=True, text=True)
    if p.returncode:
        return {}
    return next((i for i in json.loads(p.stdout)["items"] if i["pid"] == pid), {})


def gate_of(pid):
    """The gate of a process, asked of the node side without a command between: as json() of cmd_gpu.c, 64 is MSG_CONTROL."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        try:
            s.settimeout(5)
            s.connect(os.path.join(os.environ["MUSTER_GPU_RUN_DIR"], "gpu.sock"))
            s.send(struct.pack("=II", 64, 264) + b"json\0")
            text = s.recv(1 << 20).decode()
        except OSError:
            return None
    found = re.search(rf'"pid":{pid},[^}}]*?"gate":"(\w+)"', text)
    return found.group(1) if found else None


def used_mib():
    if STANDIN:
        return 0
    p = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True,
                       text=True)
    return int(p.stdout.split()[0])


def total_gib():
    """Of the card."""
    if STANDIN:
        return int(os.environ.get("FAKE_CUDA_MEMORY", "512")) / 1024
    p = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"], capture_output=True, text=True)
    return int(p.stdout.split()[0]) / 1024


def own_node(name):
    """A node side of its own for this experiment, which ends with it."""
    os.environ["MUSTER_GPU_RUN_DIR"] = f"/tmp/muster-lab-{os.getpid()}-{name}"


def node_pid():
    """The process that listens on this experiment's socket."""
    want = os.environ["MUSTER_GPU_RUN_DIR"]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if f.read().split(b"\0")[1:3] != [b"gpu", b"agent"]:
                    continue
            with open(f"/proc/{pid}/environ", "rb") as f:
                if f"MUSTER_GPU_RUN_DIR={want}".encode() in f.read().split(b"\0"):
                    return int(pid)
        except OSError:
            pass
    return None


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))] if values else float("nan")


def between(lines, begin, end):
    """The third column of a job's log while begin <= time <= end."""
    return [float(line[2]) for line in lines if begin <= float(line[0]) <= end]
