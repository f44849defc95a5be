#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Licences: counted for the whole cluster, held by those that run, waited for without holding up anybody; changed while
jobs hold them; there after a restart."""
import os
import signal
import subprocess
import tempfile

from cluster import BUILD, Musterd, done, ok

CONFIG = """
cluster: licensed
licenses: {matlab: 4, foo: 1}
"""


def used(m):
    return {i["name"]: (i["total"], i["used"], i["pending_jobs"]) for i in m.get("/licenses").json["items"]}


def submit(m, licenses, run="sleep 60", **more):
    return m.post("/jobs", dict({"run": run, "gpus": 1, "licenses": licenses}, **more))


def refused(m):
    a = submit(m, "matlb:2")
    ok(a.status == 422 and a.json["code"] == "Infeasible.License" and "matlab (4), foo (1)" in str(a.json["hints"]),
       "a name that nobody counts is refused, with those there are", a)
    a = submit(m, "matlab:5")
    ok(a.status == 422 and "there are 4" in a.json["detail"], "and more than there are", a)
    for wrong in ("matlab:0", "matlab:x", "ma tlab", "", "matlab,matlab", {"matlab": 0}, ["foo", "foo:1"]):
        a = submit(m, wrong)
        ok(a.status == 400 and "licenses" in a.json["detail"], "refused: %r" % (wrong,), a)
    a = m.ask("PUT", "/config?validate=1", {"licenses": {"matlab": -1}})
    ok(a.status == 400 and "licenses.matlab" in a.json["detail"], "a count below 0", a)
    a = m.ask("PUT", "/config?validate=1", {"licenses": ["matlab"]})
    ok(a.status == 400, "no mapping", a)


def waits(m):
    first = submit(m, "matlab:3", time="1h").json["id"]
    ok(m.wait_state(first, "RUNNING"), "one that has its licences runs")
    ok(used(m) == {"matlab": (4, 3, 0), "foo": (1, 0, 0)}, "they are counted", used(m))
    second = submit(m, {"matlab": 2, "foo": 1}).json["id"]
    plain = m.post("/jobs", {"run": "true", "gpus": 1}).json["id"]
    ok(m.wait_state(plain, "COMPLETED"), "whoever lacks one holds up nobody")
    why = m.get("/jobs/%d/why" % second).json
    ok(why["code"] == "LicenseLimit" and why["tier"] == 3 and "matlab: asks for 2, 1 of 4 free" in why["message"],
       "why: which is short", why)
    short = {i["name"]: i for i in why["licenses"]}
    ok(short["matlab"]["short"] and not short["foo"]["short"] and
       [(h["job"], h["count"]) for h in short["matlab"]["heldBy"]] == [(first, 3)] and short["matlab"]["heldBy"][0]["until"],
       "why: who holds it, and until when", why)
    ok(m.get("/jobs/%d" % second).json["licenses"] == {"matlab": 2, "foo": 1}, "the job tells what it asks for")
    plan = m.post("/jobs:plan", {"run": "true", "gpus": 1, "licenses": "foo"}).json
    ok(plan["code"] == "Now", "plan: what is there starts now", plan)
    plan = m.post("/jobs:plan", {"run": "true", "gpus": 1, "licenses": "matlab:2"}).json
    ok(plan["code"] == "Later" and plan["licenses"][0]["short"], "plan: what is not waits", plan)
    text = m.get("//metrics").body
    ok(b'muster_licenses{license="matlab"} 4' in text and b'muster_licenses_used{license="matlab"} 3' in text,
       "they are measured")
    third = submit(m, ["foo"], array="0-2").json["id"]
    tasks = [j["id"] for j in m.get("/jobs?fields=id,array").json["items"] if (j["array"] or {}).get("id") == third]
    ok(m.until(lambda: sorted(m.state(j) for j in tasks) == ["PENDING", "PENDING", "RUNNING"]),
       "of an array each task holds its own", [m.state(j) for j in tasks])
    for job in tasks:
        m.ask("DELETE", "/jobs/%d?now=1" % job)
    m.ask("DELETE", "/jobs/%d?now=1" % first)
    ok(m.wait_state(second, "RUNNING"), "it starts when they are there")
    return second


def kept(m):
    job = submit(m, "foo", run="exit 3", keep_on_fail="5m").json["id"]
    ok(m.until(lambda: (m.get("/jobs/%d" % job).json["reason"] or {}).get("code") == "KeptOnFail") and
       used(m)["foo"] == (1, 1, 0), "who keeps its place after it has failed keeps its licences", m.get("/jobs/%d" % job))
    m.ask("POST", "/jobs/%d/release" % job)
    ok(m.wait_state(job, "FAILED") and m.until(lambda: used(m)["foo"] == (1, 0, 0)), "until it is let go", used(m))


def changes(m, job):
    waiting = submit(m, "matlab:3").json["id"]
    a = m.ask("PUT", "/config", {"licenses": {"bar": 2, "matlab": 1}})
    ok(a.status == 200 and a.json["licenses"] == {"bar": 2, "matlab": 1}, "fewer than are held, and one name less", a)
    ok(used(m) == {"matlab": (1, 2, 1), "foo": (0, 1, 0), "bar": (2, 0, 0)} and m.state(job) == "RUNNING",
       "who holds some keeps them", used(m))
    a = submit(m, "foo")
    ok(a.status == 422 and "bar (2)" in str(a.json["hints"]) and "foo (" not in str(a.json["hints"]), "none of it is left", a)
    other = submit(m, "bar:2").json["id"]
    ok(m.wait_state(other, "RUNNING"), "a new kind is counted")
    why = m.get("/jobs/%d/why" % waiting).json
    ok(why["code"] == "LicenseLimit" and "0 of 1 free" in why["message"], "and one that can have none waits", why)
    return waiting, other


def again(m, job, waiting, other):
    ok(m.state(job) == "RUNNING" and m.state(other) == "RUNNING" and m.state(waiting) == "PENDING", "after a restart")
    ok(used(m) == {"matlab": (4, 2, 1), "foo": (1, 1, 0), "bar": (0, 2, 0)}, "the numbers are those of the file", used(m))
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    ok(m.wait_state(waiting, "RUNNING"), "and those that wait go on", m.get("/jobs/%d/why" % waiting))
    m.ask("DELETE", "/jobs/%d?now=1" % other)
    ok(m.until(lambda: used(m) == {"matlab": (4, 3, 0), "foo": (1, 0, 0)}), "what nobody counts or holds is gone", used(m))


def client(m):
    env = dict(os.environ, MUSTER_URL="http://%s:%d" % (m.host, m.port), NO_COLOR="1")

    def run(*args):
        done_ = subprocess.run([os.path.join(BUILD, "muster")] + list(args), env=env, capture_output=True, text=True)
        return done_.returncode, done_.stdout + done_.stderr

    code, text = run("licenses")
    ok(code == 0 and "NAME" in text and "matlab" in text and " 3 " in text, "muster licenses", text)
    code, text = run("submit", "-L", "matlab:2,foo", "-G", "1", "--wrap", "sleep 60")
    ok(code == 0, "muster submit -L", text)
    code, text = run("queue", "-o", "wide")
    ok("LICENSES" in text and "matlab:2,foo:1" in text and "LicenseLimit" in text, "muster queue -o wide", text)
    job = [w for w in text.split("\n") if "matlab:2,foo:1" in w][0].split()[0]
    code, text = run("why", job)
    ok("licence  matlab: asks for 2, 1 of 4 free; held by" in text, "muster why", text)
    code, text = run("show", job)
    ok("matlab:2,foo:1" in text, "muster show", text)
    code, text = run("plan", "-L", "matlab:2", "-G", "1", "--wrap", "x")
    ok("licence  matlab: asks for 2, 1 of 4 free" in text, "muster plan", text)
    script = "#!/bin/sh\n#SBATCH --licenses=matlab:2\n#SBATCH --gpus=1\ntrue\n"
    path = os.path.join(tempfile.gettempdir(), "licensed-%d.sh" % os.getpid())
    with open(path, "w") as f:
        f.write(script)
    code, text = run("submit", path)
    os.remove(path)
    ok(code == 0, "#SBATCH --licenses", text)
    code, text = run("submit", "-L", "nope", "-G", "1", "--wrap", "x")
    ok(code != 0 and "matlab (4), foo (1)" in text, "refused with what there is", text)


with tempfile.TemporaryDirectory() as folder:
    config = os.path.join(folder, "musterd.yaml")
    with open(config, "w") as f:
        f.write(CONFIG)
    with Musterd("2x4:H100", args=["--config", config], state=os.path.join(folder, "state")) as m:
        m.wait_nodes(2)
        refused(m)
        kept(m)
        job = waits(m)
        waiting, other = changes(m, job)
        m.stop(signal.SIGKILL)
        m.start()
        m.wait_nodes(2)
        again(m, job, waiting, other)
        client(m)
done()
