# SPDX-License-Identifier: Apache-2.0
"""What the parts of the check share: TAP that goes on after a restart of the machine, commands as one of the people, jobs."""
import json
import os
import pwd
import subprocess
import time

MUSTER = "/usr/local/bin/muster"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED")
PATIENCE = 120  # seconds; an emulated processor is slow


class Kept:
    """Numbers and names that outlive the machine's restart."""
    path = "/var/lib/muster-check/state.json"

    def __init__(self):
        self.all = {"at": 0, "count": 0, "failed": 0}

    def load(self):
        if os.path.exists(self.path):
            with open(self.path) as f:
                self.all = json.load(f)

    def save(self):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path + ".new", "w") as f:
            json.dump(self.all, f)
            f.flush()
            os.fsync(f.fileno())
        os.rename(self.path + ".new", self.path)

    def __getitem__(self, key):
        return self.all[key]

    def __setitem__(self, key, value):
        self.all[key] = value


KEPT = Kept()


def say(text):
    print(text, flush=True)


def ok(condition, what, detail=None):
    KEPT["count"] += 1
    say("%s %d - %s" % ("ok" if condition else "not ok", KEPT["count"], what))
    if not condition:
        KEPT["failed"] += 1
        say("# " + str(detail)[-3000:].replace("\n", "\n# "))
    return bool(condition)


def until(true, patience=PATIENCE):
    end = time.monotonic() + patience
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.3)
    return True


def shell(command):
    """As root; what it printed, both streams."""
    made = subprocess.run(["sh", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=dict(os.environ, PATH=PATH))
    return made.stdout + made.stderr


def run(user, *command, data=None, env=None):
    """As somebody who is at home."""
    account = pwd.getpwnam(user)
    around = {"PATH": PATH, "HOME": account.pw_dir, "USER": user, "LANG": "C.UTF-8", **(env or {})}
    groups = os.getgrouplist(user, account.pw_gid)
    source = {"input": data} if data is not None else {"stdin": subprocess.DEVNULL}
    return subprocess.run(command, capture_output=True, text=True, cwd=account.pw_dir, env=around, user=account.pw_uid,
                          group=account.pw_gid, extra_groups=groups, timeout=300, **source)


def muster(user, *command, data=None, env=None):
    return run(user, MUSTER, *[str(word) for word in command], data=data, env=env)


def submit(user, *words):
    """The number of the job; 0 where it was refused, which is a failure."""
    told = muster(user, "submit", "--parsable", *words)
    if told.returncode != 0:
        ok(False, "submitted: " + " ".join(map(str, words)), told)
        return 0
    return int(told.stdout)


def show(job):
    told = muster("root", "show", "--json", job)
    return json.loads(told.stdout) if told.returncode == 0 else {"state": told.stderr}


def state(job):
    return show(job)["state"]


def ended(job):
    until(lambda: state(job) in ENDED)
    return show(job)


def logs(user, job):
    return muster(user, "logs", job).stdout


def says(user, job, text):
    return until(lambda: text in logs(user, job))


def group(job, attempt=0):
    """The folder of the job's control group on this machine."""
    found = shell("ls -d /sys/fs/cgroup/muster/*/%d.%d.0" % (job, attempt)).strip()
    return found if os.path.isdir(found) else ""


def content(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError as e:
        return str(e)


def left(user):
    """Processes of somebody's jobs, by name."""
    return shell("ps -u %s -o comm= | sort | uniq -c" % user).strip()
