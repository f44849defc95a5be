#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that is over is told as before when the controller has been started anew, and when the book has forgotten it."""
import os
import tempfile
import time

from cluster import Musterd, done, muster, ok

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


def said_over(d, ids, array):
    """Whatever would change a job that is over, that it is over is the answer."""
    for verb in ("cancel", "hold", "release", "requeue", "suspend", "resume"):
        r = muster(d, verb, ids[0])
        ok(r.returncode == 5 and r.stderr == "muster: error: job %s is over [Conflict]\n" % ids[0],
           "%s of one that is over says so" % verb, (r.returncode, r.stderr))
    r = muster(d, "set", ids[1], "time=1h")
    ok(r.returncode == 5 and "is over" in r.stderr, "set too", (r.returncode, r.stderr))
    for verb in ("cancel", "hold"):
        r = muster(d, verb, array)
        ok(r.returncode == 5 and r.stderr == "muster: error: array %d is over [Conflict]\n" % array,
           "%s of an array that is over" % verb, (r.returncode, r.stderr))
    r = muster(d, "hold", array + 100)
    ok(r.returncode == 3 and "no job" in r.stderr, "of one that never was: that there is none", (r.returncode, r.stderr))


def said_over_together(d, ids, never):
    """One action for several says of each what it says of that one alone."""
    for action in ("cancel", "hold", "requeue"):
        a = d.post("/jobs:batch", {"action": action, "ids": [never] + ids + [0]})
        items = a.json["items"]
        ok([i["id"] for i in items] == [never] + ids + [0], "%s of several: each is answered, in order" % action, a)
        ok(all((i["status"], i["code"], i["detail"]) == (409, "Conflict", "job %d is over" % i["id"]) and not i["ok"]
               for i in items[1:-1]), "those that only the store knows are over", items)
        ok(all((i["status"], i["code"], i["detail"]) == (404, "NotFound", "no job %d" % i["id"])
               for i in (items[0], items[-1])), "one that never was is not there", items)


def main():
    with tempfile.TemporaryDirectory() as folder:
        with Musterd("2x8:H100", state=folder) as d:
            d.wait_nodes(2)
            jobs = [submit(d, name="good", run="echo from the past"),
                    submit(d, name="bad", run="echo oh; exit 3", retries=1),
                    submit(d, name="wide", run="echo wide", gpus=None, nodes=2, per_node={"gpu": "8"})]
            array = submit(d, name="sweep", run="echo lr $lr", array={"values": {"lr": ["1", "2", "3"]}})
            gaps = submit(d, name="gaps", run="echo $MUSTER_ARRAY_INDEX", array="5-9,20,31")
            last = submit(d, name="last", run="true")
            elements = ["%d_%d" % (array, i) for i in (0, 1, 2)] + ["%d_%d" % (gaps, i) for i in (5, 7, 9, 20, 31)]
            for job in jobs + elements + [last]:
                d.until(lambda: d.get("/jobs/%s" % job).json["state"] in ("COMPLETED", "FAILED"))
            ids = [str(j) for j in jobs] + elements[2:]
            before = {job: told(d, job) for job in ids}
            ok(all(before[job][""][0] == 200 for job in ids), "jobs end", before)
            ok(before[ids[0]]["/logs"][1] == "from the past\n", "with their output", before[ids[0]]["/logs"])
        with Musterd("2x8:H100", state=folder) as d:
            d.wait_nodes(2)
            said_over_together(d, jobs + [last], last + 100)
            said_over(d, ids, array)
            for job in ids:
                after = told(d, job)
                ok(after == before[job], "job %s is told as before the restart" % job, differing(before[job], after))
            ok(d.get("/jobs/%d" % (array + 100)).status == 404, "one that never was is not there")
            ok(d.get("/jobs/%d_7" % array).status == 404, "nor an element that never was")
            for index in (0, 4, 10, 32):
                ok(d.get("/jobs/%d_%d" % (gaps, index)).status == 404, "nor one with the index %d" % index)
            ok(d.get("/jobs/%d_0" % last).status == 404, "nor one of a job that is no array")
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
