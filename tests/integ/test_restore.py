#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A backup that somebody has tampered with: each kind is refused in words, and nothing is left of the try. Then a good
one, and a controller that goes on with it."""
import os
import shutil
import sqlite3
import struct
import subprocess
import tempfile
import zlib

from cluster import BUILD, Musterd, done, ok

MUSTER = os.path.join(BUILD, "muster")


def restore(file, state):
    return subprocess.run([MUSTER, "cluster", "restore", file, "--state", state], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60)


def refused(file, words, what, folder):
    state = folder + "/never"
    r = restore(file, state)
    ok(r.returncode == 1 and words in r.stderr and not r.stdout, what, r)
    if not ok(not os.path.lexists(state), what + ": nothing is left"):
        shutil.rmtree(state)


def sums_set(path):
    """Each page has its number and its sum at its end, as if the controller had written it."""
    with open(path, "r+b") as f:
        data = f.read()
        for at in range(0, len(data), 4096):
            number = struct.pack("<I", at // 4096 + 1)
            page = data[at:at + 4088]
            f.seek(at)
            f.write(page + number + struct.pack("<I", zlib.crc32(page, zlib.crc32(number))))


def tampered(good, folder):
    """(file, words, what) of each."""
    size = os.path.getsize(good)
    count = 0

    def copy():
        nonlocal count
        count += 1
        path = "%s/bad%d" % (folder, count)
        shutil.copyfile(good, path)
        os.chmod(path, 0o600)
        return path

    def bytes_of(change):
        path = copy()
        with open(path, "r+b") as f:
            change(f)
        return path

    def sql(*lines, sums=True):
        path = copy()
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA journal_mode=DELETE")
        db.execute("PRAGMA writable_schema=ON")
        for line in lines:
            db.execute(line)
        db.close()
        if sums:
            sums_set(path)
        return path

    def overwrite(f):  # the pages of the tables, not the first one
        f.seek(4096 + 100)
        f.write(b"\xa5" * min(20000, size - 4096 - 100))

    def scratch():
        path = folder + "/text"
        with open(path, "w") as f:
            f.write("no database at all\n" * 50)
        return path

    yield folder + "/nowhere", "No such file", "a file that is not there"
    yield folder, "is no file", "a directory"
    yield "/dev/zero", "is no file", "a device"
    os.mkfifo(folder + "/fifo")
    yield folder + "/fifo", "is no file", "a FIFO nobody writes to"
    os.symlink("/dev/zero", folder + "/link")
    yield folder + "/link", "is no file", "a link to a device"
    yield scratch(), "is no backup", "some text"
    yield bytes_of(lambda f: f.truncate(0)), "is no backup", "an empty file"
    yield bytes_of(lambda f: f.truncate(size // 2)), "is not whole", "one that was cut"
    yield bytes_of(lambda f: f.truncate(size + 1)), "is not whole", "one with a tail"
    yield bytes_of(overwrite), "", "one whose pages are rubbish"
    yield sql("PRAGMA user_version=7"), "is no backup of this version", "one of another version"
    yield sql("CREATE TRIGGER own AFTER INSERT ON log BEGIN DELETE FROM history; END"), "triggers", "one with a trigger"
    yield sql("CREATE VIEW v AS SELECT 1"), "views", "one with a view"
    yield sql("DROP TABLE history", "CREATE VIEW history AS SELECT 1 AS id"), "other tables", "a view in place of a table"
    yield sql("CREATE TABLE more(x)"), "other tables", "one with a table more"
    yield sql("DROP TABLE log"), "other tables", "one with a table less"
    yield sql("INSERT INTO snapshot(one, seq, chain, sum, data) VALUES(2, 1, x'00', x'00', x'00')"), "a snapshot that is none", "one with two snapshots"
    yield sql("INSERT INTO log(seq, chain, data) VALUES(-5, x'00', x'00')"), "entries that are none", "an entry before the first"
    yield sql("INSERT INTO log(seq, chain, data) VALUES(1 << 40, x'00', 'text')"), "entries that are none", "an entry that is text"
    job = "INSERT INTO history VALUES(999, 1, 2, 'u', 'v', 's', 'n', 0, '{}', 5)"
    yield sql(job, sums=False), "damaged", "a page that was changed"
    yield sql(job), "the finished job 999 is damaged", "a finished job that never was"
    yield sql("UPDATE head SET jobs = jobs + 1"), "should have", "one that lacks a finished job"
    yield sql("UPDATE log SET data = CAST(replace(CAST(data AS TEXT), 'a', 'b') AS BLOB)"), "is damaged", "batches that were changed"
    loose = copy()
    os.chmod(loose, 0o666)
    yield loose, "chmod go-w", "one that everybody may write"
    if os.geteuid() == 0:
        alien = copy()
        os.chown(alien, 65534, 65534)
        yield alien, "belongs to user 65534", "one of somebody else's"

    def huge(f):  # sparse: as large as its header says, larger than any disk here
        pages = (1 << 43) // 65536
        f.seek(16)
        f.write((1).to_bytes(2, "big"))
        f.seek(28)
        f.write(pages.to_bytes(4, "big"))
        f.truncate(pages * 65536)
    try:
        path = bytes_of(huge)
    except OSError:
        print("# no sparse file of 8 TiB here")
        return
    yield path, "has no room", "one of 8 TiB"


def targets(good, folder):
    """Places that are not empty: nothing in them changes."""
    for name, make in (("muster.db", lambda p: open(p, "w").close()), ("muster.db", lambda p: os.symlink("/nowhere/at/all", p)),
                       ("muster.db-wal", lambda p: open(p, "w").close()), ("muster.db-journal", lambda p: open(p, "w").close())):
        state = tempfile.mkdtemp(dir=folder)
        make(state + "/" + name)
        r = restore(good, state)
        ok(r.returncode == 1 and name + " is there already" in r.stderr and os.listdir(state) == [name],
           "not over " + name, (r, os.listdir(state)))
    r = restore(good, folder + "/a/b")
    ok(r.returncode == 1 and "No such file" in r.stderr and not os.path.exists(folder + "/a"), "not into nowhere", r)
    r = restore(good, good)
    ok(r.returncode == 1 and "Not a directory" in r.stderr, "not into a file", r)


def main():
    folder = tempfile.mkdtemp()
    good = folder + "/good"
    with Musterd("1x8:H100", state=folder + "/first") as m:
        m.wait_nodes(1)
        job = m.post("/jobs", {"run": "true", "gpus": 1}).json["id"]
        ok(m.wait_state(job, "COMPLETED"), "a job runs")
        env = dict(os.environ, MUSTER_URL="http://127.0.0.1:%d" % m.port)
        r = subprocess.run([MUSTER, "cluster", "backup", good], capture_output=True, text=True, env=env)
        ok(r.returncode == 0 and os.stat(good).st_mode & 0o777 == 0o600, "a backup, for its owner alone", r)
    for file, words, what in tampered(good, folder):
        refused(file, words, what, folder)
    targets(good, folder)
    state = folder + "/second"
    os.mkdir(state, 0o700)
    if os.geteuid() == 0:
        os.chown(state, 65534, 65534)
    r = restore(good, state)
    info = os.stat(state + "/muster.db")
    ok(r.returncode == 0 and os.listdir(state) == ["muster.db"] and info.st_mode & 0o777 == 0o600, "a good one", r)
    ok(info.st_uid == os.stat(state).st_uid, "belongs to whoever the directory belongs to", info)
    with Musterd(state=state) as m:
        ok(m.get("/jobs/%d" % job).json["state"] == "COMPLETED", "and is what it was", m.get("/jobs/%d" % job))
    shutil.rmtree(folder)
    done()


main()
