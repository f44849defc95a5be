#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""chaos.py [--rounds N] [--seed S] [--keep] - a cluster whose parts are killed and cut off at random.

A controller and five agents, each agent in a network namespace of its own, TLS between them. Clients submit jobs all the
time; every round something is killed with SIGKILL (the controller, an agent, a shepherd, a process of a job) or a link is
cut for a while. Jobs hold locks in a folder that all nodes share: one for each rank of the job, one for each GPU of its
node; the kernel gives a lock back when its holder dies. So a job that runs twice, or a GPU that has two users, is seen at
the moment it happens. In the end everything is healed and the history is checked:

  - every submission that was acknowledged is there, and has ended well;
  - no job ran twice at the same time, no GPU was used twice at the same time;
  - no GPU is taken, no process is left.

All of it has a network and a list of namespaces of its own, which end with it however it ends: several may run at once, and
none meets what another left. Needs root (namespaces); says SKIP without. Prints TAP.
"""
import argparse
import http.client
import json
import os
import random
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

BUILD = os.path.abspath(os.environ.get("MUSTER_BUILD", "build"))
AGENTS, GPUS = 5, 4
NET = "10.64"
PORT = 7790
ALONE = "CHAOS_ALONE"  # set inside the namespaces

JOB = r"""#!/bin/bash
# 75: somebody has it. Anything else is the end of flock itself, which is killed as others are.
hold() { eval "exec $1>\"\$LOCKS/$2\""; flock -n -E 75 $1; [ $? != 75 ] || echo "$3 job=$MUSTER_JOB_ID attempt=$MUSTER_ATTEMPT node=$MUSTER_NODE lock=$2" >> "$LOCKS/violations"; }
MUSTER_NODE=$(echo "$MUSTER_HOSTS" | cut -d, -f$((MUSTER_NODE_RANK + 1)))
hold 100 "job-$MUSTER_JOB_ID-$MUSTER_NODE_RANK" RAN_TWICE
fd=101
for g in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do hold $fd "gpu-$MUSTER_NODE-$g" GPU_TWICE; fd=$((fd + 1)); done
echo "$MUSTER_JOB_ID $MUSTER_ATTEMPT $MUSTER_NODE_RANK $MUSTER_NODE" >> "$LOCKS/runs"
sleep "$SPAN"
"""


def run(*command, check=True):
    return subprocess.run(command, check=check, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.locks = os.path.join(folder, "locks")
        os.mkdir(self.locks)
        self.controller = None
        self.agents = [None] * AGENTS
        self.cut = [False] * AGENTS
        self.tag = "chaos"

    def space(self, i):
        return "%s-%d" % (self.tag, i)

    def up_net(self):
        run("ip", "link", "add", self.tag, "type", "bridge")
        run("ip", "addr", "add", "%s.0.1/24" % NET, "dev", self.tag)
        run("ip", "link", "set", self.tag, "up")
        for i in range(AGENTS):
            name, veth, peer = self.space(i), "%sv%d" % (self.tag, i), "%sp%d" % (self.tag, i)
            run("ip", "netns", "add", name)
            run("ip", "link", "add", veth, "type", "veth", "peer", "name", peer)
            run("ip", "link", "set", veth, "master", self.tag, "up")
            run("ip", "link", "set", peer, "netns", name)
            for command in (["link", "set", "lo", "up"], ["addr", "add", "%s.0.%d/24" % (NET, 10 + i), "dev", peer],
                            ["link", "set", peer, "up"]):
                run("ip", "-n", name, *command)

    def link(self, i, up):
        run("ip", "link", "set", "%sv%d" % (self.tag, i), "up" if up else "down")
        self.cut[i] = not up

    def init(self):
        etc = os.path.join(self.folder, "etc")
        out = run(BUILD + "/musterd", "init", "--dir", etc, "--state", self.folder + "/state", "--hosts",
                  "%s.0.1,127.0.0.1" % NET).stdout
        text = open(etc + "/muster.yaml").read()
        lines = [line for line in text.splitlines() if not line.startswith(("listen:", "#"))]
        lines += ['listen: ["%s.0.1:%d"]' % (NET, PORT), "lease: {time: 4s, node_timeout: 1500ms, beat: 300ms}"]
        open(etc + "/muster.yaml", "w").write("\n".join(lines) + "\n")
        self.etc = etc
        self.token = open(etc + "/admin.token").read().strip()
        self.context = ssl.create_default_context(cafile=etc + "/ca.crt")
        self.start_controller()
        self.wait_ready()
        for i in range(AGENTS):
            token = self.ask("POST", "/tokens", {"join": True, "user": "agent", "role": "agent"})["token"]
            done = run("ip", "netns", "exec", self.space(i), BUILD + "/muster-agent", "join",
                       "https://%s.0.1:%d" % (NET, PORT), token, "--node", "a%d" % i, "--state", self.state(i), check=False)
            if done.returncode != 0:
                raise RuntimeError("join: " + done.stdout + out)
            self.start_agent(i)

    def state(self, i):
        return os.path.join(self.folder, "agent%d" % i)

    def start_controller(self):
        log = open(self.folder + "/musterd.log", "a")
        self.controller = subprocess.Popen([BUILD + "/musterd", "--config", self.etc + "/muster.yaml", "--log", "info"],
                                           stdout=log, stderr=log)

    def start_agent(self, i):
        log = open(self.folder + "/agent%d.log" % i, "a")
        self.agents[i] = subprocess.Popen(
            ["ip", "netns", "exec", self.space(i), BUILD + "/muster-agent", "--url", "https://%s.0.1:%d" % (NET, PORT),
             "--node", "a%d" % i, "--state", self.state(i), "--fake", "%d:H100" % GPUS, "--allow-root", "--address", "a%d" % i],
            stdout=log, stderr=log)

    def connect(self):
        return http.client.HTTPSConnection("%s.0.1" % NET, PORT, context=self.context, timeout=5)

    def ask(self, method, path, body=None, headers=None):
        connection = self.connect()
        try:
            connection.request(method, "/api/v1" + path, json.dumps(body) if body is not None else None,
                               {"Authorization": "Bearer " + self.token, "Content-Type": "application/json",
                                **(headers or {})})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise RuntimeError("%d %s" % (answer.status, text[:500]))
        return json.loads(text) if text else None

    def wait_ready(self, limit=20):
        end = time.time() + limit
        while True:
            try:
                return self.ask("GET", "/version")
            except (OSError, RuntimeError, http.client.HTTPException):
                if time.time() > end:
                    raise
                time.sleep(0.05)


class Client(threading.Thread):
    """Submits one job after the other; a submission without an answer is sent again with the same key."""

    def __init__(self, cluster, seed):
        super().__init__(daemon=True)
        self.cluster, self.random = cluster, random.Random(seed)
        self.acknowledged, self.stopping, self.count, self.seed, self.errors = [], False, 0, seed, []

    def job(self):
        draw = self.random.random()
        spec = {"name": "c%d-%d" % (self.seed, self.count), "run": JOB, "launch": "node", "retries": 100,
                "env": {"LOCKS": self.cluster.locks, "SPAN": "%.2f" % (self.random.random() * 1.5)}, "grace": "1s"}
        if draw < 0.7:
            spec["gpus"] = self.random.choice([1, 1, 2, 4])
        else:
            spec.update({"nodes": self.random.choice([2, 3]), "per_node": {"gpu": self.random.choice([1, 2, 4])}})
        return spec

    def backlog(self):
        try:
            return len(self.cluster.ask("GET", "/jobs?limit=100")["items"])
        except (OSError, RuntimeError, http.client.HTTPException, ValueError):
            return 0

    def run(self):
        while not self.stopping:
            key, spec = "k%d-%d" % (self.seed, self.count), self.job()
            while True:
                try:
                    answer = self.cluster.ask("POST", "/jobs", spec, {"Idempotency-Key": key})
                    self.acknowledged.append(answer["id"])
                    break
                except RuntimeError as error:
                    if not str(error).startswith(("429", "503")):
                        self.errors.append(str(error))
                        break
                except (OSError, http.client.HTTPException, ValueError):
                    pass
                time.sleep(0.05)
            self.count += 1
            time.sleep(0.05 + self.random.random() * 0.25)
            while not self.stopping and self.backlog() > 60:
                time.sleep(0.5)


def processes(match):
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                line = open("/proc/%s/cmdline" % pid, "rb").read().replace(b"\0", b" ").decode(errors="replace")
                if match(int(pid), line):
                    found.append(int(pid))
            except OSError:
                pass
    return found


def environment_has(pid, text):
    try:
        return text.encode() in open("/proc/%d/environ" % pid, "rb").read()
    except OSError:
        return False


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def agents_of(cluster, i):
    return processes(lambda pid, line: "muster-agent" in line and "--node a%d" % i in line
                     and cluster.folder in line and "ip netns" not in line and "--url" in line)


def comm_is(pid, name):
    try:
        return open("/proc/%d/comm" % pid).read().strip() == name
    except OSError:
        return False


def shepherds_of(cluster, node=""):
    """A shepherd has the lease of its agent mapped."""
    def match(pid, _):
        return comm_is(pid, "muster-task") and cluster.folder + "/" + node in open("/proc/%d/maps" % pid).read()
    return processes(match)


def forkers_of(cluster, i):
    agents = agents_of(cluster, i)

    def match(pid, _):
        return comm_is(pid, "muster-forker") and \
            int(open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[1]) in agents
    return processes(match)


def strike(cluster, rng, counts):
    """One blow. Whatever is killed is started again by `mend`, as a service manager would."""
    draw, i = rng.random(), rng.randrange(AGENTS)
    what, victims = "link", []
    if draw < 0.2:
        cluster.controller.kill()
        what = "controller"
    elif draw < 0.25:
        cluster.controller.terminate()
        what = "controller asked to stop"
    elif draw < 0.43:
        what, victims = "agent", agents_of(cluster, i)
    elif draw < 0.5:
        what, victims = "agent and shepherds", agents_of(cluster, i) + shepherds_of(cluster, "agent%d/" % i)
    elif draw < 0.62:
        jobs = processes(lambda pid, line: environment_has(pid, "LOCKS=" + cluster.locks))
        what, victims = "job", [rng.choice(jobs)] if jobs else []
    elif draw < 0.74:
        found = shepherds_of(cluster)
        what, victims = "shepherd", [rng.choice(found)] if found else []
    elif draw < 0.78:
        what, victims = "forker", forkers_of(cluster, i)
    else:
        cluster.link(i, cluster.cut[i])
    for pid in victims:
        kill(pid)
    if what == "link" or what.startswith("controller") or victims:
        counts[what] = counts.get(what, 0) + 1


def mend(cluster):
    if cluster.controller.poll() is not None:
        cluster.start_controller()
    for i in range(AGENTS):
        if cluster.agents[i].poll() is not None:
            cluster.start_agent(i)


_tests = [0, 0]


def ok(condition, what, detail=""):
    _tests[0] += 1
    _tests[1] += not condition
    print("%sok %d - %s" % ("" if condition else "not ", _tests[0], what), flush=True)
    if not condition and detail:
        print("# " + str(detail)[:3000].replace("\n", "\n# "))


def judge(cluster, clients, limit):
    acknowledged = sorted(i for client in clients for i in client.acknowledged)
    errors = [error for client in clients for error in client.errors]
    end, fewest = time.time() + limit, None
    waiting = None
    while time.time() < end:
        try:
            waiting = cluster.ask("GET", "/jobs?limit=10000")["items"]
            if not waiting:
                break
            if fewest is None or len(waiting) < fewest:  # as long as it gets on
                end, fewest = time.time() + limit, len(waiting)
        except (OSError, RuntimeError, http.client.HTTPException):
            pass
        time.sleep(0.3)
    ok(not errors, "no submission was answered with an error", errors[:5])
    ok(waiting == [], "every job comes to its end", [(j["id"], j["state"], j["reason"], j["attempt"]) for j in waiting or []][:10])
    states, end = {}, time.time() + 60  # the history is written a little later
    while True:
        cursor = ""
        while cursor is not None:
            page = cluster.ask("GET", "/history?limit=1000" + ("&cursor=%s" % cursor if cursor else ""))
            for job in page["items"]:
                states[job["id"]] = job["state"]
            cursor = page.get("next")
        if all(i in states for i in acknowledged) or time.time() > end:
            break
        time.sleep(0.2)
    lost = [i for i in acknowledged if i not in states]
    ok(not lost, "%d acknowledged submissions are there" % len(acknowledged), lost[:20])
    bad = {i: s for i, s in states.items() if s != "COMPLETED"}
    ok(not bad, "all of them ended well", dict(list(bad.items())[:20]))
    ok(len(set(acknowledged)) == len(acknowledged), "no submission was carried out twice", acknowledged)
    path = os.path.join(cluster.locks, "violations")
    violations = open(path).read() if os.path.exists(path) else ""
    ok(not violations, "nothing ran twice at the same time, no GPU had two users", violations)
    deadline = time.time() + 20
    while time.time() < deadline:
        gpus = cluster.ask("GET", "/gpus")["items"]
        left = processes(lambda pid, line: environment_has(pid, "LOCKS=" + cluster.locks))
        if gpus and gpus[0]["free"] == AGENTS * GPUS and not left:
            break
        time.sleep(0.3)
    ok(gpus and gpus[0]["free"] == AGENTS * GPUS, "no GPU stays taken", gpus)
    ok(not left, "no process is left", left)
    return len(acknowledged)


def alone():
    """This program again, in a network and with a list of namespaces of its own."""
    unshare = ["unshare", "--net", "--mount", "sh", "-c"]
    own = "mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up && "
    probe = own + "ip netns add probe && ip -n probe link set lo up"
    if os.geteuid() != 0 or not shutil.which("ip") or run(*unshare, probe, check=False).returncode != 0:
        print("1..0 # SKIP needs root and network namespaces")
        return 0
    os.execvpe("unshare", unshare + [own + 'exec "$@"', "sh", sys.executable] + sys.argv, dict(os.environ, **{ALONE: "1"}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("CHAOS_ROUNDS", "200")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("CHAOS_SEED", "1")))
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    if ALONE not in os.environ:
        return alone()
    rng, counts = random.Random(args.seed), {}
    folder = tempfile.mkdtemp(prefix="muster-chaos-")
    cluster = Cluster(folder)
    try:
        cluster.up_net()
        cluster.init()
        clients = [Client(cluster, 1000 * args.seed + i) for i in range(3)]
        for client in clients:
            client.start()
        for _ in range(args.rounds):
            time.sleep(rng.random() * 0.4)
            strike(cluster, rng, counts)
            time.sleep(rng.random() * 0.2)
            mend(cluster)
        for client in clients:
            client.stopping = True
        for i in range(AGENTS):
            cluster.link(i, True)
        mend(cluster)
        for client in clients:
            client.join(30)
        jobs = judge(cluster, clients, 60)
        runs = sum(1 for _ in open(cluster.locks + "/runs"))
        print("# %d rounds (%s), %d jobs, %d tasks ran" % (args.rounds, ", ".join("%s %d" % c for c in sorted(counts.items())),
                                                       jobs, runs))
        print("1..%d" % _tests[0])
    finally:
        if cluster.controller:
            cluster.controller.kill()
        for pid in processes(lambda pid, line: folder in line or environment_has(pid, "LOCKS=" + cluster.locks)):
            if pid != os.getpid():
                kill(pid)
        if args.keep or _tests[1] or sys.exc_info()[0]:
            print("# logs: " + folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if _tests[1] else 0


if __name__ == "__main__":
    sys.exit(main())
