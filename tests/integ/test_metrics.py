#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures: /metrics is valid OpenMetrics with every series muster-metrics(7) names and only bounded labels; series over
time; alerts; reports that add up, as JSON and as CSV."""
import csv
import io
import os
import re
import tempfile
import time

import openmetrics
from cluster import Musterd, done, ok

SOURCE = os.environ.get("MUSTER_SOURCE", ".")

# name: (type, labels) as in muster-metrics(7)
TABLE = {
    "muster_build_info": ("gauge", "version"), "muster_leader": ("gauge", ""), "muster_nodes": ("gauge", "state"),
    "muster_jobs": ("gauge", "vc state"), "muster_jobs_pending": ("gauge", "vc reason"),
    "muster_gpus_pending": ("gauge", "vc reason"), "muster_job_wait_seconds": ("histogram", "vc size"),
    "muster_job_run_seconds": ("histogram", "vc size"), "muster_jobs_finished": ("counter", "vc result"),
    "muster_gpus": ("gauge", "sku state"), "muster_vc_gpus_guaranteed": ("gauge", "vc sku"),
    "muster_vc_gpus_used": ("gauge", "vc sku"), "muster_vc_gpus_borrowed": ("gauge", "vc sku"),
    "muster_vc_gpus_lent": ("gauge", "vc sku"), "muster_vc_gpus_limit": ("gauge", "vc sku"),
    "muster_vc_share_ratio": ("gauge", "vc"), "muster_gpu_seconds": ("counter", "vc sku class"),
    "muster_gpu_idle_allocated": ("gauge", "vc sku"), "muster_fragmentation_ratio": ("gauge", "sku"),
    "muster_largest_gang_gpus": ("gauge", "sku"), "muster_preemptions": ("counter", "vc step cause"),
    "muster_lost_gpu_seconds": ("counter", "vc cause"), "muster_eta_error_seconds": ("histogram", "vc"),
    "muster_sched_cycle_seconds": ("histogram", ""), "muster_sched_decision_seconds": ("histogram", ""),
    "muster_sched_cycles": ("counter", ""), "muster_sched_last_cycle_timestamp_seconds": ("gauge", ""), 
    "muster_sched_overdue_seconds": ("gauge", ""), "muster_gpus_drained": ("gauge", "sku"), "muster_gpus_unhealthy": ("gauge", "sku"),
    "muster_node_up": ("gauge", "node"), "muster_node_heartbeat_age_seconds": ("gauge", "node"),
    "muster_gpu_utilization_ratio": ("gauge", "node gpu sku"), "muster_gpu_memory_used_bytes": ("gauge", "node gpu sku"),
    "muster_gpu_memory_total_bytes": ("gauge", "node gpu sku"), "muster_gpu_power_watts": ("gauge", "node gpu sku"),
    "muster_gpu_temperature_celsius": ("gauge", "node gpu sku"), "muster_gpu_health": ("gauge", "node gpu sku"),
    "muster_gpu_xid": ("counter", "node gpu xid"), "muster_gpu_foreign": ("gauge", "node gpu sku"),
    "muster_job_stalled": ("gauge", "vc"), "muster_api_request_seconds": ("histogram", "route method code"),
}

CONFIG = """
cluster: figures
listen: [127.0.0.1:0]
state: %s/state
metrics: [jobs, users]
auth: {anonymous: read}
"""


def names(m):
    wrong, families = openmetrics.problems(m.get("//metrics").body.decode())
    ok(not wrong, "/metrics is OpenMetrics", wrong[:5])
    for name, (kind, labels) in sorted(TABLE.items()):
        there = families.get(name)
        if not ok(there and there[0] == kind, "%s is there and a %s" % (name, kind), there and there[0]):
            continue
        for _, found, _ in there[1]:
            found = set(found) - {"le"}
            if found != set(labels.split()):
                ok(False, "%s has the labels %s" % (name, labels), found)
                break
    with open(os.path.join(SOURCE, "man/muster-metrics.7.scd")) as f:
        page = f.read()
    missing = [n for n in families if n not in page]
    ok(not missing, "muster-metrics(7) has every one of them", missing)
    return families


def value(families, name, **labels):
    return sum(v for _, found, v in families[name][1] if all(found.get(k) == x for k, x in labels.items()))


def preemption(m):
    """A job of higher priority takes GPUs; the receipt names it, and what was lost is counted."""
    m.ask("PATCH", "/scheduler", {"policy": "srsf"})
    low = m.post("/jobs", {"name": "low", "run": "sleep 60", "gpus": "H100:16", "time": "2h", "priority": "low"}).json
    m.wait_state(low["id"], "RUNNING")
    time.sleep(1)
    high = m.post("/jobs", {"name": "high", "run": "sleep 60", "gpus": "H100:8", "time": "5m", "priority": "high"}).json
    ok(m.wait_state(high["id"], "RUNNING"), "the more urgent one runs", m.get("/jobs/%d" % high["id"]))
    why = m.get("/jobs/%d/why" % low["id"]).json
    ok(why["receipt"] and why["receipt"]["by"] == high["id"], "the receipt names the job it made room for", why["receipt"])
    ok(m.get("/jobs/%d/attempts" % low["id"]).json["items"][0]["stop_by"] == high["id"], "and so does the attempt")
    families = names(m)
    ok(value(families, "muster_preemptions", cause="preempt") == 1, "the preemption is counted")
    ok(value(families, "muster_lost_gpu_seconds", cause="preempt") >= 16, "with the GPU time it cost",
       value(families, "muster_lost_gpu_seconds"))
    return low["id"], high["id"]


def over_time(m, job):
    ok(m.until(lambda: len(m.get("/usage").json["items"][0]["series"]) >= 2), "the cluster over time")
    point = m.get("/usage").json["items"][0]["series"][-1]
    ok(point["used"] + point["free"] + point["down"] == 16, "used, free and down are all there are", point)
    vc = m.get("/vcs/default/usage").json["series"][-1]
    ok(vc["guaranteed"] == 16 and vc["used"] == point["used"], "the virtual cluster over time", vc)
    ok(m.until(lambda: m.get("/jobs/%d/metrics" % job).json["items"][0]["series"]), "a job's GPUs over time")
    ok(m.get("/usage?from=2026-01-02&to=2026-01-01").status == 400, "a window that ends before it begins")
    ok(m.get("/jobs/%d/metrics?attempt=7" % job).status == 404, "an attempt that was not")
    over = m.get("/overview").json
    ok(sum(w["jobs"] for w in over["waiting_by_reason"]) == over["jobs"]["PENDING"] ==
       sum(w["jobs"] for w in over["waiting_by_size"]), "who waits, by reason and by size", over)


def reports(m, jobs):
    for job in jobs:
        m.ask("DELETE", "/jobs/%d?now=1" % job)
    ok(all(m.wait_state(j, "CANCELLED") for j in jobs), "both are over")
    by = {kind: m.get("/reports/" + kind).json["items"] for kind in ("users", "vcs", "skus", "jobs", "nodes")}
    sums = {kind: sum(i["gpu_seconds"] for i in items) for kind, items in by.items()}
    ok(max(sums.values()) - min(sums.values()) <= len(by["nodes"]) + 2 and sums["users"] >= 16,
       "GPU time is the same however it is cut", sums)
    ok(by["skus"][0]["key"] == "H100" and by["users"][0]["lost_gpu_seconds"] >= 16, "types, and what was lost", by)
    a = m.get("/reports/users?format=csv")
    rows = list(csv.DictReader(io.StringIO(a.body.decode())))
    ok(a.headers["content-type"].startswith("text/csv") and len(rows) == len(by["users"]) and
       abs(float(rows[0]["gpu_hours"]) * 3600 - by["users"][0]["gpu_seconds"]) < 2, "the same as CSV", a)
    about = {kind: m.get("/reports/%s?group=vcs" % kind).json for kind in ("usage", "efficiency", "wait", "preemption")}
    same = {kind: sorted(i["key"] for i in r["items"]) for kind, r in about.items()}
    ok(all(r["about"] == kind and r["by"] == "vcs" and same[kind] == sorted(i["key"] for i in by["vcs"])
           for kind, r in about.items()), "usage, efficiency, wait, preemption by virtual cluster", about)
    rows = [i for r in about.values() for i in r["items"]]
    ok(all(i["max_wait_seconds"] >= i["mean_wait_seconds"] >= 0 and i["used_gpu_seconds"] <= i["measured_gpu_seconds"] <= i["gpu_seconds"]
           and (i["efficiency"] is None or 0 <= i["efficiency"] <= 1) for i in rows if i["mean_wait_seconds"] is not None),
       "their numbers agree with each other", rows)
    ok(m.get("/reports/wait").json["by"] == "users", "by users unless told")
    ok(m.get("/reports/wait?group=moons").status == 400 and m.get("/reports/vcs?group=users").status == 404 and
       m.get("/reports/moons").status == 404, "groups and kinds there are not")
    ok(m.get("/reports/users?to=2020-01-01").json["items"] == [], "nothing in a window before all of it")
    ok(m.get("/reports/users?format=xml").status == 400, "a form there is not")


def restart(m):
    before = m.get("/usage").json["items"][0]["series"]
    m.stop()
    m.start()
    m.wait_nodes(2)
    ok(m.until(lambda: m.get("/usage?from=%d" % (time.time() - 7200)).json["items"][0]["series"]),
       "figures outlive the controller", before)


def main():
    with tempfile.TemporaryDirectory() as state:
        with Musterd("2x8:H100", state=os.path.join(state, "s")) as m:
            m.wait_nodes(2)
            ok(m.get("//metrics/jobs").status == 404, "figures of each job are off unless told")
            jobs = preemption(m)
            over_time(m, jobs[1])
            reports(m, jobs)
            restart(m)
    done()


main()
