#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""chaos.py [--rounds N] [--seed S] [--policy P] [--fence lease|confirm] [--keep] - a cluster whose parts are killed and cut off at random.

A controller and five agents, each agent in a network namespace of its own, TLS between them. Clients submit jobs all the
time; every round something is killed with SIGKILL (the controller, an agent, a shepherd, a process of a job), stopped with
SIGSTOP for less or more than a lease, or a link is cut for a while, both ways or one. Jobs hold locks in a folder that all nodes share: one for each rank of the job, one for each GPU of its
node; the kernel gives a lock back when its holder dies. So a job that runs twice, or a GPU that has two users, is seen at
the moment it happens. Two virtual clusters with guarantees, three priorities and time limits make jobs leave for each other
and in time; a person cancels, suspends, resumes, holds, queues again and changes jobs meanwhile; every ten rounds another
policy of the register is in force, in an order that the seed gives. Those under which jobs share GPUs by design (SHARING) are
played with even seeds, where GPUs are not locked. In the end everything is healed and the history is checked:

  - every submission that was acknowledged is there, and has ended well, or as it was told to: by its cancel, its time limit;
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
SHARING = ("gandiva", "antman", "singularity")
VCS = {"default": 8, "lab": 12}
POLICY_EVERY = 10  # rounds

JOB = r"""#!/bin/bash
# 75: somebody has it. Anything else is the end of flock itself, which is killed as others are.
hold() { eval "exec $1>\"\$LOCKS/$2\""; flock -n -E 75 $1; [ $? != 75 ] || echo "$3 job=$MUSTER_JOB_ID attempt=$MUSTER_ATTEMPT node=$MUSTER_NODE lock=$2" >> "$LOCKS/violations"; }
# Without processes of its own: one that was killed would leave the name of the node empty, and two such meet at one lock.
IFS=, read -ra hosts <<<"$MUSTER_HOSTS"
MUSTER_NODE=${hosts[MUSTER_NODE_RANK]}
hold 100 "job-$MUSTER_JOB_ID-$MUSTER_NODE_RANK" RAN_TWICE
fd=101
IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
[ "$SHARED" = 1 ] && gpus=()
for g in "${gpus[@]}"; do hold $fd "gpu-$MUSTER_NODE-$g" GPU_TWICE; fd=$((fd + 1)); done
echo "$MUSTER_JOB_ID $MUSTER_ATTEMPT $MUSTER_NODE_RANK $MUSTER_NODE" >> "$LOCKS/runs"
sleep "$SPAN"
"""


def run(*command, check=True):
    return subprocess.run(command, check=check, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Cluster:
    def __init__(self, folder, fence):
        self.folder, self.fence = folder, fence
        self.locks = os.path.join(folder, "locks")
        os.mkdir(self.locks)
        self.controller = None
        self.agents = [None] * AGENTS
        self.cut = [False] * AGENTS
        self.deaf = [None] * AGENTS  # a link that carries one way only
        self.stopped = {}  # pid: until when
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

    def one_way(self, i, which):
        """None: both ways again; "to": nothing reaches the agent, "from": nothing of it arrives."""
        for command in (["ip", "route", "del", "blackhole", "%s.0.%d/32" % (NET, 10 + i)],
                        ["ip", "-n", self.space(i), "route", "del", "blackhole", "%s.0.1/32" % NET]):
            run(*command, check=False)
        if which == "to":
            run("ip", "route", "add", "blackhole", "%s.0.%d/32" % (NET, 10 + i))
        elif which == "from":
            run("ip", "-n", self.space(i), "route", "add", "blackhole", "%s.0.1/32" % NET)
        self.deaf[i] = which

    def stop(self, pid, span):
        try:
            os.kill(pid, signal.SIGSTOP)
            self.stopped[pid] = time.time() + span
        except OSError:
            pass

    def go_on(self, everybody=False):
        for pid, until in list(self.stopped.items()):
            if everybody or time.time() > until:
                del self.stopped[pid]
                try:
                    os.kill(pid, signal.SIGCONT)
                except OSError:
                    pass

    def init(self):
        etc = os.path.join(self.folder, "etc")
        out = run(BUILD + "/musterd", "init", "--dir", etc, "--state", self.folder + "/state", "--hosts",
                  "%s.0.1,127.0.0.1" % NET).stdout
        text = open(etc + "/muster.yaml").read()
        lines = [line for line in text.splitlines() if not line.startswith(("listen:", "#"))]
        lines += ["vcs: {%s}" % ", ".join("%s: {quota: {H100: %d}, borrow: all}" % vc for vc in VCS.items())]
        lines += ['listen: ["%s.0.1:%d"]' % (NET, PORT), "lease: {time: 4s, node_timeout: 1500ms, beat: 300ms, fence: %s}" % self.fence]
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
        self.wait_nodes()

    def wait_nodes(self):
        """Guarantees are made of all nodes: before the last has joined there is no cluster."""
        for _ in range(200):
            gpus = self.ask("GET", "/gpus")["items"]
            if gpus and gpus[0]["total"] == AGENTS * GPUS:
                return
            time.sleep(0.1)
        raise RuntimeError("not all nodes have joined")

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

    def __init__(self, cluster, seed, shared):
        super().__init__(daemon=True)
        self.cluster, self.random, self.shared = cluster, random.Random(seed), shared
        self.limited = set()
        self.acknowledged, self.stopping, self.count, self.seed, self.errors = [], False, 0, seed, []

    def span(self):
        """A few last longer than the lease: only those could run on beside their next attempt."""
        return self.random.random() * 1.5 if self.random.random() < 0.95 else 5 + self.random.random() * 5

    def job(self):
        draw = self.random.random()
        spec = {"name": "c%d-%d" % (self.seed, self.count), "run": JOB, "launch": "node", "retries": 100,
                "env": {"LOCKS": self.cluster.locks, "SPAN": "%.2f" % self.span(), "SHARED": "%d" % self.shared},
                "grace": "1s", "vc": self.random.choice(list(VCS)), "priority": self.random.choice(["oppo", "normal", "normal", "high"])}
        if self.random.random() < 0.1:
            spec["time"] = "1s"
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
                    if "time" in spec:
                        self.limited.add(answer["id"])
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


class Person(threading.Thread):
    """Does something to one job after the other. What was asked for may have happened although nobody said so."""

    def __init__(self, cluster, seed):
        super().__init__(daemon=True)
        self.cluster, self.random = cluster, random.Random(seed)
        self.stopping, self.cancelled, self.undo, self.counts = False, set(), {}, {}

    def try_it(self, what, job):
        method, path, body = "POST", "/jobs/%d/%s" % (job, what), {}
        if what == "cancel":
            method, path, body = "DELETE", "/jobs/%d%s" % (job, self.random.choice(["", "?now=1"])), None
            self.cancelled.add(job)
        elif what == "priority":
            method, path, body = "PATCH", "/jobs/%d" % job, {"priority": self.random.choice([-1, 100, 500])}
        elif what in ("suspend", "hold"):
            self.undo[job] = "resume" if what == "suspend" else "release"
        try:
            self.cluster.ask(method, path, body)
            self.counts[what] = self.counts.get(what, 0) + 1
        except (OSError, RuntimeError, http.client.HTTPException, ValueError):
            pass

    def jobs(self):
        try:
            return [job["id"] for job in self.cluster.ask("GET", "/jobs?limit=100")["items"]]
        except (OSError, RuntimeError, http.client.HTTPException, ValueError):
            return []

    def run(self):
        while not self.stopping:
            time.sleep(0.05 + self.random.random() * 0.3)
            jobs = self.jobs()
            if self.undo and self.random.random() < 0.4:
                job = self.random.choice(list(self.undo))
                self.try_it(self.undo.pop(job), job)
            elif jobs:
                what = self.random.choice(["cancel", "cancel", "suspend", "suspend", "requeue", "hold", "priority"])
                self.try_it(what, self.random.choice(jobs))

    def let_go(self):
        """Nothing stays suspended or held: asked for until nothing that waits for it is left."""
        counts = dict(self.counts)
        for job in self.jobs():
            self.try_it("resume", job)
            self.try_it("release", job)
        self.counts = counts


def policies_of(seed, only):
    """All of the register that this seed plays, in its order."""
    if only:
        return [only]
    names = [line for line in run(BUILD + "/muster", "sim", "policies").stdout.splitlines() if line and " " not in line]
    names = [name for name in names if seed % 2 == 0 or name not in SHARING]
    random.Random(seed).shuffle(names)
    return names


def set_policy(cluster, name):
    try:
        cluster.ask("PATCH", "/scheduler", {"policy": name})
    except (OSError, RuntimeError, http.client.HTTPException, ValueError):
        pass  # it is down: the next one then


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


def stop_some(cluster, rng, i):
    """SIGSTOP, for less or more than a lease. Of agent, shepherds and watchdog two at most: one of them is left."""
    node = "agent%d/" % i
    kind = rng.choice(["controller", "agent", "shepherds", "agent and shepherds", "watchdog and shepherds", "forker"])
    pids = {"controller": [cluster.controller.pid], "agent": [], "shepherds": [], "watchdog": [], "forker": []}
    pids["forker"] = forkers_of(cluster, i)
    pids["agent"] = agents_of(cluster, i)
    pids["shepherds"] = shepherds_of(cluster, node)
    pids["watchdog"] = processes(lambda pid, _: comm_is(pid, "muster-watchdog") and
                                 cluster.folder + "/" + node in open("/proc/%d/maps" % pid).read())
    return kind + " stopped", sum((pids[part] for part in kind.split(" and ")), [])


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
    elif draw < 0.86:
        cluster.link(i, cluster.cut[i])
    elif draw < 0.91:
        what = "link one way"
        cluster.one_way(i, None if cluster.deaf[i] else rng.choice(["to", "from"]))
    else:
        what, victims = stop_some(cluster, rng, i)
        for pid in victims:
            cluster.stop(pid, rng.random() * 9)
        counts[what] = counts.get(what, 0) + 1
        return
    for pid in victims:
        kill(pid)
    if what.startswith(("link", "controller")) or victims:
        counts[what] = counts.get(what, 0) + 1


def mend(cluster):
    cluster.go_on()
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


def well(job, state, clients, person):
    """Whether it may have ended so."""
    if state == "CANCELLED":
        return job in person.cancelled
    return state == "COMPLETED" or (state == "TIMEOUT" and any(job in client.limited for client in clients))


def judge(cluster, clients, person, limit):
    acknowledged = sorted(i for client in clients for i in client.acknowledged)
    errors = [error for client in clients for error in client.errors]
    end, fewest = time.time() + limit, None
    waiting = None
    while time.time() < end:
        person.let_go()
        mend(cluster)  # the last one killed may take its time to be gone
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
    bad = {i: s for i, s in states.items() if not well(i, s, clients, person)}
    ok(not bad, "all of them ended well, or as they were told to", dict(list(bad.items())[:20]))
    ok(len(set(acknowledged)) == len(acknowledged), "no submission was carried out twice", acknowledged)
    path = os.path.join(cluster.locks, "violations")
    violations = open(path).read() if os.path.exists(path) else ""
    ok(not violations, "nothing ran twice at the same time, no GPU had two users", violations)
    deadline = time.time() + 20
    while time.time() < deadline:
        mend(cluster)
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
    parser.add_argument("--policy")
    parser.add_argument("--fence", default="lease")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    if ALONE not in os.environ:
        return alone()
    rng, counts = random.Random(args.seed), {}
    folder = tempfile.mkdtemp(prefix="muster-chaos-")
    cluster = Cluster(folder, args.fence)
    try:
        cluster.up_net()
        cluster.init()
        policies = policies_of(args.seed, args.policy)
        clients = [Client(cluster, 1000 * args.seed + i, args.seed % 2 == 0) for i in range(3)]
        person = Person(cluster, args.seed)
        for client in clients + [person]:
            client.start()
        for turn in range(args.rounds):
            if turn % POLICY_EVERY == 0:
                set_policy(cluster, policies[turn // POLICY_EVERY % len(policies)])
            time.sleep(rng.random() * 0.4)
            strike(cluster, rng, counts)
            time.sleep(rng.random() * 0.2)
            mend(cluster)
        for client in clients + [person]:
            client.stopping = True
        for i in range(AGENTS):
            cluster.link(i, True)
            cluster.one_way(i, None)
        cluster.go_on(everybody=True)
        mend(cluster)
        for client in clients + [person]:
            client.join(30)
        jobs = judge(cluster, clients, person, 60)
        runs = sum(1 for _ in open(cluster.locks + "/runs"))
        words = [", ".join("%s %d" % c for c in sorted(what.items())) for what in (counts, person.counts)]
        print("# %d rounds (%s), %d jobs (%s), %d tasks ran" % (args.rounds, words[0], jobs, words[1], runs))
        print("# policies: " + " ".join(policies[:1 + (args.rounds - 1) // POLICY_EVERY]))
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
