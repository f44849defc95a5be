#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What administrators change while jobs run: virtual clusters made, changed, closed; what a change would preempt, told
before and done after; limits of users; GPUs drained, faulty or used by others; the configuration read again; all of it there after a restart."""
import json
import os
import subprocess
import tempfile
import time

from cluster import Musterd, done, ok

CONFIG = """
cluster: admin
listen: [127.0.0.1:0]
state: %s
auth: {anonymous: read}
policy: srtf
vcs:
  prod: {quota: {H100: 16}}
  lab: {quota: {}, borrow: 8}
"""


def vcs(m):
    a = m.post("/vcs", {"name": "nlp"})
    ok(a.status == 400 and "quota" in str(a.json["hints"]), "the first beside default says what it takes", a)
    a = m.post("/vcs?diff=1", {"name": "nlp", "quota": {"H100": 8}})
    ok(a.status == 200 and a.json["after"]["vcs"]["default"]["quota"]["H100"] == 8 and a.json["preempts"] == [],
       "what it would do", a)
    ok(len(m.get("/vcs").json["items"]) == 1, "and nothing was done")
    a = m.post("/vcs", {"name": "nlp", "quota": {"H100": 8}})
    ok(a.status == 200 and a.json["guarantee"]["H100"] == 8, "made", a)
    ok(m.get("/vcs/default").json["guarantee"]["H100"] == 8, "the rest stays with default")
    ok(m.post("/vcs", {"name": "nlp", "quota": {"H100": 1}}).status == 409, "not twice")
    ok(m.post("/vcs", {"name": "a b", "quota": {}}).status == 400, "names have no blanks")
    ok(m.post("/vcs", {"name": "x", "colour": 1}).status == 400, "unknown keys are refused")
    a = m.ask("PUT", "/vcs/nlp", {"borrow": 4, "max_user_gpus": 6, "policy": "las"})
    ok(a.status == 200 and a.json["borrow_max"] == 4 and a.json["user_max"] == 6 and a.json["policy"] == "las",
       "borrowing, users' share and policy changed", a)
    ok(m.ask("PUT", "/vcs/nlp", {"borrow": None}).json["borrow_max"] is None, "null takes a key away")
    a = m.ask("PUT", "/vcs/nlp", {"quota": {"H100": 99}})
    ok(a.status == 400 and "99" in a.json["detail"] or "107" in a.json["detail"], "more than there is is refused", a)
    ok(m.ask("PUT", "/vcs/none", {"borrow": 1}).status == 404, "one there is not")
    a = m.ask("PUT", "/vcs/nlp?diff=1", {"guarantee": {"H100": "1 node"}})
    ok(a.status == 200 and "quota" not in a.json["after"]["vcs"]["nlp"], "a shape in place of a number", a)
    a = m.ask("PUT", "/vcs/nlp", {"guarantee": {"H100": "1 node"}})
    ok(a.status == 200 and m.get("/vcs/nlp").json["guarantee"]["H100"] == 8, "in force", a)
    a = m.ask("PUT", "/vcs/nlp", {"guarantee": {"H100": "1 node"}, "quota": {"H100": 8}})
    ok(a.status == 400, "both at once are refused", a)
    a = m.ask("PUT", "/vcs/nlp", {"quota": {"H100": 8}})
    ok(a.status == 200, "and a number again", a)
    job = m.post("/jobs", {"run": "sleep 60", "gpus": "H100:2", "vc": "nlp"}).json["id"]
    m.ask("PUT", "/vcs/nlp", {"quota": {"H100": 1}, "borrow": "none"})
    e = m.get("/jobs/%d/why" % job).json["entitlement"]
    ok(e["borrowable"] == 0 and "may borrow 0 more" in e["text"], "who has more than it may now can borrow nothing, not less", e)
    m.ask("PUT", "/vcs/nlp", {"quota": {"H100": 8}, "borrow": None})
    ok(m.ask("DELETE", "/vcs/nlp").status == 409, "not closed while it has jobs")
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    m.wait_state(job, "CANCELLED")
    ok(m.ask("DELETE", "/vcs/nlp").status == 204, "closed when it has none")
    ok([v["name"] for v in m.get("/vcs").json["items"]] == ["default"], "and not shown any more")
    a = m.post("/jobs", {"run": "true", "gpus": 1, "vc": "nlp"})
    ok(a.status == 422 and a.json["code"] == "NoSuchVc", "it takes no jobs", a)
    a = m.ask("PUT", "/config?diff=1", {"policy": "las"})
    ok(a.status == 200 and a.json["before"]["vcs"] == a.json["after"]["vcs"],
       "a file that says nothing of virtual clusters can be read where one was closed", a)
    ok(m.post("/vcs", {"name": "nlp", "quota": {"H100": 4}}).status == 200, "it can be opened again")
    a = m.ask("PUT", "/config", {"policy": "fifo-skip", "licenses": {"matlab": 2}})
    ok(a.status == 200 and m.get("/vcs/nlp").json["guarantee"]["H100"] == 4, "and leaves those there are as they are", a)


def limits(m):
    me = m.get("/whoami").json["user"]
    path = "/users/%s/limits" % me
    ok(m.get(path).json["max_gpus"] is None, "no limits unless told")
    ok(m.ask("PUT", path, {"max_gpus": 4, "max_jobs": 3}).json["max_jobs"] == 3, "limits of a user")
    ok(m.ask("PUT", path, {"max_gpus": -1}).status == 400, "not below zero")
    a = m.post("/jobs", {"run": "true", "gpus": "H100:5"})
    ok(a.status == 422 and a.json["code"] == "UserLimit", "a job that could never start is refused", a)
    jobs = [m.post("/jobs", {"run": "sleep 60", "gpus": "H100:3"}).json["id"] for _ in range(2)]
    ok(m.wait_state(jobs[0], "RUNNING"), "the first runs")
    why = m.get("/jobs/%d/why" % jobs[1]).json
    ok(why["code"] == "UserLimit" and why["tier"] == 3, "the second waits, and is told why", why)
    a = m.post("/jobs", {"run": "true", "gpus": 1, "array": "0-3"})
    ok(a.status == 422 and a.json["code"] == "UserLimit", "too many jobs are refused", a)
    m.ask("DELETE", "/jobs/%d?now=1" % jobs[0])
    ok(m.wait_state(jobs[1], "RUNNING"), "it starts when the first has ended")
    third = m.post("/jobs", {"run": "sleep 60", "gpus": "H100:3"}).json["id"]
    ok(m.get("/jobs/%d" % third).json["reason"]["code"] == "UserLimit", "a third waits")
    m.ask("PUT", path, {"max_gpus": None})
    ok(m.wait_state(third, "RUNNING"), "and starts when the limit is taken away")
    ok(m.ask("PUT", "/users/*/limits", {"max_jobs": 50}).status == 200 and
       m.get("/users/somebody/limits").json["max_jobs"] == 50, "limits of everybody else")
    for job in jobs[1:] + [third]:
        m.ask("DELETE", "/jobs/%d?now=1" % job)


def preview(m):
    """A change that takes GPUs from running jobs says which, and then stops just those."""
    full = [m.post("/jobs", {"run": "sleep 90", "gpus": "H100:8", "time": "%dm" % t, "vc": "prod"}).json["id"]
            for t in (30, 60)]
    ok(all(m.wait_state(j, "RUNNING") for j in full), "prod has everything")
    lab = m.post("/jobs", {"run": "sleep 90", "gpus": "H100:8", "time": "5m", "vc": "lab"}).json["id"]
    ok(m.state(lab) == "PENDING", "lab has nothing",
       m.get("/jobs/%d" % lab))
    wanted = {"policy": "srtf", "vcs": {"prod": {"quota": {"H100": 8}}, "lab": {"quota": {"H100": 8}, "borrow": 8}}}
    a = m.ask("PUT", "/config?diff=1", wanted)
    ok(a.status == 200 and len(a.json["preempts"]) == 1 and a.json["preempts"][0]["job"] in full and
       [s["job"] for s in a.json["starts"]] == [lab], "whom it would preempt, and who would start", a)
    ok(all(m.state(j) == "RUNNING" for j in full), "nobody was")
    victim = a.json["preempts"][0]["job"]
    ok(m.ask("PUT", "/config", wanted).status == 200, "applied")
    ok(m.wait_state(lab, "RUNNING"), "lab runs")
    ok(m.state(victim) == "PENDING" and m.get("/jobs/%d/why" % victim).json["receipt"]["by"] == lab,
       "the one that was named was preempted, for the one that runs", m.get("/jobs/%d/why" % victim))
    ok(m.ask("PUT", "/config?diff=1", {"vcs": {"prod": {"quota": {"H100": 99}}}}).status == 400, "a wrong one is refused")


def reload(m, path):
    with open(path) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(text.replace("lab: {quota: {}", "lab: {quota: {H100: 3}").replace("16", "13"))
    ok(m.post("/config/reload").status == 200, "the file is read again")
    ok(m.until(lambda: m.get("/vcs/lab").json["guarantee"]["H100"] == 3), "and in force", m.get("/vcs/lab"))
    with open(path, "w") as f:
        f.write(text + "colour: red\n")
    a = m.post("/config/reload")
    ok(a.status == 400 and "colour" in a.json["detail"], "what is wrong in it is told, with the line", a)
    found = m.get("/config/discover").json["file"]
    ok([n["name"] for n in found["racks"][0]["nodes"]] == ["gpu01", "gpu02"] and "prod" in found["vcs"],
       "what agents report, as a cluster file", found)


def busy_gpu(m):
    """A GPU that is drained while a job has it keeps that job, and is given to nobody afterwards."""
    m.until(lambda: not m.get("/jobs").json["items"])
    job = m.post("/jobs", {"run": "sleep 60", "nodes": 1, "per_node": {"gpu": "H100:8"}}).json["id"]
    m.wait_state(job, "RUNNING")
    place = m.get("/jobs/%d" % job).json["placement"][0]["node"]
    a = m.ask("PATCH", "/nodes/%s/gpus/3" % place, {"drain": True, "reason": "fan is loud"})
    ok(a.status == 200 and m.state(job) == "RUNNING", "the job stays", a)
    wide = m.post("/jobs", {"run": "sleep 60", "gpus": "H100:16"}).json["id"]
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    ok(m.wait_state(job, "CANCELLED"), "it ends")
    ok(m.until(lambda: m.get("/nodes/%s/gpus/3" % place).json["state"] == "drained"), "the GPU is out of use",
       m.get("/nodes/%s/gpus/3" % place))
    ok(m.state(wide) == "PENDING" and m.get("/gpus").json["items"][0]["free"] == 15, "nobody was given it",
       m.get("/jobs/%d" % wide))
    m.ask("PATCH", "/nodes/%s/gpus/3" % place, {"drain": False})
    ok(m.wait_state(wide, "RUNNING"), "used again when resumed")
    m.ask("DELETE", "/jobs/%d?now=1" % wide)
    m.wait_state(wide, "CANCELLED")


def foreign(m, state):
    """Processes that muster did not start: their GPU is not offered, and who they are is told."""
    path = os.path.join(state, "nodes", "gpu01", "gpu-health")
    sleeper = subprocess.Popen(["sleep", "60"])
    with open(path, "w") as f:
        f.write("5 foreign %d\n" % sleeper.pid)
    gpu = "/nodes/gpu01/gpus/5"
    ok(m.until(lambda: m.get(gpu).json["state"] == "foreign", 30), "a GPU that others use", m.get(gpu))
    ok("process %d of " % sleeper.pid in m.get(gpu).json["reason"], "by whom", m.get(gpu))
    ok(m.get("/nodes/gpu01").json["foreign"] == 1 and m.get("/gpus").json["items"][0]["free"] == 15, "it is not offered")
    told = [a["hint"] for a in m.get("/alerts").json["items"] if a["kind"] == "ForeignUse"]
    ok(told == ["muster node show gpu01 names the process"], "and an alert says so, with a command that can be copied", told)
    os.remove(path)
    sleeper.kill()
    sleeper.wait()
    ok(m.until(lambda: m.get(gpu).json["state"] == "free", 30), "offered again when they have left")
    with open(path, "w") as f:
        f.write("2 XID 79\n")
    ok(m.until(lambda: m.get("/nodes/gpu01/gpus/2").json["state"] == "unhealthy", 30), "a GPU that fell off the bus")
    ok(b'muster_gpu_xid_total{node="gpu01",gpu="2",xid="79"} 1' in m.get("//metrics").body, "is counted by its error")
    os.remove(path)


NOTIFY = """#!/bin/sh
case $1 in *flaky*) [ -e "%(folder)s/flaky" ] || { touch "%(folder)s/flaky"; exit 1; } ;; esac
printf '%%s %%s\\n' "$1" "$2" >>"%(folder)s/told"
"""


def told(m, folder):
    """Secrets reach the job and nobody else; people and programs are told what they asked for."""
    a = m.post("/jobs", {"run": "true", "gpus": 1, "secrets": ["HF_TOKEN"]})
    ok(a.status == 400 and "HF_TOKEN" in a.json["detail"], "a secret that was not kept", a)
    ok(m.ask("PUT", "/secrets/HF_TOKEN", {"value": "s3cret"}).status == 204, "kept")
    ok(m.ask("PUT", "/secrets/1x", {"value": "s"}).status == 400, "a name that is none")
    ok(m.get("/secrets").json["items"] == [{"name": "HF_TOKEN"}], "its name is shown, and nothing else")
    job = m.post("/jobs", {"run": "echo got $HF_TOKEN", "gpus": 1, "secrets": ["HF_TOKEN"],
                           "notify": ["start=https://flaky.example/x", "end=mailto:me"]}).json["id"]
    ok(m.wait_state(job, "COMPLETED"), "the job runs")
    ok(m.get("/jobs/%d/logs" % job).body == b"got s3cret\n", "and has it")
    ok(b"s3cret" not in m.get("/jobs/%d" % job).body + m.get("/history").body + m.get("/events").body, "nobody is told it")
    ok(m.post("/webhooks", {"to": "ftp://x"}).status == 400, "a webhook to nowhere")
    ok(m.post("/webhooks", {"to": "https://hook.example/", "kinds": ["job.ended"]}).status == 204, "a webhook")
    bad = m.post("/jobs", {"run": "exit 3", "gpus": 1, "notify": ["end=mailto:me", "fail=mailto:boss"]}).json["id"]
    m.wait_state(bad, "FAILED")

    def lines():
        if not os.path.exists(os.path.join(folder, "told")):
            return []
        with open(os.path.join(folder, "told")) as f:
            return [(line.split(" ", 1)[0], json.loads(line.split(" ", 1)[1])) for line in f]

    ok(m.until(lambda: len(lines()) == 4, 20), "all of it is told, what failed again", lines())
    got = {(to, text["kind"], text["job"]) for to, text in lines()}
    ok(got == {("https://flaky.example/x", "job.running", job), ("mailto:me", "job.ended", job),
               ("mailto:boss", "job.ended", bad), ("https://hook.example/", "job.ended", bad)}, "to whom it was asked for", got)
    m.until(lambda: m.get("/webhooks").json["sent"] == 4, 20)  # told is what the program wrote; sent, when it has ended
    hook = m.get("/webhooks").json
    ok(hook["sent"] == 4 and m.ask("DELETE", "/webhooks/" + hook["items"][0]["id"]).status == 204, "counted; removed", hook)
    ok(m.ask("DELETE", "/secrets/HF_TOKEN").status == 204 and m.ask("DELETE", "/secrets/HF_TOKEN").status == 404, "forgotten")


def main():
    with tempfile.TemporaryDirectory() as folder:
        with Musterd("2x8:H100", state=os.path.join(folder, "s")) as m:
            m.wait_nodes(2)
            vcs(m)
            limits(m)
            busy_gpu(m)
            foreign(m, os.path.join(folder, "s"))
            m.stop()
            m.start()
            m.wait_nodes(2)
            ok(m.post("/jobs", {"run": "true", "gpus": 1, "notify": ["end=https://x"]}).status == 422,
               "who tells nobody says so")
            ok(m.get("/users/x/limits").json["max_jobs"] == 50 and m.get("/vcs/nlp").json["guarantee"]["H100"] == 4,
               "all of it is there after a restart")
        path = os.path.join(folder, "muster.yaml")
        with open(path, "w") as f:
            f.write(CONFIG % os.path.join(folder, "t") + "notify: %s/notify\n" % folder)
        with open(os.path.join(folder, "notify"), "w") as f:
            f.write(NOTIFY % {"folder": folder})
        os.chmod(os.path.join(folder, "notify"), 0o755)
        with Musterd("2x8:H100", args=["--config", path]) as m:
            m.wait_nodes(2)
            idle = m.post("/jobs", {"run": "sleep 120", "gpus": 1, "idle_timeout": "4s"}).json["id"]
            rests = m.post("/jobs", {"run": "sleep 120", "gpus": 1, "idle_timeout": "4s"}).json["id"]
            m.wait_state(rests, "RUNNING")
            m.post("/jobs/%d/suspend" % rests, {})
            told(m, folder)
            ok(m.wait_state(idle, "CANCELLED", 40) and "idle" in m.get("/jobs/%d" % idle).json["end_text"],
               "a job that asked for it is ended when its GPUs are idle", m.get("/jobs/%d" % idle))
            ok(m.state(rests) == "SUSPENDED", "one that a person has suspended is not idle", m.get("/jobs/%d" % rests))
            m.post("/jobs/%d/resume" % rests, {})
            m.wait_state(rests, "RUNNING")
            resumed = time.time()
            ok(m.wait_state(rests, "CANCELLED", 40) and time.time() - resumed >= 4,
               "and has its time again when it goes on", time.time() - resumed)
            a = m.post("/login", {"user": "a", "password": "b"})
            ok(a.status == 501 and a.json["hints"], "where passwords are not taken people are told what is", a)
            preview(m)
            reload(m, path)
    done()


main()
