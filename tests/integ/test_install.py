#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an administrator meets first on a machine: a configuration as `musterd init` makes it, started by hand where /run/muster is
not there yet; a login from one folder that is used from another; the Python client over TLS by what that has kept."""
import os
import subprocess
import sys
import tempfile

from cluster import MUSTER, MUSTERD, Installed, done, ok

CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients", "python")


def socket_folder(folder, lab):
    lab.configure('listen: ["127.0.0.1:%d", %s/run/musterd.sock]\n' % (lab.port, folder))
    lab.start()
    ok(os.stat(folder + "/run/musterd.sock") and os.stat(folder + "/run").st_mode & 0o777 == 0o755, "the folder of the socket is made")


def folder_refused(folder):
    lab = Installed(folder + "/other", name="other")
    lab.configure('listen: ["127.0.0.1:%d", %s/no/such/musterd.sock]\n' % (lab.port, folder))
    a = subprocess.run([MUSTERD, "--config", lab.etc + "/muster.yaml"], capture_output=True, text=True, timeout=60)
    ok(a.returncode != 0 and "its folder is not there and cannot be made" in a.stderr and "ermission" not in a.stderr,
       "or it is told why there is none", a)


def login(folder, lab):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_") or k == "MUSTER_BUILD"}
    env["MUSTER_CONFIG"] = folder + "/config.yaml"
    url = "https://localhost:%d" % lab.port
    muster = os.path.abspath(MUSTER)
    a = subprocess.run([muster, "login", url, "--ca", "none.crt", "--token", "-"], input="x\n", env=env, capture_output=True, text=True)
    ok(a.returncode == 2 and "none.crt" in a.stderr, "an authority that is not there is refused by name", a)
    a = subprocess.run([muster, "login", url, "--ca", "ca.crt", "--token", "-"], input=lab.admin, env=env, cwd=lab.etc, capture_output=True, text=True)
    ok(a.returncode == 0, "a login with the authority by a relative path", a)
    a = subprocess.run([muster, "whoami"], env=env, cwd="/", capture_output=True, text=True)
    ok(a.returncode == 0 and "admin" in a.stdout, "is used from another folder", a)
    code = "import muster; c = muster.Client(); print(c.context.url, c.whoami()['role'])"
    a = subprocess.run([sys.executable, "-B", "-c", code], env=dict(env, PYTHONPATH=os.path.abspath(CLIENT)), cwd="/", capture_output=True, text=True)
    ok(a.stdout == url + " admin\n", "also from Python", a)
    code = "import asyncio, muster\nasync def f():\n async with muster.AsyncClient() as c: print((await c.whoami())['role'])\nasyncio.run(f())"
    a = subprocess.run([sys.executable, "-B", "-c", code], env=dict(env, PYTHONPATH=os.path.abspath(CLIENT)), cwd="/", capture_output=True, text=True)
    ok(a.stdout == "admin\n", "and from asyncio", a)


def main():
    with tempfile.TemporaryDirectory() as folder:
        lab = Installed(folder + "/lab")
        socket_folder(folder, lab)
        login(folder, lab)
        lab.end()
        folder_refused(folder)
    done()


main()
