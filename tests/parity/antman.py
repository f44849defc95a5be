#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""antman.py - what sharing GPUs brings, and that it costs guaranteed jobs nothing, on public traces with measured pairs.

Prints one line a case: GPU time in use while jobs arrive, over the same without sharing (fifo-skip and yarn-cs, the better
of the two); how much slower guaranteed jobs run than alone; and how many of them start at another instant than they
would, had no opportunistic job been there and had each run as long as it did. TAP; the figures are in docs/policies/antman.md.

--all: every trace and five seeds of Philly. --guests N: so many opportunistic jobs on one GPU.
"""
import csv
import gzip
import io
import json
import os
import random
import subprocess
import sys
import tempfile

BUILD = os.environ["MUSTER_BUILD"]
SHARED = os.environ.get("MUSTER_SHARED", os.path.join(os.environ["MUSTER_SOURCE"], "..", "shared"))
TRACES = os.path.join(SHARED, "traces")
MUSTER = os.path.join(BUILD, "muster")
WORK = tempfile.TemporaryDirectory()
GUESTS = sys.argv[sys.argv.index("--guests") + 1] if "--guests" in sys.argv else None  # on one GPU; else the default

# Models of the traces by the names of the tables. Lucid's: the same kind of model, with the utilisation measured there.
# Gavel's: by how much of a GPU they use (dqn, a2c, shufflenet and resnet18 2 to 14 %, the vggs 35 to 40 %, bert and gpt2 85
# to 95 %), for its table has few kinds, and none as light as the first two.
LUCID = {"vgg16": "VGG", "vgg19": "VGG", "resnet18": "ResNet18", "shufflenet_v2_x1_0": "MobileNetV2", "bert": "BERT",
         "gpt2": "Transformer", "a2c": "PPO", "dqn": "TD3"}
GAVEL = {"dqn": "ResNet-18 (batch size 16)", "a2c": "ResNet-18 (batch size 16)",
         "shufflenet_v2_x1_0": "ResNet-18 (batch size 32)", "resnet18": "ResNet-18 (batch size 64)",
         "vgg16": "LM (batch size 10)", "vgg19": "Transformer (batch size 16)", "bert": "Transformer (batch size 64)",
         "gpt2": "LM (batch size 80)"}


def path(name):
    return os.path.join(WORK.name, name)


def read(name):
    opener = gzip.open if name.endswith(".gz") else open
    with opener(name, "rt") as file:
        return list(csv.DictReader(file))


def write(name, rows):
    with open(path(name), "w", newline="") as file:
        out = csv.DictWriter(file, list(rows[0]))
        out.writeheader()
        out.writerows(rows)
    return path(name)


def imported(fmt, source):
    out = path("import.csv")
    subprocess.run([MUSTER, "trace", "import", "--format", fmt, source, "-o", out], check=True, capture_output=True)
    return read(out)


def sim(trace, cluster, policy, settings):
    cmd = [MUSTER, "sim", "run", "-c", cluster, "-t", trace, "-P", policy, "--json", "--jobs-csv", path("jobs.csv")]
    for setting in settings:
        cmd += ["-s", setting]
    done = subprocess.run(cmd, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"Bail out! {' '.join(cmd)}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout), read(path("jobs.csv"))


def use_by_model():
    """Mean utilisation of each model alone, as Lucid measured it."""
    sums = {}
    for row in read(os.path.join(TRACES, "lucid", "single_data.csv")):
        at = sums.setdefault(row["model"], [0.0, 0])
        at[0] += float(row["gpu_util"])
        at[1] += 1
    return {model: max(1, min(100, round(s / n))) for model, (s, n) in sums.items()}


def muri(number, names):
    jobs = imported("muri", os.path.join(TRACES, "muri", f"trace{number}.csv.gz"))
    use = use_by_model()
    for job in jobs:
        if names:
            job["model"] = names[job["model"]]
            job["batch"] = ""
        if names is LUCID:
            job["utilisation"] = use[job["model"]]
    return jobs


def philly(vc, seed, names):
    """A virtual cluster of Philly; models and classes are drawn, for the trace has none."""
    rng = random.Random(seed)
    use = use_by_model()
    jobs = imported("tiresias", os.path.join(TRACES, "philly", "vc", f"philly-vc-{vc}.csv.gz"))
    out = []
    for job in jobs:
        model = rng.choice(sorted(LUCID))
        out.append({"id": job["id"], "submit": job["submit"], "duration": job["duration"], "gpus": job["gpus"],
                    "model": names[model], "class": "opportunistic" if rng.random() < 0.5 else "guaranteed",
                    "utilisation": use[LUCID[model]]})
    return out


def guaranteed(jobs):
    return [job for job in jobs if job.get("class") != "opportunistic"]


tests = 0
failed = 0


def case(name, jobs, cluster, settings):
    global tests, failed
    guests = [f"guests={GUESTS}"] if GUESTS else []
    trace = write("trace.csv", jobs)
    last = max(float(job["submit"]) for job in jobs)
    busy = {}
    for policy in ("antman", "fifo-skip", "yarn-cs"):
        run, _ = sim(trace, cluster, policy, settings + [f"until={int(last)}s"] + (guests if policy == "antman" else []))
        busy[policy] = run["sharing"]["busy_gpu_seconds"]
    gain = busy["antman"] / max(busy["fifo-skip"], busy["yarn-cs"]) - 1
    run, rows = sim(trace, cluster, "antman", settings + guests)
    ours = {row["job_id"]: row for row in rows}
    alone = guaranteed(jobs)
    # The same guaranteed jobs, as long as each ran, with nobody else there.
    slower = []
    exact = []
    for job in alone:
        row = ours[job["id"]]
        slower.append(float(row["run_seconds"]) / float(job["duration"]) - 1)
        exact.append(dict(job, duration=row["run_seconds"]))
    _, other = sim(write("exact.csv", exact), cluster, "antman", guests)
    moved = sum(row["start_seconds"] != ours[row["job_id"]]["start_seconds"] for row in other)
    tests += 1
    ok = gain >= 0.33 and max(slower) <= 0.02 and moved == 0 and run["finished"] == len(jobs)
    failed += not ok
    if run["finished"] != len(jobs):
        print(f"# {len(jobs) - run['finished']} jobs did not end")
    print(f"{'ok' if ok else 'not ok'} {tests} - {name}: GPU time in use {100 * gain:+.1f} %; {len(alone)} guaranteed jobs "
          f"slower by {100 * sum(slower) / len(slower):.2f} % on average, {100 * max(slower):.2f} % at most, {moved} delayed",
          flush=True)


def main():
    if not os.path.isdir(os.path.join(TRACES, "muri")):
        print("1..0 # SKIP no traces: set MUSTER_SHARED to the folder that has traces/")
        return 0
    lucid = "pairs=" + os.path.join(TRACES, "lucid")
    gavel = path("gavel_throughputs.json")
    with gzip.open(os.path.join(TRACES, "gavel", "simulation_throughputs.json.gz")) as source, open(gavel, "wb") as out:
        out.write(source.read())
    gavel = f"pairs={gavel}:gavel"
    whole = "--all" in sys.argv
    for number, cluster in ((1, "8x8"), (2, "16x8"), (3, "4x8"), (4, "8x8")) if whole else ((3, "4x8"), (4, "8x8")):
        case(f"muri trace{number}, utilisation, {cluster}", muri(number, None), cluster, [])
        case(f"muri trace{number}, Lucid's pairs, {cluster}", muri(number, LUCID), cluster, [lucid])
        case(f"muri trace{number}, Gavel's pairs, {cluster}:V100", muri(number, GAVEL), cluster + ":V100", [gavel])
    for seed in range(5) if whole else (0,):
        case(f"Philly 0e4a51, Lucid's pairs, 3x8, seed {seed}", philly("0e4a51", seed, LUCID), "3x8", [lucid])
        case(f"Philly 0e4a51, Gavel's pairs, 3x8:V100, seed {seed}", philly("0e4a51", seed, GAVEL), "3x8:V100", [gavel])
    print(f"1..{tests}")
    return failed > 0


sys.exit(main())
