#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gavel.py - Gandiva on Gavel's physical traces with its measured pairs, in rounds, beside Gavel's own simulator.

Everything as it is by default. On 36 V100s mean completion and makespan are no worse than those of that simulator's `gandiva` and
`fifo_packed`, on five seeds. The makespan of the first trace is when the last job to come ends, which nobody can have sooner than
fifo_packed; a second is allowed there. On 8 V100s, 16 P100s and 24 K80s the averages of the five
seeds are no worse, and no seed is more than 2 % worse than `gandiva`. Then as many jobs of Lucid's models with Lucid's measured
pairs: packing helps mean and makespan. TAP; the figures are in docs/policies/gandiva.md.
"""
import csv
import json
import os
import subprocess
import tempfile

SHARED = os.environ.get("MUSTER_SHARED", os.path.join(os.environ["MUSTER_SOURCE"], "..", "shared"))
TRACES = os.path.join(SHARED, "traces")
MUSTER = os.path.join(os.environ["MUSTER_BUILD"], "muster")
WORK = tempfile.TemporaryDirectory()
TABLE = os.path.join(TRACES, "gavel", "simulation_throughputs.json.gz")
SEEDS = range(1, 6)

tests = 0


def ok(good, text):
    global tests
    tests += 1
    print(f"{'ok' if good else 'not ok'} {tests} - {text}", flush=True)


def imported(name):
    out = os.path.join(WORK.name, name + ".csv")
    source = os.path.join(TRACES, "gavel", "traces-physical", name + ".trace")
    subprocess.run([MUSTER, "trace", "import", "--format", "gavel", source, "-o", out], check=True, capture_output=True)
    return out


V100 = "nodes:9 gpus:4 sku:V100", "36:0:0"
THREE = "nodes:2 gpus:4 sku:V100; nodes:4 gpus:4 sku:P100; nodes:6 gpus:4 sku:K80", "8:16:24"


def baseline(name, policy, cluster=V100):
    with open(os.path.join(TRACES, "baselines", "summary.csv"), newline="") as file:
        for row in csv.DictReader(file):
            if row["simulator"] == "gavel-sim" and row["input"].endswith(name + ".trace") and row["policy"] == policy \
                    and row["cluster"].startswith(cluster[1]):
                return float(row["avg_jct_s"]), float(row["makespan_s"])
    raise SystemExit(f"Bail out! no baseline for {name} {policy}")


def sim(trace, policy, seed, settings, cluster=V100):
    cmd = [MUSTER, "sim", "run", "-c", cluster[0], "-t", trace, "-P", policy, "--json", "--seed", str(seed)]
    for setting in settings:
        cmd += ["-s", setting]
    done = subprocess.run(cmd, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"Bail out! {' '.join(cmd)}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def gavel(name):
    trace = imported(name)
    bars = [baseline(name, "gandiva"), baseline(name, "fifo_packed")]
    for seed in SEEDS:
        got = sim(trace, "gandiva", seed, [f"speed={TABLE}", f"pairs={TABLE}", "round=360s"])
        mean, span = got["avg_jct_seconds"], got["makespan_seconds"]
        # The last job to come decides the first makespan: it arrives at 45,894 s and runs for 15,433 s alone.
        slack = 1  # second; half of one is needed
        ok(got["finished"] == got["jobs"] and all(mean <= m for m, _ in bars) and span <= bars[0][1]
           and span <= bars[1][1] + slack,
           f"{name}, seed {seed}: mean {mean:.0f} s, makespan {span:.0f} s; gandiva {bars[0][0]:.0f}, {bars[0][1]:.0f}; "
           f"fifo_packed {bars[1][0]:.0f}, {bars[1][1]:.0f}; {got['reshaped']['packings']['count']} packings")


def three_types(name, slack=1.02):
    """`slack`: of one seed; the averages have none."""
    trace = imported(name)
    bars = [baseline(name, "gandiva", THREE), baseline(name, "fifo_packed", THREE)]
    sums = [0, 0]
    for seed in SEEDS:
        got = sim(trace, "gandiva", seed, [f"speed={TABLE}", f"pairs={TABLE}", "round=360s"], THREE)
        mean, span = got["avg_jct_seconds"], got["makespan_seconds"]
        sums = [sums[0] + mean, sums[1] + span]
        ok(got["finished"] == got["jobs"] and mean <= bars[0][0] * slack and span <= bars[0][1] * slack
           and mean <= bars[1][0] and span <= bars[1][1] and got["reshaped"]["migrations"]["gained_gpu_seconds"] > 0,
           f"{name} on three types, seed {seed}: mean {mean:.0f} s, makespan {span:.0f} s; gandiva {bars[0][0]:.0f}, "
           f"{bars[0][1]:.0f}; fifo_packed {bars[1][0]:.0f}, {bars[1][1]:.0f}; {got['reshaped']['migrations']['count']} moves")
    mean, span = (total / len(SEEDS) for total in sums)
    ok(mean <= bars[0][0] and span <= bars[0][1], f"{name} on three types: mean {mean:.0f} s, makespan {span:.0f} s on average")


# Gavel's models by the names of Lucid's table: the same kind of model.
LUCID = {"ResNet-18": "ResNet18", "ResNet-50": "ResNet50", "Transformer": "Transformer", "LM": "LSTM", "CycleGAN": "DCGAN",
         "A3C": "PPO", "Recommendation": "NeuMF"}


def lucid(name):
    table = os.path.join(TRACES, "lucid")
    with open(os.path.join(table, "colocate_info.csv"), newline="") as file:
        known = {row["model1"] for row in csv.DictReader(file)}
    with open(imported(name), newline="") as file:
        rows = list(csv.DictReader(file))
    out = os.path.join(WORK.name, name + "-lucid.csv")
    with open(out, "w", newline="") as file:
        write = csv.DictWriter(file, ["id", "submit", "duration", "gpus", "model"])
        write.writeheader()
        for row in rows:
            model = LUCID[row["model"].split(" (")[0]]
            write.writerow({"id": row["id"], "submit": row["submit"], "duration": 3600 + int(row["id"]) * 97 % 14400,
                            "gpus": 1, "model": model if model in known else sorted(known)[int(row["id"]) % len(known)]})
    for seed in SEEDS:
        runs = [sim(out, "gandiva", seed, [f"pairs={table}:lucid", "overload=any", "turns=narrow"] + more)
                for more in ([], ["optimise=none"])]
        packed, alone = runs
        gained = packed["reshaped"]["packings"]["gained_gpu_seconds"]
        ok(packed["reshaped"]["packings"]["count"] > 0 and gained > 0
           and packed["avg_jct_seconds"] <= alone["avg_jct_seconds"]
           and packed["makespan_seconds"] <= alone["makespan_seconds"],
           f"{name} with Lucid's pairs, seed {seed}: mean {packed['avg_jct_seconds']:.0f} s, without packing "
           f"{alone['avg_jct_seconds']:.0f} s; makespan {packed['makespan_seconds']:.0f} and {alone['makespan_seconds']:.0f} s; "
           f"{gained:.0f} GPU seconds gained")


def main():
    if not os.path.isdir(os.path.join(TRACES, "baselines")):
        print("1..0 # SKIP no traces: set MUSTER_SHARED to the folder that has traces/")
        return
    for name in ("max_min_fairness", "minimize_makespan"):
        gavel(name)
    three_types("max_min_fairness")
    three_types("minimize_makespan")
    lucid("minimize_makespan")
    print(f"1..{tests}")


main()
