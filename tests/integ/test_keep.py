#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that keep their place when they have failed (--keep-on-fail), with real processes on two agents: who goes in, what
ends it, what becomes of agent, shepherd, controller and node meanwhile."""
import json
import os
import signal
import subprocess
import tempfile

from cluster import Agents, MUSTER, Musterd, agent, done, free_port, muster, ok

FAILS = 'echo words; echo here >"$TMPDIR/left"; exit 3'


def submit(m, **job):
    a = m.post("/jobs", dict({"run": FAILS, "keep_on_fail": "1h", "gpus": 2}, **job))
    return a.json["id"] if a.status == 201 else a


def job_of(m, job):
    return m.get("/jobs/%d" % job).json


def kept(m, job):
    return m.until(lambda: job_of(m, job)["kept_until"]) and m.until(
        lambda: {t["state"] for t in m.get("/jobs/%d/tasks" % job).json["items"]} <= {"kept", "exited"})


def free(m):
    return m.until(lambda: all(n["gpus_used"] == 0 for n in m.get("/nodes").json["items"]))


def inside(m, job, command):
    return muster(m, "exec", job, "--", "sh", "-c", command)


def ends(m, job, state, code, what):
    over = m.wait_state(job, state)
    j = job_of(m, job)
    text = j["end_text"].split(";")[0]  # behind it: why it is not retried, where retries were asked for
    return ok(over and j["exit_code"] == code and j["kept_until"] is None and text == "exit code %d" % code, what, j)


def told(m):
    job = submit(m)
    ok(kept(m, job), "a job that failed is kept", job_of(m, job))
    j = job_of(m, job)
    ok(j["state"] == "RUNNING" and j["reason"]["code"] == "KeptOnFail" and "exit code 3" in j["reason"]["message"] and
       j["exit_code"] is None and j["failures"] == 0, "told as such", j)
    tasks = m.get("/jobs/%d/tasks" % job).json["items"]
    ok([(t["state"], t["exit_code"], t["cause"]) for t in tasks] == [("kept", 3, "exit")], "with how its task ended", tasks)
    line = muster(m, "queue", "--all").stdout
    ok("(KeptOnFail until " in line, "in the queue", line)
    why = muster(m, "why", job).stdout
    ok("KeptOnFail" in why and "muster exec %d -- bash" % job in why and "muster release %d" % job in why,
       "why says how to go in and how to let go", why)
    ok("muster exec %d" % job in muster(m, "show", job).stdout, "show too")
    ok([e["detail"]["exit"] for e in events(m, job)] == [3], "an event tells of it, once", events(m, job))
    a = inside(m, job, 'cat "$TMPDIR/left"; echo $MUSTER_JOB_ID $CUDA_VISIBLE_DEVICES; exit 7')
    ok(a.returncode == 7 and a.stdout == "here\n%d 0,1\n" % job, "a command finds what the job had", a)
    for path, words in (("suspend", "kept"), ("hold", "kept")):
        a = m.post("/jobs/%d/%s" % (job, path), {})
        ok(a.status == 409 and words in a.json["detail"], path + " is refused, in words", a)
    # It may come while the first of these commands runs, and is for that one too.
    ok(m.post("/jobs/%d/signal" % job, {"signal": 15}).status < 300 and
       m.until(lambda: inside(m, job, "true").returncode == 0) and inside(m, job, "true").returncode == 0 and
       job_of(m, job)["kept_until"], "a signal does not end it", job_of(m, job))
    a = muster(m, "release", job)
    ends(m, job, "FAILED", 3, "released, it ends as it failed")
    ok(inside(m, job, "true").returncode != 0 and free(m), "nobody goes in any more, and its GPUs are free")


def events(m, job):
    return [e for e in m.get("/events").json["items"] if e["kind"] == "job.kept" and e["job"] == job]


def followed(m, folder):
    path = os.path.join(folder, "said")
    env = dict(os.environ, MUSTER_URL="http://%s:%d" % (m.host, m.port))
    with open(path, "w") as said:
        process = subprocess.Popen([MUSTER, "run", "--keep-on-fail", "1h", "-G", "1", "sh", "-c", "echo out; exit 4"], env=env,
                                   stdout=subprocess.PIPE, stderr=said, text=True)
        ok(m.until(lambda: "muster exec" in open(path).read()), "whoever follows it hears of it", open(path).read())
        job = int(open(path).read().split("muster exec ")[1].split()[0])
        m.post("/jobs/%d/release" % job, {})
        out = process.communicate(timeout=60)[0]
    ok(process.returncode == 4 and out == "out\n" and "FAILED" in open(path).read(), "and of its end",
       (process.returncode, out, open(path).read()))
    job = submit(m, keep_on_fail="500ms", gpus=1)
    ends(m, job, "FAILED", 3, "when the time is over it ends")
    job = submit(m, time="4s", gpus=1)
    ends(m, job, "FAILED", 3, "the time limit ends it, as it failed")
    ok(len(events(m, job)) == 1, "it was kept until then", m.get("/events"))


def not_kept(m):
    for run, state in (("exit 0", "COMPLETED"), ("kill -9 $$", None), ("no-such-program", None)):
        job = submit(m, run=run, gpus=1)
        if state:
            ok(m.wait_state(job, state), "one that ends well is not kept", job_of(m, job))
            continue
        ok(kept(m, job) and m.post("/jobs/%d/release" % job, {}).status < 300 and m.wait_state(job, "FAILED"),
           "'%s' is" % run, job_of(m, job))
    job = submit(m, run="sleep 600", gpus=1)
    ok(m.wait_state(job, "RUNNING"), "one that is cancelled")
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    ok(m.wait_state(job, "CANCELLED"), "is not", job_of(m, job))
    again = submit(m, run="test $MUSTER_ATTEMPT -gt 0 || exit 85", gpus=1)
    ok(m.wait_state(again, "COMPLETED") and job_of(m, again)["attempt"] == 1, "nor one that asks to be run again", job_of(m, again))
    a = m.post("/jobs", {"run": "true", "keep_on_fail": "8d"})
    ok(a.status in (400, 422) and "7 days" in a.body.decode(), "a span without end is refused", a)


def retried(m):
    """The next attempt comes when the place was let go, not before; not after a cancel."""
    job = submit(m, retries=3, retry_on=[3], gpus=1)
    ok(kept(m, job) and job_of(m, job)["attempt"] == 0, "no retry while it is kept", job_of(m, job))
    m.post("/jobs/%d/release" % job, {})
    ok(m.until(lambda: job_of(m, job)["attempt"] == 1) and kept(m, job), "one when it was released", job_of(m, job))
    m.post("/jobs/%d/requeue" % job, {})
    ok(m.until(lambda: job_of(m, job)["attempt"] == 2) and kept(m, job), "one when it was requeued", job_of(m, job))
    m.ask("DELETE", "/jobs/%d" % job)
    ends(m, job, "FAILED", 3, "none when it was cancelled: it failed all the same")


def makes_room(m):
    """Opportunistic, and it has all GPUs of both nodes."""
    job = submit(m, nodes=2, gpus=None, per_node={"gpu": 2}, priority="oppo", launch="node")
    ok(kept(m, job), "one that runs on what others leave", job_of(m, job))
    other = submit(m, run="sleep 600", priority="high")
    ok(m.wait_state(other, "RUNNING"), "makes room at once for who is owed it", job_of(m, other))
    ends(m, job, "FAILED", 3, "and ends as it failed")
    m.ask("DELETE", "/jobs/%d?now=1" % other)
    ok(free(m), "nothing is held")


def gang(m):
    """The second rank fails while the first is busy."""
    job = submit(m, nodes=2, gpus=None, per_node={"gpu": 2}, launch="node",
                 run='echo $MUSTER_NODE_RANK >"$TMPDIR/left"; test $MUSTER_NODE_RANK = 0 && sleep 600; exit 3')
    ok(kept(m, job), "a gang is kept whole", job_of(m, job))
    tasks = m.get("/jobs/%d/tasks" % job).json["items"]
    ok([t["state"] for t in tasks] == ["kept", "kept"] and [t["cause"] for t in tasks] == ["peer", "exit"],
       "the processes of the others have ended", tasks)
    said = [inside(m, "%d.%d" % (job, rank), 'cat "$TMPDIR/left"; pgrep -f "sleep 600" || echo none').stdout for rank in (0, 1)]
    ok([s.split()[0] for s in said] == ["0", "1"], "every node can be gone into", said)
    ok("exit code 3" in job_of(m, job)["reason"]["message"], "why is that of the one that failed", job_of(m, job))
    m.post("/jobs/%d/release" % job, {})
    ends(m, job, "FAILED", 3, "and is let go whole")
    ok(free(m), "nothing is held")


def roles(m):
    worker = {"nodes": 2, "per_node": {"gpu": 1}, "completion": {"min_failed": 1},
              "run": "test $MUSTER_ROLE_INDEX = 1 && exit 3; sleep 600"}
    job = submit(m, run=None, gpus=None, roles={"worker": worker})
    ok(kept(m, job) and "exit code 3" in job_of(m, job)["reason"]["message"], "with roles, where their ends say it failed",
       job_of(m, job))
    ok(inside(m, job, "true").returncode == 0, "it can be gone into")
    m.post("/jobs/%d/release" % job, {})
    ends(m, job, "FAILED", 3, "and let go")
    worker = {"nodes": 1, "per_node": {"gpu": 1}, "completion": {"min_failed": -1}, "run": "exit 3"}
    job = submit(m, run=None, gpus=None, roles={"worker": worker})
    ok(m.wait_state(job, "COMPLETED"), "one that fails and need not be kept", job_of(m, job))


def agent_dies(m, folder, agents):
    job = submit(m, nodelist="n0")
    ok(kept(m, job), "kept on n0")
    agents["n0"].kill()
    agents["n0"].wait()
    ok(m.until(lambda: not m.get("/nodes/n0").json["connected"]), "its agent is killed")
    agents["n0"] = agent(m, folder, "n0", 2)
    ok(m.wait_nodes(2), "and is back")
    a = inside(m, job, 'cat "$TMPDIR/left"')
    ok(a.returncode == 0 and a.stdout == "here\n", "it is kept still, and can be gone into", (a, job_of(m, job)))
    ok(len(events(m, job)) == 1, "told once", events(m, job))
    m.post("/jobs/%d/release" % job, {})
    ends(m, job, "FAILED", 3, "and ends as it failed")


def keeper(job):
    """The process that holds the place of the job, and its shepherd."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                mine = b"MUSTER_JOB_ID=%d\0" % job in f.read()
            with open("/proc/%s/stat" % pid) as f:
                name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
            if mine and name == "sleep":
                return int(pid), int(rest.split()[1])
        except OSError:
            continue
    return 0, 0


def killed(m):
    job = submit(m, nodelist="n0")
    ok(kept(m, job), "kept on n0")
    sleeps, shepherd = keeper(job)
    if ok(sleeps, "what holds its place is found"):
        os.kill(sleeps, signal.SIGKILL)
        ends(m, job, "FAILED", 3, "without it there is no place: the job ends as it failed")
    job = submit(m, nodelist="n0", retries=3)
    ok(kept(m, job), "kept on n0")
    sleeps, shepherd = keeper(job)
    if ok(shepherd, "its shepherd is found"):
        os.kill(shepherd, signal.SIGKILL)
        ends(m, job, "FAILED", 3, "its shepherd is killed: the end is that of the job")
        ok(free(m), "nothing is held")


def script(m, folder):
    path = os.path.join(folder, "job.sh")
    with open(path, "w") as f:
        f.write("#!/bin/sh\n#MUSTER --keep-on-fail=1h\n#MUSTER -G 1\nexit 5\n")
    a = muster(m, "submit", "--json", path)
    job = json.loads(a.stdout)["id"]
    ok(kept(m, job), "a script asks for it", job_of(m, job))
    path = os.path.join(folder, "job.yaml")
    with open(path, "w") as f:
        f.write("run: exit 5\ngpus: 1\nkeep_on_fail: 1h\n")
    a = muster(m, "submit", "--json", "-f", path)
    other = json.loads(a.stdout)["id"]
    ok(kept(m, other), "a job file too", job_of(m, other))
    for one in (job, other):
        m.post("/jobs/%d/release" % one, {})
        ends(m, one, "FAILED", 5, "each ends as it failed")
    array = m.post("/jobs", {"run": FAILS, "keep_on_fail": "1h", "gpus": 1, "array": "4-5"}).json
    name = "%d_4" % array["id"]
    ok(all(kept(m, one) for one in array["jobs"]), "tasks of an array", array)
    why = muster(m, "why", name).stdout
    ok(why.startswith("Job %s " % name) and "muster exec %s -- bash" % name in why, "why calls one by its name", why)
    for one in array["jobs"]:
        m.ask("DELETE", "/jobs/%d" % one)
    ok(free(m), "nothing is held")


def configure(path, lease, silent):
    with open(path, "w") as f:
        f.write("lease: {time: %s, node_timeout: %s, beat: 300ms}\n" % (lease, silent))


def controller_dies(m):
    job = submit(m)
    ok(kept(m, job), "kept", job_of(m, job))
    until = job_of(m, job)["kept_until"]
    m.stop(signal.SIGKILL)
    m.start()
    ok(m.wait_nodes(2), "the controller is killed and started again")
    ok(job_of(m, job)["kept_until"] == until, "it is kept until the same time", job_of(m, job))
    ok(m.until(lambda: inside(m, job, "true").returncode == 0), "and can be gone into")
    m.post("/jobs/%d/release" % job, {})
    ends(m, job, "FAILED", 3, "it ends as it failed")


def node_lost(folder):
    """Nothing of it is to be run again: its own fault was known."""
    config = os.path.join(folder, "short.yaml")
    configure(config, "5s", "3s")
    with Musterd(args=["--config", config]) as m:
        alone = agent(m, folder, "n2", 2)
        try:
            ok(m.wait_nodes(1), "an agent with a short lease")
            job = submit(m)
            ok(m.until(lambda: events(m, job)), "kept")
        finally:
            alone.kill()
            alone.wait()
        ends(m, job, "FAILED", 3, "its node is lost: the end is that of the job")


def main():
    with tempfile.TemporaryDirectory() as folder:
        config, port = os.path.join(folder, "muster.yaml"), free_port()
        configure(config, "1h", "1m")  # nothing here is lost because the machine is slow
        args = ["--config", config, "--listen", "127.0.0.1:%d" % port]
        with Musterd(args=args, state=os.path.join(folder, "state")) as m:
            with Agents(m, folder, ("n0", "n1"), 2) as agents:
                ok(m.wait_nodes(2), "two agents")
                told(m)
                followed(m, folder)
                not_kept(m)
                retried(m)
                makes_room(m)
                gang(m)
                roles(m)
                script(m, folder)
                agent_dies(m, folder, agents)
                killed(m)
                controller_dies(m)
        node_lost(folder)
    done()


main()
