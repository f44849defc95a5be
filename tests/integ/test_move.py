#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Moves of running jobs on two agents: one that comes off, one whose node is lost on the way, one that is cancelled."""
import os
import re
import tempfile

from cluster import Agents, Musterd, agent, done, ok

# Saves itself when it is told to leave, which lasts until the test says so.
MOVER = """
trap 'touch %(f)s/told; while [ ! -e %(f)s/save ]; do sleep 0.05; done; touch %(f)s/saved; exit 85' TERM
echo $MUSTER_ATTEMPT >>%(f)s/starts
while :; do sleep 0.05; done
"""


def nodes_of(m, job):
    return m.get("/jobs/%d" % job).json["nodelist"]


def submit(m, **job):
    return m.post("/jobs", dict({"run": "sleep 600", "time": "1h"}, **job)).json["id"]


class Stage:
    """n0 has only `mover` when `large` comes, which wants all of it: the one is told to leave for n1."""

    def __init__(self, m, folder):
        self.m, self.folder = m, folder
        os.makedirs(folder)
        first = submit(m, gpus=3)
        self.mover = submit(m, gpus=1, run=MOVER % {"f": folder}, grace="5m")
        rest = submit(m, gpus=2)
        ok(all(m.wait_state(j, "RUNNING") for j in (first, self.mover, rest)) and nodes_of(m, first) == nodes_of(m, self.mover),
           "one beside others", [m.get("/jobs/%d" % j) for j in (first, self.mover, rest)])
        self.home, self.away = nodes_of(m, self.mover), nodes_of(m, rest)
        m.until(lambda: os.path.exists(folder + "/starts"))
        m.ask("DELETE", "/jobs/%d?now=1" % first)
        m.wait_state(first, "CANCELLED")
        self.large = submit(m, nodes=1, per_node={"gpu": 4})
        ok(m.until(lambda: os.path.exists(folder + "/told")), "told to go elsewhere", m.get("/jobs/%d" % self.mover))
        ok(m.state(self.mover) == "COMPLETING" and m.state(self.large) in ("PENDING", "STARTING"), "nobody is beside it meanwhile",
           (m.state(self.mover), m.state(self.large)))
        self.jobs = (self.mover, rest, self.large)

    def save(self):
        open(self.folder + "/save", "w").close()

    def starts(self):
        with open(self.folder + "/starts") as f:
            return len(f.read().split())

    def end(self):
        self.save()
        for job in self.jobs:
            self.m.ask("DELETE", "/jobs/%d?now=1" % job)
        ok(all(self.m.wait_state(j, ("CANCELLED", "COMPLETED", "FAILED")) for j in self.jobs), "all of it ends")
        idle = lambda: all(n["gpus_used"] == 0 for n in self.m.get("/nodes").json["items"])
        ok(self.m.until(idle), "and nothing is held", self.m.get("/nodes"))


def moves(m, folder):
    stage = Stage(m, folder)
    stage.save()
    ok(m.wait_state(stage.mover, "RUNNING") and nodes_of(m, stage.mover) == stage.away, "it goes on there", m.get("/jobs/%d" % stage.mover))
    ok(m.until(lambda: stage.starts() == 2) and os.path.exists(folder + "/saved"), "in a second attempt, saved before")
    ok(m.wait_state(stage.large, "RUNNING") and nodes_of(m, stage.large) == stage.home, "who waited has its place")
    stage.end()


def cancelled(m, folder):
    stage = Stage(m, folder)
    m.ask("DELETE", "/jobs/%d" % stage.mover)
    stage.save()
    ok(m.wait_state(stage.mover, "CANCELLED") and stage.starts() == 1, "cancelled on its way, it does not come back",
       m.get("/jobs/%d" % stage.mover))
    ok(m.wait_state(stage.large, "RUNNING"), "who waited has its place")
    stage.end()


def lost(m, folder, agents, again):
    """The node it leaves comes back as another machine: what ran there is gone."""
    stage = Stage(m, folder)
    agents[stage.home].kill()
    agents[stage.home].wait()
    agents[stage.home] = again(stage.home)
    ok(m.until(lambda: m.state(stage.mover) == "RUNNING" and nodes_of(m, stage.mover) == stage.away),
       "its node is lost before it is saved: it is run again", m.get("/jobs/%d" % stage.mover))
    ok(m.until(lambda: stage.starts() == 2) and not os.path.exists(folder + "/saved"), "from its last checkpoint")
    cost = re.findall(r'^muster_lost_gpu_seconds\S*cause="node"\S* (\S+)$', m.get("/metrics").body.decode(), re.M)
    ok(sum(map(float, cost)) > 0, "what that cost is booked", cost)
    stage.end()


def main():
    with tempfile.TemporaryDirectory() as folder, Musterd() as m:
        with Agents(m, folder, ("n0", "n1"), 4) as agents:
            ok(m.wait_nodes(2), "two agents")
            m.ask("PATCH", "/scheduler", {"policy": "fifo-skip+migrate"})
            moves(m, folder + "/moves")
            cancelled(m, folder + "/cancelled")
            lost(m, folder + "/lost", agents, lambda name: agent(m, folder, name, 3))
    done()


if __name__ == "__main__":
    main()
