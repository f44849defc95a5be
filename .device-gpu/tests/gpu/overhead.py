# SPDX-License-Identifier: Apache-2.0
"""E2: what the library costs an eager transformer step: off, inert, active (counting, open gate), guaranteed role."""
import sys

from lab import Job, result


def main(repeats=3, steps=300):
    modes = {"off": None, "inert": "inert", "active": "count", "guaranteed": ["--role", "guaranteed"],
             "movable": ["--role", "opportunistic"]}
    times = {m: [] for m in modes}
    for _ in range(repeats):
        for name, mode in modes.items():
            r = Job(["train", steps], mode).finish()
            if "p50_ms" in r:
                times[name].append(r["p10_ms"])
            else:
                result("overhead-error", mode=name, text=str(r)[:300].replace(" ", "_"))
    base = sorted(times["off"])[len(times["off"]) // 2]
    for name, t in times.items():
        if t:
            m = sorted(t)[len(t) // 2]
            result("overhead", mode=name, ms=m, low=min(t), high=max(t), percent=(m / base - 1) * 100)


main(*map(int, sys.argv[1:]))
