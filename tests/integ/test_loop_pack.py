#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gandiva on real processes: two jobs that use little of their GPUs are packed on one by what they report, and stay; two that
use all of it are taken apart again when they have shown that they gain nothing."""
import tempfile

from cluster import Musterd, done, ok
from loop import Trainer, configured

PACK = {"quantum": "10m", "optimise": "pack", "pack_window": "4s", "pack_report": "2s"}


def places(m, jobs):
    """The GPUs of those that run."""
    at = {}
    for j in jobs:
        job = m.get("/jobs/%d" % j).json
        if job["state"] == "RUNNING":
            for p in job["placement"]:
                at.setdefault((p["node"], tuple(p["gpus"])), []).append(j)
    return at


def pair(m, jobs):
    """Those that share a GPU; nothing where none do."""
    return next((who for who in places(m, jobs).values() if len(who) == 2), [])


def pretended(m):
    """Tasks that only pretend to run slow each other by what they use: three light ones find room on two GPUs, and none of them
    is slower for it; two that use four fifths each are."""
    jobs = [m.post("/jobs", {"run": "true", "gpus": 1, "emulate": {"run": "600s"}, "training": {"utilisation": 40}}).json["id"]
            for _ in range(3)]
    ok(m.until(lambda: pair(m, jobs), 60), "emulated jobs are packed by what they report", places(m, jobs))
    rate = lambda j: (m.get("/jobs/%d" % j).json["progress"] or {}).get("rate")
    ok(m.until(lambda: all(rate(j) for j in pair(m, jobs)), 20), "they report", [rate(j) for j in jobs])
    ok(all(rate(j) == 10 for j in jobs if rate(j)), "ten steps a second each, as alone", [rate(j) for j in jobs])
    ok(m.get("/jobs/%d" % jobs[0]).json["progress"]["source"] == "emulated", "and say that it is pretended")
    for j in jobs:
        m.post("/jobs/%d/cancel" % j)
    jobs = [m.post("/jobs", {"run": "true", "gpus": 1, "emulate": {"run": "600s"}}).json["id"] for _ in range(3)]
    ok(m.until(lambda: len(pair(m, jobs)) == 2 and all((rate(j) or 10) < 6 for j in pair(m, jobs)), 60),
       "of two that use 80 % each both make less than six tenths", [(rate(j), places(m, jobs)) for j in jobs])
    for j in jobs:
        m.post("/jobs/%d/cancel" % j)


def main():
    with tempfile.TemporaryDirectory() as folder, \
            Musterd("2x1:H100", args=["--config", configured(folder, "2s")]) as m:
        m.wait_nodes(2)
        a = m.ask("PUT", "/vcs/default", {"quota": {"H100": 2}, "policy": "gandiva", "set": PACK})
        ok(a.status == 200, "gandiva packs", a)
        pretended(m)
        t = Trainer(m, folder)
        light = [t.submit(100000, 0.2, 0.05, gpus=1, name="light") for _ in range(3)]
        ok(m.until(lambda: pair(m, light), 60), "two jobs that use little of a GPU share one", places(m, light))
        ok(m.until(lambda: sum(len(w) for w in places(m, light).values()) == 3, 30), "so that the third runs too", places(m, light))
        for j in light:
            m.post("/jobs/%d/cancel" % j)
        # Each takes all of a GPU: as a pair they make as many steps as in turns.
        heavy = [t.submit(100000, 0.01, 0.2, gpus=1, name="heavy") for _ in range(3)]
        ok(m.until(lambda: pair(m, heavy), 60), "two that use all of one are tried as well", places(m, heavy))
        first = pair(m, heavy)
        # Between two disturbances of a job lies a minute.
        ok(m.until(lambda: pair(m, heavy) != first, 100), "and are apart again when they have lost by it", places(m, heavy))
    done()


main()
