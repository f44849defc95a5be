# SPDX-License-Identifier: Apache-2.0
"""What the experiments share: starting jobs with and without the runtime, asking the node side, results as lines."""
import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("MUSTER_GPU_BUILD", os.path.join(HERE, "../../build"))
MUSTER = os.path.join(BUILD, "muster")
LIBRARY = os.path.join(BUILD, "libmuster_gpu.so")
JOBS = os.path.join(HERE, "jobs.py")
TEMP = tempfile.mkdtemp(prefix="muster-gpu-lab-")


def result(name, **values):
    text = " ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in values.items())
    print(f"RESULT {name} {text}", flush=True)


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


def listed(pid):
    p = subprocess.run([MUSTER, "gpu", "ls", "--json"], capture_output=True, text=True)
    if p.returncode:
        return {}
    return next((i for i in json.loads(p.stdout)["items"] if i["pid"] == pid), {})


def used_mib():
    p = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True,
                       text=True)
    return int(p.stdout.split()[0])


def own_node(name):
    """A node side of its own for this experiment, so that several can run at once."""
    os.environ["MUSTER_GPU_RUN_DIR"] = f"/tmp/muster-lab-{name}"


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
