#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes that are started anew: drained, left by their jobs, told, used again by themselves; what a command that fails
leaves; real agents that run a command. And output by the time it was written, and words that would move a cursor."""
import os
import signal
import subprocess
import tempfile
import time

from cluster import Agents, BUILD, MUSTER, Musterd, done, muster, ok

AGENT = os.path.join(BUILD, "muster-agent")


def node(m, name):
    return m.get("/nodes/" + name).json


def emulated(m):
    job = m.post("/jobs", {"run": "sleep 60", "gpus": "H100:8", "nodelist": "gpu01", "retries": 0}).json["id"]
    ok(m.wait_state(job, "RUNNING"), "a job runs on the node")
    r = muster(m, "node", "reboot", "gpu01")
    ok(r.returncode == 2 and "--reason" in r.stderr, "a reason is needed", r)
    r = muster(m, "node", "reboot", "gpu01", "--gpus", "1", "--reason", "x")
    ok(r.returncode == 2 and "as a whole" in r.stderr, "not a single GPU", r)
    ok(m.ask("PATCH", "/nodes/gpu01/gpus/1", {"reboot": True, "reason": "x"}).status == 400, "not by REST either")
    r = muster(m, "node", "reboot", "gpu01", "--reason", "new kernel")
    ok(r.returncode == 0 and "Rebooting gpu01" in r.stdout, "asked for", r)
    n = node(m, "gpu01")
    ok(n["state"] == "draining" and n["reboot"] == "wanted" and n["drain_reason"] == "new kernel", "it waits for the job", n)
    time.sleep(0.5)
    ok(m.state(job) == "RUNNING" and node(m, "gpu01")["connected"], "and does not disturb it")
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    ok(m.until(lambda: node(m, "gpu01")["reboot"] == "" and node(m, "gpu01")["state"] == "idle"),
       "the job gone, it is started anew and used again", node(m, "gpu01"))
    kinds = [e["kind"] for e in m.get("/events?kinds=node.").json["items"] if e["node"] == "gpu01"]
    ok("node.rebooting" in kinds and kinds[-1] in ("node.rebooted", "node.back"), "told as events", kinds)
    job = m.post("/jobs", {"run": "true", "gpus": "H100:8", "nodelist": "gpu01"}).json["id"]
    ok(m.wait_state(job, "COMPLETED"), "and takes jobs")


def deadline(m):
    job = m.post("/jobs", {"run": "sleep 60", "gpus": "H100:8", "nodelist": "gpu02", "checkpoint": {"grace": "1s"}}).json["id"]
    ok(m.wait_state(job, "RUNNING"), "another runs")
    r = muster(m, "node", "reboot", "gpu02", "--reason", "now", "--deadline", "1s")
    ok(r.returncode == 0, "with a deadline", r)
    ok(m.until(lambda: m.get("/jobs/%d" % job).json["attempt"] == 1 and m.state(job) == "RUNNING"),
       "the job is sent away, and runs there again when the node is back", m.get("/jobs/%d" % job))
    ok(node(m, "gpu02")["state"] == "alloc", "the node is in use")
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    r = muster(m, "node", "drain", "gpu02", "--reason", "x")
    r = muster(m, "node", "resume", "gpu02")
    ok(r.returncode == 0 and node(m, "gpu02")["reboot"] == "", "resume calls it off", r)


def commands(m):
    """Agents of their own: a command that fails, and one that ends the agent as a machine's end would."""
    with tempfile.TemporaryDirectory() as folder:
        def start(name, command):
            return subprocess.Popen([AGENT, "--url", "http://%s:%d" % (m.host, m.port), "--node", name, "--fake", "2:A100",
                                     "--state", os.path.join(folder, name), "--reboot", command, "--log-level", "err",
                                     "--no-sync", "--allow-root"])

        bad = start("bad", "exit 3")
        ran = os.path.join(folder, "ran")
        good = start("good", "echo again >>%s" % ran)
        try:
            ok(m.wait_nodes(4), "two agents with commands")
            muster(m, "node", "reboot", "bad", "good", "--reason", "try")
            ok(m.until(lambda: "failed: the command exited with 3" in node(m, "bad")["reason"]), "a failure is told",
               node(m, "bad"))
            ok(node(m, "bad")["state"] == "drain" and node(m, "bad")["reboot"] == "", "and the node stays drained")
            ok(m.until(lambda: os.path.exists(ran)), "the other's command was run")
            ok(node(m, "good")["state"] == "maint", "and it is in maintenance until it is back", node(m, "good"))
            time.sleep(0.3)
            ok(open(ran).read() == "again\n", "run once")
        finally:
            for process in (bad, good):
                process.terminate()
                process.wait(20)


def without_gpus():
    """A node that has none is there, but makes no cluster; beside one that has some it takes jobs without GPUs."""
    with tempfile.TemporaryDirectory() as folder, Musterd(state=folder + "/s") as m:
        ask = {"run": "true", "gpus": "0", "per_node": {"cpu": 1}}
        r = m.post("/jobs", ask)
        ok(r.status >= 400 and b"no node has joined" in r.body, "no node at all", r)
        agent = subprocess.Popen([AGENT, "--url", "http://%s:%d" % (m.host, m.port), "--node", "bare", "--state", folder,
                                  "--log-level", "err", "--no-sync", "--allow-root"], env=dict(os.environ, LD_LIBRARY_PATH=folder))
        try:
            ok(m.until(lambda: m.get("/nodes/bare").status == 200 and node(m, "bare")["connected"]), "a node without GPUs")
            if node(m, "bare")["gpus"]:
                print("# SKIP what is told without GPUs: this machine has some")
                return
            r = m.post("/jobs", ask)
            ok(r.status >= 400 and b"no node with GPUs has joined" in r.body, "no node with GPUs", r)
            with Agents(m, folder, ["gpu1"], 1):
                beside_gpus(m, ask)
                bare_goes(m, ask)
        finally:
            agent.terminate()
            agent.wait(20)


def bare_goes(m, ask):
    """Jobs are sent away from a node without GPUs when patience ends, to where there are CPUs."""
    job = m.post("/jobs", dict(ask, run="sleep 60")).json["id"]
    ok(m.wait_state(job, "RUNNING") and m.get("/jobs/%d" % job).json["placement"][0]["node"] == "bare", "a job there")
    m.ask("PATCH", "/nodes/bare", {"drain": True, "reason": "sold"})
    ok(node(m, "bare")["state"] == "draining", "it still runs on the drained node", node(m, "bare"))
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
    m.ask("PATCH", "/nodes/bare", {"drain": True, "reason": "sold", "deadline": soon})
    ok(m.until(lambda: [x["node"] for x in m.get("/jobs/%d" % job).json["placement"]] == ["gpu1"]), "and goes elsewhere",
       m.get("/jobs/%d" % job))
    ok(node(m, "bare")["state"] == "drain", "which leaves it empty", node(m, "bare"))
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    ok(m.wait_state(job, "CANCELLED"), "cancelled")


def beside_gpus(m, ask):
    """Jobs without GPUs are on the node without GPUs first, with all its CPUs; it is drained, lost and kept like any."""
    def placed(job):
        return [x["node"] for x in m.get("/jobs/%d" % job).json["placement"]]

    def run(**more):
        return m.post("/jobs", dict(ask, run="sleep 60", **more)).json["id"]

    ok(m.until(lambda: m.get("/nodes/gpu1").status == 200 and node(m, "gpu1")["connected"]), "a node with GPUs")
    cpus = node(m, "bare")["cpus"]
    job = run(per_node={"cpu": cpus})
    ok(m.wait_state(job, "RUNNING") and placed(job) == ["bare"], "all CPUs of the node without GPUs", m.get("/jobs/%d" % job))
    short = run(nodelist="bare")
    why = m.get("/jobs/%d/why" % short).json
    ok(why["code"] == "InsufficientCpuMem" and "GPUs" not in why["message"], "one more waits for CPUs, not for GPUs", why)
    ok([h["job"] for h in why["heldBy"]] == [job], "and for whom", why)
    m.ask("DELETE", "/jobs/%d" % short)
    gpu = m.post("/jobs", {"run": "true", "gpus": "H100:1"}).json["id"]
    ok(m.wait_state(gpu, "COMPLETED") and placed(gpu) == ["gpu1"], "GPUs are where they are", m.get("/jobs/%d" % gpu))
    ok(node(m, "bare")["state"] == "alloc" and node(m, "gpu1")["state"] == "idle", "a node is what jobs make of it", node(m, "bare"))
    m.stop(signal.SIGKILL)
    m.command = [word.replace("127.0.0.1:0", "127.0.0.1:%d" % m.port) for word in m.command]
    m.start()
    ok(m.until(lambda: node(m, "bare")["connected"]) and m.state(job) == "RUNNING" and placed(job) == ["bare"], "it outlives the controller",
       m.get("/jobs/%d" % job))
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    ok(m.wait_state(job, "CANCELLED"), "and ends")
    m.ask("PATCH", "/nodes/bare", {"drain": True, "reason": "test"})
    job = run()
    ok(m.wait_state(job, "RUNNING") and placed(job) == ["gpu1"], "drained it takes nobody new", m.get("/jobs/%d" % job))
    m.ask("PATCH", "/nodes/bare", {"drain": False})
    more = run()
    ok(m.wait_state(more, "RUNNING") and placed(more) == ["bare"], "and others when it is back", m.get("/jobs/%d" % more))
    a = m.ask("PUT", "/config", {"vcs": {"default": {"guarantee": {"H100": "1 node"}}}})
    ok(a.status == 200 and m.state(more) == "RUNNING" and placed(more) == ["bare"], "cells are made of the others", a)
    last = run()
    ok(m.wait_state(last, "RUNNING") and placed(last) == ["bare" if cpus > 1 else "gpu1"], "and it goes on", m.get("/jobs/%d" % last))
    for one in (job, more, last):
        m.ask("DELETE", "/jobs/%d?now=1" % one)
        ok(m.wait_state(one, "CANCELLED"), "cancelled")


def starting(m):
    """A job that has its place but no processes yet is waited for; one without a place is not."""
    with tempfile.TemporaryDirectory() as folder:
        agent = subprocess.Popen([AGENT, "--url", "http://%s:%d" % (m.host, m.port), "--node", "slow", "--fake", "2:V100", "--state",
                                  folder, "--log-level", "err", "--no-sync", "--allow-root"])
        try:
            ok(m.until(lambda: m.get("/nodes/slow").status == 200 and node(m, "slow")["connected"]), "a node that is slow")
            silent = m.post("/jobs", {"run": "true", "gpus": "V100:1"}).json["id"]
            ok(m.wait_state(silent, "COMPLETED"), "a job that says nothing", m.get("/jobs/%d" % silent))
            agent.send_signal(signal.SIGSTOP)
            job = m.post("/jobs", {"run": "sleep 60", "gpus": "V100:1"}).json["id"]
            ok(m.state(job) == "STARTING", "a job starts", m.get("/jobs/%d" % job))
            a = m.get("/jobs/%d/logs?follow=1" % silent)
            ok(a.status == 200 and a.body == b"" and a.headers["x-log-size"] == "0", "that it said nothing is known without its node", a)
            env = dict(os.environ, MUSTER_URL="http://%s:%d" % (m.host, m.port))
            inside = subprocess.Popen([MUSTER, "exec", str(job), "--", "sh", "-c", "echo in $MUSTER_JOB_ID"], env=env, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            attached = subprocess.Popen([MUSTER, "attach", str(job)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
            time.sleep(0.5)
            ok(inside.poll() is None and attached.poll() is None, "exec and attach wait for it")
            agent.send_signal(signal.SIGCONT)
            out, err = inside.communicate(timeout=30)
            ok(inside.returncode == 0 and out == "in %d\n" % job, "exec is in when it runs", (out, err))
            out, err = attached.communicate("echo at $MUSTER_JOB_ID\n", timeout=30)
            ok(attached.returncode == 0 and "at %d\n" % job in out, "so is attach", (out, err))
            m.ask("DELETE", "/jobs/%d?now=1" % job)
            held = m.post("/jobs", {"run": "true", "gpus": 1, "hold": True}).json["id"]
            r = muster(m, "attach", str(held))
            ok(r.returncode == 5 and "PENDING" in r.stderr, "one that is held is not waited for", r)
            m.ask("DELETE", "/jobs/%d?now=1" % held)
        finally:
            agent.send_signal(signal.SIGCONT)
            agent.terminate()
            agent.wait(20)


def much(m):
    """More output than is asked of a node at once: whoever waits for the job sees all of it, read slowly too."""
    want = "".join("%d\n" % i for i in range(1, 400001))
    r = muster(m, "run", "--", "seq", "1", "400000")
    ok(r.returncode == 0 and r.stdout == want, "run shows all of it", (r.returncode, len(r.stdout), r.stderr))
    env = dict(os.environ, MUSTER_URL="http://%s:%d" % (m.host, m.port))
    last = lambda: m.get("/history?limit=1").json["items"][0]["id"]
    before = last()
    slow = subprocess.Popen([MUSTER, "run", "--", "seq", "1", "400000"], env=env, stdout=subprocess.PIPE, text=True)
    ok(m.until(lambda: last() != before), "it ends while nobody reads", last())
    text = slow.stdout.read()
    ok(slow.wait(30) == 0 and text == want, "nothing of it is lost", len(text))
    slow.stdout.close()
    r = muster(m, "logs", "-n", "2", str(last()))
    ok(r.stdout == "399999\n400000\n", "the last lines of it", r.stdout[:100])


def output(m):
    with tempfile.TemporaryDirectory() as folder:
        # A line is written when the one before was seen, and a while after it: times are kept to the second.
        job = m.post("/jobs", {"run": "for i in 1 2 3; do while [ ! -e %s/$i ]; do sleep 0.05; done; echo line $i; done" % folder,
                               "gpus": 1}).json["id"]
        short = m.post("/jobs", {"run": "echo at once", "gpus": 1}).json["id"]
        begun = []
        for i in (1, 2, 3):
            time.sleep(2.2)
            begun.append(time.time())
            open("%s/%d" % (folder, i), "w").close()
            m.until(lambda: b"line %d\n" % i in m.get("/jobs/%d/logs" % job).body)
        ok(m.wait_state(job, "COMPLETED") and m.wait_state(short, "COMPLETED"), "jobs that write")
    lines = m.get("/jobs/%d/logs" % job).body.decode().split("\n")
    second, third = begun[1], begun[2]
    after = lambda at: m.get("/jobs/%d/logs?since=%.6f" % (job, at)).body.decode().split("\n")[0]
    ok(after(0) == "line 1" and after(second - 1) == "line 2" and after(third - 1) == "line 3", "from a time on",
       [after(t) for t in (0, second - 1, third - 1)])
    a = m.get("/jobs/%d/logs?since=%.6f" % (job, third + 60))
    ok(a.status == 200 and a.body == b"", "nothing was written so late", a)
    a = m.get("/jobs/%d/logs?until=%.6f" % (job, second - 1)).body.decode()
    ok("line 1" in a and "line 2" not in a, "until a time", a)
    a = m.get("/jobs/%d/logs?until=%.6f&tail=2" % (job, third - 1)).body.decode()
    ok(a == "line 1\nline 2\n", "the last lines until then", a)
    ok(m.get("/jobs/%d/logs?until=5" % job).body == b"", "before it began")
    ok(m.get("/jobs/%d/logs?since=%.6f" % (short, second - 60)).body == b"at once\n" and
       m.get("/jobs/%d/logs?since=%.6f" % (short, third + 60)).body == b"", "what took a moment")
    ok(m.get("/jobs/%d/logs?since=soon" % job).status == 400, "a time that is none")
    r = muster(m, "logs", "--since", "1h", str(job))
    ok(r.returncode == 0 and r.stdout.split("\n") == lines, "by the client", r)
    r = muster(m, "logs", "--since", "yesterday", str(job))
    ok(r.returncode == 2 and "--since" in r.stderr, "which knows times", r)
    r = muster(m, "logs", "-f", "--until", "1h", str(job))
    ok(r.returncode == 2, "following has no end", r)


def harmless(m):
    turned, hidden = "a\u202eb", "\u200b"
    job = m.post("/jobs", {"run": "sleep 60", "name": turned, "comment": turned + hidden, "gpus": 1, "tags": {turned: turned}})
    ok(job.status == 201, "a name that turns the line", job)
    job = job.json["id"]
    m.wait_state(job, "RUNNING")
    for words in (("show",), ("why",)):
        r = muster(m, *words, str(job))
        ok(r.returncode == 0 and "\u202e" not in r.stdout + r.stderr and "<U+202E>" in r.stdout, "made visible: %s" % words, r)
    m.ask("PATCH", "/nodes/gpu02", {"drain": True, "reason": "be\u001b[31mware"})
    for words in (("node", "show", "gpu02"), ("nodes",), ("events",)):
        r = muster(m, *words)
        ok(r.returncode == 0 and "\x1b" not in r.stdout + r.stderr, "no escapes: %s" % (words,), r)
    r = muster(m, "show", "no\x1b[31msuch")
    ok("\x1b" not in r.stderr and r.returncode == 3, "nor in errors", r)
    m.ask("PATCH", "/nodes/gpu02", {"drain": False})
    m.ask("DELETE", "/jobs/%d?now=1" % job)


def main():
    with Musterd("2x8:H100") as m:
        m.wait_nodes(2)
        emulated(m)
        deadline(m)
        output(m)
        much(m)
        harmless(m)
        commands(m)
        starting(m)
        ok(m.alive(), "musterd is there")
    without_gpus()
    done()


main()
