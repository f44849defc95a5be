# SPDX-License-Identifier: Apache-2.0
"""A machine on which muster was just installed, looked at from outside: the units, two people, jobs in groups, in runc and in
podman, units that are restarted, and the machine itself. TAP, numbered over the machine's restarts.

Run by its unit at every start of the machine (tools/vm); the parts to run, all unless told, are in /root/check.words. Where it has
come to, and what it will want to know after a restart of the machine, is in /var/lib/muster-check.
"""
import json
import os
import subprocess
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import containers  # noqa: E402
import jobs  # noqa: E402
import restarts  # noqa: E402
import setup  # noqa: E402
import suites  # noqa: E402
from machine import KEPT, ok, say, shell  # noqa: E402

# A part is one function; what comes after it may stand on what it has made. The first is always run.
PARTS = [("setup", setup.install), ("people", setup.people), ("jobs", jobs.inside), ("limits", jobs.limits), ("ends", jobs.ends),
         ("runc", containers.runc), ("podman", containers.podman), ("units", restarts.units), ("reboot", restarts.before),
         ("reboot", restarts.after), ("suites", suites.run)]


def words():
    try:
        with open("/root/check.words") as f:
            return f.read().split()
    except OSError:
        return []


def main():
    chosen = words()
    KEPT.load()
    while KEPT["at"] < len(PARTS):
        name, part = PARTS[KEPT["at"]]
        KEPT["at"] += 1
        KEPT.save()  # before it: the next start of the machine goes on behind the part that asked for it
        if chosen and KEPT["at"] > 1 and name not in chosen:
            continue
        say("# %s: %s" % (name, part.__doc__ or ""))
        try:
            if part() == "reboot":
                KEPT.save()
                shell("systemctl reboot")
                return
        except Exception:  # a part that cannot go on is a failure, and the others are looked at all the same
            ok(False, "%s came to its end" % name, traceback.format_exc())
    say("1..%d" % KEPT["count"])
    say("# %d of %d failed" % (KEPT["failed"], KEPT["count"]))
    with open("/root/check.json", "w") as f:
        json.dump(dict(KEPT.all), f)
    subprocess.run(["systemctl", "poweroff"])


main()
