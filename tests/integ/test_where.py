#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes that jobs choose by name and label, and nodes that are kept for some for a time: under several policies, across a
restart, with what is wrong refused."""
import os
import tempfile
import time

from cluster import Musterd, done, muster, ok


def nodes_of(m, job):
    return sorted(p["node"] for p in m.get("/jobs/%d" % job).json["placement"])


def submit(m, **spec):
    return m.post("/jobs", dict({"run": "sleep 60", "gpus": "H100:2", "time": "10m"}, **spec))


def clear(m):
    m.post("/jobs:batch", {"action": "cancel", "user": m.get("/whoami").json["user"]})
    m.until(lambda: not m.get("/jobs").json["items"])


def choices(m, policy):
    ok(m.ask("PATCH", "/scheduler", {"policy": policy}).status == 200, policy)
    job = submit(m, nodelist="gpu[03-04]", gpus="H100:8").json["id"]
    ok(m.wait_state(job, "RUNNING") and nodes_of(m, job) == ["gpu03", "gpu04"], "%s: by name" % policy, nodes_of(m, job))
    other = submit(m, nodelist="gpu03", gpus="H100:2").json["id"]
    free = submit(m, gpus="H100:2").json["id"]
    ok(m.wait_state(free, "RUNNING") and nodes_of(m, free)[0] in ("gpu01", "gpu02"), "%s: others go elsewhere" % policy)
    time.sleep(0.3)
    ok(m.state(other) == "PENDING" and m.state(job) == "RUNNING", "%s: it waits for that node, others are free" % policy,
       m.get("/jobs/%d" % other))
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    ok(m.wait_state(other, "RUNNING") and nodes_of(m, other) == ["gpu03"], "%s: and gets it" % policy)
    job = submit(m, exclude="gpu[01-03]").json["id"]
    ok(m.wait_state(job, "RUNNING") and nodes_of(m, job) == ["gpu04"], "%s: not on these" % policy, nodes_of(m, job))
    job = submit(m, constraint="ib&!old").json["id"]
    ok(m.wait_state(job, "RUNNING") and nodes_of(m, job) == ["gpu02"], "%s: by label" % policy, nodes_of(m, job))
    clear(m)


def labels(m):
    a = m.ask("PATCH", "/nodes/gpu01", {"labels": {"ib": "", "old": "yes"}})
    ok(a.status == 200 and a.json["labels"]["old"] == "yes", "labels", a)
    m.ask("PATCH", "/nodes/gpu02", {"labels": {"ib": "", "gen": "2"}})
    ok(m.ask("PATCH", "/nodes/gpu02", {"labels": {"rack": "r9"}}).status == 400, "where it stands is its agent's word")
    ok(m.ask("PATCH", "/nodes/gpu02", {"labels": {"a b": "x"}}).status == 400, "a label has no blanks")
    a = submit(m, nodelist="gpu9")
    ok(a.status == 422 and "gpu9" in a.json["detail"], "a node that is not there", a)
    a = submit(m, constraint="gen=3")
    ok(a.status == 422 and a.json["code"] == "Infeasible.NodeSize", "labels that no node has", a)
    a = submit(m, constraint="a&&b")
    ok(a.status == 400 and "column 3" in a.json["detail"], "a constraint that is none, with the column", a)
    a = submit(m, nodelist="gpu01", gpus="H100:6")
    ok(a.status == 422 and "4" in a.json["detail"], "more than the chosen nodes have", a)
    job = submit(m, constraint="gen=2").json["id"]
    ok(m.wait_state(job, "RUNNING"), "a label with a value")
    m.ask("PATCH", "/nodes/gpu02", {"labels": {"gen": None}})
    ok(m.state(job) == "RUNNING" and submit(m, constraint="gen=2").status == 422, "who runs stays when it is taken away")
    clear(m)


def plans(m):
    full = submit(m, nodelist="gpu01", gpus="H100:4").json["id"]
    m.wait_state(full, "RUNNING")
    plan = m.post("/jobs:plan", {"run": "true", "gpus": "H100:4", "nodelist": "gpu02", "time": "1m"}).json
    ok(plan["feasible"] and plan["code"] == "Now" and plan["nodelist"] == "gpu02", "a plan knows what it chooses", plan)
    plan = m.post("/jobs:plan", {"run": "true", "gpus": "H100:4", "nodelist": "gpu01", "time": "1m"}).json
    ok(plan["feasible"] and plan["code"] == "Later" and plan["nodelist"] == "gpu01", "and waits for it", plan)
    a = m.post("/jobs:plan", {"run": "true", "gpus": "H100:4", "nodelist": "gpu77"})
    ok(a.status == 422 and "gpu77" in a.json["detail"], "what submitting would refuse is refused", a)
    clear(m)


def reservations(m):
    squatter = submit(m, nodelist="gpu01", gpus="H100:4").json["id"]
    m.wait_state(squatter, "RUNNING")
    now = time.time()
    a = m.post("/reservations", {"name": "demo", "nodes": "gpu[01-02]", "start": int(now + 8), "end": int(now + 600),
                                 "users": [m.get("/whoami").json["user"]], "reason": "a class"})
    ok(a.status == 200 and a.json["state"] == "planned", "made", a)
    plan = m.post("/jobs:plan", {"run": "true", "gpus": "H100:4", "nodelist": "gpu02", "time": "1h"}).json
    ok(any("'demo' of gpu[01-02] begins in 1 min" in w and "-x gpu[01-02]" in w for w in plan["warnings"]), "a plan warns of it", plan)
    plan = m.post("/jobs:plan", {"run": "true", "gpus": "H100:4", "nodelist": "gpu03", "time": "1h"}).json
    ok(plan["warnings"] == [], "but not elsewhere", plan)
    plan = m.post("/jobs:plan", {"run": "true", "gpus": "H100:4", "nodelist": "gpu02", "time": "1s"}).json
    ok(plan["warnings"] == [], "nor one that is over by then", plan)
    why = m.get("/jobs/%d/why" % squatter).json["reservations"]
    ok([r["name"] for r in why] == ["demo"] and "leaves " in muster(m, "why", squatter).stdout, "why tells who runs there when to leave", why)
    ok(m.post("/reservations", {"name": "demo", "nodes": "gpu03", "end": int(now + 60)}).status == 409, "not twice")
    ok(m.post("/reservations", {"name": "x", "nodes": "gpu02", "end": int(now + 60)}).status == 409, "no node twice")
    ok(m.post("/reservations", {"name": "x", "nodes": "gpu09", "end": int(now + 60)}).status == 404, "of nodes there are")
    ok(m.post("/reservations", {"name": "x", "nodes": "gpu03", "end": int(now - 60)}).status == 400, "and a time to come")
    m.post("/reservations", {"name": "others", "nodes": "gpu04", "end": int(now + 600), "users": ["somebody"]})
    ok(submit(m, reservation="others").status == 403, "not for everybody")
    ok(submit(m, reservation="none").status == 422, "one there is not")
    inside = submit(m, reservation="demo", gpus="H100:4").json["id"]
    ok(m.get("/jobs/%d" % inside).json["reason"]["code"] == "ReservationNotStarted", "a job waits for it to begin")
    ok(m.wait_state(inside, "RUNNING", 30) and nodes_of(m, inside)[0] in ("gpu01", "gpu02"), "and runs there",
       m.get("/jobs/%d" % inside))
    ok(m.until(lambda: m.get("/nodes/gpu01").json["reservation"] == "demo"), "the node says so")
    ok(m.until(lambda: m.state(squatter) == "PENDING", 40), "who was there has left", m.get("/jobs/%d" % squatter))
    m.ask("DELETE", "/jobs/%d" % squatter)
    free = submit(m, gpus="H100:4").json["id"]
    ok(m.wait_state(free, "RUNNING") and nodes_of(m, free) == ["gpu03"], "others get what is not kept", nodes_of(m, free))
    wide = submit(m, gpus="H100:4").json["id"]
    late = submit(m, reservation="demo", gpus="H100:8").json["id"]
    time.sleep(0.3)
    ok(m.state(wide) == "PENDING" and m.state(late) == "PENDING", "kept is kept, while it is free")
    why = m.get("/jobs/%d/why" % wide).json
    ok("(needs 4, free 0; 8 are reserved for others)" in why["message"] and why["free"] == [],
       "what is reserved is told as such, not as free", why)
    ok(sorted(r["name"] for r in why["reservations"]) == ["demo", "others"] and all(r["end"] for r in why["reservations"]) and
       "reserved gpu[01-02] for demo until " in muster(m, "why", wide).stdout, "and until when", muster(m, "why", wide))
    return inside, wide, late


def ends(m, inside, wide, late):
    ok(m.ask("DELETE", "/reservations/demo").status == 204, "ended before its time")
    ok(m.wait_state(late, "CANCELLED") and "reservation" in m.get("/jobs/%d" % late).json["end_text"],
       "who waited for it ends", m.get("/jobs/%d" % late))
    ok(m.state(inside) == "RUNNING", "who runs goes on")
    ok(m.wait_state(wide, "RUNNING") and nodes_of(m, wide)[0] in ("gpu01", "gpu02"), "and the nodes are everybody's")


def taken_back(m):
    there = submit(m, nodelist="gpu01", gpus="H100:4").json["id"]
    m.wait_state(there, "RUNNING")
    start = time.time() + 3
    m.post("/reservations", {"name": "never", "nodes": "gpu01", "start": int(start), "end": int(start + 600)})
    waits = submit(m, reservation="never").json["id"]
    ok(m.ask("DELETE", "/reservations/never").status == 204 and m.ask("GET", "/reservations/never").status == 404,
       "one that has not begun is taken back, and gone", m.get("/reservations"))
    ok(m.wait_state(waits, "CANCELLED", 2), "who waited for it ends then, not when it would have begun",
       m.get("/jobs/%d" % waits))
    time.sleep(max(0, start + 1 - time.time()))
    ok(m.state(there) == "RUNNING" and m.get("/jobs/%d" % there).json["attempt"] == 0,
       "nobody is sent away when its time comes", m.get("/jobs/%d" % there))
    clear(m)


def main():
    with tempfile.TemporaryDirectory() as folder:
        with Musterd("4x4:H100", state=os.path.join(folder, "s")) as m:
            m.wait_nodes(4)
            labels(m)
            for policy in ("fifo-skip", "srsf", "las", "backfill-easy", "yarn-cs"):
                choices(m, policy)
            m.ask("PATCH", "/scheduler", {"policy": "fifo-skip"})
            plans(m)
            ends(m, *reservations(m))
            clear(m)
            taken_back(m)
            m.stop()
            m.start()
            m.wait_nodes(4)
            ok([r["name"] for r in m.get("/reservations").json["items"]] == ["others"] and
               m.get("/nodes/gpu01").json["labels"]["old"] == "yes", "all of it is there after a restart",
               m.get("/reservations"))
            job = submit(m, constraint="old=yes", gpus="H100:4").json["id"]
            full = submit(m, gpus="H100:16").json["id"]
            ok(m.wait_state(job, "RUNNING") and nodes_of(m, job) == ["gpu01"] and m.state(full) == "PENDING",
               "and in force")
    done()


main()
