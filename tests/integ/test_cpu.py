#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs without GPUs on GPU nodes, from submission to the end, by a real controller and agents: with quotas and with cells,
beside jobs that have every GPU, within the CPUs that are for them."""
import os
import tempfile

from cluster import Musterd, done, ok

NODES = 2
EACH = 16  # of a node's 64 CPUs: a quarter is for jobs without GPUs


def submit(m, **spec):
    return m.post("/jobs", dict({"run": "sleep 60", "gpus": 0, "cpus_per_task": 1, "time": "5m"}, **spec))


def job_of(m, job):
    return m.get("/jobs/%d" % job).json


def clear(m):
    m.post("/jobs:batch", {"action": "cancel", "user": m.get("/whoami").json["user"]})
    m.until(lambda: not m.get("/jobs").json["items"])


def one(m, folder, name, vc):
    """It runs to its end, sees no GPU, and holds none."""
    said = os.path.join(folder, name.replace(" ", "-"))
    a = submit(m, run="echo gpus=${CUDA_VISIBLE_DEVICES:-none} >%s.part && mv %s.part %s && sleep 1" % (said, said, said), vc=vc)
    ok(a.status == 201 and a.json["gpus"] == 0 and a.json["nodes"] == 1 and a.json["gpu_type"] is None, "%s: submitted" % name, a)
    job = a.json["id"]
    ok(m.wait_state(job, "COMPLETED", 30), "%s: it runs to its end" % name, job_of(m, job))
    with open(said, encoding="utf-8") as text:
        text = text.read().strip()
    ok(text in ("gpus=none", "gpus=", "gpus=-1", "gpus=NoDevFiles"), "%s: and sees no GPU" % name, text)
    ok(job_of(m, job)["nodes"] == 1 and job_of(m, job)["gpu_type"] is None, "%s: is on one node, and of no type" % name, job_of(m, job))
    ok(job_of(m, job)["gpu_seconds"] == 0 and job_of(m, job)["exit_code"] == 0, "%s: nor is it charged for one" % name)


def beside(m, name, vc):
    """Jobs that have every GPU of the virtual cluster are in nobody's way, nor is anybody in theirs."""
    wide = m.post("/jobs", {"run": "sleep 60", "gpus": "H100:4", "time": "5m", "vc": vc}).json["id"]
    ok(m.wait_state(wide, "RUNNING"), "%s: GPUs in use" % name, job_of(m, wide))
    mine = submit(m, vc=vc).json["id"]
    ok(m.wait_state(mine, "RUNNING") and "its CPUs" in m.get("/jobs/%d/why" % mine).json["message"], "%s: why it runs" % name,
       m.get("/jobs/%d/why" % mine))
    m.ask("DELETE", "/jobs/%d?now=1" % mine)
    ok(m.wait_state(mine, "CANCELLED"), "%s: and is cancelled" % name)
    full = [submit(m, cpus_per_task=EACH, vc=vc).json["id"] for _ in range(NODES)]
    ok(all(m.wait_state(job, "RUNNING") for job in full), "%s: CPUs beside them" % name)
    ok(sorted(job_of(m, job)["placement"][0]["node"] for job in full) == ["gpu01", "gpu02"],
       "%s: as many on a node as are for them" % name, [job_of(m, job)["placement"] for job in full])
    late = submit(m, vc=vc).json["id"]
    ok(m.state(late) == "PENDING" and job_of(m, late)["reason"]["code"] == "InsufficientCpuMem",
       "%s: one more waits for CPUs" % name, job_of(m, late)["reason"])
    gpu = m.post("/jobs", {"run": "sleep 60", "gpus": "H100:4", "time": "5m", "vc": "default"}).json["id"]
    ok(m.wait_state(gpu, "RUNNING"), "%s: they keep no GPU from anybody" % name, job_of(m, gpu))
    m.ask("DELETE", "/jobs/%d?now=1" % full[0])
    ok(m.wait_state(late, "RUNNING"), "%s: and runs when there are some" % name, job_of(m, late))


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        with Musterd("%dx4:H100" % NODES, state=os.path.join(folder, "s")) as m:
            m.wait_nodes(NODES)
            one(m, folder, "quota", "default")
            beside(m, "quota", "default")
            clear(m)
            cells = {"vcs": {"default": {"guarantee": {"H100": "1 node"}}, "nlp": {"guarantee": {"H100": "1 node"}}}}
            a = m.ask("PUT", "/config", cells)
            ok(a.status == 200, "a node each is guaranteed, as a cell", a)
            a = m.get("/vcs/nlp").json
            ok(a["guarantee"]["H100"] == 4 and a["borrow_max"] == 0, "and nothing beyond it, unless told", a)
            one(m, folder, "cells", "nlp")
            beside(m, "cells", "nlp")
            clear(m)
    done()


main()
