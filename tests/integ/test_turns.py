#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Policies are changed while jobs run: whatever the last one did to them, all of them end well. Real processes."""
import os
import tempfile
import time

from cluster import Musterd, done, ok

WORK = "i=0; while [ $i -lt %d ]; do sleep 0.1; i=$((i+1)); done"
UNTIL = "while [ ! -e %s ]; do sleep 0.1; done"


def turns_are_over(m, to, folder):
    """Jobs have a place among others, to take turns with them; the next policy knows nothing of turns."""
    a = m.ask("PUT", "/vcs/default", {"policy": "gandiva"})
    ok(a.status == 200, "jobs take turns", a)
    gate = os.path.join(folder, to)
    jobs = [m.post("/jobs", {"run": UNTIL % gate, "gpus": 1}).json["id"] for _ in range(8)]
    state = lambda: [m.state(j) for j in jobs]
    waits = lambda: [(m.get("/jobs/%d" % j).json["reason"] or {}).get("code") for j in jobs]
    ok(m.until(lambda: "Suspended" in waits() and "RUNNING" in state()), "some have a place behind others", (state(), waits()))
    a = m.ask("PUT", "/vcs/default", {"policy": to, "set": None})
    ok(a.status == 200 and m.get("/vcs/default").json["policy"] == to, "the policy changes to " + to, a)
    open(gate, "w").close()
    ok(m.until(lambda: all(s == "COMPLETED" for s in state())), "all of them end well", [m.get("/jobs/%d" % j).json for j in jobs])
    gpus = m.get("/gpus").json["items"][0]
    ok(gpus["used"] == 0 and gpus["free"] == gpus["total"], "no GPU stays taken", gpus)


def turns_are_short(m, folder):
    """Two jobs of the default priority on the same GPUs, turns of a second: each is suspended for the other (once: a
    minute has to pass before the next time), and says so."""
    a = m.ask("PUT", "/vcs/default", {"policy": "gandiva", "set": {"quantum": "1s", "optimise": "none"}})
    ok(a.status == 200, "turns of a second", a)
    gate = os.path.join(folder, "short")
    jobs = [m.post("/jobs", {"run": UNTIL % gate, "gpus": 4, "preempt": "suspend"}).json["id"] for _ in range(2)]
    reasons, holders = {}, {}

    def look():
        for j in jobs:
            job, why = m.get("/jobs/%d" % j).json, m.get("/jobs/%d/why" % j).json
            if job["state"] == "SUSPENDED":
                reasons[j] = job["reason"]["code"]
            if why["state"] == "SUSPENDED" and why["heldBy"]:
                holders.setdefault(j, set()).update(h["job"] for h in why["heldBy"])
        return len(reasons) == 2 and holders

    ok(m.until(look), "they take turns", (reasons, [m.get("/jobs/%d" % j).json for j in jobs]))
    ok(set(reasons.values()) == {"Suspended"}, "a suspended one says that it is not its turn", reasons)
    ok(all(h == set(jobs) - {j} for j, h in holders.items()), "and that the other has what it waits for, not itself", holders)
    open(gate, "w").close()
    ok(m.until(lambda: all(m.state(j) == "COMPLETED" for j in jobs)), "both end", [m.get("/jobs/%d" % j).json for j in jobs])


def by_a_person(m, folder):
    """A job that a person suspends keeps its GPUs: it waits for that person, others for it."""
    m.ask("PUT", "/vcs/default", {"policy": "fifo-skip", "set": None})
    gate = os.path.join(folder, "person")
    first, second = [m.post("/jobs", {"run": UNTIL % gate, "gpus": 4, "time": "1h"}).json["id"] for _ in range(2)]
    ok(m.wait_state(first, "RUNNING") and m.post("/jobs/%d/suspend" % first).status == 200 and m.wait_state(first, "SUSPENDED"),
       "one is suspended by hand", m.state(first))
    a = m.get("/jobs/%d/why" % first).json
    ok(a["code"] == "Held" and not any(a[k] for k in ("heldBy", "free", "ahead", "startsNowWith")),
       "nobody holds what it waits for, least of all itself", a)
    a = m.get("/jobs/%d/why" % second).json
    ok([h["job"] for h in a["heldBy"]] == [first], "for the next one it does", a)
    open(gate, "w").close()
    m.post("/jobs/%d/resume" % first)
    ok(all(m.wait_state(j, "COMPLETED") for j in (first, second)), "both end", [m.state(j) for j in (first, second)])


def all_of_them(m):
    names = m.get("/scheduler").json["policies"]
    names = [n if isinstance(n, str) else n["name"] for n in names]
    ok(len(names) > 15, "there are many", names)
    jobs = [m.post("/jobs", {"run": WORK % 3, "gpus": 1 + n % 2, "time": "1h"}).json["id"] for n in range(24)]
    for name in names:
        # A policy that searches, searches for long where everything it does is checked.
        a = m.ask("PUT", "/vcs/default", {"policy": name, "set": None}, timeout=180)
        ok(a.status == 200, "a change to " + name, a)
        jobs.append(m.post("/jobs", {"run": WORK % 3, "gpus": 2, "time": "1h"}, timeout=180).json["id"])
        time.sleep(0.2)
    m.ask("PUT", "/vcs/default", {"policy": "fifo-skip"})
    left = lambda: [j for j in jobs if m.state(j) != "COMPLETED"]
    ok(m.until(lambda: not left(), 90), "no job is lost on the way", [m.get("/jobs/%d" % j).json for j in left()][:2])
    ok(len(set(jobs)) == len(jobs) and all(m.get("/jobs/%d" % j).json["failures"] == 0 for j in jobs), "and none has failed")


def ahead_once():
    """A job that starts, sinks and starts again in the likely future is ahead of the others once, where it starts first."""
    with Musterd("1x1:H100") as m:
        m.wait_nodes(1)
        m.ask("PUT", "/vcs/default", {"quota": {"H100": 1}, "policy": "las", "set": {"queues": "100s"}})
        runs, again, short, last = (m.post("/jobs", {"run": "sleep 300", "gpus": 1, "time": t, "priority": p}).json["id"]
                                    for t, p in (("5m", "normal"), ("5m", "normal"), ("1m", "normal"), ("1m", "low")))
        ok(m.wait_state(runs, "RUNNING"), "one runs, three wait")

        def planned():
            return [i["job"] for i in m.get("/schedule").json["items"] if i["planned"]]

        ok(m.until(lambda: planned() == [again, short, runs, again, last], 30), "the second starts twice before the last",
           planned())
        ahead = m.get("/jobs/%d/why" % last).json["ahead"]
        ok([a["job"] for a in ahead] == [again, short], "and is ahead of it once", ahead)
        ok([a["start"] for a in ahead] == sorted(a["start"] for a in ahead), "at its first start", ahead)


def main():
    ahead_once()
    with Musterd("1x4:H100") as m, tempfile.TemporaryDirectory() as folder:
        m.wait_nodes(1)
        a = m.ask("PUT", "/vcs/default", {"policy": "gandiva"})
        ok(a.status in (400, 422) and "muster sched policy" in a.body.decode(), "the only one there is: how to change its policy", a)
        m.ask("PUT", "/config", {"vcs": {"default": {"quota": {"H100": 4}}}})
        turns_are_over(m, "fifo-skip", folder)
        turns_are_over(m, "srsf", folder)
        turns_are_short(m, folder)
        by_a_person(m, folder)
        all_of_them(m)
        ok(m.alive(), "musterd is there")
    done()


main()
