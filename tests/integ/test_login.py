#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Passwords judged by PAM for tokens: a service of our own with PAM's real modules, over TLS and in the clear, wrong and
slow ones, many at once; and muster login with it."""
import ctypes
import json
import os
import re
import subprocess
import tempfile
import threading
import time

from cluster import BUILD, Musterd, done, ok
from test_tls import Lab

SERVICE = """auth [success=1 default=ignore] pam_exec.so quiet expose_authtok %s/check
auth requisite pam_deny.so
auth required pam_permit.so
account required pam_permit.so
"""
CHECK = """#!/bin/sh
read -r password
[ "$PAM_USER" = slow ] && sleep 1
[ "$PAM_USER" = broken ] && kill -9 $PPID
[ "$password" = "correct horse" ]
"""


def service(folder):
    os.mkdir(folder + "/pam")
    with open(folder + "/pam/muster-test", "w") as f:
        f.write(SERVICE % folder)
    with open(folder + "/check", "w") as f:
        f.write(CHECK)
    os.chmod(folder + "/check", 0o755)
    return folder + "/pam/muster-test"


def over_tls(folder):
    lab = Lab(folder)
    lab.configure("auth: {pam: %s, admins: [carol]}\n" % service(folder))
    lab.start()
    try:
        a = lab.told("POST", "/login", {"user": "alice", "password": "correct horse"})
        ok(a.status == 201 and a.json["user"] == "alice" and a.json["role"] == "user", "the right password gives a token", a)
        token = a.json["token"]
        a = lab.told("GET", "/whoami", token=token)
        ok(a.status == 200 and a.json["user"] == "alice", "which is good", a)
        a = lab.told("GET", "/tokens", token=token)
        ok(len(a.json["items"]) == 1 and a.json["items"][0]["expires_time"], "and expires", a)
        ok(lab.told("POST", "/login", {"user": "carol", "password": "correct horse"}).json["role"] == "admin", "admins are admins")
        a = lab.told("POST", "/login", {"user": "alice", "password": "wrong"})
        ok(a.status == 401 and "token" not in a.json, "a wrong one does not", a)
        for body in ({"user": "alice"}, {"user": "", "password": "x"}, {"user": "a\nb", "password": "x"},
                     {"user": "a", "password": "x\ny"}, {"user": "a", "password": "x" * 600}, {"user": "a" * 90, "password": "x"},
                     {"user": "alice", "password": "correct horse", "expires_seconds": 5}):
            ok(lab.told("POST", "/login", body).status == 400, "refused: %.40s" % json.dumps(body))
        a = lab.told("POST", "/login", {"user": "broken", "password": "correct horse"})
        ok(a.status == 503 and a.json["hints"], "a check that dies is not an answer", a)
        slow(lab)
        client(lab, folder)
        ok("correct horse" not in lab.log(), "no password is in the log")
    finally:
        lab.stop()


def slow(lab):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(lab.told("POST", "/login", {"user": "slow", "password": "no"}).status))
               for _ in range(20)]
    for t in threads:
        t.start()
    time.sleep(0.3)
    began = time.time()
    ok(lab.told("GET", "/version").status == 200, "others are answered while passwords are checked")
    print("# in %.3f s" % (time.time() - began))
    for t in threads:
        t.join()
    ok(set(answers) <= {401, 429} and 401 in answers, "twenty at once: some are told to come again", answers)


def kept(folder):
    """The token in the configuration file; None: there is none."""
    with open(folder + "/config/muster/config.yaml") as f:
        found = re.search('"token": *"([^"]*)"', f.read())
    return found.group(1) if found else None


def client(lab, folder):
    env = dict(os.environ, HOME=folder, XDG_CONFIG_HOME=folder + "/config")
    for name in ("MUSTER_URL", "MUSTER_TOKEN", "MUSTER_CONTEXT"):
        env.pop(name, None)
    words = [os.path.join(BUILD, "muster"), "login", "https://localhost:%d" % lab.port, "--ca", lab.etc + "/ca.crt", "--user", "bob"]
    r = subprocess.run(words, input="wrong\n", env=env, capture_output=True, text=True)
    ok(r.returncode == 4, "muster login with a wrong password", r)
    r = subprocess.run(words, input="correct horse\n", env=env, capture_output=True, text=True)
    ok(r.returncode == 0 and "as bob (user)" in r.stdout, "and with the right one", r)
    r = subprocess.run([words[0], "whoami"], env=env, capture_output=True, text=True)
    ok(r.returncode == 0 and "bob" in r.stdout, "is kept", r)
    token = lab.json("GET", "/tokens", token=kept(folder))["items"]
    ok(len(token) == 1, "by a token of bob's", token)
    old = kept(folder)
    r = subprocess.run([words[0], "logout", "--revoke"], env=env, capture_output=True, text=True)
    ok(r.returncode == 0 and r.stdout.startswith("Logged out of https://localhost") and not r.stderr, "and he logs out", r)
    ok(kept(folder) is None and lab.told("GET", "/tokens", token=old).status == 401, "the token is gone here and there")
    r = subprocess.run([words[0], "token", "ls"], env=env, capture_output=True, text=True)
    ok(r.returncode == 4, "nobody is known any more", r)
    r = subprocess.run(words, input="correct horse\n", env=env, capture_output=True, text=True)
    old = kept(folder)
    r = subprocess.run([words[0], "logout"], env=env, capture_output=True, text=True)
    ok(r.returncode == 0 and "--revoke" in r.stderr and kept(folder) is None, "a token that is only forgotten", r)
    ok(lab.told("GET", "/tokens", token=old).status == 200, "is good for whoever has it still")
    r = subprocess.run(words + ["--token", "x"], input="", env=env, capture_output=True, text=True)
    ok(r.returncode == 2, "not both ways", r)


def in_the_clear(folder):
    path = folder + "/muster.yaml"
    with open(path, "w") as f:
        f.write("cluster: plain\nlisten: [127.0.0.1:0]\nstate: %s/plain\nauth: {pam: %s/pam/muster-test}\n" % (folder, folder))
    with Musterd("1x1:H100", args=["--config", path]) as m:
        a = m.post("/login", {"user": "alice", "password": "correct horse"})
        ok(a.status == 201, "with --dev on the loopback", a)


def main():
    try:
        ctypes.CDLL("libpam.so.0").pam_start_confdir
    except (OSError, AttributeError):
        print("1..0 # SKIP no libpam here that reads services from elsewhere")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        over_tls(folder)
        in_the_clear(folder)
    done()


if __name__ == "__main__":
    main()
