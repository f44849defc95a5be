#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""AntMan on real processes: a job of class auto becomes a guest when it has waited, and owns its GPU when the owner has gone; a
guest that comes to nothing beside its owner, as it is measured there, is sent away."""
import tempfile
import time

from cluster import Musterd, done, ok
from loop import Trainer, configured


def both_run(m, *jobs):
    return all(m.state(j) == "RUNNING" for j in jobs)


def converted(m, t):
    owner = t.submit(100000, 0.15, 0.05, gpus=1)
    ok(m.wait_state(owner, "RUNNING"), "an owner runs")
    auto = t.submit(100000, 0.15, 0.05, gpus=1, **{"class": "auto"})
    ok(m.until(lambda: both_run(m, owner, auto), 40), "a job of class auto waits for a while, and is a guest then",
       m.get("/jobs/%d" % auto).json["reason"])
    m.post("/jobs/%d/cancel" % owner)
    ok(m.wait_state(owner, "CANCELLED"), "the owner goes")
    time.sleep(1)
    third = t.submit(100000, 0.15, 0.05, gpus=1)
    time.sleep(3)
    ok(m.state(third) == "PENDING" and m.state(auto) == "RUNNING", "the guest owns the GPU now: another guaranteed job waits",
       (m.state(third), m.state(auto)))
    ok(m.get("/jobs/%d" % auto).json["attempt"] == 0, "and it was not stopped for that")
    for j in (auto, third):
        m.post("/jobs/%d/cancel" % j)
    ok(m.wait_state(auto, "CANCELLED") and m.wait_state(third, "CANCELLED"), "both go")


def sent_away(m, t):
    owner = t.submit(100000, 0.15, 0.05, gpus=1)
    ok(m.wait_state(owner, "RUNNING"), "an owner runs")
    # It says that alone it keeps its GPU busy; what it does beside the owner is next to nothing.
    guest = t.submit(100000, 5, 0.01, gpus=1, priority="oppo", training={"utilisation": 90})
    ok(m.until(lambda: m.get("/jobs/%d" % guest).json["preemptions"] > 0, 60), "a guest that comes to nothing is sent away",
       m.get("/jobs/%d" % guest).json["state"])
    ok(m.state(owner) == "RUNNING" and m.get("/jobs/%d" % owner).json["attempt"] == 0, "its owner has not noticed")
    for j in (owner, guest):
        m.post("/jobs/%d/cancel" % j)


def main():
    with tempfile.TemporaryDirectory() as folder, \
            Musterd("1x1:H100", args=["--config", configured(folder)]) as m:
        m.wait_nodes(1)
        a = m.ask("PUT", "/vcs/default", {"quota": {"H100": 1}, "policy": "antman", "set": {"auto": "2s", "worth": "0.2"}})
        ok(a.status == 200, "antman", a)
        a = m.post("/jobs", {"run": "true", "gpus": 1, "class": "auto", "priority": "oppo"})
        ok(a.status == 400 and "class" in a.body.decode(), "class auto is not for guests to begin with", a)
        t = Trainer(m, folder)
        converted(m, t)
        sent_away(m, t)
    done()


main()
