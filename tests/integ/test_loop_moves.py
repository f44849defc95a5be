#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A gang that lies scattered is moved together when there is room, and taken back where it is slower there, by what it reports of
its steps. Real processes."""
import tempfile

from cluster import Musterd, done, ok
from loop import Trainer, configured


def nodes(m, job):
    return sorted(p["node"] for p in m.get("/jobs/%d" % job).json["placement"])


def main():
    with tempfile.TemporaryDirectory() as folder, \
            Musterd("2x4:H100", args=["--config", configured(folder, "2s")]) as m:
        m.wait_nodes(2)
        a = m.ask("PUT", "/vcs/default", {"quota": {"H100": 8}, "policy": "fifo-skip", "optimise": ["migrate"]})
        ok(a.status == 200, "moves", a)
        t = Trainer(m, folder)
        first, second = sorted(n["name"] for n in m.get("/nodes").json["items"])
        held = [t.submit(100000, 0.1, 0.01, gpus=g, nodelist=n) for g, n in ((2, first), (1, first), (3, second))]
        ok(all(m.wait_state(j, "RUNNING") for j in held), "a GPU of each node is left")
        gang = t.submit(100000, 0.1, 0.01, gpus=2, env={"SLOW": first})
        ok(m.until(lambda: nodes(m, gang) == [first, second], 20), "a gang lies on both", nodes(m, gang))
        rate = lambda: (m.get("/jobs/%d" % gang).json["progress"] or {}).get("rate")
        ok(m.until(rate, 20), "and says how fast it is", rate())
        for j in (held[2], held[1]):
            m.post("/jobs/%d/cancel" % j)
            ok(m.wait_state(j, "CANCELLED"), "others go")
        ok(m.until(lambda: nodes(m, gang) == [first], 60), "it comes together on the fuller node", nodes(m, gang))
        # Between two disturbances of a job lies a minute.
        ok(m.until(lambda: nodes(m, gang) == [first, second] and m.state(gang) == "RUNNING", 100),
           "and goes back when it is slower there", (nodes(m, gang), rate()))
        for j in (held[0], gang):
            m.post("/jobs/%d/cancel" % j)
    done()


main()
