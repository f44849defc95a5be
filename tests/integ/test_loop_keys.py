#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a submission says of its training reaches the policy: a gang whose model has a large tensor waits to be together, one with
a small one starts scattered (Tiresias); flags say the same as keys."""
import json

from cluster import Musterd, done, muster, ok


def main():
    with Musterd("2x2:H100") as m:
        m.wait_nodes(2)
        a = m.ask("PUT", "/vcs/default", {"quota": {"H100": 4}, "policy": "las", "set": {"place": "skew"}})
        ok(a.status == 200, "las places by skew", a)
        names = [n["name"] for n in m.get("/nodes").json["items"]]
        ones = [m.post("/jobs", {"run": "sleep 1000", "gpus": 1, "nodelist": n}).json["id"] for n in names]
        ok(all(m.wait_state(j, "RUNNING") for j in ones), "a GPU of each node is taken")
        large = m.post("/jobs", {"run": "sleep 1000", "gpus": 2, "training": {"skew": 0.9}}).json["id"]
        got = muster(m, "submit", "--parsable", "-G2", "--training", "skew=0.1", "--training", "model=bert", "--class", "auto",
                     "--progress", r"step=step (\d+)", "--wrap", "sleep 1000")
        ok(got.returncode == 0, "the same by flags", got)
        small = int(got.stdout)
        spec = m.get("/jobs/%d" % small).json["spec"]
        ok(spec["training"] == {"model": "bert", "skew": 0.1} and spec["class"] == "auto" and
           spec["progress"] == {"step": r"step (\d+)"}, "as keys", json.dumps(spec))
        ok(m.wait_state(small, "RUNNING"), "a gang with a small skew starts scattered", m.get("/jobs/%d" % small).json["reason"])
        ok(len(m.get("/jobs/%d" % small).json["placement"]) == 2, "on two nodes", m.get("/jobs/%d" % small).json["placement"])
        ok(m.state(large) == "PENDING", "one with a large skew, which came first, waits to be together", m.state(large))
        for j in ones + [small]:
            m.post("/jobs/%d/cancel" % j)
        ok(m.wait_state(large, "RUNNING") and len(m.get("/jobs/%d" % large).json["placement"]) == 1, "and is, then",
           m.get("/jobs/%d" % large).json["placement"])
        m.post("/jobs/%d/cancel" % large)
    done()


main()
