#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What goes on beside the loop, all of it at the same moment: placements searched for on a thread, the estimates trained on
another, a backup copied by the worker, series written and read; with requests meanwhile. The thread sanitizer runs this."""
import sqlite3
import tempfile
import threading
import time

from cluster import Musterd, done, ok

JOBS = 40


SOLVED = 26  # the number of the kind in the log (src/ctl/state/entry)


def kinds(batch):
    """The kinds of the entries of a batch, by number: entry_codec.c has the form."""
    at = 1

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = batch[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    number(), number()  # version, time
    found = []
    for _ in range(number()):
        found.append(number())
        at += 4 + int.from_bytes(batch[at:at + 4], "little")
    return found


def solved(m, folder):
    """How many answers of searches are in the log, as a backup has it."""
    path = folder + "/backup.db"
    with open(path, "wb") as f:
        f.write(m.get("/backup").body)
    with sqlite3.connect(path) as db:
        return sum(kinds(bytes(row[0])).count(SOLVED) for row in db.execute("SELECT data FROM log"))


def series(m):
    """The last hour, finely."""
    return m.get("/usage").json["items"][0]["series"]


def look(m, stop, seen):
    """Reads what the threads write, over and over."""
    while not stop.is_set():
        for path in ("/estimator", "/usage", "/vcs/default/usage", "/overview", "/queue", "/metrics", "/backup"):
            answer = m.get(path)
            seen[answer.status] = seen.get(answer.status, 0) + 1
        time.sleep(0.02)


def main():
    with tempfile.TemporaryDirectory() as state:
        with Musterd("4x8:H100", state=state) as m:
            m.wait_nodes(4)
            answer = m.ask("PUT", "/vcs/default", {"quota": {"H100": 32}, "policy": "liquid-batch", "set": {"interval": "1s"}})
            ok(answer.status == 200, "a policy that searches", answer)
            stop, seen = threading.Event(), {}
            reader = threading.Thread(target=look, args=(m, stop, seen))
            reader.start()
            jobs = [m.post("/jobs", {"run": "sleep 0.7 # train.sh --lr=%d" % (i % 3), "gpus": 1 + i % 4}).json["id"]
                    for i in range(JOBS)]
            ok(all(m.wait_state(i, "COMPLETED", 120) for i in jobs), "%d jobs end" % JOBS)
            ok(m.until(lambda: m.get("/estimator").json["version"] >= 1, 60), "the estimates were trained meanwhile",
               m.get("/estimator"))
            m.until(lambda: len(series(m)) >= 1, 30)
            stop.set()
            reader.join()
            ok(set(seen) == {200}, "and all requests answered", seen)
            used = series(m)
            count = solved(m, state)
            ok(count > 0, "placements were searched for", count)
            ok(m.stop() == 0, "it ends well")
        with Musterd("4x8:H100", state=state) as m:
            m.wait_nodes(4)
            m.until(lambda: used[0] in series(m), 30)
            ok(used[0] in series(m), "series outlive the controller", (used, series(m)))
            ok(m.get("/estimator").json["version"] >= 1, "so do estimates")
    done()


main()
