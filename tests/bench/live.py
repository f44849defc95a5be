#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""live.py [--scale S] [--limit SECONDS] [--no-slurm] - a running cluster beside Slurm: throughput, latency, size.

Both get the same machine, eight nodes with eight GPUs each, and the same commands (W1 to W5). Real processes are forked
in both. Both are up all the time and take turns, workload by workload, so that what else the machine does meets both. The
floor is what the same loops do when the command is `true`: nobody who starts a program for each job can be faster; and
how often the disk can be told to keep one page, which muster does before it acknowledges a job and Slurm does not.
`--scale 0.1` runs a tenth of each workload. A workload that would take longer than its share of `--limit` is cut off and
counts what had ended by then. Slurm is left out, with a line that says so, where its packages (slurm-wlm, munge) are not
installed. Prints ratios and what is asked of them; asserts nothing.
"""
import argparse
import http.client
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from port import free_port  # noqa: E402

BUILD = os.path.abspath(os.environ.get("MUSTER_BUILD", "build"))
NODES = 8
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def cpu_seconds(pid):
    """CPU time of a process with all its threads, those that ended too; exact, where /proc counts in hundredths."""
    return time.clock_gettime((~pid << 3) | 2)


def children(pid):
    return [int(child) for thread in os.listdir("/proc/%d/task" % pid)
            for child in open("/proc/%d/task/%s/children" % (pid, thread)).read().split()]


def memory_mib(pid):
    for line in open("/proc/%d/status" % pid):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0


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
        # Clients on the controller's machine find its socket, as they do where it is installed; agents come by TCP.
        self.env = dict(os.environ, MUSTER_URL="unix:%s/socket" % self.folder)
        self.log = open(self.folder + "/log", "w")
        with open(self.folder + "/muster.yaml", "w") as conf:
            conf.write("listen: ['127.0.0.1:%d', '%s/socket']\n" % (self.port, self.folder))
        self.controller = subprocess.Popen([BUILD + "/musterd", "--dev", "--config", self.folder + "/muster.yaml", "--state",
                                            self.folder + "/state", "--log", "warn"], stdout=self.log, stderr=self.log)
        self.agents = [subprocess.Popen([BUILD + "/muster-agent", "--url", self.url, "--node", "gn%d" % (i + 1), "--state",
                                         "%s/agent%d" % (self.folder, i), "--fake", "%d:A100" % gpus, "--allow-root"],
                                        stdout=self.log, stderr=self.log) for i in range(nodes)]
        self.pid = self.controller.pid
        self.wait(lambda: sum(g["total"] for g in self.ask("/gpus")["items"]) == nodes * gpus)
        self.daemons = [a.pid for a in self.agents] + [child for a in self.agents for child in children(a.pid)]

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

    def head(self):
        """The token that --dev keeps for whoever started it."""
        for place in ("/run/muster-dev", "/run/user/%d/muster-dev" % os.getuid(), os.environ.get("HOME", "") + "/.cache/muster-dev"):
            try:
                with open("%s/%d" % (place, self.port)) as f:
                    return {"Content-Type": "application/json", "Authorization": "Bearer " + f.read()}
            except OSError:
                pass
        return {"Content-Type": "application/json"}

    def ask(self, path, method="GET", body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, "/api/v1" + path, json.dumps(body) if body is not None else None, self.head())
        text = connection.getresponse().read()
        connection.close()
        return json.loads(text)

    def empty(self):
        return not self.ask("/jobs?limit=1")["items"]

    def left(self):
        return len(self.ask("/jobs?limit=10000&fields=id")["items"])

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
    """As its documentation tunes it for throughput, or with the scheduler's own defaults; one slurmctld, eight slurmd, munge
    with a key of its own."""
    name = "slurm"

    @staticmethod
    def present():
        return os.geteuid() == 0 and all(shutil.which(p) for p in ("slurmctld", "slurmd", "sbatch", "munged"))

    def __init__(self, tuned=True):
        self.folder = tempfile.mkdtemp(prefix="muster-slurm-")
        os.chmod(self.folder, 0o755)
        for name in ["state", "dev"] + ["spool/gn%d" % (i + 1) for i in range(NODES)]:
            os.makedirs(self.folder + "/" + name)
        for i in range(8):
            os.mknod("%s/dev/gpu%d" % (self.folder, i), 0o20666, os.makedev(1, 3))
        self.conf("slurm.conf", "".join(line for line in SLURM_CONF.splitlines(True)
                                        if tuned or not line.startswith("SchedulerParameters")))
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
        self.daemons = []
        time.sleep(1)
        for i in range(NODES):
            self.processes.append(subprocess.Popen(["slurmd", "-D", "-N", "gn%d" % (i + 1), "-f", run + "/slurm.conf"],
                                                   env=self.env, stdout=log, stderr=log))
        end = time.time() + 60
        while time.time() < end:
            out = subprocess.run(["sinfo", "-h", "-o", "%T %D"], env=self.env, capture_output=True, text=True).stdout
            if out.strip() == "idle %d" % NODES:
                self.daemons = [p.pid for p in self.processes[1:]]
                return
            time.sleep(0.3)
        raise RuntimeError("slurm did not come up: " + out + open(run + "/log").read()[-500:])

    def conf(self, name, text):
        open(self.folder + "/" + name, "w").write(text.replace("RUN", self.folder))

    def empty(self):
        return subprocess.run(["squeue", "-h"], env=self.env, capture_output=True, text=True).stdout.strip() == ""

    def left(self):
        return len(subprocess.run(["squeue", "-h", "-r"], env=self.env, capture_output=True, text=True).stdout.splitlines())

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
    """No cluster at all: what it costs to start a program that does nothing, and to have the disk keep a page."""

    @staticmethod
    def bare(fd, jobs):
        """Jobs a second of who does nothing but what no manager can leave out: a client, a sync, a shell; on all cores."""
        def worker(lane):
            for i in range(lane, jobs, lanes):
                subprocess.run(["true"], check=True, **QUIET)
                os.pwrite(fd, bytes(4096), 4096 * (i % 256))
                os.fdatasync(fd)
                subprocess.run(["sh", "-c", "true"], check=True, **QUIET)
        lanes, begin = os.cpu_count(), time.time()
        threads = [threading.Thread(target=worker, args=(lane,)) for lane in range(lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return jobs / (time.time() - begin)

    @staticmethod
    def measure(scale):
        def count(n):
            return max(int(n * scale), 20)
        run = ["true"]
        out = {"W1": 1000 * parallel([run] * count(100), 1) / count(100), "W2": count(200) / parallel([run] * count(200), 16),
               "W5": count(2000) / parallel([run] * count(2000), 8)}
        with tempfile.TemporaryFile() as file:
            file.write(bytes(1 << 20))
            os.fsync(file.fileno())
            begin = time.time()
            for i in range(200):
                os.pwrite(file.fileno(), bytes(4096), 4096 * i)
                os.fdatasync(file.fileno())
            out["fsync"] = 200 / (time.time() - begin)
            out["bare"] = Floor.bare(file.fileno(), count(500))
        out["W3"] = out["bare"]
        print("  floor   `true` one after the other %.2f ms, 16 at once %.0f/s, 8 at once %.0f/s; fsync alone %.0f/s (%.2f ms); "
              "client, sync and shell, no manager: %.0f/s" %
              (out["W1"], out["W2"], out["W5"], out["fsync"], 1000 / out["fsync"], out["bare"]), flush=True)
        return out


class Turn:
    """What a workload took of one system: jobs, seconds, CPU seconds of its controller, of its nodes, of its clients."""

    def __init__(self, jobs=0, took=0.0, controller=0.0, nodes=0.0, clients=0.0):
        self.jobs, self.took, self.controller, self.nodes, self.clients = jobs, took, controller, nodes, clients

    def add(self, other):
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def a_job(self, seconds):
        return 1000 * seconds / max(self.jobs, 1)


def clients_cpu():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def turn(system, jobs, work):
    """`work` returns how many of the jobs it cut off."""
    before = (cpu_seconds(system.pid), sum(map(cpu_seconds, system.daemons)), clients_cpu(), time.time())
    cut = work() or 0
    return Turn(jobs - cut, time.time() - before[3], cpu_seconds(system.pid) - before[0],
                sum(map(cpu_seconds, system.daemons)) - before[1], clients_cpu() - before[2])


def drain(system, limit=3600, begin=None):
    """Waits until nothing is left; how many jobs were, when it took too long. Asks in steps of a thirtieth of the time since
    `begin`, so that what the end is seen too late by is the same part of a fast system's time as of a slow one's."""
    begin = begin or time.time()
    end = time.time() + limit
    while not system.empty():
        if time.time() > end:
            left = system.left()
            system.clear()
            return left
        time.sleep(min(max((time.time() - begin) / 30, 0.002), 1))
    return 0


def in_a_row(system, jobs):
    parallel([system.run_one()] * jobs, 1, system.env)


def at_once(system, jobs):
    parallel([system.run_one()] * jobs, 16, system.env)


def singles(system, jobs, limit):
    begin = time.time()
    parallel([system.submit()] * jobs, 1, system.env)
    return drain(system, limit, begin)


def array(system, jobs, limit):
    begin = time.time()
    subprocess.run(system.submit(array=jobs), env=system.env, check=True, **QUIET)
    return drain(system, limit, begin)


def deep(system, jobs):
    parallel([system.submit(gpus=k % 8 + 1, minutes=k % 60 + 1) for k in range(jobs)], 8, system.env)


def compare(systems, scale, limit, short=False):
    """W1 to W5 by turns, half of the shorter ones first and half last; `short`: W1 and W2. {workload: {system: Turn}}."""
    def count(n):
        return max(int(n * scale), 10)
    total = {}

    def one(name, jobs, work):
        for system in systems:
            got = turn(system, jobs, lambda: work(system))
            total.setdefault(name, {}).setdefault(system.name, Turn()).add(got)
            rate = "%8.1f ms    " % got.a_job(got.took) if name.startswith("W1") else "%8.1f jobs/s" % (got.jobs / got.took)
            print("  %-7s %-22s %s   CPU a job: controller %6.2f ms, nodes %6.2f, clients %6.2f%s" %
                  (system.name, name, rate, got.a_job(got.controller), got.a_job(got.nodes), got.a_job(got.clients),
                   "" if got.jobs == jobs else "; cut off, %d of %d" % (got.jobs, jobs)), flush=True)
        systems.reverse()

    for _ in range(2):
        one("W1 latency", count(50), lambda s: in_a_row(s, count(50)))
        one("W2 burst, 16 at once", count(100), lambda s: at_once(s, count(100)))
        if not short:
            one("W3 singles", count(500), lambda s: singles(s, count(500), limit / 8))
    if short:
        return total
    one("W4 array of %d" % count(1000), count(1000), lambda s: array(s, count(1000), limit / 10))
    one("W4 array of %d" % count(5000), count(5000), lambda s: array(s, count(5000), limit / 5))
    for system in systems:
        for _ in range(NODES):
            subprocess.run(system.holder(), env=system.env, check=True, **QUIET)
    time.sleep(2)
    one("W5 deep queue, submit", count(2000), lambda s: deep(s, count(2000)))
    for system in systems:
        system.clear()
        print("  %-7s controller's peak      %8.1f MiB" % (system.name, memory_mib(system.pid)), flush=True)
    return total


def verdict(good):
    return "met" if good else "short"


def ratios(total, floor):
    print("  muster beside Slurm; asked: 10 times the jobs/s from submission to end, a tenth of the controller's CPU a job")
    for name, pair in total.items():
        ours, theirs = pair["muster"], pair["slurm"]
        faster = (ours.jobs / ours.took) / (theirs.jobs / theirs.took)
        cpu = ours.a_job(ours.controller) / max(theirs.a_job(theirs.controller), 1e-9)
        most = floor.get(name[:2])
        most = 0 if not most else (1000 / most if name.startswith("W1") else most) / (theirs.jobs / theirs.took)
        print("  ratio   %-22s %6.1fx (%s)   controller CPU %.3f (%s)%s" %
              (name, faster, "submission alone" if name.startswith("W5") else verdict(faster >= 10), cpu, verdict(cpu <= 0.1),
               "   %s would be %.1fx" % ("no manager at all" if name.startswith("W3") else "starting `true`", most) if most else ""))


def start_latency(muster, rate, seconds):
    """Submission to start, from the controller's own times, at a steady rate."""
    ids, begin = [], time.time()
    connection = http.client.HTTPConnection("127.0.0.1", muster.port, timeout=30)
    body = json.dumps({"gpus": 1, "args": ["true"], "output": "/dev/null"})
    for i in range(int(rate * seconds)):
        wait = begin + i / rate - time.time()
        if wait > 0:
            time.sleep(wait)
        connection.request("POST", "/api/v1/jobs", body, muster.head())
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
                           muster.head())
        connection.getresponse().read()
    submitted = time.time() - begin
    steps.append(resident_mib(process.pid))
    times = queue_times(muster)
    for _ in range(200):
        muster.ask("/jobs?limit=1000")
    steps.append(resident_mib(process.pid))
    # Jobs come and are cancelled, until more have ended than are kept to be looked at; then as many once more.
    for many in (13, 13):
        for _ in range(many):
            made = muster.ask("/jobs", "POST", {"gpus": 1, "args": ["true"], "array": {"indices": "1-%d" % (jobs // 10)}})
            muster.ask("/arrays/%d?now=1" % made["id"], "DELETE")
        steps.append(resident_mib(process.pid))
    print("  %d nodes joined in %.1f s; %d jobs queued in %.2f s, half of them in arrays; `muster queue -A` median %.0f ms, "
          "worst %.0f ms (%s: asked under 100); memory %.0f MiB with the nodes, %.0f with a gang on all of them, %.0f with the "
          "jobs, %.0f after 200 long lists, %.0f after %d jobs came and went, %.0f after as many more" %
          (nodes, joined, jobs, submitted, times[len(times) // 2], times[-1], verdict(times[len(times) // 2] < 100), *steps[:5],
           13 * (jobs // 10), steps[5]), flush=True)
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
    parser.add_argument("--limit", type=float, default=float(os.environ.get("LIVE_LIMIT", "360")),
                        help="seconds for all of it; long workloads are cut off (default 360)")
    parser.add_argument("--folder", help="where both keep their state (default: the temporary folder); one in memory takes "
                        "from muster the durability that Slurm does not have")
    parser.add_argument("--no-slurm", action="store_true")
    parser.add_argument("--only", choices=["compare", "latency", "large"])
    args = parser.parse_args()
    tempfile.tempdir = args.folder
    print("live: load of the machine %.1f, %d cores" % (os.getloadavg()[0], os.cpu_count()), flush=True)
    if args.only in (None, "compare"):
        floor, systems = Floor.measure(args.scale), []
        try:
            systems.append(Muster())
            if args.no_slurm or not Slurm.present():
                print("  slurm   not compared: needs root and the packages slurm-wlm and munge (tools/setup bench-live)")
            else:
                systems.append(Slurm())
            total = compare(systems, args.scale, args.limit)
            if len(systems) == 2:
                ratios(total, floor)
                systems.pop([system.name for system in systems].index("slurm")).close()
                systems.append(Slurm(tuned=False))
                print("  the same beside Slurm with its scheduler's defaults")
                ratios(compare(systems, args.scale, args.limit, short=True), floor)
        finally:
            for system in systems:
                system.close()
    if args.only in (None, "latency"):
        muster = Muster()
        half, most = start_latency(muster, 100, max(10 * args.scale, 2))
        print("  submission to start at 100 jobs/s: median %.1f ms, p99 %.1f ms (%s: asked under 10)" %
              (half, most, verdict(most < 10)), flush=True)
        muster.close()
    if args.only in (None, "large"):
        large(args.scale)
    print("live: load of the machine %.1f at the end" % os.getloadavg()[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
