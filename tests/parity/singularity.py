#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""singularity.py - are the floors of tiers held on a busy virtual cluster of Philly, by the log of decisions alone.

Everybody is standard, mixed tiers are drawn as well. Where stopping and resizing cost nothing, a job has from one line of
the log to its next what the first gave it, so a window's GPU time can be added up exactly without asking the planner: for
each job that was promised its tier, every window of an hour from then on must come to its part of it. TAP; the figures are
in docs/policies/singularity.md.
"""
import csv
import json
import os
import random
import subprocess
import sys
import tempfile

BUILD = os.environ["MUSTER_BUILD"]
SHARED = os.environ.get("MUSTER_SHARED", os.path.join(os.environ["MUSTER_SOURCE"], "..", "shared"))
SOURCE = os.path.join(SHARED, "traces", "philly", "vc", "philly-vc-6214e9.csv.gz")
MUSTER = os.path.join(BUILD, "muster")
HOUR = 3600 * 10**6
PART = {"premium": 95, "standard": 70}  # per cent


def usec(text):
    whole, _, part = text.partition(".")
    return int(whole) * 10**6 + int((part + "000000")[:6])


def gpus_in(words):
    """How many GPUs a placement such as n0:0-3,6 n1:2 has."""
    count = 0
    for word in words:
        if ":" not in word:
            continue
        for part in word.split(":")[1].split(","):
            first, _, last = part.partition("-")
            count += int(last or first) - int(first) + 1
    return count


class Job:
    def __init__(self, row):
        self.world = int(row["gpus"])
        self.tier = row.get("tier") or "standard"
        self.begin = usec(row["submit"])  # of its window; None: nothing is promised
        self.at = self.begin
        self.gpus = 0
        self.done = 0

    def pass_to(self, now, account):
        """Books what it had until now; judges the windows that are over."""
        while self.begin is not None and self.begin + HOUR <= now:
            end = self.begin + HOUR
            self.done += self.gpus * (end - self.at)
            account[0] += 1
            if self.done * 100 + 100 * self.world * 1000 < PART[self.tier] * HOUR * self.world:
                account[1] += 1
            self.begin = self.at = end
            self.done = 0
        if self.begin is not None:
            self.done += self.gpus * (now - self.at)
        self.at = now


def windows(trace, log):
    """(windows, of them below the floor)."""
    with open(trace) as file:
        jobs = {row["id"]: Job(row) for row in csv.DictReader(file)}
    for job in jobs.values():
        if job.tier not in PART:
            job.begin = None
    account = [0, 0]
    with open(log) as file:
        for line in file:
            words = line.split()
            if words[1] in ("save", "wait"):
                continue
            job, now = jobs[words[2]], usec(words[0])
            job.pass_to(now, account)
            if words[1] in ("start", "splice", "move"):
                job.gpus = gpus_in(words[3:])
            elif words[1] == "tier":  # offered basic, or promised after all
                job.begin = now if words[3] in PART else None
                job.done = 0
            elif words[1] in ("stop", "end"):
                job.gpus = 0
                job.begin = None if words[1] == "end" else job.begin
    return account


def main():
    if not os.path.exists(SOURCE):
        print("1..0 # SKIP no traces: set MUSTER_SHARED to the folder that has traces/")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "plain.csv")
        mixed = os.path.join(folder, "mixed.csv")
        log = os.path.join(folder, "log")
        subprocess.run([MUSTER, "trace", "import", "--format", "tiresias", SOURCE, "-o", plain], check=True,
                       capture_output=True)
        rng = random.Random(1)
        with open(plain) as source, open(mixed, "w", newline="") as file:
            rows = list(csv.DictReader(source))
            out = csv.DictWriter(file, ["id", "submit", "duration", "gpus", "tier"], extrasaction="ignore")
            out.writeheader()
            for row in rows:
                draw = rng.random()
                out.writerow(dict(row, tier="premium" if draw < 0.2 else "standard" if draw < 0.6 else "basic"))
        tests = 0
        for name, trace in (("standard", plain), ("mixed", mixed)):
            for costs in ("none", "singularity") if trace is plain else ("none",):
                done = subprocess.run([MUSTER, "sim", "run", "-c", "6x8", "-t", trace, "-P", "singularity", "-s",
                                       f"costs={costs}", "--log", log if costs == "none" else os.devnull, "--json"],
                                      check=True, capture_output=True)
                run = json.loads(done.stdout)
                ours, below = run["planner"]["windows"], run["planner"]["windows_below_floor"]
                seen = windows(trace, log) if costs == "none" else [ours, below]
                tests += 1
                ok = (below == 0 and seen == [ours, 0] and run["lost_gpu_seconds"] == 0 and
                      run["finished"] == run["jobs"] and ours > 10000)
                failed += not ok
                print(f"{'ok' if ok else 'not ok'} {tests} - Philly 6214e9, 6x8, {name}, costs={costs}: {ours} windows, "
                      f"{below} below their floor, by the log {seen[0]} and {seen[1]}; "
                      f"{run['lost_gpu_seconds']} GPU seconds lost", flush=True)
        print(f"1..{tests}")
    return failed > 0


sys.exit(main())
