#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that is over is told as before when the controller has been started anew, and when the book has forgotten it."""
import os
import tempfile
import time

from cluster import Musterd, done, ok

PARTS = ("", "/attempts", "/tasks", "/why", "/logs")


def told(d, job):
    """Everything about a job but the version of its page."""
    answers = {part: d.get("/jobs/%s%s" % (job, part)) for part in PARTS}
    return {part: (a.status, a.body.decode()) for part, a in answers.items()}


def submit(d, **job):
    answer = d.post("/jobs", {"gpus": 1, **job})
    return answer.json.get("id")


def differing(before, after):
    return {part: (before[part], after[part]) for part in PARTS if before[part] != after[part]}


def main():
    with tempfile.TemporaryDirectory() as folder:
        with Musterd("2x8:H100", state=folder) as d:
            d.wait_nodes(2)
            jobs = [submit(d, name="good", run="echo from the past"),
                    submit(d, name="bad", run="echo oh; exit 3", retries=1),
                    submit(d, name="wide", run="echo wide", gpus=None, nodes=2, per_node={"gpu": "8"})]
            array = submit(d, name="sweep", run="echo lr $lr", array={"values": {"lr": ["1", "2", "3"]}})
            for job in jobs + ["%d_2" % array]:
                d.until(lambda: d.get("/jobs/%s" % job).json["state"] in ("COMPLETED", "FAILED"))
            ids = [str(j) for j in jobs] + ["%d_2" % array]
            before = {job: told(d, job) for job in ids}
            ok(all(before[job][""][0] == 200 for job in ids), "jobs end", before)
            ok(before[ids[0]]["/logs"][1] == "from the past\n", "with their output", before[ids[0]]["/logs"])
        with Musterd("2x8:H100", state=folder) as d:
            d.wait_nodes(2)
            for job in ids:
                after = told(d, job)
                ok(after == before[job], "job %s is told as before the restart" % job, differing(before[job], after))
            ok(d.get("/jobs/%d" % (array + 100)).status == 404, "one that never was is not there")
            ok(d.get("/jobs/%d_7" % array).status == 404, "nor an element that never was")
            ok(d.ask("DELETE", "/jobs/%s" % ids[0]).status in (404, 409), "nothing can be done to one that is over")
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/etc")
        with open(folder + "/etc/muster.yaml", "w") as f:
            f.write("limits: {finished: 2}\n")
        with Musterd("1x8:H100", state=folder + "/var", args=["--config", folder + "/etc/muster.yaml"]) as d:
            d.wait_nodes(1)
            first = submit(d, name="first", run="echo 1")
            d.wait_state(first, "COMPLETED")
            kept = told(d, first)
            for _ in range(4):
                d.wait_state(submit(d, run="true"), "COMPLETED")
            d.until(lambda: len(d.get("/history").json["items"]) == 5)
            ok(told(d, first) == kept, "one that the book has forgotten is told as before", differing(kept, told(d, first)))
    done()


main()
