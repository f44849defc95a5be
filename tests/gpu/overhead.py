# SPDX-License-Identifier: Apache-2.0
"""E2: what the library costs. A launch of an empty kernel, wrapper and driver in turns inside one process; then an eager
transformer step, active and inert in turns, step by step, inside one process. Differences are paired, with 95 % intervals."""
import os
import subprocess
import sys

from lab import BUILD, LIBRARY, STANDIN, Job, result


def bench(extra):
    p = subprocess.run([os.path.join(BUILD, "launch_bench")], env=dict(os.environ, **extra), capture_output=True, text=True,
                       timeout=60)
    return [float(x) for x in p.stdout.split()] if p.returncode == 0 else [float("nan")] * 4


def main(steps="1200"):
    for name, extra in {"off": {}, "inert": {"LD_PRELOAD": LIBRARY}, "active": {"LD_PRELOAD": LIBRARY, "MUSTER_GPU_COUNT": "1"},
                        "guaranteed": {"LD_PRELOAD": LIBRARY, "MUSTER_GPU_ROLE": "guaranteed"}}.items():
        own, added, low, high = bench(extra) if not STANDIN else [float("nan")] * 4
        result("launch", mode=name, driver_ns=own, added_ns=added, low=low, high=high)
    for name, mode in (("active", "count"), ("guaranteed", ["--role", "guaranteed"]),
                       ("movable", ["--role", "opportunistic"])):
        r = Job(["toggle", steps], mode).finish(240)
        if "percent" not in r:
            result("step-error", mode=name, text=str(r)[:300])
            continue
        result("step", mode=name, inert_ms=r["inert_ms"], percent=r["percent"], low=r["low"], high=r["high"], calls=r["calls"],
               pairs=r["n"])


main(*sys.argv[1:])
