#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Optimus on real processes: elastic jobs grow by what they report, the one that gains more gets more, and one that says
nothing of itself stays as it is."""
import signal
import tempfile

from cluster import Musterd, done, ok
from loop import Trainer, configured


def gpus(m, job):
    return sum(len(p["gpus"]) for p in m.get("/jobs/%d" % job).json["placement"])


def main():
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as state, \
            Musterd("1x8:H100", state=state, args=["--config", configured(folder)]) as m:
        m.wait_nodes(1)
        a = m.ask("PUT", "/vcs/default", {"quota": {"H100": 8}, "policy": "optimus", "set": {"interval": "3s"}})
        ok(a.status == 200, "optimus, every three seconds", a)
        t = Trainer(m, folder)
        silent = t.submit(100000, 0.01, 0.1, gpus="1..4", env={"SILENT": "1"})
        scales = t.submit(5000, 0.01, 0.4, gpus="1..6")
        serial = t.submit(5000, 0.01, 0.4, 0.95, gpus="1..6")
        most = {}

        def look():
            for j in (silent, scales, serial):
                most[j] = max(most.get(j, 0), gpus(m, j))
            return most[scales] >= 4

        ok(m.until(look, 50), "a job that reports its steps grows from one GPU to four or more", most)
        ok(most[silent] == 1, "one that says nothing keeps its least size", most)
        p = m.get("/jobs/%d" % scales).json["progress"]
        ok(m.until(lambda: (m.get("/jobs/%d" % scales).json["progress"] or {}).get("rate"), 20), "and reports from there", p)
        p = m.get("/jobs/%d" % scales).json["progress"]
        ok(p["step"] > 0, "having gone on where it was", p)
        ok(m.until(lambda: gpus(m, serial) < gpus(m, scales), 40), "one that gains little by GPUs has fewer",
           (gpus(m, serial), gpus(m, scales)))
        # What was measured is in the log: the controller that comes after this one has learned the same.
        ok(m.ask("PUT", "/vcs/default", {"policy": "optimus", "set": {"interval": "1h"}}).status == 200, "nothing is to change now")
        ok(m.until(lambda: all(m.state(j) == "RUNNING" for j in (silent, scales, serial)), 30), "all run")
        before = [gpus(m, j) for j in (silent, scales, serial)]
        m.stop(signal.SIGKILL)
        m.start()
        ok(m.until(lambda: all(m.state(j) == "RUNNING" for j in (silent, scales, serial)), 30), "killed and started again, all run",
           [m.state(j) for j in (silent, scales, serial)])
        ok([gpus(m, j) for j in (silent, scales, serial)] == before, "at the sizes they had", before)
        ok(m.get("/audit").json["ok"], "and the state agrees with itself", m.get("/audit"))
        ok(m.until(lambda: (m.get("/jobs/%d" % scales).json["progress"] or {}).get("rate"), 20), "agents tell how far they are again")
    done()


main()
