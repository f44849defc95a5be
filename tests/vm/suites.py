# SPDX-License-Identifier: Apache-2.0
"""Tests of the project that leave something out where privileges or control groups are missing, run where nothing is."""
import os
import re
import subprocess

from machine import ok, say, shell

SOURCE = "/root/muster"
RACER = "/tmp/racer"
TESTS = ["hostile/test_strangers.py", "hostile/test_neighbours.py", "agent/test_inside.py", "agent/test_tasks.py", "integ/test_sick.py", "integ/test_full.py", "integ/test_units.py",
         "integ/test_roles.py"]


def one(name):
    build = SOURCE + "/build"
    words = [build + "/muster-agent"] if name.startswith(("agent/", "hostile/")) else []
    words += [RACER] if name.startswith("hostile/") else []
    env = dict(os.environ, MUSTER_BUILD=build, PYTHONDONTWRITEBYTECODE="1", TERM="dumb", HOSTILE_ROUNDS="200")
    ran = subprocess.run(["python3", "%s/tests/%s" % (SOURCE, name), *words], cwd=build, env=env, capture_output=True, text=True,
                         stdin=subprocess.DEVNULL, timeout=900)
    good, bad = len(re.findall(r"^ok ", ran.stdout, re.M)), re.findall(r"^not ok .*(?:\n#.*)*", ran.stdout, re.M)
    for line in re.findall(r".*SKIP.*", ran.stdout):
        say("# %s: %s" % (name, line))
    ok(ran.returncode == 0 and good > 0 and not bad, "%s: %d cases" % (name, good), "\n".join(bad) + ran.stderr[-1500:])


def run():
    """the tests that need privileges, with all of them"""
    shell("systemctl stop muster-agent musterd; chmod 711 /root")  # the programs are started by others, too
    shell("cc -O2 -D_GNU_SOURCE -o %s %s/tests/hostile/racer.c" % (RACER, SOURCE))
    for name in TESTS:
        one(name)
