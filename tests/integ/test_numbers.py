#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One set of numbers: in random states of a cluster all surfaces tell the same of it.

test_numbers.py [SEED [STATES]]
"""
import json
import os
import random
import subprocess
import sys
import tempfile

from cluster import BUILD, MUSTER, Musterd, done, muster, ok
from openmetrics import problems

VCS = ("default", "nlp", "cv")
STATES = ("PENDING", "STARTING", "RUNNING", "SUSPENDED", "COMPLETING")
SLURM = {"PENDING": "PD", "RUNNING": "R", "SUSPENDED": "S", "COMPLETING": "CG"}
NODE = ("gpus", "gpus_used", "gpus_free", "gpus_down", "foreign", "gpus_drained", "gpus_unhealthy")
SUMMARY = ("total", "used", "free", "down", "foreign", "drained", "unhealthy")


def step(m, rng, nodes):
    """Something happens: people submit, cancel, suspend and resume; administrators drain and resume."""
    jobs = m.get("/jobs?limit=1000&state=PENDING,RUNNING,SUSPENDED").json["items"]
    what = rng.choice(("submit",) * 6 + ("cancel", "suspend", "resume", "hold", "drain", "drain", "gpu", "gpu", "undrain", "array"))
    job = rng.choice(jobs)["id"] if jobs else 0
    node, gpu = rng.choice(nodes), rng.randrange(8)
    if what in ("submit", "array"):
        spec = {"run": "sleep 600", "gpus": rng.choice((1, 1, 2, 4, 8, 12)), "time": "%dm" % rng.randint(5, 90),
                "vc": rng.choice(VCS), "priority": rng.choice(("normal", "normal", "oppo", "high"))}
        if what == "array":
            spec.update(array="1-3", gpus=1)
        elif rng.random() < 0.15:
            spec.update(gpu_share=0.5, gpus=1)
        m.post("/jobs", spec)
    elif what == "cancel" and job:
        m.ask("DELETE", "/jobs/%d?now=1" % job)
    elif what in ("suspend", "resume", "hold") and job:
        m.post("/jobs/%d/%s" % (job, what), {})
    elif what in ("drain", "undrain"):
        m.ask("PATCH", "/nodes/" + node, {"drain": what == "drain", "reason": "test"})
    elif what == "gpu":
        m.ask("PATCH", "/nodes/%s/gpus/%d" % (node, gpu), {"drain": rng.random() < 0.6, "reason": "test"})


def quiet(m):
    """Until nothing is on its way: what is told twice is the same."""
    def still():
        one = m.get("/overview").json
        two = m.get("/overview").json
        moving = sum(one["jobs"].get(s, 0) for s in ("STARTING", "COMPLETING"))
        return moving == 0 and all(one[k] == two[k] for k in ("gpus", "jobs", "vcs"))
    return m.until(still, 20)


def shell(m, name, *words):
    """A name of Slurm."""
    env = dict(os.environ, MUSTER_URL="http://%s:%d" % (m.host, m.port))
    return subprocess.run([name] + list(words), executable=MUSTER, env=env, capture_output=True, text=True, timeout=60).stdout


def of_metrics(m):
    found = {}
    for family in problems(m.get("/metrics").body.decode())[1].values():
        for name, labels, value in family[1]:
            found[(name,) + tuple(sorted(labels.items()))] = value
    return found


def compare(m):
    """Differences between surfaces, in words."""
    out = []
    def same(what, *values):
        if any(abs(v - values[0]) > 1e-6 for v in values):
            out.append((what,) + values)
    o, metrics = m.get("/overview").json, of_metrics(m)
    nodes, gpus = m.get("/nodes").json["items"], m.get("/gpus").json["items"]
    shown = json.loads(muster(m, "gpus", "--json").stdout)["items"]
    for a, b in zip(SUMMARY, NODE):
        same(a, sum(n[b] for n in nodes), sum(g[a] for g in gpus), sum(g[a] for g in o["gpus"]), sum(g[a] for g in shown))
    same("total is all of it", *(sum(g[k] for k in ("used", "free", "down", "foreign")) for g in gpus), *(g["total"] for g in gpus))
    for state in ("used", "free", "down", "foreign"):
        same("muster_gpus " + state, gpus[0][state], metrics[("muster_gpus", ("sku", "H100"), ("state", state))])
    for state in ("drained", "unhealthy"):
        same("muster_gpus_" + state, gpus[0][state], metrics[("muster_gpus_" + state, ("sku", "H100"))])
    letters = "".join(n["gpus"] for n in m.get("/topology").json["items"])
    same("topology: in use", sum(letters.count(c) for c in "us"), gpus[0]["used"])
    jobs = m.get("/jobs?limit=1000&state=" + ",".join(STATES)).json["items"]
    for state in STATES:
        count = sum(j["state"] == state for j in jobs)
        same("jobs " + state, count, o["jobs"].get(state, 0))
        if state in SLURM:
            same("squeue " + state, count, len(shell(m, "squeue", "-r", "-h", "-t", SLURM[state]).split("\n")) - 1)
    waiting = m.get("/queue?limit=1000").json["items"]
    same("waiting", len(waiting), sum(r["jobs"] for r in o["waiting_by_reason"]), sum(v["pending_jobs"] for v in o["vcs"]),
         sum(v for k, v in metrics.items() if k[0] == "muster_jobs_pending"), o["jobs"].get("PENDING", 0))
    same("GPUs waited for", sum(j["gpus"] for j in waiting), sum(r["gpus"] for r in o["waiting_by_reason"]),
         sum(v["pending_gpus"] for v in o["vcs"]), sum(v for k, v in metrics.items() if k[0] == "muster_gpus_pending"))
    told = json.loads(muster(m, "vc", "--json").stdout)["items"]
    for i, vc in enumerate(m.get("/vcs").json["items"]):
        held = lambda oppo: sum(j["gpus"] * j["gpu_share"] / 1000 for j in jobs if j["vc"] == vc["name"] and
                                j["state"] in ("RUNNING", "SUSPENDED") and (j["priority_class"] == "oppo") == oppo)
        mine = [v for v in told if v["name"] == vc["name"]] + [v for v in o["vcs"] if v["name"] == vc["name"]]
        sku = ("sku", "H100"), ("vc", vc["name"])
        same("used by " + vc["name"], sum(vc["used"].values()), held(False), *(sum(v["used"].values()) for v in mine),
             metrics[("muster_vc_gpus_used",) + sku])
        same("opportunistic of " + vc["name"], sum(vc["opportunistic"].values()), held(True))
        same("borrowed by " + vc["name"], vc["borrowed"], *(v["borrowed"] for v in mine), metrics[("muster_vc_gpus_borrowed",) + sku])
        same("lent by " + vc["name"], vc["lent"], *(v["lent"] for v in mine), metrics[("muster_vc_gpus_lent",) + sku])
    return out


def main():
    seed, states = int(sys.argv[1]) if len(sys.argv) > 1 else 1, int(sys.argv[2]) if len(sys.argv) > 2 else 25
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, Musterd("4x8:H100", state=os.path.join(folder, "s")) as m:
        m.wait_nodes(4)
        for name, quota in (("nlp", 8), ("cv", 8)):
            m.post("/vcs", {"name": name, "quota": {"H100": quota}})
        nodes = [n["name"] for n in m.get("/nodes").json["items"]]
        bad = []
        for at in range(states):
            for _ in range(rng.randint(1, 5)):
                step(m, rng, nodes)
            if not quiet(m):
                bad.append((at, "never quiet", m.get("/overview").json["jobs"]))
            if not m.until(lambda: not compare(m), 10):  # what passes between two questions is no difference
                bad += [(at,) + d for d in compare(m)]
        ok(not bad, "%d random states (seed %d): all surfaces tell the same" % (states, seed), "\n".join(map(str, bad[:20])))
    done()


if __name__ == "__main__":
    main()
