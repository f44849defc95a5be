#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The interface as a client meets it: jobs from submission to output, lists, refusals, events, figures."""
import json
import os
import re
import shutil
import socket
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from cluster import Musterd, done, drain, muster, ok

YAML = """
name: from-yaml
gpus: "H100:1"
time: 5m
run: |
  echo yaml $MUSTER_JOB_ID
"""


def basics(m):
    ok(m.get("/healthz").body == b"ok\n", "healthz")
    ok(m.get("/readyz").status == 200, "readyz")
    version = m.get("/version").json
    ok(version["api"] == "v1" and version["kind"] == "Version", "version", version)
    who = m.get("/whoami").json
    ok(who["role"] == "admin" and who["via"] == "dev", "whoami", who)
    a = m.get("/nonsense")
    ok(a.status == 404 and a.headers["content-type"] == "application/problem+json", "404 is a problem", a)
    a = m.ask("PUT", "/jobs")
    ok(a.status == 405 and a.headers["allow"] == "GET, POST", "405 with Allow", a.headers)
    a = m.get("/jobs?colour=red")
    ok(a.status == 400 and b"colour" in a.body, "unknown query parameter is refused by name", a)
    a = m.get("/whoami", headers={"X-Request-Id": "abc-1"})
    ok(a.headers.get("x-request-id") == "abc-1", "X-Request-Id comes back")
    a = m.get("/jobs", headers={"Host": "evil.example"})
    ok(a.status == 401, "another site's name for this address is not us", a)
    a = m.post("/jobs", {"run": "true"}, headers={"Origin": "http://evil.example"})
    ok(a.status == 401, "a page of another site may not submit", a)


def life(m):
    a = m.post("/jobs", {"name": "hello", "run": "echo out; echo err >&2; sleep 0.2; exit 3", "gpus": "H100:2",
                         "time": "1m", "env": {"A": "b"}})
    ok(a.status == 201 and a.headers["location"].endswith("/%d" % a.json["id"]), "submit: 201 and Location", a)
    job = a.json["id"]
    ok(m.wait_state(job, "FAILED"), "it runs and fails with its own code", m.get("/jobs/%d" % job))
    j = m.get("/jobs/%d" % job).json
    ok(j["exit_code"] == 3 and j["gpus"] == 2 and j["spec"]["env"] == {"A": "b"}, "exit code, size and spec", j)
    ok(m.get("/jobs/%d/logs" % job).body.startswith(b"out\n"), "output", m.get("/jobs/%d/logs" % job))
    t = m.get("/jobs/%d/tasks" % job).json["items"]
    ok(len(t) == 1 and t[0]["exit_code"] == 3 and len(t[0]["gpus"]) == 2, "tasks", t)
    ok(len(m.get("/jobs/%d/attempts" % job).json["items"]) == 1, "attempts")
    kinds = [e["kind"] for e in m.get("/jobs/%d/events" % job).json["items"]]
    ok("job.submitted" in kinds and "job.running" in kinds, "events of the job", kinds)
    ok(m.until(lambda: any(h["id"] == job for h in m.get("/history").json["items"])), "history")
    for query, found in (("state=FAILED", 1), ("state=TIMEOUT,f", 1), ("state=completed,TO", 0), ("find=ELL", 1), ("find=x9", 0)):
        items = m.get("/history?" + query).json["items"]
        ok((job in [h["id"] for h in items]) == bool(found), "history: %s" % query, items)
    for path in ("/history", "/reports/users"):
        a = m.get(path + "?state=FAILED,nonsense")
        ok(a.status == 400 and "nonsense" in a.json["detail"], "%s: a state that is none" % path, a)
    rows = m.get("/reports/users?state=FAILED,TIMEOUT").json["items"]
    ok(len(rows) == 1 and rows[0]["jobs"] == m.get("/reports/users?state=F").json["items"][0]["jobs"] > 0,
       "reports: of several states", rows)
    a = m.post("/jobs", YAML, headers={"Content-Type": "application/yaml"})
    ok(a.status == 201, "YAML is taken", a)
    ok(m.wait_state(a.json["id"], "COMPLETED"), "and runs")
    ok(m.get("/jobs/%d/logs" % a.json["id"]).body == b"yaml %d\n" % a.json["id"], "with the environment of a job")


def refusals(m):
    for spec, code, words in (({"gpus": 2, "nodes": 2, "topology": {"level": "group", "policy": "must"}}, "Infeasible.Topology",
                               "it asks for its GPUs nearer to each other than they ever lie"),
                              ({"gpus": 1, "cpus_per_task": 4000}, "Infeasible.NodeSize",
                               "it asks for more CPUs or memory with its GPUs than nodes have"),
                              ({"gpus": 1, "deadline": "2020-01-01"}, "DeadlineImpossible", "its deadline is past")):
        a = m.post("/jobs", dict(spec, run="true"))
        ok(a.status == 422 and a.json["code"] == code and a.json["detail"] == words, "what can never start is refused: " + code, a)
        a = m.post("/jobs:plan", dict(spec, run="true"))
        ok((a.json["code"], a.json.get("message", a.json.get("detail"))) == (code, words) and a.json.get("feasible") is not True,
           "planned, it is told the same", a)
        ok("9223372036854775807" not in a.body.decode(), "and has no number")
    for key, pattern, bad in (("output", "%u-%j.out", "%u"), ("error", "a%%b%j%Z", "%Z")):
        for path in ("/jobs", "/jobs:plan"):
            a = m.post(path, {"run": "true", "gpus": 1, key: pattern})
            ok(a.status == 400 and a.json["detail"].startswith("%s: %s is not known; %%j is the id" % (key, bad)),
               "a pattern that nobody knows, " + path, a)
    a = m.post("/jobs:plan", {"run": "true", "gpus": 1, "output": "%%%j%x%a%A%N%t%n100%"})
    ok(a.status == 200, "those that are known", a)
    a = m.post("/jobs", {"run": "true", "gpus": "H100:1", "colour": "red"})
    ok(a.status == 400 and "colour" in a.json["detail"], "unknown key by name", a)
    a = m.post("/jobs", {"run": "true", "nodes": 1, "per_node": {"gpu": "H100:64"}})
    ok(a.status == 422 and a.json["code"].startswith("Infeasible"), "a node that large does not exist: 422", a)
    a = m.post("/jobs", "{nonsense")
    ok(a.status == 400, "broken JSON: 400", a)
    a = m.post("/jobs", b"")
    ok(a.status == 400, "no body: 400", a)
    a = m.get("/jobs/999999")
    ok(a.status == 404, "no such job: 404", a)
    for path in ("/jobs/x", "/jobs/-1", "/jobs/1_x", "/jobs/99999999999999999999", "/nodes/none", "/vcs/none",
                 "/arrays/7", "/jobs/999999/why", "/jobs/999999/logs", "/reports/none", "/nodes/gpu01/gpus/99"):
        ok(m.get(path).status == 404, "404 for " + path, m.get(path))


def conditions(m):
    a = m.post("/jobs", {"run": "sleep 60", "gpus": "H100:8", "time": "10m", "hold": True})
    job = a.json["id"]
    tag = a.headers["etag"]
    ok(m.get("/jobs/%d" % job).json["reason"]["code"] == "Held", "held, with the reason", a)
    ok(m.get("/jobs/%d" % job, headers={"If-None-Match": tag}).status == 304, "304 while it is the same")
    a = m.ask("PATCH", "/jobs/%d" % job, {"time_seconds": 120}, headers={"If-Match": tag})
    ok(a.status == 200 and a.json["limit_seconds"] == 120, "PATCH with If-Match", a)
    a = m.ask("PATCH", "/jobs/%d" % job, {"time_seconds": 240}, headers={"If-Match": tag})
    ok(a.status == 412, "412 when it has changed", a)
    ok(m.post("/jobs/%d/release" % job).status == 200, "release")
    ok(m.wait_state(job, "RUNNING"), "runs")
    ok(m.post("/jobs/%d/signal" % job, {"signal": "NOPE"}).status == 400, "a signal that is none")
    ok(m.post("/jobs/%d/dance" % job).status == 404, "an action that is none")
    a = m.ask("DELETE", "/jobs/%d?now=1" % job)
    ok(a.status == 200, "cancel", a)
    ok(m.wait_state(job, "CANCELLED"), "cancelled")
    first = m.post("/jobs", {"run": "true", "gpus": 1}, headers={"Idempotency-Key": "k1"}).json["id"]
    again = m.post("/jobs", {"run": "true", "gpus": 1}, headers={"Idempotency-Key": "k1"}).json["id"]
    ok(first == again, "the same key is the same job", (first, again))


def until(m):
    """Questions that are answered when the job has come so far."""
    with tempfile.TemporaryDirectory() as folder:
        gate = folder + "/gate"
        job = m.post("/jobs", {"run": "while [ ! -e %s ]; do sleep 0.05; done; exit 4" % gate, "gpus": 1}).json["id"]
        ok(m.get("/jobs/%d?until=started" % job).json["state"] == "RUNNING", "until=started")
        open(gate, "w").close()
        ok(m.wait_state(job, "FAILED"), "it ends")
    ok(m.get("/jobs/%d?until=ended" % job).json["exit_code"] == 4, "until=ended")
    begin = time.time()
    ok(m.get("/jobs/%d?until=over" % job).json["state"] == "FAILED" and time.time() - begin < 20, "until=over of what is over")
    job = m.post("/jobs", {"run": "sleep 60", "gpus": 1, "hold": True}).json["id"]
    a = m.get("/jobs/%d?until=started&limit=1" % job)
    ok(a.json["state"] == "PENDING" and 0.5 < time.time() - begin < 60, "the limit ends it, with the job as it is", a)
    ok(m.get("/jobs/%d?until=tea" % job).status == 400, "until what is not there")
    ok(m.get("/jobs/%d?until=over&limit=0" % job).status == 400, "a limit that is none")
    m.post("/jobs/%d/release" % job)
    ok(m.get("/jobs/%d?until=started" % job).json["state"] == "RUNNING", "it runs")
    with ThreadPoolExecutor(8) as pool:
        waits = [pool.submit(m.get, "/jobs/%d?until=%s" % (job, what)) for what in ("ended", "over") * 4]
        time.sleep(0.2)
        m.post("/jobs/%d/requeue" % job)
        m.get("/jobs/%d?until=ended&limit=1" % job)
        m.ask("DELETE", "/jobs/%d?now=1" % job)
        states = [w.result().json["state"] for w in waits]
    ok(all(s == "CANCELLED" for s in states[1::2]), "many wait for one", states)


def lists(m):
    m.until(lambda: not m.get("/jobs").json["items"])
    ids = [m.post("/jobs", {"name": "l%d" % (i % 3), "run": "sleep 30", "gpus": "H100:8", "time": "%dm" % (i + 1),
                            "hold": True, "tags": {"k": str(i)}}).json["id"] for i in range(7)]
    a = m.get("/jobs?limit=3").json
    ok([j["id"] for j in a["items"]] == ids[:3] and a["next"], "first page", a)
    b = m.get("/jobs?limit=3&cursor=" + a["next"]).json
    ok([j["id"] for j in b["items"]] == ids[3:6], "next page", b)
    a = m.get("/jobs?sort=-id&fields=id,name").json["items"]
    ok([j["id"] for j in a] == ids[::-1] and list(a[0]) == ["id", "name"], "sort and fields", a)
    ok(m.get("/jobs?sort=colour").status == 400, "sort by what is not there")
    ok(m.get("/jobs?fields=colour").status == 400, "fields that are not there")
    ok(len(m.get("/jobs?name=l0").json["items"]) == 3, "filter by name")
    for path, names in (("/jobs", "state tag array user vc name node find ids sort cursor merge fields limit since"),
                        ("/queue", "array reason user vc name find limit"), ("/events", "kinds since"), ("/nodes", "state"),
                        ("/history", "state user vc name find since limit"),
                        ("/reports/users", "state user vc name group format from")):
        got = {name: m.get("%s?%s=%s" % (path, name, "x" * 2000)) for name in names.split()}
        bad = {name: str(a)[:200] for name, a in got.items() if a.status != 400 or name not in a.json["detail"]}
        ok(not bad, "%s: what is too long is refused, not left out" % path, bad)
    ok(m.get("/jobs?tag=%s" % ("x" * 200)).status == 400, "nor cut off")
    ok(len(m.get("/jobs?find=L0").json["items"]) == 3 and not m.get("/jobs?find=%25").json["items"], "by a part of the name")
    for key in ("find", "name", "node", "user", "vc"):
        a = m.get("/jobs?%s=%s" % (key, "%C5%BD" * 128))
        ok(a.status == 400 and key in a.json["detail"], "too long a %s is no filter, and is refused" % key, a)
    long = "\u017d" * 127
    job = m.post("/jobs", {"name": long, "run": "true", "gpus": 1, "hold": True}).json["id"]
    for key in ("find", "name"):
        a = m.get("/jobs?%s=%s" % (key, "%C5%BD" * 127)).json["items"]
        ok([j["id"] for j in a] == [job], "the longest name there is, by %s" % key, a)
    m.ask("DELETE", "/jobs/%d" % job)
    ok(m.get("/jobs?array=x").status == 400 and m.get("/jobs?array=0").status == 400, "an array has a number")
    ok(len(m.get("/jobs?tag=k=4").json["items"]) == 1, "filter by tag", m.get("/jobs?tag=k=4"))
    ok(m.get("/jobs?state=COMPLETED").json["items"] != [], "finished ones by state")
    ok(m.get("/jobs?state=PD&user=nobody").json["items"] == [], "filter by user")
    a = m.post("/jobs:batch", {"action": "cancel", "name": "l0"})
    ok(len(a.json["items"]) == 3 and all(i["ok"] for i in a.json["items"]), "batch by name", a)
    a = m.post("/jobs:batch", {"action": "cancel", "ids": ids + [424242]})
    ok(sum(i["status"] == 404 for i in a.json["items"]) >= 1, "batch by ids tells who is missing", a)
    ok(m.post("/jobs:batch", {"action": "cancel"}).status == 400, "a batch must say which")
    first, second = [m.post("/jobs", {"run": "true", "hold": True}).json["id"] for _ in range(2)]
    last = m.post("/jobs", {"run": "true", "after": {"ok": [first], "any": [second]}}).json["id"]
    why = lambda: m.get("/jobs/%d/why" % last).json["message"]
    ok(why() == "waits for other jobs to end: %d, %d (well)" % (second, first), "whom it comes after", why())
    m.ask("DELETE", "/jobs/%d" % second)
    ok(m.until(lambda: why() == "waits for other jobs to end: %d (well)" % first), "and who is left of them", why())
    m.post("/jobs/%d/release" % first)
    ok(m.wait_state(last, "COMPLETED"), "it runs when all have ended", m.get("/jobs/%d" % last))
    a = m.post("/jobs", {"name": "arr", "run": "true", "gpus": 1, "array": "0-4"})
    ok(a.status == 201 and a.json["kind"] == "Array" and a.json["size"] == 5, "an array", a)
    array = a.json["id"]
    ok(m.until(lambda: m.get("/arrays/%d" % array).json["states"].get("COMPLETED") == 5), "all of it runs")
    ok(m.get("/jobs/%d_3" % array).json["array"]["index"] == 3, "an element by its index")
    found = m.get("/jobs?all=1&array=%d&sort=id" % array).json["items"]
    ok([j["array"]["index"] for j in found] == [0, 1, 2, 3, 4], "its elements, and no others", found)


def paged(m, query):
    """What lies on each page, and that the last one ends."""
    out, cursor = [], ""
    while len(out) < 10:
        a = m.get("/jobs?find=pages&limit=2" + query + cursor).json
        out.append([(j["id"], j["array"] and j["array"].get("count")) for j in a["items"]])
        if not a["next"]:
            return out
        cursor = "&cursor=" + a["next"]
    return out


def merged(m):
    """A large array takes one place of a page, and pages go on behind it."""
    one = {"name": "pages", "run": "sleep 60", "gpus": 1, "hold": True}
    first = m.post("/jobs", one).json["id"]
    array = m.post("/jobs", dict(one, array="0-249")).json["id"]
    last = m.post("/jobs", one).json["id"]
    ids = m.get("/arrays/%d" % array).json["jobs"]
    ok(paged(m, "&merge=1") == [[(first, None), (ids[0], 250)], [(last, None)]], "an array that waits is one item",
       paged(m, "&merge=1"))
    item = m.get("/jobs?find=pages&limit=2&merge=1").json["items"][1]
    ok(item["array"]["indices"] == "0-249", "with all its elements", item)
    ok(paged(m, "&merge=arrays&sort=-submit_time") == [[(last, None), (ids[249], 250)], [(first, None)]],
       "and from its other end", paged(m, "&merge=arrays&sort=-submit_time"))
    plain = m.get("/jobs?find=pages&limit=2").json
    ok([j["id"] for j in plain["items"]] == [first, ids[0]] and plain["next"] == "2", "unmerged it is its elements", plain)
    m.post("/jobs/%d/release" % ids[7])
    ok(m.wait_state(ids[7], "RUNNING"), "one of them runs")
    ok(paged(m, "&merge=1") == [[(first, None), (ids[0], 7)], [(ids[7], None), (ids[8], 242)], [(last, None)]],
       "what runs is apart from what waits", paged(m, "&merge=1"))
    ok(paged(m, "&merge=arrays") == [[(first, None), (ids[7], 250)], [(last, None)]], "or stands for all",
       paged(m, "&merge=arrays"))
    ok(paged(m, "&merge=arrays&sort=state") == [[(first, None), (ids[7], 250)], [(last, None)]],
       "also where others lie between its elements", paged(m, "&merge=arrays&sort=state"))
    ok(paged(m, "&merge=arrays&state=RUNNING") == [[(ids[7], None)]], "one element alone is itself")
    for path in ("/arrays/%d" % array, "/jobs/%d" % first, "/jobs/%d" % last):
        m.ask("DELETE", path + "?now=1")
    ok(m.until(lambda: not m.get("/jobs?find=pages").json["items"]), "all of them end")


def chosen(m):
    """What keeps a job waiting on the node it chose: others, and, when that is away, the node."""
    spec = {"name": "chosen", "run": "sleep 60", "gpus": "H100:8", "nodelist": "gpu02"}
    first, second = (m.post("/jobs", spec).json["id"] for _ in range(2))
    ok(m.wait_state(first, "RUNNING"), "its node is busy")

    def why():
        return m.get("/jobs/%d/why" % second).json["code"]

    ok(why() == "InsufficientGpus", "others have it", why())
    other = m.post("/jobs", dict(spec, gpus="H100:1", nodelist="gpu01")).json["id"]
    ok(m.wait_state(other, "RUNNING"), "elsewhere there is room")
    told = m.get("/jobs/%d/why" % second).json
    ok("(needs 8, free 0)" in told["message"] and told["free"] == [], "which is not told as free: it did not choose that", told)
    ok([h["job"] for h in told["heldBy"]] == [first], "nor who is there as in its way", told)
    m.ask("PATCH", "/nodes/gpu02", {"drain": True, "reason": "test"})
    ok(why() == "InsufficientGpus", "the node drains, and is full: it would start nothing", why())
    m.ask("DELETE", "/jobs/%d?now=1" % first)
    ok(m.until(lambda: why() == "NodesUnhealthy"), "it is empty: what is missing is the node", why())
    m.ask("PATCH", "/nodes/gpu02", {"drain": False})
    ok(m.wait_state(second, "RUNNING"), "and there again", why())
    for job in (second, first, other):
        m.ask("DELETE", "/jobs/%d?now=1" % job)
    ok(m.wait_state(first, "CANCELLED") and m.wait_state(other, "CANCELLED"), "they end")


def waiting(m):
    held = [m.post("/jobs", {"name": "full", "run": "sleep 60", "gpus": "H100:8", "time": "10m"}).json["id"]
            for _ in range(2)]
    ok(all(m.wait_state(j, "RUNNING") for j in held), "the cluster is full")
    job = m.post("/jobs", {"name": "waits", "run": "true", "nodes": 2, "per_node": {"gpu": "H100:8"},
                           "time": "5m"}).json["id"]
    # The forecast is made aside: under a sanitizer, on a busy machine, it takes its time.
    m.until(lambda: m.get("/jobs/%d/why" % job).json["eta"], 30)
    why = m.get("/jobs/%d/why" % job).json
    ok(why["code"] in ("InsufficientGpus", "Fragmented") and why["tier"] == 4, "why: the recorded reason", why)
    ok(sorted(h["job"] for h in why["heldBy"]) == sorted(held), "why: who holds it", why)
    ok(why["eta"] and why["eta"]["at"] > why["since"] and why["eta"]["low"] <= why["eta"]["at"] <= why["eta"]["high"],
       "why: a time", why["eta"])
    ok(why["asks"]["text"] == "2 nodes x 8 H100", "why: what it asks for", why["asks"])
    m.until(lambda: (m.get("/queue").json["items"] or [{"eta": None}])[0]["eta"], 30)
    q = m.get("/queue").json["items"]
    ok(q and q[0]["id"] == job and q[0]["eta"], "queue with times", q)
    m.ask("DELETE", "/jobs/%d?now=1" % held[0])
    ok(m.wait_state(held[0], "CANCELLED"), "half of it is free")
    anys = m.post("/jobs", {"run": "sleep 60", "gpus": 16, "time": "5m"}).json["id"]
    small = m.post("/jobs", {"run": "sleep 60", "gpus": 3, "time": "5m"}).json["id"]
    ok(m.wait_state(small, "RUNNING") and "(needs 16, free 5)" in m.get("/jobs/%d/why" % anys).json["message"],
       "why: what is free by now, also of one that asks for no type", m.get("/jobs/%d/why" % anys))
    for j in (anys, small):
        m.ask("DELETE", "/jobs/%d?now=1" % j)
        m.wait_state(j, "CANCELLED")
    ok(m.until(lambda: any(s["ok"] for s in m.get("/jobs/%d/why" % job).json["startsNowWith"]), 30),
       "why: a shape that would start now", m.get("/jobs/%d/why" % job))
    plan = m.post("/jobs:plan", {"run": "true", "gpus": "H100:8", "time": "1m"}).json
    ok(plan["feasible"] and plan["startsAt"], "plan", plan)
    m.until(lambda: any(i["planned"] and i["job"] == job for i in m.get("/schedule").json["items"]), 30)
    s = m.get("/schedule").json
    ok(any(i["planned"] and i["job"] == job for i in s["items"]) and any(not i["planned"] for i in s["items"]),
       "schedule: past and planned", s["items"][-3:])
    for j in held + [job]:
        m.ask("DELETE", "/jobs/%d?now=1" % j)
    ok(all(m.wait_state(j, "CANCELLED") for j in held + [job]), "all cancelled")


def plans(m):
    def plan(**more):
        return m.post("/jobs:plan", dict({"run": "true", "gpus": "H100:1", "time": "1m"}, **more)).json

    ok(plan()["code"] == "Now", "plan: nothing in its way", plan())
    p = plan(hold=True)
    ok(p["feasible"] and p["code"] == "Held" and p["startsAt"] is None and not p["alternatives"], "plan: held", p)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    p = plan(begin=at)
    ok(p["code"] == "BeginTime" and p["startsAt"][:19] == at[:19], "plan: not before the time it asks for", p)
    job = m.post("/jobs", {"run": "sleep 60", "gpus": "H100:1"}).json["id"]
    bad = m.post("/jobs", {"run": "false", "gpus": "H100:1"}).json["id"]
    p = plan(after={"ok": [job]})
    ok(p["code"] == "Dependency" and p["startsAt"] is None and str(job) in p["message"], "plan: after a job that runs", p)
    m.wait_state(bad, "FAILED")
    p = plan(after={"ok": [bad]}, begin=at)
    ok(not p["feasible"] and p["code"] == "DependencyNeverSatisfied" and not p["startsAt"], "plan: what never comes true", p)
    ok(plan(after={"any": [bad]})["code"] == "Now", "plan: after one that is over")
    m.ask("PUT", "/users/%s/limits" % m.get("/whoami").json["user"], {"max_gpus": 1})
    ok(plan()["code"] == "UserLimit", "plan: as many GPUs as one may have", plan())
    m.ask("PUT", "/users/%s/limits" % m.get("/whoami").json["user"], {"max_gpus": None})
    m.ask("PATCH", "/scheduler", {"paused": True})
    ok(plan()["code"] == "SchedulerPaused", "plan: while nothing starts", plan())
    m.ask("PATCH", "/scheduler", {"paused": False})
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    m.wait_state(job, "CANCELLED")


def agree(m):
    """What several answers tell must be the same number."""
    me = m.get("/whoami").json["user"]
    run = m.post("/jobs", {"run": "sleep 60", "nodes": 2, "per_node": {"gpu": 4}, "time": "5m"}).json["id"]
    m.wait_state(run, "RUNNING")
    later = m.post("/jobs", {"run": "true", "gpus": 1, "after": {"ok": [run]}}).json["id"]
    m.post("/jobs", {"run": "true", "gpus": 1, "hold": True})
    pending = [j for j in m.get("/jobs").json["items"] if j["state"] == "PENDING"]
    ok(m.get("/scheduler").json["waiting"] == len(pending) == 2, "who waits: also those that are held back",
       (m.get("/scheduler").json["waiting"], pending))
    ok("so far       0 attempts" in muster(m, "show", later).stdout and "so far       1 attempt," in muster(m, "show", run).stdout,
       "a job that has not started has had no attempt", muster(m, "show", later).stdout)
    a = m.get("/jobs/%d/logs?attempt=5" % run)
    ok(a.status == 404 and "no attempt 5; the last is 0" in a.json["detail"], "output of an attempt there was not", a)
    ok(m.get("/jobs/%d/logs" % later).json["code"] == "NotStarted", "and of a job that has not started")
    time.sleep(2)
    for node in ("gpu01", "gpu02"):
        m.ask("PATCH", "/nodes/" + node, {"drain": True, "reason": "x", "deadline": "2020-01-01T00:00:00Z"})
    m.until(lambda: m.state(run) == "PENDING")
    for node in ("gpu01", "gpu02"):
        m.ask("PATCH", "/nodes/" + node, {"drain": False})
    m.post("/jobs:batch", {"action": "cancel", "user": me})
    m.until(lambda: not m.get("/jobs").json["items"])
    m.until(lambda: any(h["id"] == run and h["lost_gpu_seconds"] > 0 for h in m.get("/history").json["items"]))
    lost = [sum(row["lost_gpu_seconds"] for row in m.get("/reports/" + by).json["items"]) for by in ("users", "nodes")]
    ok(lost[0] > 0 and abs(lost[0] - lost[1]) <= 2, "what was lost is as much by node as by user", lost)


def deadlines(m):
    def submit(gpus, hours):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 7200))
        return m.post("/jobs", {"run": "sleep 60", "gpus": gpus, "time": "%dh" % hours, "deadline": at}).json

    m.ask("PATCH", "/scheduler", {"policy": "chronus"})
    a, b, c = submit(8, 1), submit(16, 3), m.post("/jobs", {"run": "sleep 60", "gpus": 1, "time": "1h"}).json
    ok(a["promise"]["state"] == "promised" and a["promise"]["offer"] is None, "a deadline that can be kept is promised", a)
    ok(b["promise"]["state"] == "declined" and b["promise"]["offer"] > b["promise"]["deadline"],
       "of one that cannot it is told what could have been promised", b)
    ok("promise" not in c, "nothing is said of a job without one", c)
    why = m.get("/jobs/%d/why" % b["id"]).json
    ok(why["promise"] == b["promise"], "why: the same", why)
    said = muster(m, "show", a["id"]).stdout, muster(m, "why", b["id"]).stdout
    ok(", promised\n" in said[0] and re.search(r"deadline .*, not promised; .* could have been\n", said[1]),
       "and in words", said)
    m.ask("PATCH", "/scheduler", {"policy": "fifo-skip"})
    d = submit(1, 1)
    ok(d["promise"]["state"] == "none", "a policy that promises nothing has not", d)
    said = muster(m, "submit", "-G1", "-t1h", "--deadline=2h", "--wrap", "sleep 60")
    ok(re.search("^deadline .*, not promised$", said.stderr, re.M), "who submits is told at once", said)
    m.post("/jobs:batch", {"action": "cancel", "user": m.get("/whoami").json["user"]})
    m.until(lambda: not m.get("/jobs").json["items"])


def nodes(m):
    a = m.ask("PATCH", "/nodes/gpu02", {"drain": True})
    ok(a.status == 400, "a drain needs a reason", a)
    a = m.ask("PATCH", "/nodes/gpu02", {"drain": True, "reason": "fan"})
    ok(a.status == 200 and a.json["state"] == "drain" and a.json["drain_reason"] == "fan", "drain", a)
    ok(m.get("/gpus").json["items"][0]["free"] == 8, "its GPUs are not free any more", m.get("/gpus"))
    ok(m.ask("PATCH", "/nodes/gpu02", {"drain": False}).json["state"] == "idle", "and back")
    a = m.ask("PATCH", "/nodes/gpu01/gpus/3", {"drain": True, "reason": "XID 79"})
    ok(a.status == 200 and a.json["gpu_list"][3]["state"] == "drained", "one GPU", a)
    m.ask("PATCH", "/nodes/gpu01/gpus/3", {"drain": False})
    ok(m.get("/vcs/default").json["guarantee"] == {"H100": 16}, "virtual cluster", m.get("/vcs/default"))
    ok(m.ask("PATCH", "/scheduler", {"paused": True}).json["paused"] is True, "pause")
    job = m.post("/jobs", {"run": "true", "gpus": 1}).json["id"]
    ok(m.get("/jobs/%d" % job).json["reason"]["code"] == "SchedulerPaused", "says so", m.get("/jobs/%d" % job))
    ok(m.ask("PATCH", "/scheduler", {"paused": False}).status == 200 and m.wait_state(job, "COMPLETED"), "and goes on")
    a = m.ask("PATCH", "/scheduler", {"policy": "srsf"})
    ok(a.status == 200 and a.json["policy"] == "srsf", "another policy while it runs", a)
    ok(m.get("/vcs/default").json["policy"] == "srsf", "which its virtual cluster has", m.get("/vcs/default"))
    a = m.ask("PUT", "/config", {"vcs": {"a": {"quota": {"H100": 8}}, "b": {"quota": {"H100": 8}, "policy": "las"}}})
    ok(a.status == 200 and [v["name"] for v in a.json["vcs"]] == ["a", "b"], "virtual clusters while it runs", a)
    a = m.ask("PATCH", "/scheduler", {"policy": "fifo", "vc": "b"})
    ok(a.status == 200 and m.get("/vcs/b").json["policy"] == "fifo" and len(m.get("/vcs").json["items"]) == 2,
       "a policy of one of them", m.get("/vcs"))
    ok(m.ask("PATCH", "/scheduler", {"policy": "fifo", "vc": "c"}).status == 404, "of one that there is not")
    job = m.post("/jobs", {"run": "true", "gpus": 1, "vc": "b"})
    ok(job.status == 201 and m.wait_state(job.json["id"], "COMPLETED"), "jobs run there", job)
    ok(m.post("/jobs", {"run": "true", "gpus": 1, "vc": "c"}).status in (404, 422), "not where there is none")
    a = m.ask("PATCH", "/scheduler", {"policy": "magic"})
    ok(a.status == 400 and "muster sim policies" in a.json["hints"][0], "one that there is not", a)


def events(m):
    s = m.connect()
    s.sendall(b"GET /api/v1/events?since=0 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
    s.settimeout(5)
    text = b""
    while b"job.submitted" not in text:
        text += s.recv(65536)
    s.close()
    ids = [int(x) for x in re.findall(rb"\nid: (\d+)\n", text)]
    ok(ids == sorted(ids) and len(ids) == len(set(ids)), "events ascend, none twice", ids[:10])
    s = m.connect()
    s.settimeout(5)
    s.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nLast-Event-ID: %d\r\n\r\n"
              % ids[0])
    text = b""
    while b"\nid: " not in text:
        text += s.recv(65536)
    ok(int(re.search(rb"\nid: (\d+)\n", text).group(1)) == ids[0] + 1, "resumes behind the last one", text[:300])
    s.close()


def figures(m):
    a = m.get("/metrics")
    ok(a.headers["content-type"].startswith("application/openmetrics-text"), "metrics: type", a.headers)
    text = a.body.decode()
    problems, types, seen = [], {}, set()
    ok(text.endswith("# EOF\n"), "metrics: ends with EOF")
    last = None
    for line in text.split("\n")[:-2]:
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:4]
            if name in types:
                problems.append("twice: " + name)
            types[name] = kind
            last = name
        elif line.startswith("# HELP "):
            if line.split()[2] != last:
                problems.append(line)
        else:
            match = re.fullmatch(r'([a-z_]+)(\{([a-z]+="([^"\\\n]|\\.)*",?)*\})? (-?[0-9.e+-]+)', line)
            if not match:
                problems.append(line)
                continue
            name = match.group(1)
            suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"], "gauge": [""]}[types[last]]
            if name not in [last + s for s in suffixes]:
                problems.append("not of the family %s: %s" % (last, line))
            key = line.rsplit(" ", 1)[0]
            if key in seen:
                problems.append("twice: " + key)
            seen.add(key)
    ok(not problems, "metrics: an OpenMetrics parser is content", problems[:5])
    for name in ("muster_build_info", "muster_jobs", "muster_gpus", "muster_nodes", "muster_node_up",
                 "muster_jobs_finished", "muster_job_wait_seconds", "muster_api_request_seconds",
                 "muster_gpu_utilization_ratio", "muster_vc_gpus_guaranteed"):
        ok(name in types, "metrics: " + name)
    source = os.environ.get("MUSTER_SOURCE", ".")
    for path in ("grafana/muster.json", "grafana/alerts.yaml", "man/muster-metrics.7.scd"):
        with open(os.path.join(source, path)) as f:
            # figures of each job and user are elsewhere, and off unless told
            named = set(re.findall(r"\bmuster_[a-z_]+", f.read().split("*GET /metrics/jobs*")[0]))
        samples = set(re.match(r"[a-z_]+", s).group(0) for s in seen) | set(types)
        samples |= set(t + s for t, k in types.items() for s in
                       (["_bucket", "_count", "_sum"] if k == "histogram" else ["_total"] if k == "counter" else []))
        ok(not named - samples, "metrics: what %s names is there" % path, named - samples)


def pages(m):
    a = m.get("/")
    ok(a.status == 200 and b"muster" in a.body and "content-security-policy" in a.headers, "the page, with a policy", a)
    ok(m.get("/", headers={"If-None-Match": a.headers["etag"]}).status == 304, "its tag")
    ok(m.get("/style.css", headers={"Accept-Encoding": "gzip"}).headers["content-encoding"] == "gzip", "compressed")
    ok(m.get("/", headers={"Accept": "text/html"}).headers["content-type"].startswith("text/html"), "as HTML")


def together(m):
    """A submission and what will be asked about its job, in one piece: the job is called new."""
    def send(run):
        body = json.dumps({"run": run, "gpus": 1, "time": "1m"}).encode()
        s = m.connect()
        s.sendall(b"POST /api/v1/jobs?fields=id HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n%s" % (len(body), body) +
                  b"GET /api/v1/jobs/new/logs?follow=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
                  b"GET /api/v1/jobs/new?until=over&fields=id,state,exit_code HTTP/1.1\r\nHost: localhost\r\n"
                  b"Connection: close\r\n\r\n")
        return s

    s = send("echo said; exit 4")
    text = drain(s)
    s.close()
    parts = [text.find(b"HTTP/1.1 201"), text.find(b"said"), text.find(b'"exit_code":4')]
    ok(0 == parts[0] < parts[1] < parts[2], "a submission, its output and its end, asked for together", text)
    with tempfile.TemporaryDirectory() as folder:
        s = send("while [ ! -e %s/go ]; do sleep 0.05; done; echo after" % folder)
        s.settimeout(20)
        text = s.recv(100000)
        ok(text.startswith(b"HTTP/1.1 201") and b"after" not in text, "one that runs on is told of meanwhile", text)
        open(folder + "/go", "w").close()
        text = drain(s)
        s.close()
        ok(b"after" in text and b"COMPLETED" in text, "and goes on from there", text)
    a = m.get("/jobs/new")
    ok(a.status == 404 and b"no job was submitted on this connection" in a.body, "new without a submission", a)


def pipelines(m):
    s = m.connect()
    s.sendall(b"".join(b"GET /api/v1/jobs/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % i for i in (900001, 900002, 900003)) +
              b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    text = drain(s)
    s.close()
    order = re.findall(rb"no job (\d+)", text)
    ok(order == [b"900001", b"900002", b"900003"] and text.endswith(b"ok\n"), "pipelined requests in order", text[-300:])
    together(m)
    s = m.connect()
    s.sendall(b"POST /api/v1/jobs:plan HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    s.settimeout(5)
    ok(s.recv(100).startswith(b"HTTP/1.1 100 "), "100 Continue")
    s.close()
    text = m.raw(b"GET /api/v1/jobs HTTP/1.0\r\nHost: localhost\r\n\r\n")
    ok(b"chunked" not in text and b"JobList" in text, "HTTP/1.0 gets no chunks", text[:200])
    text = m.raw(b"HEAD /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    ok(text.startswith(b"HTTP/1.1 200") and b"JobList" not in text, "HEAD has no body", text[:300])


def follow(m):
    job = m.post("/jobs", {"run": "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done", "gpus": 1}).json["id"]
    m.until(lambda: m.state(job) not in ("PENDING", "STARTING"))
    ok(m.get("/jobs/%d/logs?follow=1" % job).body == b"".join(b"line %d\n" % i for i in range(1, 6)),
       "followed to the end", m.get("/jobs/%d/logs" % job))
    ok(m.get("/jobs/%d/logs?tail=2" % job).body == b"line 4\nline 5\n", "tail", m.get("/jobs/%d/logs?tail=2" % job))
    ok(m.get("/jobs/%d/logs?offset=7&limit=7" % job).body == b"line 2\n", "a piece of it")
    ok(m.get("/jobs/%d/logs?task=9" % job).status == 404, "a task that is none")
    # More than is asked of its node at once (1 MiB), all of it at its end.
    want = b"".join(b"%d\n" % i for i in range(1, 400001))
    job = m.post("/jobs", {"run": "seq 1 400000", "gpus": 1}).json["id"]
    m.until(lambda: m.state(job) not in ("PENDING", "STARTING"))
    body = m.get("/jobs/%d/logs?follow=1" % job).body
    ok(body == want, "much output, followed to the end", len(body))
    m.wait_state(job, "COMPLETED")
    a = m.get("/jobs/%d/logs?tail=3" % job)
    ok(a.body == b"399998\n399999\n400000\n" and int(a.headers["x-log-offset"]) == len(want) - len(a.body), "its last lines", a)
    a = m.get("/jobs/%d/logs?tail=3&follow=1" % job)
    ok(a.body == b"399998\n399999\n400000\n", "and followed", a.body[-40:])
    a = m.get("/jobs/%d/logs?tail=100000" % job)
    ok(a.body == b"".join(b"%d\n" % i for i in range(300001, 400001)), "many of them", len(a.body))
    a = m.get("/jobs/%d/logs?follow=1&limit=10" % job)
    ok(a.body == want[:10], "not more than was asked for", a.body[:40])
    job = m.post("/jobs", {"run": "for i in 1 2 3; do seq 1 400000; sleep 0.3; done", "gpus": 1}).json["id"]
    m.until(lambda: m.state(job) not in ("PENDING", "STARTING"))
    body = m.get("/jobs/%d/logs?follow=1" % job).body
    ok(body == want * 3, "also while it goes on", len(body))


def enter(m):
    job = m.post("/jobs", {"run": "sleep 60", "gpus": 1, "time": "5m"}).json["id"]
    ask = (b"GET /api/v1/jobs/%d/exec?%s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    m.wait_state(job, "RUNNING")
    s = m.connect()
    s.settimeout(60)
    s.sendall(ask % (job, b"cmd=sh&cmd=-c&cmd=read+x;echo+got+$x;exit+7"))
    head = b""
    while b"\r\n\r\n" not in head:
        head += s.recv(1000)
    ok(b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head, "exec: WebSocket", head)
    s.sendall(b"\x82\x86\0\0\0\0\0word\n")
    text = b""
    while not text.endswith(b"\x88\x02\x03\xe8"):  # the close, which is ours to answer
        more = s.recv(1000)
        if not more:
            break
        text += more
    ok(text == b"\x82\x0a\x01got word\n\x82\x02\x037\x88\x02\x03\xe8", "exec: input, output, status, close", text)
    s.close()
    s = m.connect()
    s.settimeout(60)
    s.sendall(ask % (job, b"cmd=cat") + b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0")
    start = time.time()
    drain(s)
    ok(time.time() - start < 59, "exec: a message without end is cut off")
    s.close()
    ok(m.raw(ask % (job, b"")).startswith(b"HTTP/1.1 400"), "exec: without a command")
    ok(m.get("/jobs/%d/exec?cmd=true" % job).status == 426, "exec: without WebSocket")
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    m.wait_state(job, "CANCELLED")
    ok(m.raw(ask % (job, b"cmd=true")).startswith(b"HTTP/1.1 409"), "exec: a job that does not run")


def words(m):
    job = m.post("/jobs", {"run": "trap 'echo saved' USR1; while :; do sleep 0.05; done", "gpus": 1, "time": "5m", "comment": "before",
                           "tags": {"a": "1", "b": "2"}, "checkpoint": {"signal": "USR1"}}).json["id"]
    path = "/jobs/%d" % job
    m.wait_state(job, "RUNNING")

    def patch(**body):
        return m.ask("PATCH", path, body)
    a = patch(comment="after", tags={"a": None, "c": "3"})
    ok(a.status == 200 and a.json["spec"]["comment"] == "after" and a.json["spec"]["tags"] == {"b": "2", "c": "3"},
       "comment and tags of a job that runs", a)
    found = lambda tag: [j["id"] for j in m.get("/jobs?tag=" + tag).json["items"]]
    ok(job in found("c") and job not in found("a"), "it is found by what it is called now", (found("c"), found("a")))
    a = patch(comment=None, tags={"b": None, "c": None})
    ok(a.status == 200 and "comment" not in a.json["spec"] and "tags" not in a.json["spec"], "and by nothing", a)
    for body, word in (({"priority": True}, "priority"), ({"time_seconds": "soon"}, "time_seconds"), ({"time_seconds": -1}, "time_seconds"),
                       ({"vc": 7}, "vc"), ({"comment": 7}, "comment"), ({"tags": []}, "tags"), ({"tags": {"k": [1]}}, ""),
                       ({"size": "wide"}, "size")):
        a = patch(**body)
        ok(a.status == 400 and word in a.json["detail"], "not changed to %s" % body, a)
    ok(m.get(path).json["limit_seconds"] == 300, "and nothing else changed", m.get(path))
    ok(m.post(path + "/checkpoint").status == 200 and m.until(lambda: b"saved\n" in m.get(path + "/logs").body), "told to save itself",
       m.get(path + "/logs"))
    m.ask("DELETE", path + "?now=1")
    m.wait_state(job, "CANCELLED")
    ok(m.post(path + "/checkpoint").status == 409, "not when it is over")
    job = m.post("/jobs", {"run": "sleep 60", "gpus": 1}).json["id"]
    m.wait_state(job, "RUNNING")
    a = m.post("/jobs/%d/checkpoint" % job)
    ok(a.status == 409 and "no signal" in a.json["detail"] and m.state(job) == "RUNNING", "nor one that cannot", a)
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    m.wait_state(job, "CANCELLED")


# Serves on a port the kernel chooses and writes it down: echoes what is said, in capitals, once that is over; or sends
# without end; or reads nothing.
SERVER = """
import os, socket, sys, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(8)
with open(sys.argv[1] + ".new", "w") as f:
    f.write(str(s.getsockname()[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    c = s.accept()[0]
    kind = c.recv(1)
    if kind == b"e":
        text = b""
        while True:
            piece = c.recv(65536)
            if not piece:
                break
            text += piece
        c.sendall(text.upper())
    elif kind == b"f":
        c.sendall(b"x" * (64 << 20))
    else:
        time.sleep(60)
    c.close()
"""
TUNNEL = (b"GET /api/v1/jobs/%d/forward/%s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")


def message(data):
    """A binary message of a client, masked by zeroes."""
    size = len(data)
    head = bytes([0x80 | size]) if size < 126 else bytes([0xfe]) + size.to_bytes(2, "big") if size < 65536 else \
        bytes([0xff]) + size.to_bytes(8, "big")
    return b"\x82" + head + b"\0\0\0\0" + data


def tunnel(m, job, port):
    s = m.connect()
    s.settimeout(20)
    s.sendall(TUNNEL % (job, str(port).encode()))
    head = b""
    while b"\r\n\r\n" not in head:
        head += s.recv(1)
    return s, head


def forward(m):
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o777)
    with open(folder + "/serve.py", "w") as f:
        f.write(SERVER)
    path = folder + "/port"
    job = m.post("/jobs", {"run": "exec python3 %s/serve.py %s" % (folder, path), "gpus": 1, "time": "5m"}).json["id"]
    m.wait_state(job, "RUNNING")
    ok(m.until(lambda: os.path.exists(path), 20), "a job listens on a port")
    port = int(open(path).read())
    s, head = tunnel(m, job, port)
    ok(head.startswith(b"HTTP/1.1 101"), "forward: WebSocket", head)
    s.sendall(message(b"\0e") + message(b"\0hello ") + message(b"\0there") + message(b"\3"))
    text = drain(s)
    ok(text == b"\x82\x0c\x01HELLO THERE\x82\x02\x030\x88\x02\x03\xe8", "forward: there and back, and the end", text)
    s.close()
    flood(m, job, port)
    # The port of a server that is nobody's job, and of a job that is another one.
    with socket.socket() as mine:
        mine.bind(("127.0.0.1", 0))
        mine.listen(1)
        s = tunnel(m, job, mine.getsockname()[1])[0]
        text = drain(s)
        mine.setblocking(False)
        try:
            mine.accept()
            reached = True
        except BlockingIOError:
            reached = False
        ok(b"nothing of job %d listens on port" % job in text and not reached, "forward: only to ports of the job", text)
        s.close()
    other = m.post("/jobs", {"run": "sleep 60", "gpus": 1, "time": "5m"}).json["id"]
    m.wait_state(other, "RUNNING")
    s = tunnel(m, other, port)[0]
    ok(b"nothing of job %d listens" % other in drain(s), "forward: not to the port of another job")
    s.close()
    for port in (b"0", b"65536", b"x", b"-1"):
        ok(m.raw(TUNNEL % (job, port)).startswith(b"HTTP/1.1 400"), "forward: no port %s" % port.decode())
    ok(m.raw(TUNNEL % (job, b"1?task=7")).startswith(b"HTTP/1.1 404"), "forward: no such task")
    ok(m.get("/jobs/%d/forward/80" % job).status == 426, "forward: without WebSocket")
    for j in (job, other):
        m.ask("DELETE", "/jobs/%d?now=1" % j)
        m.wait_state(j, "CANCELLED")
    ok(m.raw(TUNNEL % (job, b"80")).startswith(b"HTTP/1.1 409"), "forward: a job that does not run")
    shutil.rmtree(folder)


def flood(m, job, port):
    """What is sent faster than it is read waits with who sends it: for a client that reads late, for a port that never
    does."""
    s, head = tunnel(m, job, port)
    s.sendall(message(b"\0f"))
    t = tunnel(m, job, port)[0]  # waits its turn at the server, which serves one at a time
    t.settimeout(2)
    sent, piece = 0, message(b"\0" + b"s" * 60000)
    try:
        while sent < 64 << 20:
            t.sendall(piece)
            sent += len(piece)
    except socket.timeout:
        pass
    ok(sent < 32 << 20, "forward: what is not taken is not read", sent)
    t.close()
    got, end = 0, b""
    while True:
        piece = s.recv(1 << 20)
        if not piece:
            break
        got += len(piece)
        end = (end + piece)[-64:]
    ok(got > 64 << 20 and end.endswith(b"\x82\x02\x030\x88\x02\x03\xe8"), "forward: who reads later gets all of it", (got, end))
    s.close()


def main():
    with Musterd("2x8:H100") as m:
        ok(m.wait_nodes(2), "two emulated nodes join")
        for part in (basics, life, refusals, conditions, until, lists, merged, chosen, waiting, plans, agree, deadlines, nodes, events, figures, pages, pipelines,
                     follow, enter, forward, words):
            part(m)
        ok(m.alive(), "still alive")
        status = m.stop()
        ok(status == 0, "stops cleanly", (status, m.stderr()))
    done()


main()
