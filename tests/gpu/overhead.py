# SPDX-License-Identifier: Apache-2.0
"""E2: what the library costs: a launch of an empty kernel without it, inert and active; an eager transformer step inert and
active, switched in turns inside one process."""
import os
import subprocess

from lab import BUILD, LIBRARY, Job, result


def bench(extra):
    env = dict(os.environ, **extra)
    p = subprocess.run([os.path.join(BUILD, "launch_bench")], env=env, capture_output=True, text=True, timeout=60)
    return float(p.stdout.split()[0]) if p.returncode == 0 else float("nan")


def main():
    modes = {"off": {}, "inert": {"LD_PRELOAD": LIBRARY}, "active": {"LD_PRELOAD": LIBRARY, "MUSTER_GPU_COUNT": "1"}}
    runs = {name: [bench(extra) for extra in [extra] * 5] for name, extra in modes.items()}
    base = sorted(runs["off"])[2]
    for name, ns in runs.items():
        result("launch", mode=name, ns=sorted(ns)[2], low=min(ns), high=max(ns), added_ns=sorted(ns)[2] - base)
    for name, mode in (("active", "count"), ("guaranteed", ["--role", "guaranteed"]),
                       ("movable", ["--role", "opportunistic"])):
        r = [Job(["toggle"], mode).finish() for _ in range(2)]
        good = [x for x in r if "percent" in x]
        if good:
            result("step", mode=name, inert_ms=good[0]["inert_ms"], active_ms=good[0]["active_ms"],
                   percent=",".join(f"{x['percent']:.2f}" for x in good))
        else:
            result("step-error", mode=name, text=str(r[0])[:300].replace(" ", "_"))


main()
