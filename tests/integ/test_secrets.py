#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Secrets of users lie encrypted in the state, the log and backups; the key is in a file that none of them has."""
import os
import subprocess
import tempfile

from cluster import Musterd, done, ok

VALUE = "tell-this-to-nobody-at-all"


def lies_in(folder):
    """Files in which the value can be read."""
    found = []
    for top, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(top, name), "rb") as f:
                data = f.read()
            if VALUE.encode() in data:
                found.append(name)
    return found


def output_of(m):
    """What a job says that asks for it, or why it was refused."""
    job = m.post("/jobs", {"run": "echo got $TOKEN", "gpus": 1, "dir": "/tmp", "secrets": ["TOKEN"], "retries": 0}).json["id"]
    m.wait_state(job, ("COMPLETED", "FAILED"))
    return m.get("/jobs/%d/logs" % job).body.decode() + str(m.get("/jobs/%d" % job).json) + str(m.get("/jobs/%d/attempts" % job).json)


def kept(folder):
    state, key = folder + "/state", folder + "/state/secrets.key"
    with Musterd("1x1:H100", state=state, log="info") as m:
        m.wait_nodes(1)
        ok(m.ask("PUT", "/secrets/TOKEN", {"value": VALUE}).status in (200, 204), "a secret is set")
        ok(m.ask("PUT", "/secrets/LONG", {"value": "x" * 65536}).status in (200, 204), "one of the largest")
        ok(m.ask("PUT", "/secrets/LONGER", {"value": "x" * 65537}).status == 400, "not a larger one")
        ok("got " + VALUE in output_of(m), "a job has it")
        backup = m.get("/backup").body
        with open(folder + "/backup", "wb") as f:
            f.write(backup)
    ok(os.stat(key).st_mode & 0o777 == 0o600, "the key is its owner's alone")
    outside = [name for name in lies_in(state) if not name.startswith(("out", "plan", "environ"))]
    ok(not [name for name in outside if name.endswith((".db", "-wal", ".log", ".sqlite")) or "muster" in name],
       "it cannot be read in the state and the log", outside)
    ok(backup and VALUE.encode() not in backup and b"TOKEN" in backup, "nor in a backup, which has its name")


def lost(folder):
    """A backup is restored, and the key is not there."""
    state = folder + "/other"
    r = subprocess.run([os.path.join(os.environ.get("MUSTER_BUILD", "build"), "musterd"), "restore", folder + "/backup", "--state", state],
                       capture_output=True, text=True)
    ok(r.returncode == 0 and "secrets_key" in r.stdout, "a backup is restored, and what it has not is said", r)
    with Musterd("1x1:H100", state=state, log="info") as m:
        m.wait_nodes(1)
        ok("secrets cannot be read: their key is not in the file" in m.stderr() and "count=2" in m.stderr(), "without the key it says so", m.stderr())
        said = output_of(m)
        ok("got" not in said.split("{")[0] and "cannot be read" in said, "a job that asks for it is refused in words", said)
    with open(folder + "/state/secrets.key") as old, open(state + "/secrets.key") as new:
        old, new = old.read(), new.read()
    with open(state + "/secrets.key", "w") as f:
        f.write(new + old)
    with Musterd("1x1:H100", state=state, log="info") as m:
        m.wait_nodes(1)
        ok("secrets sealed by the present key" in m.stderr(), "with its key as another line it is sealed by the first", m.stderr())
        ok("got " + VALUE in output_of(m), "and a job has it again")
    with open(state + "/secrets.key", "w") as f:
        f.write(new)
    with Musterd("1x1:H100", state=state, log="info") as m:
        m.wait_nodes(1)
        ok("got " + VALUE in output_of(m), "then the old key may go")
    for text, words in (("short\n", "64 digits"), ("", "64 digits"), ("0" * 65 + "\n", "64 digits")):
        with open(state + "/secrets.key", "w") as f:
            f.write(text)
        with Musterd(state=state) as m:
            ok(words in m.stderr() and m.ask("PUT", "/secrets/MORE", {"value": "x"}).status == 503, "no key: %r" % text, m.stderr())
    with open(state + "/secrets.key", "w") as f:
        f.write(new)
    os.chmod(state + "/secrets.key", 0o644)
    with Musterd(state=state) as m:
        ok("other users can read it" in m.stderr(), "a key that others can read is none", m.stderr())


def main():
    with tempfile.TemporaryDirectory() as folder:
        kept(folder)
        lost(folder)
    done()


if __name__ == "__main__":
    main()
