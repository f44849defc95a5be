#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node that can start nothing does not swallow the queue; and whoever waits for a job that could not be started is told
why, in words."""
import os
import shutil
import subprocess
import tempfile

from cluster import Musterd, agent, done, muster, ok


def node(m, name):
    return m.get("/nodes/" + name).json


def swallows_nothing(m, folder):
    tmp = os.path.join(folder, "sick", "tmp")
    os.rename(tmp, tmp + ".away")
    open(tmp, "w").close()  # where tasks have their directories there is none
    only = m.post("/jobs", {"run": "true", "gpus": 1, "nodelist": "sick"}).json["id"]
    n = {}
    ok(m.until(lambda: n.update(node(m, "sick")) or n["state"] == "drain"), "the first refusal drains the node", n)
    ok("could not start a task: temporary directory of the job: Not a directory" in n["drain_reason"] and n["resume_time"],
       "with the reason, and until when", n)
    ok(m.until(lambda: any(a["node"] == "sick" and a["severity"] == "warning" and "Not a directory" in a["text"]
                           for a in m.get("/alerts").json["items"])), "somebody should look at it", m.get("/alerts"))
    jobs = [m.post("/jobs", {"run": "true", "gpus": 1}).json["id"] for _ in range(40)]
    ok(all(m.wait_state(j, "COMPLETED") for j in jobs), "what waits runs elsewhere",
       [m.get("/jobs/%d" % j).json for j in jobs if m.state(j) != "COMPLETED"][:1])
    fails = m.get("/jobs/%d" % only).json["failures"]
    ok(m.state(only) in ("PENDING", "STARTING") and fails < 8, "one that only fits there waits, and is not tried without end", fails)
    r = muster(m, "show", str(only))
    ok("not started on sick: temporary directory of the job: Not a directory" in r.stdout, "its attempts say why", r.stdout)
    ok(m.until(lambda: m.get("/jobs/%d" % only).json["failures"] > fails), "by and by the node is tried again")
    os.unlink(tmp)
    os.rename(tmp + ".away", tmp)
    ok(m.wait_state(only, "COMPLETED"), "mended, it is used again by itself", m.get("/jobs/%d" % only))
    n = node(m, "sick")
    ok(n["state"] == "idle" and n["drain_reason"] == "" and n["resume_time"] is None, "and is well", n)


def full(m, folder):
    """A disk without room for output is told before a job runs in vain."""
    if os.getuid() != 0 or subprocess.run(["mountpoint", "-q", os.path.join(folder, "sick")]).returncode:
        print("# SKIP full: no small disk here")
        return
    filler = os.path.join(folder, "sick", "filler")
    with open(filler, "wb") as f:
        try:
            while f.write(bytes(65536)):
                f.flush()
        except OSError:
            pass
    only = m.post("/jobs", {"run": "echo hello", "gpus": 1, "nodelist": "sick"}).json["id"]
    n = {}
    ok(m.until(lambda: n.update(node(m, "sick")) or n["state"] == "drain"), "a full disk drains the node", n)
    ok("no room for output" in n["drain_reason"], "and is named", n)
    os.unlink(filler)
    ok(m.wait_state(only, "COMPLETED") and m.get("/jobs/%d/logs" % only).body == b"hello\n", "with room it is used again",
       m.get("/jobs/%d" % only))


def by_hand(m, folder):
    """Whoever drains or resumes it decides."""
    tmp = os.path.join(folder, "sick", "tmp")
    os.rename(tmp, tmp + ".away")
    open(tmp, "w").close()
    only = m.post("/jobs", {"run": "true", "gpus": 1, "nodelist": "sick"}).json["id"]
    ok(m.until(lambda: node(m, "sick")["resume_time"]), "sick again", node(m, "sick"))
    ok(muster(m, "node", "drain", "sick", "--reason", "é" * 100).returncode == 0, "drained by hand")
    n = node(m, "sick")
    ok(n["resume_time"] is None and n["drain_reason"] == "é" * 63, "it stays so; a long reason is cut between letters", n)
    os.unlink(tmp)
    os.rename(tmp + ".away", tmp)
    muster(m, "node", "resume", "sick")
    ok(m.wait_state(only, "COMPLETED"), "resumed by hand", m.get("/jobs/%d" % only))


def groups(m, folder):
    """Control groups somebody took for left over are made again."""
    if "kill" not in node(m, "well")["fences"]:
        print("# SKIP groups: no control groups here")
        return
    job = m.post("/jobs", {"run": "cut -d: -f3 /proc/self/cgroup | grep muster; sleep 60", "gpus": 1, "nodelist": "well"}).json["id"]
    ok(m.wait_state(job, "RUNNING") and m.until(lambda: m.get("/jobs/%d/logs" % job).body), "a job in its group")
    path = m.get("/jobs/%d/logs" % job).body.decode().split()[-1]
    m.ask("DELETE", "/jobs/%d?now=1" % job)
    ok(m.wait_state(job, "CANCELLED"), "it ends")
    root = [line.split()[1] for line in open("/proc/mounts") if line.split()[2] == "cgroup2"][0]
    above = os.path.dirname(root + path)
    ok(m.until(lambda: not any(os.path.isdir(os.path.join(above, n)) for n in os.listdir(above))), "its group goes",
       os.listdir(above))
    os.rmdir(above)
    job = m.post("/jobs", {"run": "cut -d: -f3 /proc/self/cgroup | grep muster", "gpus": 1, "nodelist": "well"}).json["id"]
    ok(m.wait_state(job, ("COMPLETED", "FAILED", "NODE_FAIL")) and m.state(job) == "COMPLETED" and
       m.get("/jobs/%d" % job).json["failures"] == 0, "the next has one all the same", m.get("/jobs/%d" % job))


def the_users_fault(m, folder):
    for words, spec in (("well: output %s: Is a directory" % folder, {"output": folder}),
                        ("well: working directory %s/none: No such file or directory" % folder, {"dir": folder + "/none"})):
        job = m.post("/jobs", dict({"run": "true", "gpus": 1, "nodelist": "well"}, **spec)).json["id"]
        ok(m.wait_state(job, "FAILED"), "a job that cannot be started", m.get("/jobs/%d" % job))
        j = m.get("/jobs/%d" % job).json
        ok(j["end_text"] == ("it could not be started on " + words)[:127] and j["attempt"] == 0, "says why, and is not tried again", j)
        r = muster(m, "why", str(job))
        ok("it could not be started on well" in r.stdout, "so does why", r.stdout)
    r = muster(m, "run", "-w", "well", "-D", folder + "/none", "--", "true")
    ok(r.returncode == 125 and "it could not be started on well" in r.stderr, "and run", r)
    ok(node(m, "well")["state"] == "idle" and node(m, "well")["drain_reason"] == "", "the node is not blamed", node(m, "well"))


def main():
    folder = tempfile.mkdtemp(prefix="muster-sick")
    agents = []
    try:
        os.mkdir(folder + "/sick")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs", folder + "/sick"], capture_output=True)
        with Musterd(args=("--state", folder + "/state")) as m:
            agents = [agent(m, folder, "sick", 2), agent(m, folder, "well", 2)]
            ok(m.wait_nodes(2), "two agents")
            swallows_nothing(m, folder)
            by_hand(m, folder)
            full(m, folder)
            the_users_fault(m, folder)
            groups(m, folder)
            for process in agents:
                process.terminate()
                process.wait(30)
    finally:
        for process in agents:
            if process.poll() is None:
                process.kill()
                process.wait()
        subprocess.run(["umount", folder + "/sick"], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
    return done()


if __name__ == "__main__":
    raise SystemExit(main())
