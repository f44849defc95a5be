#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes that are chosen by name and label, and nodes that are reserved, where virtual clusters are guaranteed cells: the
cells of a job's virtual cluster are bound on the nodes it chooses, and no reservation breaks anybody's guarantee."""
import os
import tempfile
import time

from cluster import Musterd, done, ok

CELLS = {"vcs": {"default": {"guarantee": {"H100": "2 nodes"}}, "nlp": {"guarantee": {"H100": "1 node"}}}}


def nodes_of(m, job):
    return sorted(p["node"] for p in m.get("/jobs/%d" % job).json["placement"])


def submit(m, **spec):
    return m.post("/jobs", dict({"run": "sleep 60", "gpus": "H100:4", "time": "10m", "vc": "default"}, **spec))


def job_of(m, **spec):
    a = submit(m, **spec)
    if a.status != 201:
        ok(False, "submitted", a)
        return 0
    return a.json["id"]


def runs(m, job, nodes, text):
    good = m.wait_state(job, "RUNNING", 30) and nodes_of(m, job) == nodes
    ok(good, text, m.get("/jobs/%d" % job))


def clear(m):
    m.post("/jobs:batch", {"action": "cancel", "user": m.get("/whoami").json["user"]})
    m.until(lambda: not m.get("/jobs").json["items"])


def choices(m, policy):
    ok(m.ask("PATCH", "/scheduler", {"policy": policy}).status == 200, policy)
    first = job_of(m, nodelist="gpu03")
    runs(m, first, ["gpu03"], "%s: by name" % policy)
    small = job_of(m, exclude="gpu[01-03]", gpus="H100:1")
    runs(m, small, ["gpu04"], "%s: not on these" % policy)
    more = job_of(m, nodelist="gpu04", gpus="H100:3")
    runs(m, more, ["gpu04"], "%s: in a cell that is bound there already" % policy)
    other = job_of(m, nodelist="gpu03", vc="nlp")
    free = job_of(m, vc="nlp", gpus="H100:2", constraint="ib")
    runs(m, free, ["gpu02"], "%s: by label, whoever waits for another node" % policy)
    time.sleep(0.3)
    ok(m.state(other) == "PENDING" and m.state(first) == "RUNNING", "%s: nobody is sent away from its guarantee" % policy)
    m.ask("DELETE", "/jobs/%d?now=1" % free)
    m.ask("DELETE", "/jobs/%d?now=1" % first)
    runs(m, other, ["gpu03"], "%s: it waits for that node, and gets it" % policy)
    guest = job_of(m, nodelist="gpu01", priority=-1)
    runs(m, guest, ["gpu01"], "%s: an opportunistic one chooses too" % policy)
    owner = job_of(m, nodelist="gpu01")
    runs(m, owner, ["gpu01"], "%s: and leaves when that node is chosen inside a guarantee" % policy)
    clear(m)


def refused(m):
    now = int(time.time())
    a = m.post("/reservations", {"name": "wide", "nodes": "gpu[01-02]", "end": now + 600})
    ok(a.status == 409 and "'nlp'" in a.json["detail"] and "1 node" in a.json["detail"],
       "a reservation that breaks a guarantee is refused, and whose", a)
    a = m.post("/reservations", {"name": "one", "nodes": "gpu01", "start": now + 500, "end": now + 600})
    ok(a.status == 200, "what nobody is guaranteed may be reserved", a)
    a = m.post("/reservations", {"name": "two", "nodes": "gpu02", "start": now + 550, "end": now + 650})
    ok(a.status == 409 and "'nlp'" in a.json["detail"], "but not twice at a time", a)
    a = m.post("/reservations", {"name": "two", "nodes": "gpu02", "start": now + 650, "end": now + 700})
    ok(a.status == 200, "one after the other", a)
    a = m.ask("PUT", "/config", {"vcs": {"default": {"guarantee": {"H100": "9 nodes"}}, "nlp": {"guarantee": {"H100": "1 node"}}}})
    ok(a.status >= 400, "more than there is is guaranteed to nobody", a)
    for name in ("one", "two"):
        ok(m.ask("DELETE", "/reservations/" + name).status == 204, "gone")


def reserved(m):
    ok(m.ask("PATCH", "/scheduler", {"policy": "fifo-skip"}).status == 200, "fifo-skip")
    squatter = job_of(m, nodelist="gpu02")
    runs(m, squatter, ["gpu02"], "somebody is on the node")
    now = int(time.time())
    a = m.post("/reservations", {"name": "class", "nodes": "gpu02", "end": now + 600})
    ok(a.status == 200, "reserved, at once", a)
    inside = job_of(m, reservation="class", vc="nlp")
    ok(m.until(lambda: m.state(squatter) != "RUNNING", 40), "who is there is told to leave", m.get("/jobs/%d" % squatter))
    runs(m, inside, ["gpu02"], "a job of the reservation runs there")
    m.ask("DELETE", "/jobs/%d?now=1" % squatter)
    ours = [job_of(m), job_of(m), job_of(m, vc="nlp")]
    ok(all(m.wait_state(job, "RUNNING", 30) for job in ours) and
       sorted(n for job in ours for n in nodes_of(m, job)) == ["gpu01", "gpu03", "gpu04"],
       "and everybody has all that is guaranteed beside it", [m.get("/jobs/%d" % job).json["reason"] for job in ours])
    late = job_of(m)
    guest = job_of(m, gpus="H100:1", priority=-1)
    again = job_of(m, reservation="class", gpus="H100:2")
    time.sleep(0.3)
    ok(m.state(late) == m.state(guest) == m.state(again) == "PENDING", "no more than that")
    m.ask("DELETE", "/jobs/%d?now=1" % inside)
    runs(m, again, ["gpu02"], "the next of the reservation")
    time.sleep(0.3)
    ok(m.state(guest) == "PENDING", "kept is kept, while it is idle", m.get("/jobs/%d" % guest))
    return again, guest, late


def main():
    with tempfile.TemporaryDirectory() as folder:
        with Musterd("4x4:H100", state=os.path.join(folder, "s")) as m:
            m.wait_nodes(4)
            m.ask("PATCH", "/nodes/gpu02", {"labels": {"ib": ""}})
            a = m.ask("PUT", "/config", CELLS)
            ok(a.status == 200, "three of four nodes are guaranteed, as cells", a)
            for policy in ("fifo-skip", "srsf", "backfill-easy", "yarn-cs"):
                choices(m, policy)
            refused(m)
            again, guest, late = reserved(m)
            ok(m.ask("DELETE", "/reservations/class").status == 204, "ended")
            runs(m, guest, ["gpu02"], "then the rest of the node is everybody's")
            ok(m.state(again) == "RUNNING" and m.state(late) == "PENDING", "who runs goes on")
            clear(m)
            a = m.post("/reservations", {"name": "night", "nodes": "gpu03", "end": int(time.time()) + 600})
            ok(a.status == 200, "another one", a)
            m.stop()
            m.start()
            m.wait_nodes(4)
            wide = job_of(m, gpus="H100:8")
            runs(m, wide, ["gpu01", "gpu02"], "after a restart it is in force")
            runs(m, job_of(m, reservation="night"), ["gpu03"], "with its jobs")
            runs(m, job_of(m, vc="nlp"), ["gpu04"], "beside what is guaranteed")
            clear(m)
    done()


main()
