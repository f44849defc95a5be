# SPDX-License-Identifier: Apache-2.0
"""What a test has left behind on the machine: processes, control groups, files in memory, mounts.

A test that imports this works below a folder of its own (`ROOT`), and everything it starts carries a mark in its
environment. So others' tests that run at the same time are not taken for its own.
"""
import atexit
import glob
import os
import shutil
import tempfile
import time

ROOT = tempfile.mkdtemp(prefix="mt-")  # short: sockets live below
MARK = "MUSTER_TEST_MARK=" + os.path.basename(ROOT)
GROUPS = ("/sys/fs/cgroup/muster/*", "/sys/fs/cgroup/unified/muster/*")

os.chmod(ROOT, 0o755)
tempfile.tempdir = os.environ["TMPDIR"] = ROOT
os.environ.update([MARK.split("=")])
atexit.register(shutil.rmtree, ROOT, ignore_errors=True)


def inside(path):
    return path == ROOT or path.startswith(ROOT + "/")


def places():
    """Directories in memory that belong to a state of ours: {directory: state}."""
    found = {}
    for owner in glob.glob("/run/muster-*/owner") + glob.glob("/dev/shm/muster-*/owner"):
        try:
            state = os.readlink(owner)
        except OSError:
            continue
        if inside(state):
            found[os.path.dirname(owner)] = state
    return found


def processes():
    """What we started, and the jobs of our agents."""
    marks = [MARK.encode() + b"\0"] + [place.encode() + b"/tasks/" for place in places()] + [ROOT.encode() + b"/"]
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                text = f.read()
            with open("/proc/%s/stat" % pid) as f:
                ended = f.read().rsplit(")", 1)[1].split()[0] in "ZX"
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                words = f.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if int(pid) != os.getpid() and not ended and any(mark in text for mark in marks):
            found.append("process %s: %s" % (pid, words))
    return found


def groups():
    """Groups of our agents: {group: whether somebody is in it}."""
    found = {}
    for path in sum((glob.glob(pattern) for pattern in GROUPS), []):
        try:
            if inside(os.getxattr(path, "trusted.muster.state").decode()):
                with open(path + "/cgroup.events") as f:
                    found[path] = "populated 1" in f.read()
        except OSError:
            continue
    return found


def mounts():
    with open("/proc/self/mountinfo") as f:
        return ["mount %s" % line.split()[4] for line in f if inside(line.split()[4])]


def left():
    passing = [p for p, state in places().items() if os.path.basename(os.path.dirname(os.path.dirname(state))).startswith("muster-dev-")]
    return processes() + mounts() + ["group %s" % g for g, busy in groups().items() if busy] + ["files in %s" % p for p in passing]


def check(seconds=20):
    """A list, empty when all is gone or goes in time. What agents that were killed left for the next one is removed."""
    end = time.time() + seconds
    while left() and time.time() < end:
        time.sleep(0.1)
    remains = left()
    for path in groups():
        for below, _, _ in os.walk(path, topdown=False):
            try:
                os.rmdir(below)
            except OSError:
                pass
    for path in places():
        shutil.rmtree(path, ignore_errors=True)
    return remains
