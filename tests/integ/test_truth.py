#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the controller answers is true: reasons, plans, reports, the timeline."""
import datetime
import os
import re
import tempfile
import time

from cluster import Musterd, done, muster, ok


def job(m, gpus, run="sleep 600", **more):
    a = m.post("/jobs", dict({"run": run, "gpus": gpus, "time": "1h"}, **more))
    if a.status != 201:
        ok(False, "submitted", a)
    return a.json["id"]


def running(m, *jobs):
    return all(m.wait_state(j, "RUNNING") for j in jobs)


def end_all(m):
    for state in ("PENDING", "RUNNING", "SUSPENDED"):
        for j in m.get("/jobs?limit=1000&state=" + state).json["items"]:
            m.ask("DELETE", "/jobs/%d" % j["id"])
    m.until(lambda: not m.get("/jobs?state=PENDING,STARTING,RUNNING,SUSPENDED,COMPLETING").json["items"])


def why(m, j):
    return m.get("/jobs/%d/why" % j).json


def iso(at):
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def drained_and_full(m):
    """Two nodes full, one drained: what waits waits for jobs to end, not for the node."""
    nodes = [n["name"] for n in m.get("/nodes").json["items"]]
    a, b = job(m, 8), job(m, 8)
    ok(running(m, a, b), "two nodes are full")
    where = m.get("/jobs/%d" % a).json["placement"][0]["node"]
    ok(m.ask("PATCH", "/nodes/" + where, {"drain": True, "reason": "test"}).status == 200, "one is drained")
    c = job(m, 8)
    ok(why(m, c)["code"] == "InsufficientGpus", "a full node that drains is no reason", why(m, c))
    m.ask("DELETE", "/jobs/%d" % a)
    ok(m.until(lambda: why(m, c)["code"] == "NodesUnhealthy"), "when its job has ended, it is", why(m, c))
    listed = m.get("/queue").json["items"][0]["reason"]["code"]
    ok(listed == "NodesUnhealthy", "the queue says the same", listed)
    m.ask("DELETE", "/jobs/%d" % b)
    ok(running(m, c), "it starts where b was")
    d = job(m, 8)
    ok(why(m, d)["code"] == "NodesUnhealthy", "the next one waits for the node")
    m.ask("PATCH", "/nodes/" + where, {"drain": False})
    ok(running(m, d), "and starts when it is back")
    ok(len(nodes) == 2, "two nodes")
    end_all(m)


def follows(m):
    """A reason is that of now, with the numbers of now, whatever it was when the job began to wait."""
    one, two = job(m, 5), job(m, 5)
    ok(running(m, one, two), "3 GPUs are free on each node")
    waits = job(m, 6, nodes=1)
    e = why(m, waits)
    ok(e["code"] == "Fragmented" and "free 6" in e["message"], "enough, and not together", e)
    small = job(m, 3, priority=500)
    ok(running(m, small), "a small one takes three")
    e = why(m, waits)
    ok(e["code"] == "InsufficientGpus" and "free 3" in e["message"], "now there are too few", e)
    ok(m.get("/queue?reason=InsufficientGpus").json["items"], "the queue knows it by that reason")
    end_all(m)


def pending_is_not_running(m):
    full = job(m, 8), job(m, 8)
    ok(running(m, *full), "full")
    again = full[0]
    waits = job(m, 8, priority=500)
    time.sleep(2.2)
    m.post("/jobs/%d/requeue" % again, {})
    ok(running(m, waits), "one makes room for the next")
    m.wait_state(again, "PENDING")
    e = why(m, again)
    ok(e["state"] == "PENDING" and e["pending_seconds"] <= 1, "it waits since it was queued again", e)
    end_all(m)


def holders(m):
    """Who holds GPUs: with the ends that are expected, under the names that the queue has."""
    array = m.post("/jobs", {"run": "sleep 600", "gpus": 4, "time": "30m", "array": "3-4"}).json
    short, long = job(m, 4, time="10m"), job(m, 4)
    ok(m.until(lambda: len(m.get("/jobs?state=RUNNING").json["items"]) == 4), "four run", array)
    waits = job(m, 8, time="5m")
    e = why(m, waits)
    named = {(h["array"]["id"], h["array"]["index"]) for h in e["heldBy"] if h["array"]}
    ok(len(named) == 2 and {i for _, i in named} == {3, 4}, "elements of arrays are named as such", e["heldBy"])
    ok(e["eta"] and all(h["until"] for h in e["heldBy"]), "each with its end", e)
    gap = abs((datetime.datetime.fromisoformat(e["heldBy"][0]["until"][:26]) -
               datetime.datetime.fromisoformat(e["eta"]["at"][:26])).total_seconds())
    ok(gap < 3, "first the one whose end is the expected start", (e["heldBy"], e["eta"]))
    out = muster(m, "why", waits).stdout
    ok(all("%d_%d " % n in out for n in named) and re.search(r"until ~", out), "muster why: the same names", out)
    ok(short and long, "and two more")
    end_all(m)


def terms(m):
    """Idle GPUs that it may not have under its terms, and the terms that would have them."""
    m.post("/vcs", {"name": "nlp", "quota": {"H100": 8}, "borrow": 0})
    a = job(m, 8, vc="nlp")
    ok(running(m, a), "nlp has all of its guarantee")
    b = job(m, 4, vc="nlp")
    e = why(m, b)
    ok(e["code"] == "VcLimit" and "left of its virtual cluster's guarantee" in e["message"], "its guarantee is used", e)
    flags = {s["flags"]: s["ok"] for s in e["startsNowWith"]}
    ok(flags.get("-q oppo") is True and flags.get("-p default") is True, "it would start as an opportunistic job, or elsewhere", flags)
    c = job(m, 8, vc="default")
    running(m, c)
    e = why(m, b)
    ok(not {"-q oppo", "-p default"} & {s["flags"] for s in e["startsNowWith"]}, "not where nothing is idle", e["startsNowWith"])
    end_all(m)


def plans(m):
    """Of what a plan would stop, its own doing only."""
    m.ask("PUT", "/vcs/nlp", {"borrow": 8})
    borrower = job(m, 8, vc="nlp", time="2h")
    guest = job(m, 8, vc="default", priority="oppo", time="2h")
    ok(running(m, borrower, guest), "full: one inside its guarantee, one opportunistic")
    p = m.post("/jobs:plan", {"run": "true", "gpus": 8, "vc": "default", "time": "10m"}).json
    ok(p["preempts"] == [guest], "a guaranteed job stops the opportunistic one", p)
    p = m.post("/jobs:plan", {"run": "true", "gpus": 1, "vc": "default", "priority": "oppo", "time": "10m"}).json
    ok(p["preempts"] == [], "an opportunistic job stops none", p)
    waits = job(m, 8, vc="default", time="10m")
    ok(running(m, waits) and m.wait_state(guest, "PENDING"), "so it happens")
    p = m.post("/jobs:plan", {"run": "true", "gpus": 1, "vc": "default", "priority": "oppo", "time": "10m"}).json
    ok(p["preempts"] == [], "nor does one behind others", p)
    end_all(m)


def whole(report, key):
    return sum(i[key] for i in report["items"])


def reports(m):
    """GPU time adds up, in whatever way it is divided; what is still to come costs nothing."""
    begun = time.time()
    jobs = [job(m, g, run="sleep 600", name="r%d" % g, vc="default" if g > 1 else "nlp") for g in (1, 2, 4)]
    ok(running(m, *jobs), "three run")
    time.sleep(1)
    for end in (3600, 365 * 86400):
        r = m.get("/reports/users?from=%s&to=%s" % (iso(begun), iso(begun + end))).json
        most = 7 * (time.time() - begun)
        ok(0 < whole(r, "gpu_seconds") <= most, "until %d s from now: what was used so far" % end, (r, most))
    m.ask("DELETE", "/jobs/%d" % jobs[0])
    m.wait_state(jobs[0], "CANCELLED")
    past = time.time() - 0.2
    window = "?from=%s&to=%s" % (iso(begun + 0.5), iso(past))
    sums = {k: whole(m.get("/reports/%s%s" % (k, window)).json, "gpu_usec")
            for k in ("users", "vcs", "accounts", "skus", "jobs", "nodes")}
    exact = 0
    for j in jobs:
        for a in m.get("/jobs/%d/attempts" % j).json["items"]:
            stamp = lambda t: int(round(datetime.datetime.fromisoformat(t[:26] + "+00:00").timestamp() * 1e6))
            begin = max(stamp(a["start_time"]), stamp(iso(begun + 0.5)))
            end = min(stamp(a["end_time"]) if a["end_time"] else 1 << 62, stamp(iso(past)))
            exact += max(0, end - begin) * m.get("/jobs/%d" % j).json["gpus"]
    ok(set(sums.values()) == {exact} and exact > 0, "all sums are the GPU time of attempts, to the microsecond", (sums, exact))
    end_all(m)


def overlaps(items, now):
    """Pairs of intervals in which a GPU is booked twice."""
    by, out = {}, []
    for i in items:
        end = i["end"] or i["until"] or now
        for g in i["gpus"]:
            by.setdefault((i["node"], g), []).append((i["start"], end, i["job"], i["planned"]))
    for gpu, list_ in by.items():
        list_.sort()
        for one, two in zip(list_, list_[1:]):
            if two[0] < one[1] and two[2] != one[2] and (datetime.datetime.fromisoformat(one[1][:26]) - datetime.datetime.fromisoformat(two[0][:26])).total_seconds() > 1:
                out.append((gpu, one, two))
    return out


def timeline(m):
    m.ask("PUT", "/vcs/nlp", {"borrow": None})
    for i in range(40):
        a = {"run": "sleep 600", "gpus": (1, 2, 4, 8, 16)[i % 5], "time": "%dm" % (5 + i * 7 % 60), "vc": ("nlp", "default")[i % 2]}
        if i % 7 == 3 and a["gpus"] < 16:
            a["priority"] = "oppo"
        if a["gpus"] == 16:
            a = dict(a, vc="default", priority="oppo")
        m.post("/jobs", a)
    m.until(lambda: len(m.get("/jobs?state=RUNNING").json["items"]) >= 2)
    time.sleep(1.2)
    s = m.get("/schedule").json
    planned = [i for i in s["items"] if i["planned"]]
    ok(len(planned) > 10, "much is planned", len(planned))
    bad = overlaps(s["items"], s["now"])
    ok(not bad, "no GPU is booked twice", bad[:5])
    end_all(m)


def main():
    with tempfile.TemporaryDirectory() as folder, Musterd("2x8:H100", state=os.path.join(folder, "s")) as m:
        m.wait_nodes(2)
        for test in (drained_and_full, follows, pending_is_not_running, holders, terms, plans, reports, timeline):
            test(m)
    done()


if __name__ == "__main__":
    main()
