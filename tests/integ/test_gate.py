#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A successor that is launched up to its gate while its predecessor has the GPU (liquid, prestart=on), with real processes:
it waits there without running, goes when the GPU is free and never before, and leaves nothing when it is not wanted. A
controller that is killed meanwhile still opens the gate. One whose predecessor has used the GPU and only saves its result
goes beside it, before it has left, and nobody else does."""
import os
import signal
import tempfile

from cluster import Musterd, done, ok

SETTINGS = {"quota": {"H100": 1}, "policy": "liquid", "set": {"prestart": "on", "prestart-extra": "300s"}}
STAMP = "date +%s.%N"


def tasks(m, job):
    return m.get("/jobs/%d/tasks" % job).json["items"]


def folders(state):
    return os.listdir(os.path.join(state, "nodes/gpu01/tasks"))


def pair(m, folder, first, second):
    """Two jobs for one GPU, the second at its gate."""
    gate = os.path.join(folder, "end")
    if os.path.exists(gate):
        os.unlink(gate)
    a = m.post("/jobs", {"run": "while [ ! -e %s ]; do sleep 0.05; done; %s" % (gate, first), "gpus": 1, "time": "60s"}).json["id"]
    ok(m.wait_state(a, "RUNNING"), "the predecessor runs")
    b = m.post("/jobs", {"run": second, "gpus": 1, "time": "60s"}).json["id"]
    ok(m.until(lambda: [t["state"] for t in tasks(m, b)] == ["ready"]), "its successor is prepared behind it", tasks(m, b))
    j = m.get("/jobs/%d" % b).json
    ok(j["state"] == "PENDING" and j["reason"]["code"] == "Preempting", "and waits as before", j)
    return a, b, lambda: open(gate, "w").close()


def opens(m, folder):
    began = os.path.join(folder, "began")
    a, b, end = pair(m, folder, STAMP, "%s | tee %s; echo $MUSTER_ATTEMPT $MUSTER_RESUME" % (STAMP, began))
    ok(not os.path.exists(began), "none of its own instructions has run")
    end()
    ok(m.wait_state(b, "COMPLETED") and m.state(a) == "COMPLETED", "it goes when the GPU is free")
    left = float(m.get("/jobs/%d/logs" % a).body)
    lines = m.get("/jobs/%d/logs" % b).body.decode().split("\n")
    ok(float(lines[0]) >= left and lines[1] == "0 0", "not before, and as a first attempt", (left, lines))
    print("# from the last word of one to the first of the other: %.1f ms" % ((float(lines[0]) - left) * 1000))


def taken_back(m, folder, state):
    a, b, end = pair(m, folder, "true", "touch %s/never" % folder)
    m.ask("DELETE", "/jobs/%d" % b)
    ok(m.wait_state(b, "CANCELLED"), "cancelled at its gate", m.get("/jobs/%d" % b))
    ok(m.until(lambda: folders(state) == ["%d.0.0" % a]), "nothing of it is left on the node", folders(state))
    end()
    ok(m.wait_state(a, "COMPLETED"), "the other is not disturbed")
    ok(not os.path.exists(os.path.join(folder, "never")), "it never ran")


def elsewhere(m, folder, state):
    """The prediction was wrong: the GPU goes to somebody with a better right, and the prepared one waits on."""
    a, b, end = pair(m, folder, "true", "echo ran; sleep 0.2")
    m.ask("PATCH", "/nodes/gpu01", {"drain": True, "reason": "wrong"})
    end()
    ok(m.wait_state(a, "COMPLETED"), "the predecessor ends on a node that is drained")
    m.ask("PATCH", "/nodes/gpu01", {"drain": False})
    ok(m.wait_state(b, "COMPLETED"), "its successor runs all the same, once", m.get("/jobs/%d" % b))
    ok(m.get("/jobs/%d/logs" % b).body == b"ran\n", "its output is whole", m.get("/jobs/%d/logs" % b))
    ok(m.until(lambda: folders(state) == []), "nothing is left", folders(state))


def killed(m, folder):
    a, b, end = pair(m, folder, STAMP, STAMP)
    m.stop(signal.SIGKILL)
    m.start()
    m.wait_nodes(1)
    ok([t["state"] for t in tasks(m, b)] == ["ready"] and m.state(a) == "RUNNING", "a killed controller finds both as they were",
       (tasks(m, b), m.state(a)))
    end()
    ok(m.wait_state(b, "COMPLETED"), "and opens the gate", m.get("/jobs/%d" % b))
    ok(float(m.get("/jobs/%d/logs" % b).body) >= float(m.get("/jobs/%d/logs" % a).body), "after the other has left")


def util(m):
    return m.get("/nodes/gpu01").json["gpu_list"][0]["util"]


def saver(m, folder, end):
    """A job that uses its GPU until `used` is there, saves its result for as long as it takes, and ends so."""
    for name in ("used", "saved"):
        if os.path.exists(os.path.join(folder, name)):
            os.unlink(os.path.join(folder, name))
    use = "for i in 1 2 3 4; do while [ ! -e %s/used ]; do :; done & done; wait" % folder
    a = m.post("/jobs", {"run": "%s; while [ ! -e %s/saved ]; do sleep 0.05; done; %s; %s" % (use, folder, STAMP, end), "gpus": 1,
                         "time": "300s"}).json["id"]
    ok(m.until(lambda: m.state(a) == "RUNNING" and util(m) >= 10, 120), "the predecessor uses the GPU", m.get("/nodes/gpu01"))
    return a, lambda name: open(os.path.join(folder, name), "w").close()


def yields(m, folder, state):
    a, touch = saver(m, folder, "true")
    b = m.post("/jobs", {"run": STAMP + "; while [ ! -e %s/over ]; do sleep 0.05; done; %s" % (folder, STAMP), "gpus": 1,
                         "time": "60s"}).json["id"]
    # On a machine that has no time for the predecessor its GPU may seem idle, and the gate be open already.
    ok(m.until(lambda: [t["state"] for t in tasks(m, b)] in (["ready"], ["running"])), "its successor is at its gate", tasks(m, b))
    c = m.post("/jobs", {"run": STAMP, "gpus": 1, "time": "60s"}).json["id"]
    touch("used")
    ok(m.wait_state(b, "RUNNING"), "when the GPU is seen idle the gate opens", (tasks(m, b), util(m)))
    ok(m.state(a) == "RUNNING", "while the predecessor still saves its result", m.get("/jobs/%d" % a))
    ok(m.state(c) == "PENDING", "nobody else goes beside it", m.get("/jobs/%d" % c))
    m.stop(signal.SIGKILL)
    m.start()
    m.wait_nodes(1)
    ok((m.state(a), m.state(b), m.state(c)) == ("RUNNING", "RUNNING", "PENDING"), "a killed controller finds them so",
       [m.get("/jobs/%d" % j).json["state"] for j in (a, b, c)])
    touch("saved")
    ok(m.wait_state(a, "COMPLETED"), "the predecessor ends by itself", m.get("/jobs/%d" % a))
    ok(m.state(b) == "RUNNING" and m.state(c) == "PENDING", "its GPU is the successor's", m.get("/jobs/%d" % b))
    touch("over")
    ok(m.wait_state(b, "COMPLETED") and m.wait_state(c, "COMPLETED"), "and then the next one's", m.get("/jobs/%d" % c))
    saved = float(m.get("/jobs/%d/logs" % a).body)
    began, over = [float(line) for line in m.get("/jobs/%d/logs" % b).body.split()]
    third = float(m.get("/jobs/%d/logs" % c).body)
    ok(began < saved and third >= over, "in this order", (began, saved, over, third))
    ok(m.until(lambda: folders(state) == []), "nothing is left", folders(state))
    for name in ("used", "saved", "over"):
        os.unlink(os.path.join(folder, name))


def fails_saving(m, folder):
    """One that fails when it has yielded has failed; one that is cancelled then is gone. The other is not disturbed."""
    for end, want in (("exit 3", "FAILED"), (None, "CANCELLED")):
        a, touch = saver(m, folder, end or "true")
        b = m.post("/jobs", {"run": "while [ ! -e %s/over ]; do sleep 0.05; done" % folder, "gpus": 1, "time": "60s"}).json["id"]
        touch("used")
        ok(m.wait_state(b, "RUNNING") and m.state(a) == "RUNNING", "both are on the GPU", m.get("/jobs/%d" % b))
        if end:
            touch("saved")
        else:
            m.ask("DELETE", "/jobs/%d" % a)
        ok(m.wait_state(a, want) and m.state(b) == "RUNNING", "the one is %s, the other runs" % want, m.get("/jobs/%d" % a))
        touch("over")
        ok(m.wait_state(b, "COMPLETED"), "to its end", m.get("/jobs/%d" % b))
        os.unlink(os.path.join(folder, "over"))


def main():
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as state:
        config = os.path.join(folder, "muster.yaml")
        with open(config, "w") as f:
            f.write("lease: {time: 60s, node_timeout: 10s, beat: 200ms}\n")  # that GPUs idle is seen with beats
        m = Musterd("1x1:H100", state=state, args=["--config", config])
        m.start()
        m.wait_nodes(1)
        ok(m.ask("PUT", "/vcs/default", SETTINGS).status == 200, "liquid with prestart")
        opens(m, folder)
        taken_back(m, folder, state)
        elsewhere(m, folder, state)
        killed(m, folder)
        yields(m, folder, state)
        fails_saving(m, folder)
        ok(m.alive(), "musterd is there")
        m.stop()
    done()


main()
