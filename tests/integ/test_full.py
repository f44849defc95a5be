#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The controller's disk is full: what can be refused is, jobs run on, and all goes on when there is room."""
import os
import subprocess
import tempfile
import time

from cluster import MUSTERD, Musterd, done, ok

WORDS = "#" * 200000  # a large job: a few of them are more than is kept ready for the log


def fill(folder):
    """Every block that is left."""
    with open(folder + "/filler", "ab", buffering=0) as f:
        for size in (1 << 20, 4096):
            try:
                while True:
                    f.write(b"x" * size)
            except OSError:
                pass


def story(d, folder):
    def kinds():
        return [a["kind"] for a in d.get("/alerts").json["items"]]

    d.wait_nodes(1)
    runs = d.post("/jobs", {"name": "runs", "run": "sleep 600", "gpus": 1}).json["id"]
    ok(d.wait_state(runs, "RUNNING"), "a job runs")
    taken = [runs]
    fill(folder)
    for _ in range(200):
        answer = d.post("/jobs", {"name": "large", "run": "true\n" + WORDS, "gpus": 8})
        if answer.status != 201:
            break
        taken.append(answer.json["id"])
    ok(answer.status == 503 and "disk is full" in answer.json["detail"], "in the end a job is refused, and why", answer)
    ok(d.process.poll() is None, "the controller is there", d.stderr())
    ok("StoreFull" in kinds(), "and says that somebody should look", kinds())
    time.sleep(3)
    jobs = {j["id"]: j["state"] for j in d.get("/jobs?limit=1000").json["items"]}
    ok(sorted(jobs) == sorted(taken), "what was acknowledged is there, nothing else", (sorted(jobs), sorted(taken)))
    ok(jobs[runs] == "RUNNING" and d.get("/nodes").json["items"][0]["connected"], "the job runs on, its node is heard", jobs[runs])
    os.unlink(folder + "/filler")
    ok(d.until(lambda: "StoreFull" not in kinds()), "room is found by itself", kinds())
    after = d.post("/jobs", {"name": "after", "run": "true", "gpus": 1})
    ok(after.status == 201, "and jobs are taken again", after)
    ok(d.wait_state(after.json["id"], "COMPLETED"), "and run", d.get("/jobs/%d" % after.json["id"]))
    return taken


def no_room_to_begin(folder):
    """Neither room for a state nor the right to make one: it ends at once, and names the place."""
    def start(state):
        r = subprocess.run([MUSTERD, "--dev", "--fake", "1x1:H100", "--listen", "127.0.0.1:0", "--state", state],
                           capture_output=True, text=True, timeout=60)
        return r, r.returncode == 1 and r.stderr.count("\n") == 1 and state in r.stderr and "PRAGMA" not in r.stderr

    fresh = folder + "/fresh"
    os.mkdir(fresh)
    try:
        with open(folder + "/filler", "wb", buffering=0) as f:
            while True:
                f.write(b"x" * 4096)
    except OSError:
        pass
    r, told = start(fresh)
    ok(told and "full" in r.stderr, "a state without room", r)
    os.unlink(folder + "/filler")
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    r, told = start(fresh)
    ok(told and "Read-only file system" in r.stderr, "a state that cannot be written", r)
    subprocess.run(["mount", "-o", "remount,rw", folder], check=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", folder], capture_output=True, text=True)
        if made.returncode != 0:
            print("1..0 # SKIP no file system of its own: %s" % made.stderr.strip())
            return
        try:
            with Musterd("1x8:H100", state=folder) as d:
                taken = story(d, folder)
            with Musterd("1x8:H100", state=folder) as d:
                lost = [j for j in taken if d.get("/jobs/%d" % j).status != 200]
                ok(not lost, "all of it is there after a restart", lost)
                d.post("/jobs:batch", {"action": "cancel", "ids": taken})
                d.until(lambda: not d.get("/jobs").json["items"])
            no_room_to_begin(folder)
        finally:
            subprocess.run(["umount", "-l", folder])
    done()


main()
