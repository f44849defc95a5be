#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a GPU is without work between two jobs: from the last instruction of one to the first of the next, when that
is launched after the GPU was given back, and when it was prepared behind the first (liquid, prestart=on).

    python3 tests/bench/gate.py [PAIRS]
"""
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integ"))
from cluster import Musterd  # noqa: E402


def gaps(m, pairs):
    found = []
    for _ in range(pairs):
        a = m.post("/jobs", {"run": "sleep 0.5; date +%s.%N", "gpus": 1, "time": "60s"}).json["id"]
        b = m.post("/jobs", {"run": "date +%s.%N", "gpus": 1, "time": "60s"}).json["id"]
        m.wait_state(b, "COMPLETED")
        found.append((float(m.get("/jobs/%d/logs" % b).body) - float(m.get("/jobs/%d/logs" % a).body)) * 1000)
    return found


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with Musterd("1x1:H100") as m:
        m.wait_nodes(1)
        for word in ("off", "on"):
            m.ask("PUT", "/vcs/default", {"quota": {"H100": 1}, "policy": "liquid",
                                          "set": {"prestart": word, "prestart-extra": "60s"}})
            found = gaps(m, pairs)
            print("prestart=%-3s  %d pairs  gap p50 %.1f ms  mean %.1f ms  max %.1f ms" %
                  (word, pairs, statistics.median(found), statistics.mean(found), max(found)))


main()
