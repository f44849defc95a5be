#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HiveD's configuration, unchanged, in a live controller: the same cells as `muster cell` finds in the file, also before
all of its nodes have joined; and what cannot be is refused by line or in words. And
priorities inside a virtual cluster."""
import os
import subprocess
import tempfile

from cluster import AGENT, MUSTER, MUSTERD, Musterd, done, free_port, muster, ok

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cells")
SKUS = """# As OpenPAI writes it: what a device comes with beside itself.
kubeApiServerAddress: http://10.0.0.1:8080
webServerAddress: ":30096"
physicalCluster:
  skuTypes:
    K80: {gpu: 1, cpu: 2, memory: 8Gi}
  cellTypes:
    K80-SWITCH: {childCellType: K80, childCellNumber: 2}
    K80-NODE: {childCellType: K80-SWITCH, childCellNumber: 2, isNodeLevel: true}
    POOL: {childCellType: K80-NODE, childCellNumber: 2}
  physicalCells:
  - cellType: POOL
    cellChildren:
    - cellAddress: 007
    - cellAddress: w2
virtualClusters:
  nlp:
    virtualCells:
    - {cellType: POOL.K80-NODE, cellNumber: 1}
  cv:
    virtualCells:
    - {cellType: POOL.K80-NODE.K80-SWITCH, cellNumber: 1}
"""


INCREMENTAL = """protocolVersion: 2
name: incremental
type: job
taskRoles:
  worker:
    instances: 4
    completion: {minFailedInstances: 1}
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 1}
    commands: ["echo task $PAI_TASK_INDEX; sleep 600"]
defaults: {virtualCluster: a}
extras: {gangAllocation: false, hivedScheduler: {jobPriorityClass: prod}}
"""


def agent(m, folder, name, fake):
    return subprocess.Popen([AGENT, "--url", "http://%s:%d" % (m.host, m.port), "--node", name, "--fake", fake, "--state",
                             os.path.join(folder, name), "--log-level", "err", "--no-sync", "--allow-root"])


class Agents(list):
    """All end with the block."""

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for one in self:
            one.terminate()
        for one in self:
            one.wait(30)


def reason(m, job):
    return (m.get("/jobs/%d" % job).json.get("reason") or {}).get("code")


def grants(m):
    """What each virtual cluster owns, as the controller has it."""
    return {vc["name"]: sorted((c["type"], c["gpu_count"]) for c in vc["cells"]) for vc in m.get("/cells").json["vcs"]}


def clear(m):
    m.post("/jobs:batch", {"action": "cancel", "user": m.get("/whoami").json["user"]})
    m.until(lambda: not m.get("/jobs").json["items"])


def submit(m, vc, gpus=1, **more):
    a = m.post("/jobs", dict({"run": "sleep 600", "vc": vc}, **more, **({} if "per_node" in more else {"gpus": gpus})))
    return a.json["id"] if a.status == 201 else ok(False, "submitted", a) or 0


def lab(folder):
    """The first cluster of the labs: two nodes of one GPU each, of two types, one of which comes late."""
    file = os.path.join(SOURCE, "l1.yaml")
    m = Musterd(state=folder + "/lab", args=["--config", file])
    m.command[m.command.index("127.0.0.1:0")] = "127.0.0.1:%d" % free_port()  # where agents find it again
    with m, Agents() as agents:
        agents.append(agent(m, folder, "d", "1:D"))
        m.wait_nodes(1)
        m.until(lambda: m.get("/cells").status == 200 and len(grants(m)) == 2)
        ok(grants(m) == {"default": [("C-NODE", 1)], "vc1": [("D-NODE", 1)]},
           "musterd --config FILE: its cells, though a node of it has not joined", m.get("/cells"))
        first, second = submit(m, "vc1"), submit(m, "default")
        ok(m.wait_state(first, "RUNNING"), "what has joined is used")
        ok(m.until(lambda: reason(m, second) == "NodesUnhealthy"),
           "and what has not is as good as broken", m.get("/jobs/%d" % second))
        agents.append(agent(m, folder, "c", "1:C"))
        ok(m.wait_state(second, "RUNNING"), "until it joins", m.get("/jobs/%d" % second))
        third = submit(m, "vc1")
        m.stop()
        m.start()
        m.wait_nodes(2)
        ok(m.state(first) == m.state(second) == "RUNNING" and m.state(third) == "PENDING", "a restart changes nothing",
           [m.get("/jobs/%d" % job) for job in (first, second, third)])
        ok(grants(m) == {"default": [("C-NODE", 1)], "vc1": [("D-NODE", 1)]}, "nor in the cells")
        clear(m)


def applied(m, folder):
    file = folder + "/hivedscheduler.yaml"
    with open(file, "w") as f:
        f.write(SKUS)
    r = muster(m, "config", "diff", file)
    ok(r.returncode == 0 and "vcs.nlp.quota.K80: (not set) -> 4" in r.stdout, "muster config diff says what would be owed", r)
    r = muster(m, "config", "apply", file)
    ok(r.returncode == 0 and r.stdout.endswith("applied\n"), "muster config apply", r)
    return file


def live(folder):
    with Musterd(state=folder + "/live") as m, Agents() as agents:
        file = applied(m, folder)
        agents += [agent(m, folder, "007", "4:K80"), agent(m, folder, "w2", "4:K80")]
        m.wait_nodes(2)
        ok(m.until(lambda: grants(m) == {"nlp": [("K80-NODE", 4)], "cv": [("K80-SWITCH", 2)]}), "the cells of the file",
           m.get("/cells"))
        said = subprocess.run([MUSTER, "cell", "ls", file, "--json"], capture_output=True, text=True)
        r = muster(m, "config", "discover")
        with open(folder + "/found.yaml", "w") as f:
            f.write(r.stdout)
        again = subprocess.run([MUSTER, "cell", "ls", folder + "/found.yaml", "--json"], capture_output=True, text=True)
        ok(said.returncode == 0 and again.stdout == said.stdout, "muster config discover: a cluster file with the same cells",
           (said, again, r.stdout))
        whole = submit(m, "nlp", 4)
        ok(m.wait_state(whole, "RUNNING"), "a whole node is had at once")
        rooms(m)
        refusals(m, folder)
        clear(m)


def rooms(m):
    """Two CPUs and 8 GiB come with each GPU: a job that asks for more of them than its cells come with waits."""
    fits = submit(m, "cv", per_node={"gpu": 1, "cpu": 2})
    ok(m.wait_state(fits, "RUNNING"), "CPUs as skuTypes says come with a GPU")
    much = submit(m, "cv", per_node={"gpu": 1, "cpu": 3})
    ok(m.until(lambda: reason(m, much) == "InsufficientCpuMem"),
       "more of them than the cells have do not", m.get("/jobs/%d" % much))


def refusals(m, folder):
    r = muster(m, "vc", "set", "cv", "quota.K80=3")
    ok(r.returncode != 0 and "'cv' is granted 2 x K80 by virtualClusters" in r.stderr, "a quota does not change what cells grant", r)
    r = muster(m, "vc", "rm", "cv")
    ok(r.returncode != 0, "nor is a virtual cluster closed that owns cells", r)
    r = muster(m, "vc", "set", "cv", "policy=las")
    ok(r.returncode == 0 and grants(m)["cv"] == [("K80-SWITCH", 2)], "its policy is changed as ever", r)
    with open(folder + "/wrong.yaml", "w") as f:
        f.write(SKUS.replace("cellNumber: 1}\n  cv:", "cellNumber: 2}\n  cv:"))
    r = muster(m, "config", "apply", folder + "/wrong.yaml")
    ok(r.returncode != 0 and "wrong.yaml:17:3: " in r.stderr and "granted" in r.stderr, "grants that cannot be: by line", r)
    with open(folder + "/other.yaml", "w") as f:
        f.write(SKUS.replace("childCellType: K80, childCellNumber: 2", "childCellType: K80, childCellNumber: 1"))
    r = muster(m, "config", "apply", folder + "/other.yaml")
    ok(r.returncode != 0 and "node '007' has 2 x K80 in physicalCells, and really 4 x K80" in r.stderr,
       "nodes that are not what the file says", r)
    with open(folder + "/slip.yaml", "w") as f:
        f.write(SKUS.replace("- cellAddress: w2", "- cellAddress: w2\n      pinedCellId: P"))
    r = muster(m, "config", "diff", folder + "/slip.yaml")
    ok("slip.yaml:16:7: unknown key 'pinedCellId'" in r.stderr, "a key that is a slip is told", r)


def classes(folder):
    """Inside cells prod preempts test under every policy that can, the lowest class first, and why and plan say so."""
    with Musterd("1x2:D", state=folder + "/classes") as m:
        m.wait_nodes(1)
        a = m.ask("PUT", "/config", {"vcs": {"vc1": {"guarantee": {"D": "1 node"}}, "b": {"quota": {"D": 0}}}})
        ok(a.status == 200, "two GPUs of vc1", a)
        for policy in ("fifo-skip", "backfill-easy", "yarn-cs", "liquid", "las"):
            ok(muster(m, "vc", "set", "vc1", "policy=" + policy).returncode == 0, policy)
            normal, low = submit(m, "vc1", gpus=1, priority="normal"), submit(m, "vc1", gpus=1, priority="low")
            ok(m.wait_state(normal, "RUNNING") and m.wait_state(low, "RUNNING"), "%s: two run" % policy)
            r = muster(m, "plan", "--vc", "vc1", "-G", "1", "-q", "high", "--wrap", "true")
            ok("Starts   now" in r.stdout, "%s: plan says that a higher one starts now" % policy, r)
            high = submit(m, "vc1", gpus=1, priority="high")
            ok(m.wait_state(high, "RUNNING") and m.state(normal) == "RUNNING",
               "%s: it does, and the lowest has left for it" % policy, m.get("/jobs").body)
            ok("made room for job %d" % high in muster(m, "why", low).stdout, "%s: why says for which job" % policy)
            clear(m)
        r = muster(m, "vc", "set", "vc1", "policy=gandiva", "priorities=strict")
        ok(r.returncode != 0 and "gandiva shares GPUs out by itself" in r.stderr, "a policy that cannot says so", r)
        ok(muster(m, "vc", "set", "vc1", "policy=fifo-skip", "priorities=weights").returncode == 0, "weights")
        low, again = submit(m, "vc1", gpus=2, priority="low"), submit(m, "vc1", gpus=1, priority="high")
        ok(m.wait_state(low, "RUNNING") and m.until(lambda: reason(m, again)) and m.state(again) == "PENDING",
           "then a higher one waits for its turn")
        clear(m)


def demands(folder):
    """What no cell of a virtual cluster can ever hold is refused when it comes; tasks without a gang start one by one."""
    with Musterd("2x8:D", state=folder + "/demands") as m:
        m.wait_nodes(2)
        a = m.ask("PUT", "/config", {"vcs": {"a": {"guarantee": "1 node"}, "b": {"guarantee": "4 gpus"}}})
        ok(a.status == 200, "a has a node, b half of one", a)
        r = muster(m, "submit", "--vc", "a", "-N", "2", "--gpus-per-node=4", "--wrap", "true")
        ok(r.returncode != 0 and "2 x 4 GPUs never fit into what 'a' is guaranteed: 1 of its cells" in r.stderr and
           "-N 1 --gpus-per-node=4 fits" in r.stderr, "two nodes of one granted node: refused, with what fits", r)
        r = muster(m, "submit", "--vc", "a", "-N", "2", "--gpus-per-node=4", "-q", "oppo", "--parsable", "--wrap", "sleep 600")
        ok(r.returncode == 0 and m.wait_state(int(r.stdout), "RUNNING"), "opportunistically it runs", r)
        ok(muster(m, "vc", "set", "a", "borrow=all").returncode == 0, "where the virtual cluster may borrow")
        r = muster(m, "submit", "--vc", "a", "-N", "2", "--gpus-per-node=4", "--parsable", "--wrap", "sleep 600")
        ok(r.returncode == 0 and m.wait_state(int(r.stdout), "RUNNING"), "it does so, too", r)
        clear(m)
        first = submit(m, "a", gpus=6, priority="high")
        ok(m.wait_state(first, "RUNNING") and muster(m, "vc", "set", "a", "borrow=none").returncode == 0, "6 of 8 are in use")
        with open(folder + "/job-config-7.yaml", "w") as f:
            f.write(INCREMENTAL)
        r = muster(m, "submit", "-f", folder + "/job-config-7.yaml", "--parsable")
        ok(r.returncode == 0, "gangAllocation: false", r)

        def states():
            return [j["state"] for j in m.get("/jobs?vc=a").json["items"] if j["name"] == "incremental"]
        ok(m.until(lambda: sorted(states()) == ["PENDING", "PENDING", "RUNNING", "RUNNING"]),
           "two of four tasks start, where a gang would wait", states())
        m.ask("DELETE", "/jobs/%d?now=1" % first)
        ok(m.until(lambda: states() == ["RUNNING"] * 4), "and the others as soon as there is room", states())
        clear(m)


def checked(folder):
    with open(folder + "/bad.yaml", "w") as f:
        f.write(SKUS.replace("childCellType: K80-SWITCH", "childCellType: K80-NODE"))
    r = subprocess.run([MUSTERD, "--dev", "--config", folder + "/bad.yaml", "--check"], capture_output=True, text=True)
    ok(r.returncode != 0 and "bad.yaml:9:15: cell type 'K80-NODE'" in r.stderr, "musterd refuses a wrong one by line", r)
    r = subprocess.run([AGENT, "--url", "http://127.0.0.1:1", "--node", "n", "--state", folder + "/n", "--bare-images"],
                       capture_output=True, text=True)
    ok(r.returncode != 0 and "--bare-images goes with --fake" in r.stderr, "images are left out on emulated nodes alone", r)


def main():
    with tempfile.TemporaryDirectory() as folder:
        checked(folder)
        lab(folder)
        live(folder)
        classes(folder)
        demands(folder)
    done()


main()
