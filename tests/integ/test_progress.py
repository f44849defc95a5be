#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far a job is: by a line on MUSTER_SOCKET, by `muster progress`, by patterns in its output; what a liar gains. Real
processes."""
import os
import tempfile

from cluster import MUSTER, Musterd, done, muster, ok

SAYS = r"""
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["MUSTER_SOCKET"])
step, pause, limit = 0, float(sys.argv[1]), float(sys.argv[2]) + time.time()
while time.time() < limit:
    step += 1
    s.sendall(("step=%d total=100000 epoch=%g loss=%g\n" % (step, step / 100, 1 / step)).encode())
    time.sleep(pause)
"""

FLOODS = r"""
import os, socket, time
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["MUSTER_SOCKET"])
end, step = time.time() + 8, 0
words = [b"step=nan loss=nan\n", b"step=-5 loss=inf\n", b"step=99999999999999999999999\n", b"loss=1e300\n", b"=\n", b"\n",
         b"step=\n", b"step=900000000000 loss=-1e9\n", b"step=1\n", b"\xff\xfe=\x01\n", b"ckpt step=1 path=/x\n",
         b"x" * 5000 + b"\n"]
while time.time() < end:
    try:
        s.sendall(b"".join(words) * 100)
    except OSError:  # a line too long ends the connection
        s = socket.socket(socket.AF_UNIX)
        s.connect(os.environ["MUSTER_SOCKET"])
time.sleep(1000)
"""


def progress(m, job):
    return m.get("/jobs/%d" % job).json["progress"]


def by_a_line(m, folder):
    script = os.path.join(folder, "says.py")
    with open(script, "w") as f:
        f.write(SAYS)
    job = m.post("/jobs", {"run": "exec python3 %s 0.05 30" % script, "gpus": 1}).json["id"]
    ok(m.until(lambda: (progress(m, job) or {}).get("rate"), 40), "a job says its steps, and has a rate", progress(m, job))
    p = progress(m, job)
    ok(p["source"] == "socket" and p["state"] == "moving" and p["total"] == 100000, "and where that is from", p)
    # A loaded machine makes steps later, never sooner.
    ok(0.5 < p["rate"] <= 21, "twenty steps a second at most", p)
    ok(abs(p["epoch"] - p["step"] / 100) < 0.011 and 0 < p["loss"] <= 1, "epochs and losses are its own", p)
    ok(p["end"], "with a total it is known when it will be done", p)
    said = muster(m, "show", job).stdout
    ok("progress" in said and "of 100000" in said and "(socket)" in said, "muster show tells it", said)
    m.post("/jobs/%d/suspend" % job)
    ok(m.wait_state(job, "SUSPENDED") and progress(m, job)["step"] and not progress(m, job)["end"],
       "while it is suspended nobody says when it will be done", progress(m, job))
    m.post("/jobs/%d/cancel" % job)


def by_the_command(m):
    job = m.post("/jobs", {"run": "i=0; while [ $i -lt 100 ]; do i=$((i+5)); %s progress step=$i loss=0.5 || exit 9; "
                                  "sleep 0.7; done" % os.path.abspath(MUSTER), "gpus": 1}).json["id"]
    ok(m.until(lambda: (progress(m, job) or {}).get("step", 0) >= 10), "muster progress inside a job", progress(m, job))
    m.post("/jobs/%d/cancel" % job)
    for words in (["step=x"], ["speed=3"], ["step"]):
        got = muster(m, "progress", *words)
        ok(got.returncode == 2 and "expected" in got.stderr, "muster progress %s is refused in words" % words[0], got)


def by_its_output(m):
    job = m.post("/jobs", {"run": "i=0; while [ $i -lt 900 ]; do i=$((i+1)); printf 'epoch 1: step %d/900 loss 0.25\\r' $i >&2; "
                                  "sleep 0.1; done", "gpus": 1,
                           "progress": {"step": r"step (\d+)/", "total": r"step \d+/(\d+)", "loss": "loss ([0-9.]+)"}}).json["id"]
    ok(m.until(lambda: (progress(m, job) or {}).get("rate")), "patterns find it in a bar that draws itself again",
       progress(m, job))
    p = progress(m, job)
    ok(p["source"] == "output" and p["total"] == 900 and p["loss"] == 0.25, "with its source", p)
    m.post("/jobs/%d/cancel" % job)
    for patterns, words in (({"step": "("}, "'(' without ')'"), ({"speed": "x"}, "expected step"), ({"step": "a{2}"}, "not known")):
        a = m.post("/jobs", {"run": "true", "gpus": 1, "progress": patterns})
        ok(a.status == 400 and words in a.body.decode(), "%s is refused in words" % patterns, a)


def hostile(m, folder):
    """Neither nonsense nor floods hurt: another job goes on, and the log grows by little."""
    script, log = os.path.join(folder, "floods.py"), lambda: m.get("/audit").json
    with open(script, "w") as f:
        f.write(FLOODS)
    bad = m.post("/jobs", {"run": "exec python3 %s" % script, "gpus": 1}).json["id"]
    ok(m.wait_state(bad, "RUNNING"), "a job talks without end")
    good = m.post("/jobs", {"run": "true", "gpus": 1}).json["id"]
    ok(m.wait_state(good, "COMPLETED"), "another one runs")
    ok(m.until(lambda: progress(m, bad) is not None), "what could be true of it is kept", progress(m, bad))
    p = progress(m, bad)
    ok(p["rate"] is None or 0 <= p["rate"] <= 1000000, "its rate has an end", p)
    m.post("/jobs/%d/cancel" % bad)
    ok(m.wait_state(bad, "CANCELLED"), "and it can be ended")
    ok(log()["ok"] and m.alive(), "the controller is well", log())


def main():
    with Musterd("1x4:H100") as m, tempfile.TemporaryDirectory() as folder:
        m.wait_nodes(1)
        by_a_line(m, folder)
        by_the_command(m)
        by_its_output(m)
        hostile(m, folder)
    done()


main()
