#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""live.py [--scale S] [--no-slurm] - a running cluster: throughput, latency, size; Slurm beside it in the same run.

Both get the same machine, eight nodes with eight GPUs each, and the same commands (W1 to W5). Real processes are forked
in both. The floor is what the same loops do when the command is `true`: nobody who starts a program for each job can be
faster. `--scale 0.1` runs a tenth of each workload. Slurm is left out, with a line that says so, where its packages
(slurm-wlm, munge) are not installed. Prints ratios; asserts nothing.
"""
import argparse
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

BUILD = os.path.abspath(os.environ.get("MUSTER_BUILD", "build"))
NODES = 8
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def cpu_seconds(pid):
    fields = open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid):
    for line in open("/proc/%d/status" % pid):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def parallel(commands, width, env=None):
    """Runs the command lines, `width` at a time; seconds."""
    lock, todo = threading.Lock(), list(commands)

    def worker():
        while True:
            with lock:
                if not todo:
                    return
                command = todo.pop()
            subprocess.run(command, env=env, check=True, **QUIET)

    begin = time.time()
    threads = [threading.Thread(target=worker) for _ in range(width)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.time() - begin


class Muster:
    name = "muster"

    def __init__(self, nodes=NODES, gpus=8):
        self.folder = tempfile.mkdtemp(prefix="muster-bench-")
        self.port = free_port()
        self.url = "http://127.0.0.1:%d" % self.port
        self.env = dict(os.environ, MUSTER_URL=self.url)
        self.log = open(self.folder + "/log", "w")
        self.controller = subprocess.Popen([BUILD + "/musterd", "--dev", "--listen", "127.0.0.1:%d" % self.port, "--state",
                                            self.folder + "/state", "--log", "warn"], stdout=self.log, stderr=self.log)
        self.agents = [subprocess.Popen([BUILD + "/muster-agent", "--url", self.url, "--node", "gn%d" % (i + 1), "--state",
                                         "%s/agent%d" % (self.folder, i), "--fake", "%d:A100" % gpus, "--allow-root"],
                                        stdout=self.log, stderr=self.log) for i in range(nodes)]
        self.pid = self.controller.pid
        self.wait(lambda: sum(g["total"] for g in self.ask("/gpus")["items"]) == nodes * gpus)

    def wait(self, condition, limit=60):
        end = time.time() + limit
        while time.time() < end:
            try:
                if condition():
                    return
            except (OSError, ValueError, http.client.HTTPException, KeyError):
                pass
            time.sleep(0.05)
        raise SystemExit("live.py: the cluster did not come up; see " + self.folder + "/log")

    def ask(self, path, method="GET", body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, "/api/v1" + path, json.dumps(body) if body is not None else None,
                           {"Content-Type": "application/json"})
        text = connection.getresponse().read()
        connection.close()
        return json.loads(text)

    def empty(self):
        return not self.ask("/jobs?limit=1")["items"]

    def run_one(self):
        return [BUILD + "/muster", "run", "-G", "1", "--", "true"]

    def submit(self, gpus=1, minutes=None, wrap="true", array=None):
        command = [BUILD + "/muster", "submit", "--parsable", "-G", str(gpus), "-o", "/dev/null"]
        command += ["-t", str(minutes)] if minutes else []
        command += ["--array", "1-%d" % array] if array else []
        return command + ["--wrap", wrap]

    def holder(self):
        return [BUILD + "/muster", "submit", "--parsable", "-N", "1", "--gpus-per-node", "8", "-t", "120", "--wrap", "sleep 600"]

    def clear(self):
        for job in self.ask("/jobs?limit=10000")["items"]:
            pass
        subprocess.run([BUILD + "/muster", "cancel", "--mine", "--now"], env=self.env, check=False, **QUIET)
        self.wait(self.empty, 120)

    def close(self):
        self.controller.terminate()
        for agent in self.agents:
            agent.terminate()
        for process in [self.controller] + self.agents:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


SLURM_CONF = """ClusterName=anchor
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=RUN/munge.socket
SlurmctldPort=26817
StateSaveLocation=RUN/state
SlurmdSpoolDir=RUN/spool/%n
SlurmdPidFile=RUN/slurmd-%n.pid
SlurmctldPidFile=RUN/slurmctld.pid
SlurmctldDebug=error
SlurmdDebug=error
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
PriorityType=priority/multifactor
GresTypes=gpu
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MaxJobCount=60000
MaxArraySize=60001
MinJobAge=2
ReturnToService=2
SlurmctldTimeout=120
SlurmdTimeout=300
SchedulerParameters=default_queue_depth=10000,sched_min_interval=50000,batch_sched_delay=0,bf_interval=5,bf_max_job_test=10000,bf_continue,max_rpc_cnt=150,sched_max_job_start=0
NodeName=DEFAULT Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=20000 Gres=gpu:a100:8 State=UNKNOWN
NodeName=gn[1-8] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[27001-27008]
PartitionName=batch Nodes=gn[1-8] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


class Slurm:
    """As its documentation tunes it for throughput; one slurmctld, eight slurmd, munge with a key of its own."""
    name = "slurm"

    @staticmethod
    def present():
        return os.geteuid() == 0 and all(shutil.which(p) for p in ("slurmctld", "slurmd", "sbatch", "munged"))

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="muster-slurm-")
        os.chmod(self.folder, 0o755)
        for name in ["state", "dev"] + ["spool/gn%d" % (i + 1) for i in range(NODES)]:
            os.makedirs(self.folder + "/" + name)
        for i in range(8):
            os.mknod("%s/dev/gpu%d" % (self.folder, i), 0o20666, os.makedev(1, 3))
        self.conf("slurm.conf", SLURM_CONF)
        self.conf("gres.conf", "NodeName=gn[1-8] Name=gpu Type=a100 File=RUN/dev/gpu[0-7]\n")
        self.conf("cgroup.conf", "CgroupAutomount=no\n")
        with open(self.folder + "/munge.key", "wb") as key:
            key.write(os.urandom(1024))
        os.chmod(self.folder + "/munge.key", 0o600)
        self.env = dict(os.environ, SLURM_CONF=self.folder + "/slurm.conf")
        run = self.folder
        subprocess.run(["munged", "--force", "--key-file", run + "/munge.key", "--socket", run + "/munge.socket", "--pid-file",
                        run + "/munge.pid", "--log-file", run + "/munge.log", "--seed-file", run + "/munge.seed"], check=True)
        log = open(run + "/log", "w")
        self.processes = [subprocess.Popen(["slurmctld", "-D", "-f", run + "/slurm.conf"], env=self.env, stdout=log, stderr=log)]
        self.pid = self.processes[0].pid
        time.sleep(1)
        for i in range(NODES):
            self.processes.append(subprocess.Popen(["slurmd", "-D", "-N", "gn%d" % (i + 1), "-f", run + "/slurm.conf"],
                                                   env=self.env, stdout=log, stderr=log))
        end = time.time() + 60
        while time.time() < end:
            out = subprocess.run(["sinfo", "-h", "-o", "%T %D"], env=self.env, capture_output=True, text=True).stdout
            if out.strip() == "idle %d" % NODES:
                return
            time.sleep(0.3)
        raise RuntimeError("slurm did not come up: " + out + open(run + "/log").read()[-500:])

    def conf(self, name, text):
        open(self.folder + "/" + name, "w").write(text.replace("RUN", self.folder))

    def empty(self):
        return subprocess.run(["squeue", "-h"], env=self.env, capture_output=True, text=True).stdout.strip() == ""

    def run_one(self):
        return ["srun", "-Q", "-n1", "--gres=gpu:1", "true"]

    def submit(self, gpus=1, minutes=None, wrap="true", array=None):
        command = ["sbatch", "-Q", "--gres=gpu:%d" % gpus, "-n1", "-o", "/dev/null"]
        command += ["-t", str(minutes)] if minutes else []
        command += ["--array=1-%d" % array] if array else []
        return command + ["--wrap=" + wrap]

    def holder(self):
        return ["sbatch", "-Q", "-N1", "-n1", "--gres=gpu:8", "-t", "120", "-o", "/dev/null", "--wrap=sleep 600"]

    def clear(self):
        subprocess.run(["scancel", "-u", "root"], env=self.env, check=False, **QUIET)
        end = time.time() + 60
        while not self.empty() and time.time() < end:
            time.sleep(0.2)

    def close(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        try:
            os.kill(int(open(self.folder + "/munge.pid").read()), signal.SIGTERM)
        except (OSError, ValueError):
            pass
        shutil.rmtree(self.folder, ignore_errors=True)


class Floor:
    """No cluster at all: what it costs to start a program that does nothing."""
    name = "floor"
    env = None

    def run_one(self):
        return ["true"]

    def measure(self, scale):
        out = {}
        n = max(int(100 * scale), 10)
        out["W1 latency"] = 1000 * parallel([self.run_one()] * n, 1) / n
        n = max(int(200 * scale), 10)
        out["W2 burst, 16 at once"] = n / parallel([self.run_one()] * n, 16)
        n = max(int(1000 * scale), 10)
        out["W3 singles"] = n / parallel([self.run_one()] * n, 1)
        n = max(int(2000 * scale), 10)
        out["W5 deep queue, submit"] = n / parallel([self.run_one()] * n, 8)
        for name, figure in out.items():
            print("  %-7s %-22s %10.1f %s" % (self.name, name, figure, "ms" if name.startswith("W1") else "jobs/s"), flush=True)
        return out


def drain(system):
    while not system.empty():
        time.sleep(0.1)


def measure(system, scale):
    """W1 to W5: {workload: (figure, controller CPU in ms a job)}."""
    out, env = {}, system.env

    def count(n):
        return max(int(n * scale), 10)

    def timed(name, jobs, work):
        cpu, begin = cpu_seconds(system.pid), time.time()
        rate = work()
        out[name] = (rate if rate is not None else jobs / (time.time() - begin),
                     1000 * (cpu_seconds(system.pid) - cpu) / jobs)
        print("  %-7s %-22s %10.1f %s   controller %6.2f ms a job" %
              (system.name, name, out[name][0], "ms" if name.startswith("W1") else "jobs/s", out[name][1]), flush=True)

    n = count(100)
    timed("W1 latency", n, lambda: 1000 * parallel([system.run_one()] * n, 1, env) / n)
    n200 = count(200)
    timed("W2 burst, 16 at once", n200, lambda: n200 / parallel([system.run_one()] * n200, 16, env))
    singles = count(1000)

    def w3():
        begin = time.time()
        parallel([system.submit()] * singles, 1, env)
        drain(system)
        return singles / (time.time() - begin)
    timed("W3 singles", singles, w3)
    for size in (1000, 5000):
        jobs = count(size)

        def w4():
            begin = time.time()
            subprocess.run(system.submit(array=jobs), env=env, check=True, **QUIET)
            drain(system)
            return jobs / (time.time() - begin)
        timed("W4 array of %d" % jobs, jobs, w4)
    deep = count(2000)
    for _ in range(NODES):
        subprocess.run(system.holder(), env=env, check=True, **QUIET)
    time.sleep(2)
    timed("W5 deep queue, submit", deep,
          lambda: deep / parallel([system.submit(gpus=k % 8 + 1, minutes=k % 60 + 1) for k in range(deep)], 8, env))
    system.clear()
    out["memory"] = (memory_mib(system.pid), 0)
    print("  %-7s %-22s %10.1f MiB" % (system.name, "controller's peak", out["memory"][0]), flush=True)
    return out


def start_latency(muster, rate, seconds):
    """Submission to start, from the controller's own times, at a steady rate."""
    ids, begin = [], time.time()
    connection = http.client.HTTPConnection("127.0.0.1", muster.port, timeout=30)
    body = json.dumps({"gpus": 1, "args": ["true"], "output": "/dev/null"})
    for i in range(int(rate * seconds)):
        wait = begin + i / rate - time.time()
        if wait > 0:
            time.sleep(wait)
        connection.request("POST", "/api/v1/jobs", body, {"Content-Type": "application/json"})
        ids.append(json.loads(connection.getresponse().read())["id"])
    drain(muster)
    time.sleep(1)

    def stamp(text):
        from datetime import datetime
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    waits = []
    for i in ids:
        job = muster.ask("/jobs/%d" % i)
        if job["start_time"]:
            waits.append(1000 * (stamp(job["start_time"]) - stamp(job["submit_time"])))
    waits.sort()
    return waits[len(waits) // 2], waits[int(len(waits) * 0.99) - 1]


def resident_mib(pid):
    for line in open("/proc/%d/status" % pid):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0


def queue_times(muster, times=20):
    out = []
    for _ in range(times):
        begin = time.time()
        subprocess.run([BUILD + "/muster", "queue", "-A", "--no-header"], env=muster.env, check=True, **QUIET)
        out.append(1000 * (time.time() - begin))
    return sorted(out)


def large_one(nodes, jobs):
    """That many nodes of 8 emulated GPUs, all taken by one job, and that many jobs behind it. MiB at each step."""
    folder = tempfile.mkdtemp(prefix="muster-large-")
    port = free_port()
    log = open(folder + "/log", "w")
    process = subprocess.Popen([BUILD + "/musterd", "--dev", "--fake", "%dx8:A100" % nodes, "--listen", "127.0.0.1:%d" % port,
                                "--state", folder + "/state", "--log", "warn"], stdout=log, stderr=log)
    muster = Muster.__new__(Muster)
    muster.port, muster.folder, muster.env = port, folder, dict(os.environ, MUSTER_URL="http://127.0.0.1:%d" % port)
    begin = time.time()
    muster.wait(lambda: sum(g["total"] for g in muster.ask("/gpus")["items"]) == nodes * 8, 240)
    joined, steps = time.time() - begin, [resident_mib(process.pid)]
    muster.ask("/jobs", "POST", {"nodes": nodes, "per_node": {"gpu": 8}, "emulate": {"run": "1h"}, "args": ["true"]})
    muster.wait(lambda: muster.ask("/jobs?limit=1")["items"][0]["state"] == "RUNNING", 120)
    steps.append(resident_mib(process.pid))
    begin, size = time.time(), min(1000, jobs // 2)
    for _ in range(jobs // 2 // size):
        muster.ask("/jobs", "POST", {"gpus": 1, "args": ["true"], "array": {"indices": "1-%d" % size}})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for i in range(jobs - jobs // 2):
        connection.request("POST", "/api/v1/jobs", json.dumps({"gpus": 1 + i % 8, "args": ["true"], "name": "j%d" % i}),
                           {"Content-Type": "application/json"})
        connection.getresponse().read()
    submitted = time.time() - begin
    steps.append(resident_mib(process.pid))
    times = queue_times(muster)
    for _ in range(200):
        muster.ask("/jobs?limit=1000")
    steps.append(resident_mib(process.pid))
    print("  %d nodes joined in %.1f s; %d jobs queued in %.2f s, half of them in arrays; `muster queue -A` median %.0f ms, "
          "worst %.0f ms; memory %.0f MiB with the nodes, %.0f with a gang on all of them, %.0f with the jobs, %.0f after "
          "200 long lists" % (nodes, joined, jobs, submitted, times[len(times) // 2], times[-1], *steps), flush=True)
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
    shutil.rmtree(folder, ignore_errors=True)
    return steps


def large(scale):
    """1,000 nodes of 8 emulated GPUs, 10,000 jobs in the queue; and a tenth of it, to see how memory grows."""
    nodes, jobs = max(int(1000 * scale), 100), max(int(10000 * scale), 1000)
    small = large_one(nodes // 10, jobs // 10)
    whole = large_one(nodes, jobs)
    print("  ten times as large: %.0f KiB a node (controller and emulated agent in one process), %.1f KiB a queued job, "
          "%.1f times the memory" % (1024 * (whole[0] - small[0]) / (nodes - nodes // 10),
                                     1024 * ((whole[2] - whole[1]) - (small[2] - small[1])) / (jobs - jobs // 10),
                                     whole[2] / small[2]), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=float(os.environ.get("LIVE_SCALE", "1")))
    parser.add_argument("--no-slurm", action="store_true")
    parser.add_argument("--only", choices=["compare", "latency", "large"])
    args = parser.parse_args()
    print("live: load of the machine %.1f, %d cores" % (os.getloadavg()[0], os.cpu_count()))
    if args.only in (None, "compare"):
        floor = Floor().measure(args.scale)
        muster = Muster()
        ours = measure(muster, args.scale)
        muster.close()
        theirs = None
        if args.no_slurm or not Slurm.present():
            print("  slurm   not compared: needs root and the packages slurm-wlm and munge")
        else:
            slurm = None
            try:
                slurm = Slurm()
                theirs = measure(slurm, args.scale)
            finally:
                if slurm:
                    slurm.close()
        for name in ours if theirs else []:
            if name == "memory":
                continue
            faster = theirs[name][0] / ours[name][0] if name.startswith("W1") else ours[name][0] / theirs[name][0]
            most = "" if name not in floor else "; the floor would be %.1fx" % (
                theirs[name][0] / floor[name] if name.startswith("W1") else floor[name] / theirs[name][0])
            print("  ratio   %-22s %8.1fx as fast, controller CPU %.3f of Slurm's%s" %
                  (name, faster, ours[name][1] / max(theirs[name][1], 1e-9), most))
    if args.only in (None, "latency"):
        muster = Muster()
        half, most = start_latency(muster, 100, max(10 * args.scale, 2))
        print("  submission to start at 100 jobs/s: median %.1f ms, p99 %.1f ms" % (half, most), flush=True)
        muster.close()
    if args.only in (None, "large"):
        large(args.scale)
    return 0


if __name__ == "__main__":
    sys.exit(main())
