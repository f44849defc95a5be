# SPDX-License-Identifier: Apache-2.0
"""Programs that train, for tests of policies that learn from running jobs: they say how far they are, share emulated GPUs as
real ones would, and go on where they were when they are started again."""
import os

# TRAIN STEPS CPU GPU [SERIAL]: a step takes CPU seconds beside the GPU, then GPU seconds on it, divided by the GPUs it has but for
# the part SERIAL. Who shares the first of its GPUs waits for the other: a lock a GPU, in the folder LOCKS.
TRAIN = r"""
import fcntl, os, signal, socket, sys, time
steps, cpu, gpu = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
serial = float(sys.argv[4]) if len(sys.argv) > 4 else 0
folder, job = os.environ["LOCKS"], os.environ["MUSTER_JOB_ID"]
have = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
if os.environ.get("SLOW") == os.environ["MUSTER_NODELIST"]:
    cpu *= 3  # of a job that is worse off there
say = None
if "MUSTER_SOCKET" in os.environ and not os.environ.get("SILENT"):
    say = socket.socket(socket.AF_UNIX)
    say.connect(os.environ["MUSTER_SOCKET"])
saved = os.path.join(folder, "saved-" + job)
step = int(open(saved).read()) if os.path.exists(saved) else 0

def leave(*unused):
    with open(saved + ".new", "w") as f:
        f.write(str(step))
    os.rename(saved + ".new", saved)
    os._exit(85)

signal.signal(signal.SIGTERM, leave)
lock = open(os.path.join(folder, "gpu-" + os.environ["MUSTER_NODELIST"] + have[0]), "w")
while step < steps:
    time.sleep(cpu)
    contended = 1
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        contended = 1.2  # who has to wait finds the caches of another
        fcntl.flock(lock, fcntl.LOCK_EX)
    time.sleep(gpu * contended * (serial + (1 - serial) / len(have)))
    fcntl.flock(lock, fcntl.LOCK_UN)
    step += 1
    if say:
        say.sendall(("step=%d total=%d loss=%g\n" % (step, steps, 0.1 + 1 / (step + 1))).encode())
"""


class Trainer:
    """Jobs of one folder."""

    def __init__(self, m, folder):
        self.m, self.folder = m, folder
        self.script = os.path.join(folder, "train.py")
        with open(self.script, "w") as f:
            f.write(TRAIN)

    def submit(self, *words, **spec):
        body = {"run": "exec python3 %s %s" % (self.script, " ".join(str(w) for w in words)), "env": {"LOCKS": self.folder},
                "grace": "10s"}
        env = spec.pop("env", {})
        body.update(spec)
        body["env"].update(env)
        a = self.m.post("/jobs", body)
        assert a.status == 201, a
        return a.json["id"]


def configured(folder, measure="1s"):
    """A file of settings in which a minute of measurements lasts a second."""
    path = os.path.join(folder, "muster.yaml")
    with open(path, "w") as f:
        f.write("lease: {time: 60s, node_timeout: 10s, beat: 200ms, measure: %s}\n" % measure)
    return path
