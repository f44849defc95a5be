#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A controller that learns what jobs need from those that are over: real processes, real measurements."""
import os
import tempfile
import time

from cluster import Musterd, done, ok

# Two programs: how long each runs depends on a word of its command line; the first burns a processor.
SLOW = "i=0; end=$(($(date +%%s%%N)/1000000+%d)); while [ $(($(date +%%s%%N)/1000000)) -lt $end ]; do i=$((i+1)); done; times # burn.sh --size=%d"
QUICK = "sleep 0.05 # nap.sh --size=%d"


def submit(m, run, **more):
    return m.post("/jobs", dict({"run": run, "gpus": 1}, **more)).json["id"]


def teach(m):
    """Few that burn, two at a time so that a small machine has a processor for each; many that do next to nothing."""
    burn = []
    for i in range(4):
        after = {"after": {"any": [burn[-2]]}} if i >= 2 else {}
        burn.append(submit(m, "sh -c '%s'" % (SLOW % (4500 if i % 2 else 3000, 2 if i % 2 else 1)), **after))
    quick = [submit(m, QUICK % (i % 3)) for i in range(40)]
    for i in quick + burn:
        m.wait_state(i, "COMPLETED", 90)
    return burn


def share_of(m, job, wall):
    """Percent of a processor that a burning job had, as its shell counted: the machine may be busy with other things."""
    words = m.get("/jobs/%d/logs" % job).body.decode().split()
    return 100 * sum(60 * float(w.split("m")[0]) + float(w.split("m")[1].rstrip("s")) for w in words[-4:]) / wall


def settled(m):
    """The estimator when nothing is left to learn from."""
    before, now = None, m.get("/estimator").json
    while now != before or now["training"]:
        time.sleep(0.6)
        before, now = now, m.get("/estimator").json
    return now


def trained(m, version, seconds=30):
    end = time.time() + seconds
    while time.time() < end:
        e = m.get("/estimator").json
        if e["version"] >= version and not e["training"]:
            return e
        time.sleep(0.1)
    return m.get("/estimator").json


def main():
    with tempfile.TemporaryDirectory() as state:
        with Musterd("2x8:H100", state=state) as m:
            m.wait_nodes(2)
            e = m.get("/estimator").json
            ok(e["version"] == 0 and e["jobs"] == 0 and e["targets"] == [], "nothing is known at first", e)
            first = submit(m, QUICK % 1)
            ok(m.get("/jobs/%d" % first).json["predicted"] is None, "and nothing is said: requests are taken as stated")
            burn = teach(m)
            more = [submit(m, QUICK % 1) for _ in range(20)]
            for i in more:
                m.wait_state(i, "COMPLETED")
            e = trained(m, 3)
            ok(e["version"] >= 1 and e["jobs"] >= 20 and "run_seconds" in e["targets"] and "--size" in e["features"],
               "learned from what has completed, words of the command line too", e)
            used = m.get("/jobs/%d" % burn[-1]).json["used"]
            share = share_of(m, burn[-1], 4.5)
            ok(used and 0.4 * share < used["utilisation"] <= min(100, 2 * share) and used["memory_mib"] >= 0 and used["utilisation_dev"] >= 0,
               "what a GPU did is measured by its node", (used, share))
            # The seconds between, when nobody is trained, are those of the old estimator.
            long = m.get("/jobs/%d" % submit(m, "sh -c '%s'" % (SLOW % (2500, 2)), hold=True)).json["predicted"]
            short = m.get("/jobs/%d" % submit(m, QUICK % 2, hold=True)).json["predicted"]
            ok(long["run_seconds"] > 1 and short["run_seconds"] < 1, "programs differ", (long, short))
            ok((long["utilisation"] or 0) > (short["utilisation"] or 0), "in what they use, too", (long, short))
            ok("gpus_pay" in long and long["gpus_pay"] is None, "of GPUs that nobody tried nothing is said", long)
            strange = m.get("/jobs/%d" % submit(m, "never-seen", hold=True)).json["predicted"]
            ok(strange is None or strange["run_seconds"] > 0, "a program nobody has seen", strange)
            told = submit(m, QUICK % 2, time="1h", hold=True)
            ok(m.get("/jobs/%d" % told).json["limit_seconds"] == 3600, "what the user says stands")
            jobs = settled(m)["jobs"]
        ok(os.path.getsize(state + "/estimator.model") > 100, "it is kept in a file")
        with Musterd("2x8:H100", state=state) as m:
            e = m.get("/estimator").json
            m.wait_nodes(2)
            # Where it has learned from the store already, that counts on from the version that was read.
            ok((e["version"] == 1 and e["jobs"] == jobs) or e["version"] == 2, "and read again", e)
            held = m.get("/jobs?all=1&state=PENDING").json["items"]
            ok(any(m.get("/jobs/%d" % j["id"]).json["predicted"] for j in held), "predictions are in the log, as they were")
            m.until(lambda: m.get("/estimator").json["known"] >= 24)
            ok(m.get("/estimator").json["known"] >= 24, "finished jobs of the store are learned from again")
        with open(state + "/estimator.model", "r+b") as f:
            f.truncate(90)
        with Musterd("2x8:H100", state=state) as m:
            m.wait_nodes(2)
            e = trained(m, 1)
            ok(e["version"] >= 1 and e["error"] is None, "one that is cut short is trained anew from the history", e)
            ok("estimator cannot be used" in m.stderr() and "estimator.model" in m.stderr(), "and was named in the log")
            again = submit(m, "true")
            ok(m.wait_state(again, "COMPLETED"), "the scheduler goes on")
    done()


main()
