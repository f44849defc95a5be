#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes of elastic jobs set by hand: more, fewer, any again; while they wait; and what is refused."""
import json
import os
import subprocess
import tempfile
import time

from cluster import BUILD, Musterd, done, ok

KEEP = "trap 'exit 85' TERM\necho $MUSTER_GPUS\nwhile :; do sleep 0.05; done\n"

# It leaves when somebody says so, to see what is true until then.
TOLD = """up={f}/$MUSTER_ATTEMPT
trap 'cat "$MUSTER_NOTICE_FILE" >$up.part; mv $up.part $up.told; while [ ! -e $up.save ]; do sleep 0.05; done
echo once >>$up.ends; exit 85' TERM
echo $MUSTER_GPUS $(echo $CUDA_VISIBLE_DEVICES | tr , '\\n' | wc -l) >$up.part; mv $up.part $up.up
while :; do sleep 0.05; done
"""


def read(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def size(m, job, gpus):
    return m.ask("PATCH", "/jobs/%d" % job, {"size": gpus})


def has(m, job, gpus):
    def now():
        j = m.get("/jobs/%d" % job).json
        return j["state"] == "RUNNING" and sum(len(p["gpus"]) for p in j["placement"]) == gpus and j["gpus"] == gpus

    return m.until(now)


def cli(m, *words):
    env = dict(os.environ, MUSTER_URL="http://%s:%d" % (m.host, m.port), HOME="/nonexistent", NO_COLOR="1")
    p = subprocess.run([os.path.join(BUILD, "muster")] + list(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    return p.returncode, p.stdout + p.stderr


def grow_and_shrink(m):
    job = m.post("/jobs", {"gpus": "1..4", "run": KEEP, "time": "1h", "grace": "20s"}).json["id"]
    ok(has(m, job, m.get("/jobs/%d" % job).json["gpus"]), "an elastic job runs", m.get("/jobs/%d" % job))
    answer = size(m, job, 4)
    ok(answer.status == 200 and answer.json["size"]["set"] == 4 and answer.json["size"]["max"] == 4, "four are wanted", answer)
    ok(has(m, job, 4), "and had, by one that saved itself", m.get("/jobs/%d" % job))
    ok(m.get("/jobs/%d" % job).json["failures"] == 0, "which is no failure")
    code, text = cli(m, "set", str(job), "size=2")
    ok(code == 0 and "Changed" in text, "muster set", (code, text))
    ok(has(m, job, 2), "two of them are left", m.get("/jobs/%d" % job))
    ok(m.until(lambda: m.get("/jobs/%d" % job).json["gpu_seconds"] > 0), "what it has used is told while it runs", m.get("/jobs/%d" % job))
    ok(any(n["gpus_used"] == 2 for n in m.get("/nodes").json["items"]), "and the others free", m.get("/nodes"))
    code, text = cli(m, "show", str(job))
    ok("1..4 GPUs, set to 2" in text, "show says what was set", text)
    return job


def told_before(m):
    """The notice is there, and the signal after it, while the job has what it had; nobody else gets any of it until it has left."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        job = m.post("/jobs", {"gpus": "1..3", "run": TOLD.format(f=folder), "time": "1h", "grace": "20s"}).json["id"]
        ok(has(m, job, 1), "an elastic job that is slow to save itself", m.get("/jobs/%d" % job))
        for attempt, had, wanted in ((0, 1, 3), (1, 3, 1)):
            name = "%s/%d" % (folder, attempt)
            ok(m.until(lambda: os.path.exists(name + ".up")), "it runs with %d" % had)
            ok(read(name + ".up").split() == [str(had)] * 2, "and finds that many", read(name + ".up"))
            size(m, job, wanted)
            ok(m.until(lambda: os.path.exists(name + ".told")), "it is told when %d are wanted" % wanted)
            notice = json.loads(read(name + ".told"))
            ok(notice["kind"] == "resize" and notice["grace_seconds"] == 20 and notice["deadline"] > time.time() + 10,
               "by the notice, which is there before the signal", notice)
            other = m.post("/jobs", {"gpus": 4 - min(had, wanted), "run": "touch %s.other" % name, "time": "1h"}).json["id"]
            time.sleep(0.5)
            ok(not os.path.exists("%s/%d.up" % (folder, attempt + 1)), "it does not run elsewhere meanwhile")
            ok(m.state(other) in ("PENDING", "STARTING") and not os.path.exists(name + ".other"),
               "nor does anybody else on what it has, or will have", m.get("/jobs/%d" % other))
            open(name + ".save", "w").close()
            ok(has(m, job, wanted), "it has left, and goes on with %d" % wanted, m.get("/jobs/%d" % job))
            ok(read(name + ".ends") == "once\n", "told once", read(name + ".ends"))
            if wanted > had:
                m.ask("DELETE", "/jobs/%d?now=1" % other)
        ok(m.wait_state(other, "COMPLETED"), "what it gave back is others'", m.get("/jobs/%d" % other))
        ok(m.until(lambda: read("%s/2.up" % folder).split() == ["1"] * 2), "and it finds one", read("%s/2.up" % folder))
        j = m.get("/jobs/%d" % job).json
        attempts = m.get("/jobs/%d/attempts" % job).json["items"]
        ok(j["failures"] == 0 and [a["state"] for a in attempts] == ["PREEMPTED", "PREEMPTED", "RUNNING"],
           "three attempts, of which the last runs, no failure", attempts)
        ok([a["stop_kind"] for a in attempts] == ["resize", "resize", ""], "those before it were resized, not moved", attempts)
        ok(m.until(lambda: m.get("/jobs/%d/attempts" % job).json["items"][2]["ran_seconds"] > 0), "the last one's time goes on")
        code, text = cli(m, "show", str(job))
        ok(text.count("(resize)") == 2 and "migrate" not in text, "show says so", text)
        m.ask("DELETE", "/jobs/%d?now=1" % job)
        ok(m.wait_state(job, "CANCELLED"), "and it ends")


def refused(m, job):
    for gpus, status, words in ((5, 422, "elastic from 1 to 4"), (0, 400, "size"), ("x", 400, "size"), (-1, 400, "size")):
        answer = size(m, job, gpus)
        ok(answer.status == status and words in answer.json["detail"], "a size of %s is refused" % gpus, answer)
    rigid = m.post("/jobs", {"gpus": 1, "run": "sleep 600", "time": "1h"}).json["id"]
    answer = size(m, rigid, 2)
    ok(answer.status == 422 and "is not elastic" in answer.json["detail"], "so is one of a job that is not elastic", answer)
    code, text = cli(m, "set", str(rigid), "size=2")
    ok(code == 6 and "is not elastic" in text, "with its exit code", (code, text))
    code, text = cli(m, "set", str(job), "size=some")
    ok(code == 2 and "expected a number of GPUs, or auto" in text, "a word is no size", (code, text))
    answer = m.post("/jobs/%d/resize" % job, {})
    ok(answer.status == 400, "resize without a size", answer)
    return rigid


def waits(m, job, rigid):
    """One GPU of four is free: more is wanted than can be had."""
    ok(size(m, job, 4).status == 200, "more than there is")
    j = m.get("/jobs/%d" % job).json
    ok(j["size"]["waits"] and j["gpus"] == 2 and j["state"] == "RUNNING", "it goes on as it is meanwhile", j)
    m.ask("DELETE", "/jobs/%d?now=1" % rigid)
    ok(has(m, job, 4), "it has them when there is room", m.get("/jobs/%d" % job))


def waiting_job(m, job):
    wide = m.post("/jobs", {"gpus": "2..4", "run": "sleep 600", "time": "1h"}).json["id"]
    ok(m.wait_state(wide, "PENDING") and m.post("/jobs/%d/resize" % wide, {"size": 3}).json["size"]["set"] == 3, "of one that waits")
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    ok(has(m, wide, 3), "it starts so", m.get("/jobs/%d" % wide))
    answer = size(m, wide, None)
    ok(answer.status == 200 and answer.json["size"]["set"] is None, "any size again", answer)
    held = m.post("/jobs", {"gpus": "1..4", "run": "sleep 600", "time": "1h", "hold": True}).json["id"]
    ok(size(m, held, 1).json["gpus"] == 1, "of one that is held")
    m.post("/jobs/%d/release" % held)
    ok(has(m, held, 1), "which starts with it", m.get("/jobs/%d" % held))


with Musterd(fake="1x4:H100") as daemon:
    daemon.wait_nodes(1)
    told_before(daemon)
    elastic = grow_and_shrink(daemon)
    other = refused(daemon, elastic)
    waits(daemon, elastic, other)
    waiting_job(daemon, elastic)
done()
