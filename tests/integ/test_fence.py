#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""When jobs of a silent node start elsewhere: never by themselves (`fence: confirm`), when a program has switched the node
off, or at the end of its lease. Jobs outlive the controller. And two agents under one name."""
import os
import shutil
import signal
import subprocess
import tempfile
import time

from cluster import AGENT, Agents, Musterd, agent, done, free_port, muster, ok

# What runs twice at the same time is seen by the lock; each start leaves a line.
WORK = "exec 9>>%(f)s/%(n)s.lock; flock -n 9 || echo twice >>%(f)s/twice; echo $$ >>%(f)s/%(n)s; sleep 600"


def lines(*path):
    try:
        with open(os.path.join(*path)) as f:
            return f.read().split()
    except OSError:
        return []


def alive(pid):
    try:
        with open("/proc/%s/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def work(m, folder, name, **more):
    job = m.post("/jobs", dict({"run": WORK % {"f": folder, "n": name}, "gpus": 4, "time": "1h"}, **more)).json["id"]
    ok(m.wait_state(job, "RUNNING") and m.until(lambda: lines(folder, name)), "%s runs" % name, m.get("/jobs/%d" % job))
    return job


def node(m, name):
    return m.get("/nodes/" + name).json


def alerts(m):
    return {a["kind"]: a for a in m.get("/alerts").json["items"]}


def machine_off(agents, name, folder, job):
    """Everything of a node at once, as when its power fails: agent, shepherds, jobs."""
    process = agents.pop(name)
    state = os.path.realpath(os.path.join(folder, name))
    tasks = os.path.realpath(os.path.join(state, "tasks"))
    pids = [process.pid]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            where = [os.path.realpath("/proc/%s/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%s/fd" % pid)]
        except OSError:
            continue
        if any(w.startswith((state, tasks)) for w in where):
            pids.append(int(pid))
    for shell in job:
        with open("/proc/%s/task/%s/children" % (shell, shell)) as f:
            pids += [int(shell)] + [int(child) for child in f.read().split()]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def configure(path, fence, lease="2s", silent="1s"):
    with open(path, "w") as f:
        f.write("lease: {time: %s, node_timeout: %s, beat: 200ms, fence: %s}\n" % (lease, silent, fence))


def controller_away(m, folder):
    job = work(m, folder, "away")
    m.stop(signal.SIGKILL)
    time.sleep(6)  # three leases
    m.start()
    ok(m.wait_nodes(2), "the nodes are back")
    time.sleep(1)
    ok(m.state(job) == "RUNNING" and len(lines(folder, "away")) == 1 and alive(lines(folder, "away")[0]),
       "a job outlives a controller that was away for three leases", m.get("/jobs/%d" % job))
    return job


def node_dies(m, folder, agents):
    job = work(m, folder, "dies")
    name = m.get("/jobs/%d" % job).json["nodelist"]
    refused = m.ask("PATCH", "/nodes/" + name, {"lost": True})
    ok(refused.status == 409, "a node that is heard cannot be declared lost", refused)
    machine_off(agents, name, folder, lines(folder, "dies"))
    ok(m.until(lambda: node(m, name)["state"] == "down"), "its node dies")
    time.sleep(5)
    ok(m.state(job) == "RUNNING" and len(lines(folder, "dies")) == 1, "nothing starts elsewhere by itself", m.get("/jobs/%d" % job))
    alert = alerts(m).get("NodeSilent", {})
    ok("wait for it" in alert.get("text", "") and alert.get("hint", "").endswith("muster node lost " + name), "an alert says so", alert)
    why = m.get("/jobs/%d/why" % job).json
    ok("silent" in why["message"] and "muster node lost" in why["message"], "and why", why)
    said = muster(m, "node", "lost", name)
    ok(said.returncode == 0, "somebody says that it is off", said)
    other = ({"n0", "n1"} - {name}).pop()
    # The other node is taken by the job that outlived the controller.
    return job, name, other


def program(m, folder, agents, config, marks):
    with open(folder + "/fence.sh", "w") as f:
        f.write("#!/bin/sh\necho $1 $2 >>%s/asked\n[ -e %s/may ] || { echo no power switch here >&2; exit 1; }\n" % (marks, marks))
    os.chmod(folder + "/fence.sh", 0o755)
    configure(config, folder + "/fence.sh")
    m.stop()
    m.start()
    ok(m.wait_nodes(2), "a program is to switch nodes off")
    job = work(m, folder, "program")
    name = m.get("/jobs/%d" % job).json["nodelist"]
    machine_off(agents, name, folder, lines(folder, "program"))
    ok(m.until(lambda: lines(marks, "asked")[:1] == [name]), "it is asked", lines(marks, "asked"))
    ok(m.until(lambda: "no power switch here" in alerts(m).get("NodeSilent", {}).get("text", "")), "that it fails is told", alerts(m))
    ok(m.state(job) == "RUNNING" and len(lines(folder, "program")) == 1, "and nothing starts elsewhere")
    open(marks + "/may", "w").close()
    m.stop()
    m.start()  # it need not wait for its minute
    ok(m.until(lambda: len(lines(folder, "program")) == 2), "when the node is off the job starts elsewhere", m.get("/jobs/%d" % job))
    ok(m.until(lambda: [e for e in m.get("/events").json["items"] if e["kind"] == "node.lost"]), "the node is lost")
    return job


def clone(m, folder, agents, boot=None):
    """Another machine, made of the disk of the first: the same name, certificate and journal."""
    copy = folder + "/copy"
    shutil.copytree(folder + "/n0", copy, symlinks=True, ignore=lambda *_: ["tasks", "lock", "watchdog"])
    command = [AGENT, "--url", "http://%s:%d" % (m.host, m.port), "--node", "n0", "--fake", "4:H100", "--state", copy,
               "--log-level", "warn", "--no-sync", "--allow-root"]
    if boot:
        command = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"', boot] + command
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def twins(m, folder, agents, config):
    configure(config, "confirm", "8s", "4s")
    m.stop()
    m.start()
    ok(m.wait_nodes(2), "two agents")
    job = work(m, folder, "twins", nodelist="n0")
    boot = folder + "/boot"
    with open(boot, "w") as f:
        f.write("0e8c5a2e-0000-4000-8000-000000000001\n")
    twin = clone(m, folder, agents, boot)
    ok(m.until(lambda: "NodeTwice" in alerts(m)), "another agent of this name is told", alerts(m))
    time.sleep(4)
    ok(m.state(job) == "RUNNING" and len(lines(folder, "twins")) == 1, "the job runs on", m.get("/jobs/%d" % job))
    refused = m.stderr().count("agent dropped")
    ok(0 < refused < 12, "it is refused, and comes back later each time", (refused, m.stderr()[-2000:]))
    ok(muster(m, "doctor").stdout.count("n0"), "doctor names the node", muster(m, "doctor").stdout)
    # A controller that has just started: the other one may be the first to come.
    agents["n0"].send_signal(signal.SIGSTOP)
    m.stop(signal.SIGKILL)
    m.start()
    ok(m.until(lambda: "waits for the agent" in m.stderr()), "refused also while the first one is not there yet", m.stderr())
    agents["n0"].send_signal(signal.SIGCONT)
    ok(m.until(lambda: node(m, "n0")["connected"]), "the first one is back")
    ok(m.state(job) == "RUNNING" and len(lines(folder, "twins")) == 1, "with its job", m.get("/jobs/%d" % job))
    twin.terminate()
    said = twin.communicate(timeout=30)[1]
    ok("another agent of this name" in said, "its agent says why", said[-1500:])
    return job


def main():
    with tempfile.TemporaryDirectory() as folder:
        config, marks = folder + "/muster.yaml", folder + "/marks"
        os.mkdir(marks)
        configure(config, "confirm")
        m = Musterd(args=["--config", config, "--listen", "127.0.0.1:%d" % free_port()], state=folder + "/state")
        with m, Agents(m, folder, ("n0", "n1"), 4) as agents:
            ok(m.wait_nodes(2), "two agents")
            first = controller_away(m, folder)
            job, name, other = node_dies(m, folder, agents)
            m.ask("DELETE", "/jobs/%d?now=1" % first)
            ok(m.until(lambda: len(lines(folder, "dies")) == 2), "then its job starts elsewhere", m.get("/jobs/%d" % job))
            agents[name] = agent(m, folder, name, 4)
            ok(m.wait_nodes(2), "it comes back")
            m.ask("DELETE", "/jobs/%d?now=1" % job)
            job = program(m, folder, agents, config, marks)
            m.ask("DELETE", "/jobs/%d?now=1" % job)
            for one in {"n0", "n1"} - set(agents):
                agents[one] = agent(m, folder, one, 4)
            ok(m.wait_nodes(2), "both are back")
            job = twins(m, folder, agents, config)
            ok(not lines(folder, "twice"), "nothing ran twice", lines(folder, "twice"))
            m.ask("DELETE", "/jobs/%d?now=1" % job)
            ok(m.wait_state(job, ("CANCELLED", "FAILED", "COMPLETED")), "all of it ends")
    done()


main()
