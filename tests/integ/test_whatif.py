#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What-if in a real controller: its own history under other policies, the figures those of `muster sim compare`."""
import json
import os
import subprocess
import tempfile
import time

from cluster import BUILD, Musterd, done, ok

MUSTER = os.path.abspath(os.path.join(BUILD, "muster"))
# Of this machine and this time; everything else repeats.
TIMING = {"decisions_per_second", "wall_seconds", "peak_rss_bytes", "label", "trace", "cluster", "settings",
          "series", "queue_seconds_by_percentile", "jct_seconds_by_percentile"}


def muster(m, *args, code=0):
    env = dict(os.environ, MUSTER_URL="http://%s:%d" % (m.host, m.port))
    run = subprocess.run([MUSTER, *args], env=env, capture_output=True, text=True, timeout=120)
    ok(run.returncode == code, "muster %s: exit %d" % (" ".join(args)[:60], code), run.stdout + run.stderr)
    return run


def wait_sim(m, number, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        sim = m.get("/sim/%d" % number).json
        if sim["state"] in ("done", "failed"):
            return sim
        time.sleep(0.05)
    return sim


def history(m):
    """Jobs of several sizes that wait for each other, and two kinds that leave no work behind."""
    ids = []
    for i in range(40):
        ids.append(m.post("/jobs", {"name": "j%d" % i, "run": "sleep 0.%d" % (i % 4), "gpus": (1, 8, 2, 4)[i % 4],
                                    "time": "1m"}).json["id"])
    for i in ids:
        m.wait_state(i, "COMPLETED")
    for _ in range(50):  # the end of a job reaches the store with the next thing that happens
        held = m.post("/jobs", {"run": "true", "gpus": 1, "hold": True}).json["id"]
        m.ask("DELETE", "/jobs/%d" % held)
        sim = wait_sim(m, m.post("/sim", {"policies": ["fifo"]}).json["id"])
        if sim["jobs"] == len(ids) and "never ran" in sim["notes"]:
            break


def figures(run):
    return {k: v for k, v in run.items() if k not in TIMING}


def compare(m):
    with tempfile.TemporaryDirectory() as folder:
        out = muster(m, "whatif", "--policy", "present,fifo,srsf,las", "--export", folder + "/x", "--json").stdout
        sim = json.loads(out)
        ok(sim["state"] == "done" and sim["jobs"] == 40, "all that ran, and no more", {k: sim[k] for k in ("jobs", "notes")})
        ok("never ran" in sim["notes"], "what was left out is said", sim["notes"])
        ok([r["label"] for r in sim["items"]] == ["present", "fifo", "srsf", "las"], "in the order asked for")
        ok(sim["items"][0]["policy"] == "fifo-skip", "present is what the controller does", sim["items"][0]["policy"])
        for run, command in zip(sim["items"], sim["commands"]):
            words = command.split()
            alone = subprocess.run([MUSTER] + words[1:] + ["--json"], cwd=folder + "/x", capture_output=True, text=True)
            theirs = json.loads(alone.stdout)["items"][0] if alone.returncode == 0 else {}
            ok(figures(run) == figures(theirs), "%s: the figures of muster sim compare on the export" % run["label"],
               alone.stderr or [k for k in figures(run) if run[k] != theirs.get(k)])
        ok(all(len(r["queue_seconds_by_percentile"]) == 101 and r["series"]["gpus_used_total_jobs_waiting"]
               for r in sim["items"]), "with curves")
    table = muster(m, "whatif", "-P", "fifo,srsf").stdout
    ok(muster(m, "sim", "replay", "-P", "fifo,srsf").stdout == table, "muster sim replay is the same")
    ok(table.split("\n")[0].split()[:3] == ["POLICY", "JOBS", "AVG-WAIT"] and "srsf" in table, "a table", table)


def capacity(m):
    def gpus(**more):
        sim = wait_sim(m, m.post("/sim", dict(policies=["fifo"], **more)).json["id"])
        return sim["items"][0]["gpus"] if sim["items"] else sim["error"]
    ok(gpus() == 16, "the cluster as it is")
    ok(gpus(add_nodes=[{"count": 2, "gpus": 4, "sku": "A100"}]) == 24, "with more nodes")
    ok(gpus(remove_nodes=["gpu02"]) == 8, "with fewer")
    smaller = wait_sim(m, m.post("/sim", {"policies": ["fifo", "srsf"], "remove_nodes": ["gpu02"]}).json["id"])
    ok(smaller["items"][0]["avg_queue_seconds"] > 0, "half the cluster: they wait",
       [r["avg_queue_seconds"] for r in smaller["items"]])


def vcs(m):
    split = {"a": {"quota": 8, "policy": "srsf"}, "b": {"quota": 8}}
    rows = ["id,submit,duration,gpus,user,vc"] + ["%d,%d,100,4,u%d,%s" % (i, i, i % 3, "ab"[i % 2]) for i in range(1, 25)]
    sim = wait_sim(m, m.post("/sim", {"policies": ["present", "fifo"], "trace": "\n".join(rows) + "\n", "vcs": split}).json["id"])
    ok(sim["state"] == "done" and sim["source"] == "trace" and sim["jobs"] == 24, "a trace, with other virtual clusters", sim["error"])
    ok(all(set(r["by_vc"]) == {"a", "b"} and 0 < r["fairness_ratio"] <= 1 for r in sim["items"]), "by virtual cluster",
       [r.get("by_vc") for r in sim["items"]])
    plain = m.get("/sim/%d/cluster-plain.yaml" % sim["id"]).body
    ok(b"srsf" in m.get("/sim/%d/cluster.yaml" % sim["id"]).body and b"srsf" not in plain, "their own policies: present only")


def unfinished(m):
    """Jobs that run and wait are what it is about: with the time they are expected to need."""
    before = wait_sim(m, m.post("/sim", {"policies": ["fifo"]}).json["id"])
    jobs = [m.post("/jobs", {"run": "sleep 600", "gpus": 8, "time": "30m"}).json["id"] for _ in range(6)]
    ok(all(m.wait_state(j, "RUNNING") for j in jobs[:2]) and m.state(jobs[5]) == "PENDING", "two run, four wait")
    sim = wait_sim(m, m.post("/sim", {"policies": ["fifo"]}).json["id"])
    ok(sim["jobs"] == before["jobs"] + 6 and "6 jobs run or wait" in sim["notes"], "all six are counted", (sim["jobs"], sim["notes"]))
    longest = sim["items"][0]["queue_seconds_by_percentile"][100] if sim["items"] else 0
    ok(3590 <= longest <= 3600 + 60, "the last ones wait for two rounds of 30 minutes", (longest, sim["error"]))
    for j in jobs:
        m.ask("DELETE", "/jobs/%d?now=1" % j)
    ok(all(m.wait_state(j, "CANCELLED") for j in jobs), "they end")


def generated(m):
    """A trace of somebody else's virtual clusters, or of none, on a cluster that has its own."""
    split = {"a": {"quota": 8}, "b": {"quota": 8}}
    with tempfile.TemporaryDirectory() as folder:
        for shape in ("r1", "philly"):
            path = os.path.join(folder, shape)
            subprocess.run([MUSTER, "sim", "gen", "-s", shape, "-n", "60", "-o", path], check=True, capture_output=True)
            with open(path) as f:
                sim = wait_sim(m, m.post("/sim", {"policies": ["present", "fifo"], "trace": f.read(), "vcs": split}).json["id"])
            ok(sim["state"] == "done" and sim["jobs"] == 60, "a generated trace (%s) on two virtual clusters" % shape, sim["error"])


def refused(m):
    def bad(text, **body):
        answer = m.post("/sim", body)
        ok(answer.status == 400 and text in answer.json["detail"], "refused: %s" % text, answer)
    bad("policies", policies=[])
    bad("no policy 'nope'", policies=["nope"])
    bad("files cannot be named", policies=["fifo"], set={"history": "/etc/passwd"})
    bad("no setting", policies=["fifo"], set={"--cluster": "x"})
    bad("no node 'x'", policies=["fifo"], remove_nodes=["x"])
    bad("no nodes", policies=["fifo"], remove_nodes=["gpu01", "gpu02"])
    bad("add_nodes", policies=["fifo"], add_nodes=[{"count": 10**9, "gpus": 8, "sku": "H100"}])
    bad("since", policies=["fifo"], since="yesterday")
    bad("trace", policies=["fifo"], trace=7)
    ok(m.post("/sim", {"policies": ["fifo"], "colour": 1}).status == 400, "refused: an unknown key")
    for text, body in (("trace.csv:2", {"trace": "id,submit,duration,gpus\nx,y,z,1\n"}), ("no setting 'nope'", {"set": {"nope": "1"}}),
                       ("expected a job", {"trace": "id,submit,duration,gpus\n"})):
        sim = wait_sim(m, m.post("/sim", dict(policies=["fifo"], **body)).json["id"])
        ok(sim["state"] == "failed" and text in sim["error"], "failed, and says: %s" % text, sim["error"])
    ok(m.get("/sim/4711").status == 404 and m.get("/sim/1/passwd").status == 404, "not there")


def bounds(m):
    rows = ["id,submit,duration,gpus"] + ["%d,%d,%d,%d" % (i, i, 50 + i * 7 % 900, 1 + i % 8) for i in range(1, 30001)]
    text = "\n".join(rows) + "\n"
    answers = [m.post("/sim", {"policies": ["fifo", "srsf"], "trace": text}) for _ in range(6)]
    ok([a.status for a in answers][:4] == [202] * 4, "four may wait", answers[:4])
    ok(answers[-1].status == 429 and "retry-after" in answers[-1].headers, "more are told to come later", answers[-1])
    for a in answers:
        if a.status == 202:
            ok(m.ask("DELETE", "/sim/%d" % a.json["id"]).status == 204, "ended by its owner")
    end = time.time() + 20
    while time.time() < end and any(s["state"] in ("waiting", "running") for s in m.get("/sim").json["items"]):
        time.sleep(0.05)
    ok(wait_sim(m, m.post("/sim", {"policies": ["fifo"]}).json["id"])["state"] == "done", "and others go on")
    token = m.post("/tokens", {"user": "eve", "role": "user"}).json["token"]
    ok(m.ask("GET", "/sim", headers={"Authorization": "Bearer " + token}).json["items"] == [], "others' are not shown")
    for _ in range(20):
        wait_sim(m, m.post("/sim", {"policies": ["fifo"]}).json["id"])
    ok(len(m.get("/sim").json["items"]) == 16, "the newest are kept")


def main():
    with tempfile.TemporaryDirectory() as state:
        with Musterd("2x8:H100", state=state) as m:
            m.wait_nodes(2)
            first = wait_sim(m, m.post("/sim", {"policies": ["fifo"]}).json["id"])
            ok(first["state"] == "failed" and "no job" in first["error"], "nothing has run yet", first["error"])
            history(m)
            for part in (compare, capacity, vcs, unfinished, generated, refused, bounds):
                part(m)
            m.post("/sim", {"policies": ["fifo"]})
            ok(m.stop() == 0, "ends while one runs")
        ok(not os.path.exists(state + "/whatif"), "and leaves nothing behind")
    done()


main()
