#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What-if in a live controller: how long a comparison takes, with work that grows by 10, and what the others feel.

    python3 tests/bench/whatif.py [JOBS...]     (500 5000)

A week of jobs under six policies, from a trace and from the controller's own history (as many emulated jobs, run by the
controller before). Beside it: the slowest answer of the controller to others meanwhile, and the simulator alone on the
same files as the baseline.
"""
import os
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integ"))
from cluster import BUILD, Musterd  # noqa: E402

MUSTER = os.path.abspath(os.path.join(BUILD, "muster"))
POLICIES = ["fifo", "fifo-skip", "srsf", "las", "yarn-cs", "gittins"]


def week(folder, jobs):
    """A week of Philly's kind of work for 4 nodes of 8."""
    path = os.path.join(folder, "week%d.csv" % jobs)
    subprocess.run([MUSTER, "sim", "gen", "--shape", "philly", "--jobs", str(jobs), "--seed", "1", "-o", path],
                   check=True, stderr=subprocess.DEVNULL)
    return path


class Probe(threading.Thread):
    """Somebody else, asking for the queue again and again."""

    def __init__(self, m):
        super().__init__(daemon=True)
        self.m, self.slowest, self.stop = m, 0, False

    def run(self):
        while not self.stop:
            begin = time.time()
            self.m.get("/jobs?limit=10")
            self.slowest = max(self.slowest, time.time() - begin)
            time.sleep(0.02)


def ask(m, body):
    probe = Probe(m)
    probe.start()
    begin = time.time()
    number = m.post("/sim", dict(policies=POLICIES, **body)).json["id"]
    while True:
        sim = m.get("/sim/%d" % number).json
        if sim["state"] in ("done", "failed"):
            break
        time.sleep(0.02)
    took = time.time() - begin
    probe.stop = True
    probe.join()
    if sim["state"] == "failed":
        sys.exit("whatif: " + sim["error"])
    return took, sim["jobs"], probe.slowest


def alone(path):
    begin = time.time()
    subprocess.run([MUSTER, "sim", "compare", "--cluster", "racks:1 nodes:4 gpus:8 sku:H100", "--trace", path, "--jobs", "1",
                    "--set", "infeasible=skip", "--json"] + ["--policy=" + p for p in POLICIES],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.time() - begin


def fill(m, jobs):
    m.post("/jobs", {"run": "x", "gpus": 1, "array": "1-%d" % jobs, "emulate": {"run": "20ms"}})
    m.until(lambda: m.get("/jobs?limit=1").json["items"] == [], 600)
    m.ask("DELETE", "/jobs/%d" % m.post("/jobs", {"run": "true", "gpus": 1, "hold": True}).json["id"])


def main():
    sizes = [int(a) for a in sys.argv[1:]] or [500, 5000]
    print("%-10s %8s %12s %14s %18s" % ("from", "jobs", "whatif s", "x sim compare", "slowest answer ms"))
    with tempfile.TemporaryDirectory() as folder:
        for jobs in sizes:
            path = week(folder, jobs)
            base = alone(path)
            with Musterd("4x8:H100") as m:
                m.wait_nodes(4)
                with open(path) as f:
                    took, count, slowest = ask(m, {"trace": f.read(), "set": {"quota": "off"}})
                print("%-10s %8d %12.2f %14.2f %18.1f" % ("trace", count, took, took / base, slowest * 1000))
                fill(m, jobs)
                took, count, slowest = ask(m, {})
                print("%-10s %8d %12.2f %14s %18.1f" % ("history", count, took, "-", slowest * 1000))
                sys.stdout.flush()


main()
