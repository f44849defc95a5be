#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that were placed on a node whose agent is gone. What nobody was told starts elsewhere when the node is silent; what
may have been told waits for the node, however long. The lease is an hour: nothing here waits for it."""
import os
import signal
import subprocess
import tempfile
import time

from cluster import BUILD, Agents, Musterd, agent, done, ok

WORK = "echo $MUSTER_ATTEMPT >>%s; sleep 600"


def submit(m, **job):
    return m.post("/jobs", dict({"run": "sleep 600", "time": "1h"}, **job)).json["id"]


def job_of(m, job):
    return m.get("/jobs/%d" % job).json


def node_of(m, name):
    return m.get("/nodes/" + name).json


def end(m, *jobs):
    for job in jobs:
        m.ask("DELETE", "/jobs/%d?now=1" % job)
    ok(all(m.wait_state(j, ("CANCELLED", "FAILED", "COMPLETED")) for j in jobs), "all of it ends", [m.state(j) for j in jobs])


def kill(m, agents, name):
    agents[name].kill()
    agents[name].wait()
    ok(m.until(lambda: not node_of(m, name)["connected"]), "the agent of %s is killed" % name)


def queue(m):
    env = dict(os.environ, MUSTER_URL="http://%s:%d" % (m.host, m.port))
    return subprocess.run([os.path.join(BUILD, "muster"), "queue", "--all"], env=env, capture_output=True, text=True).stdout


def lines(path):
    try:
        with open(path) as f:
            return f.read().split()
    except OSError:
        return []


def goes_elsewhere(m, folder, agents):
    """Free is n1 alone when its agent dies; then n0."""
    first = submit(m, gpus=4, nodelist="n0")
    ok(m.wait_state(first, "RUNNING"), "n0 is taken")
    kill(m, agents, "n1")
    job = submit(m, gpus=4, requeue=False, run=WORK % (folder + "/elsewhere"))
    cancelled = submit(m, gpus=4, nodelist="n1")
    ok(m.state(job) in ("STARTING", "PENDING"), "placed where nobody is", job_of(m, job))
    end(m, first)
    ok(m.wait_state(job, "RUNNING") and job_of(m, job)["nodelist"] == "n0", "it runs elsewhere", job_of(m, job))
    ok(m.until(lambda: lines(folder + "/elsewhere") == ["1"]), "and never ran before", lines(folder + "/elsewhere"))
    ok(node_of(m, "n1")["state"] == "down" and "node.lost" not in [e["kind"] for e in m.get("/events").json["items"]],
       "the lease of its first node has not run out", node_of(m, "n1"))
    tasks = m.get("/jobs/%d/attempts" % job).json["items"]
    ok(tasks[0]["state"] == "NODE_FAIL", "told as an attempt that its node failed", tasks)
    agents["n1"] = agent(m, folder, "n1", 4)
    ok(m.wait_nodes(2), "the agent is back")
    ok(m.wait_state(cancelled, "RUNNING"), "and n1 takes jobs", job_of(m, cancelled))
    end(m, job, cancelled)


def comes_back(m, folder, agents):
    """The agent is there again before its node counts as silent: it is told then."""
    first = submit(m, gpus=4, nodelist="n0")
    ok(m.wait_state(first, "RUNNING"), "n0 is taken")
    kill(m, agents, "n1")
    job = submit(m, gpus=4, run=WORK % (folder + "/back"))
    agents["n1"] = agent(m, folder, "n1", 4)
    ok(m.wait_state(job, "RUNNING") and job_of(m, job)["nodelist"] == "n1", "it runs there", job_of(m, job))
    ok(m.until(lambda: len(lines(folder + "/back")) == 1), "once")
    end(m, first, job)


def gang(m, folder, agents):
    """A rank that was told and one that was not: the first is ended, nothing has run."""
    third = agents["n2"] = agent(m, folder, "n2", 4)
    ok(m.wait_nodes(3), "a third agent")
    blocker = submit(m, gpus=4, nodelist="n2")
    ok(m.wait_state(blocker, "RUNNING"), "it is taken")
    kill(m, agents, "n1")
    job = submit(m, nodes=2, per_node={"gpu": 4}, launch="node", run=WORK % (folder + "/gang"))
    end(m, blocker)
    ok(m.wait_state(job, "RUNNING") and job_of(m, job)["nodelist"] == "n[0,2]", "a gang starts elsewhere", job_of(m, job))
    ok(m.until(lambda: lines(folder + "/gang") == ["1", "1"]), "as a whole, and nothing of it before", lines(folder + "/gang"))
    end(m, job)
    third.terminate()
    third.wait(30)
    del agents["n2"]
    agents["n1"] = agent(m, folder, "n1", 4)
    ok(m.until(lambda: node_of(m, "n1")["connected"]), "the agent is back")


def may_have_heard(m, folder, agents):
    """An agent that is stopped keeps its connection: what was written there may have arrived."""
    blocker = submit(m, gpus=4, nodelist="n0")
    ok(m.wait_state(blocker, "RUNNING"), "n0 is taken")
    agents["n1"].send_signal(signal.SIGSTOP)
    try:
        job = submit(m, gpus=2, run=WORK % (folder + "/heard"))
        image = submit(m, gpus=2, image="/")
        end(m, blocker)
        ok(m.until(lambda: node_of(m, "n1")["state"] == "down"), "the node is silent", node_of(m, "n1"))
        # Somebody else is placed, started and ended meanwhile: the controller had every occasion.
        other = submit(m, gpus=4, run="true")
        ok(m.wait_state(other, "COMPLETED"), "others run", job_of(m, other))
        for one in (job, image):
            why = m.get("/jobs/%d/why" % one).json
            ok(job_of(m, one)["reason"]["code"] == why["code"] == "NodeSilent", "both are told to be on a silent node", why)
        ok("n1 (NodeSilent)" in queue(m), "in the queue too", queue(m))
        ok(m.state(job) == "STARTING" and job_of(m, job)["nodelist"] == "n1", "it waits: it may run there", job_of(m, job))
    finally:
        agents["n1"].send_signal(signal.SIGCONT)
    ok(m.wait_state(job, "RUNNING") and m.until(lambda: lines(folder + "/heard") == ["0"]), "and so it does, once",
       job_of(m, job))
    end(m, job, image)


def told_late(m, agents):
    """A job holds its agent up: start and end are told together, and it ran as long as it did."""
    job = submit(m, gpus=1, nodelist="n1", run="kill -STOP %d; sleep 2.2; kill -CONT %d" % (agents["n1"].pid, agents["n1"].pid))
    ok(m.wait_state(job, "COMPLETED") and job_of(m, job)["elapsed_seconds"] >= 2, "a job that its agent told of late", job_of(m, job))


def sleeps(m):
    """For longer than nodes may be silent. They were not: it has not listened."""
    job = submit(m, gpus=4, nodelist="n1")
    ok(m.wait_state(job, "RUNNING"), "n1 is taken")
    m.process.send_signal(signal.SIGSTOP)
    time.sleep(4.5)
    m.process.send_signal(signal.SIGCONT)
    seen = {node_of(m, "n1")["state"] for _ in range(100)}
    ok(seen == {"alloc"}, "a controller that was stopped takes nobody for silent", seen)
    ok("node.silent" not in [e["kind"] for e in m.get("/events").json["items"][-3:]], "nor says so", m.get("/events"))
    end(m, job)


def main():
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "muster.yaml")
        with open(config, "w") as f:
            f.write("lease: {time: 1h, node_timeout: 3s, beat: 300ms}\n")
        with Musterd(args=["--config", config]) as m:
            with Agents(m, folder, ("n0", "n1"), 4) as agents:
                ok(m.wait_nodes(2), "two agents")
                goes_elsewhere(m, folder, agents)
                comes_back(m, folder, agents)
                gang(m, folder, agents)
                may_have_heard(m, folder, agents)
                told_late(m, agents)
                sleeps(m)
    done()


main()
