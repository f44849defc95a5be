#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A state that is damaged while nobody uses it: the controller does not start and says what is wrong, `musterd fsck`
says more, --repair makes of it what can be proved, with a backup all of it. And one that is damaged where nobody looks:
the controller finds it by itself."""
import os
import shutil
import signal
import subprocess
import tempfile

from cluster import MUSTERD, Musterd, done, muster, ok


def fsck(state, *words):
    return subprocess.run([MUSTERD, "fsck", *words, state], capture_output=True, text=True, timeout=60)


def start(state):
    return subprocess.run([MUSTERD, "--dev", "--listen", "127.0.0.1:0", "--state", state], capture_output=True,
                          text=True, timeout=60)


def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 4]))


def submit(m, count):
    return [m.post("/jobs", {"run": "true", "gpus": 1, "hold": True}).json["id"] for _ in range(count)]


def has(m, jobs):
    return [job for job in jobs if m.get("/jobs/%d" % job).status == 200]


def refused(state, words, what):
    before = {name: os.stat(state + "/" + name).st_mtime_ns for name in ("muster.db", "log-tail")}
    r = start(state)
    ok(r.returncode == 1 and words in r.stderr and "musterd fsck" in r.stderr and r.stderr.count("\n") == 1, what, r)
    ok(before == {name: os.stat(state + "/" + name).st_mtime_ns for name in before}, what + ": nothing was changed")
    r = fsck(state)
    ok(r.returncode == 1 and "damaged: " in r.stdout, what + ": fsck says so too", r)
    return r.stdout


def at_rest(folder):
    state, copy = folder + "/state", folder + "/copy"
    with Musterd("1x8:H100", state=state) as m:
        m.wait_nodes(1)
        first = submit(m, 20)
        r = muster(m, "cluster", "backup", folder + "/backup")
        ok(r.returncode == 0, "a backup", r)
        second = submit(m, 20)
        m.stop(signal.SIGKILL)
        r = fsck(state)
        ok(r.returncode == 0 and "all is well" in r.stdout, "after a kill all is well", r)
        shutil.copytree(state, copy)

    def again():
        shutil.rmtree(state)
        shutil.copytree(copy, state)

    again()
    os.remove(state + "/muster.db-wal")
    refused(state, "muster.db-wal is missing", "without the write-ahead log")
    again()
    flip(state + "/muster.db-wal", 5000)
    refused(state, "muster.db-wal is damaged at byte", "a bit of the write-ahead log")
    again()
    os.remove(state + "/log-tail")
    refused_missing = start(state)
    ok(refused_missing.returncode == 1 and "log-tail is missing" in refused_missing.stderr, "without the tail",
       refused_missing)
    again()
    for name in ("log-tail", "log-map"):
        if os.path.exists(state + "/" + name):
            flip(state + "/" + name, 100)
    refused(state, "log-tail: damaged at byte", "a bit of both files of the tail")
    r = fsck(state, "--repair")
    ok("submit" in r.stdout, "the batches that were lost and can be read are told", r)
    ok(r.returncode == 0 and "lost: batches" in r.stdout and os.path.exists(state + "/damaged-1/log-tail"),
       "what is left is made a state", r)
    with Musterd(state=state) as m:
        left = has(m, first + second)
        ok(len(first) <= len(left) < 40 and left == (first + second)[:len(left)], "it has all before the damage", left)
    return first, second


def hidden(folder):
    """In a record of the past, which no start reads."""
    state = folder + "/past"
    with Musterd("1x8:H100", state=state) as m:
        m.wait_nodes(1)
        jobs = [m.post("/jobs", {"run": "true", "gpus": 1, "name": "x" * 60}).json["id"] for _ in range(60)]
        ok(all(m.wait_state(job, "COMPLETED") for job in jobs), "jobs end")
    with open(state + "/muster.db", "rb") as f:
        at = f.read().rfind(b"x" * 60)
    ok(at > 0, "the past is in the database", at)
    flip(state + "/muster.db", at)
    with Musterd(state=state) as m:
        def kinds():
            return [a["kind"] for a in m.get("/alerts").json["items"]]
        ok(m.until(lambda: "StoreDamaged" in kinds()), "a scrub finds it", kinds())
        ok("page" in m.stderr(), "and the log has the page", m.stderr())
        m.stop()
    r = fsck(state, "--repair")
    ok(r.returncode == 0 and "finished job" in r.stdout, "repaired: the record is named", r)
    r = fsck(state)
    ok(r.returncode == 0, "and then all is well", r)


def main():
    folder = tempfile.mkdtemp()
    at_rest(folder)
    hidden(folder)
    shutil.rmtree(folder)
    done()


main()
