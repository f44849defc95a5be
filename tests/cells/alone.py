#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""alone.py - a virtual cluster in cells is as good as a cluster of its own, job by job, under every policy.

First small clusters and traces are drawn: with what is lent when nothing is said, no job may wait longer than alone, also
beside an opportunistic copy of every job. Then every policy of the register has a virtual cluster in one run, all with the
same jobs, and each must decide for its own just as in a private cluster. At last one run with three policies is compared
with its record, decision by decision; MUSTER_RECORD=1 writes it anew. TAP.
"""
import csv
import json
import os
import random
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MUSTER = os.path.join(os.environ["MUSTER_BUILD"], "muster")
WORK = tempfile.TemporaryDirectory()
DRAWS = int(os.environ.get("MUSTER_DRAWS", "3"))
# Beside opportunistic jobs of its own virtual cluster: gandiva learns from pairs of these too, which jobs go well
# together.
MIXED = ("gandiva",)
# Measurements come in while a job runs alone or in a pair; when a pair is made depends on the microsecond of a report,
# and what is made of it on the pairs before.
MEASURED = ("gandiva",)
tests = failed = 0


def ok(good, name, why=""):
    global tests, failed
    tests += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {tests} - {name}")
    if not good and why:
        print("".join(f"# {line}\n" for line in str(why).splitlines()[:20]), end="")


def path(name):
    return os.path.join(WORK.name, name)


def write(name, text):
    with open(path(name), "w", encoding="utf-8") as out:
        out.write(text)
    return path(name)


def muster(*args):
    done = subprocess.run([MUSTER, *args], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"muster {' '.join(args)}: {done.returncode}\n{done.stderr}")
    return done.stdout


def policies():
    return [line.strip() for line in muster("sim", "policies").split("\n\n")[0].splitlines()
            if line and not line.startswith(" ")]


def jobs_of(rng, count, most, spread):
    """submit, duration, gpus: bursts, so that queues form."""
    at = 0
    for _ in range(count):
        at += rng.choice((0, 0, 1, 7, spread))
        yield at, rng.choice((5, 20, 60, 61, 300)) + rng.randrange(40), min(most, rng.choice((1, 1, 2, 3, 4, 8)))


def draw(rng):
    """A cluster in words, and a trace; GPUs that each virtual cluster is owed."""
    shape = rng.choice(("nodes", "sockets", "gpus", "racks"))
    grants = [rng.randint(1, 3) for _ in range(rng.randint(2, 4))]
    words = {"nodes": "{} nodes", "sockets": "{} sockets", "gpus": "{} gpus in 4s", "racks": "{} racks"}[shape]
    size = {"nodes": 8, "sockets": 4, "gpus": 4, "racks": 16}[shape]
    gpus = sum(grants) * size
    vcs = "".join(f"  v{i}: {{guarantee: \"{words.format(g * 4 if shape == 'gpus' else g)}\"}}\n"
                  for i, g in enumerate(grants))
    racks = (gpus + 15) // 16 + rng.randint(0, 1)
    cluster = f"racks:\n  - {{count: {racks}, nodes: {{count: 2, gpus: 8, sockets: 2, sku: G}}}}\nvcs:\n{vcs}"
    rows, most_of = [], {"nodes": 8, "sockets": 4, "gpus": 4, "racks": 16}[shape]
    for i, g in enumerate(grants):
        rows += [(s, d, n, f"v{i}") for s, d, n in jobs_of(rng, rng.randint(10, 40), min(g * size, most_of), 40)]
    rows.sort()
    trace = "id,submit,duration,gpus,vc\n" + "".join(f"{k},{s},{d},{n},{vc}\n" for k, (s, d, n, vc) in enumerate(rows))
    return cluster, trace


def alone(name, seed):
    rng = random.Random(f"alone {seed}")
    longer, lent, jobs, quota = 0, 0, 0, 0
    for k in range(DRAWS):
        cluster, trace = draw(rng)
        out = json.loads(muster("sim", "anomaly", "-c", write(f"c{k}.yaml", cluster), "-t", write(f"t{k}.csv", trace),
                                "--policy", name, "--guests", "--json"))
        row = out["all"][0]
        jobs += row["jobs"]
        quota += row["quota"]["longer"]
        lent += row["lent"]["longer"]
        here = 0 if name in MEASURED else row["cells"]["longer"]
        beside = 0 if name in MIXED else out["guests"]["longer"]
        longer += here + beside
        if here or beside:
            print(f"# {name}, draw {k}: cells {row['cells']['longer']}, guests {out['guests']['longer']} wait longer\n"
                  + "".join(f"# {line}\n" for line in cluster.splitlines()))
        # What is lent if nobody says anything is what was just compared.
        unsaid = run(path(f"c{k}.yaml"), path(f"t{k}.csv"), "--policy", name)
        said = run(path(f"c{k}.yaml"), path(f"t{k}.csv"), "--policy", name, "--set", "borrow=none")
        longer += unsaid != said
    ok(longer == 0 and jobs > 0, f"{name}: none of {jobs} jobs waits longer than alone "
       f"(quotas only: {quota}; told to borrow: {lent})")


def run(cluster, trace, *args):
    """start, end, preemptions of each job."""
    muster("sim", "run", "-c", cluster, "-t", trace, "--jobs-csv", path("jobs.csv"), *args)
    with open(path("jobs.csv"), newline="", encoding="utf-8") as rows:
        return {row["job_id"]: (row["start_seconds"], row["end_seconds"], row["preemptions"]) for row in csv.DictReader(rows)}


def together(names):
    """Every policy at once, each with the same jobs in a virtual cluster of two nodes."""
    rng = random.Random("together")
    jobs = list(jobs_of(rng, 60, 8, 30))
    cluster = write("all.yaml", f"nodes: {{count: {2 * len(names)}, gpus: 8, sku: G}}\nvcs:\n" +
                    "".join(f"  {name}: {{guarantee: 2 nodes}}\n" for name in names))
    trace = write("all.csv", "id,submit,duration,gpus,vc\n" + "".join(
        f"{k * 1000 + i},{s},{d},{n},{name}\n" for k, name in enumerate(names) for i, (s, d, n) in enumerate(jobs)))
    own = write("own.csv", "id,submit,duration,gpus,vc\n" + "".join(f"{i},{s},{d},{n},own\n"
                                                                 for i, (s, d, n) in enumerate(jobs)))
    write("own.yaml", "nodes: {count: 2, gpus: 8, sku: G}\nvcs:\n  own: {quota: {G: 16}, borrow: none}\n")
    shared = run(cluster, trace, "--policy", "fifo", *[a for name in names for a in ("--vc", f"{name}={name}")])
    kinds = {}
    for k, name in enumerate(names):
        private = run(path("own.yaml"), own, "--policy", name)
        here = {i: shared[str(k * 1000 + i)] for i in range(len(jobs))}
        differ = [f"{i}: {here[i]} alone {private[str(i)]}" for i in here if here[i] != private[str(i)]]
        kinds[tuple(here.values())] = name
        ok(not differ, f"{name} decides for its own virtual cluster as in a private one", "\n".join(differ))
    starts = [float(shared[str(names.index("fifo") * 1000 + i)][0]) for i in range(len(jobs))]
    ok(starts == sorted(starts), "fifo starts in the order of submission beside all others")
    ok(len(kinds) >= 8, f"there are {len(kinds)} different schedules for the same jobs", kinds.values())


def beside(name, seed):
    """Elastic jobs in two nodes of their own, every GPU that they leave idle lent to an opportunistic copy of each: they
    start, grow, shrink and end as in a private cluster, to the millisecond."""
    rng = random.Random(f"beside {seed}")
    rows = [(10 * s, 10 * d, n, max(1, n // 2), min(8, 2 * n)) for s, d, n in jobs_of(rng, 60, 8, 60)]
    head = "id,submit,duration,gpus,gpus_min,gpus_max,vc,class\n"
    own = [f"{i},{s},{d},{n},{low},{high},{{}},guaranteed\n" for i, (s, d, n, low, high) in enumerate(rows)]
    guests = [f"{1000 + i},{s},{d},{n},{low},{high},{{}},opportunistic\n" for i, (s, d, n, low, high) in enumerate(rows)]
    cluster = write("beside.yaml", "nodes: {count: 3, gpus: 8, sku: G}\nvcs:\n  own: {guarantee: 2 nodes}\n  b: {quota: {G: 0}}\n")
    private = write("private.yaml", "nodes: {count: 2, gpus: 8, sku: G}\nvcs:\n  own: {quota: {G: 16}, borrow: none}\n")
    every = [line for pair in zip(own, guests) for line in pair]
    for vc in ("own", "b"):
        shared = run(cluster, write("beside.csv", head + "".join(
            line.format("own" if k % 2 == 0 else vc) for k, line in enumerate(every))), "--policy", name)
        alone_ = run(private, write("private.csv", head + "".join(line.format("own") for line in own)), "--policy", name)
        differ = [f"{i}: {shared[i]} alone {alone_[i]}" for i in alone_
                  if any(abs(float(x) - float(y)) > 0.001 for x, y in zip(shared[i], alone_[i]))]
        ok(not differ, f"{name}: elastic jobs beside opportunistic ones of {'its own' if vc == 'own' else 'another'} "
           f"virtual cluster are as alone ({len(differ)} of {len(alone_)} differ)", "\n".join(differ))


def carried():
    """The cluster made anew under jobs that take turns: they stay inside their guarantee, and gain nothing by it."""
    rng = random.Random("carried")
    cluster = write("turns.yaml", "nodes: {count: 4, gpus: 8, sku: G}\nvcs:\n  a: {guarantee: 1 node}\n  b: {guarantee: 4 gpus}\n")
    trace = write("turns.csv", "id,submit,duration,gpus,vc\n" + "".join(
        f"{i},{i},{200 + rng.randrange(200)},{rng.choice((1, 2, 4))},{rng.choice('aab')}\n" for i in range(40)))
    whole = run(cluster, trace, "--policy", "gandiva")
    for every in (1, 7):
        again = run(cluster, trace, "--policy", "gandiva", "--set", f"carry={every}")
        mean = [sum(float(job[1]) for job in jobs.values()) / len(jobs) for jobs in (whole, again)]
        ok(0.9 < mean[1] / mean[0] < 1.1, f"gandiva, made anew after every {every} instants: as long as without", mean)


def record():
    cluster = write("three.yaml", "nodes: {count: 3, gpus: 4, sku: G}\nvcs:\n"
                    "  a: {guarantee: 1 node}\n  b: {guarantee: 1 node}\n  c: {guarantee: 1 node, borrow: all}\n")
    rows = [(0, 30, 4), (0, 20, 2), (1, 5, 4), (2, 9, 1), (3, 40, 3), (4, 2, 2), (50, 7, 4)]
    trace = write("three.csv", "id,submit,duration,gpus,vc,class\n" + "".join(
        f"{100 * k + i},{s},{d},{n},{vc},guaranteed\n" for k, vc in enumerate("abc")
        for i, (s, d, n) in enumerate(rows)) + "900,2,60,2,a,opportunistic\n")
    muster("sim", "run", "-c", cluster, "-t", trace, "--policy", "fifo", "--vc", "a=fifo,mode=skip", "--vc", "b=srsf",
           "--vc", "c=las,queues=10s", "--log", path("log"))
    with open(path("log"), encoding="utf-8") as log:
        text = log.read()
    golden = os.path.join(HERE, "vcs.golden")
    if os.environ.get("MUSTER_RECORD"):
        with open(golden, "w", encoding="utf-8") as out:
            out.write(text)
    with open(golden, encoding="utf-8") as want:
        want = want.read()
    ok(text == want, "sim run --vc decides as recorded", text)


names = policies()
for number, policy in enumerate(names):
    try:
        alone(policy, number)
    except RuntimeError as error:
        ok(False, policy, error)
for number, policy in enumerate(name for name in names if name not in MEASURED):
    try:
        beside(policy, number)
    except RuntimeError as error:
        ok(False, policy, error)
try:
    together(names)
    carried()
    record()
except RuntimeError as error:
    ok(False, "the run", error)
print(f"1..{tests}")
raise SystemExit(failed > 0)
