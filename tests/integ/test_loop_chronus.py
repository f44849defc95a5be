#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chronus on real processes: a deadline is promised by how fast a job was in the profiling pool, not by what its estimate says."""
import datetime
import tempfile

from cluster import Musterd, done, ok
from loop import Trainer, configured


def within(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def verdict(m, job):
    return m.get("/jobs/%d" % job).json["promise"]["state"]


def main():
    with tempfile.TemporaryDirectory() as folder, \
            Musterd("4x2:H100", args=["--config", configured(folder)]) as m:
        m.wait_nodes(4)
        a = m.ask("PUT", "/vcs/default", {"quota": {"H100": 8}, "policy": "chronus",
                                          "set": {"profile": "12s", "pool": "2", "lease": "60s", "slot": "60s"}})
        ok(a.status == 200, "chronus measures jobs for twelve seconds", a)
        t = Trainer(m, folder)
        # 1,200 steps of a twentieth of a second: a minute. Its owner says a quarter of an hour, which would be too late.
        quick = t.submit(1200, 0.02, 0.02, gpus=1, time="15m", deadline=within(300), name="quick")
        # 40,000 steps: more than half an hour. Its owner says two minutes.
        slow = t.submit(40000, 0.02, 0.02, gpus=1, time="2m", deadline=within(300), name="slow")
        ok(m.until(lambda: m.state(quick) == "RUNNING" and m.state(slow) == "RUNNING", 30), "both are in the pool",
           [m.get("/jobs/%d" % j).json["reason"] for j in (quick, slow)])
        ok(m.until(lambda: verdict(m, quick) == "promised", 40),
           "one that is quicker than it says is promised", m.get("/jobs/%d" % quick).json["promise"])
        ok(m.until(lambda: verdict(m, slow) == "declined", 40),
           "one that takes longer than it says is not", m.get("/jobs/%d" % slow).json["promise"])
    done()


main()
