# SPDX-License-Identifier: Apache-2.0
"""E3, E4: a guaranteed job beside a dense opportunistic one: alone, by the driver's time slicing, with the runtime."""
import os
import sys
import time

from lab import Job, listed, result


def alone(args):
    return Job(args).finish()


def steady(rg, ot, seconds=8.0):
    """The guaranteed job's step times and the other's rate while both ran, the last seconds of the pairing."""
    t = [float(line[0]) for line in ot.lines()]
    end = t[-1] - 0.2
    begin = max(t[0] + 1, end - seconds)
    steps = [float(line[2]) for line in rg.lines() if begin <= float(line[0]) <= end]
    rate = sum(begin <= x <= end for x in t) / (end - begin)
    return {"p50_ms": percentile(steps, 50) * 1e3, "p99_ms": percentile(steps, 99) * 1e3,
            "mean_ms": sum(steps) / len(steps) * 1e3, "n": len(steps)}, rate


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]


def pair(name, rg_args, ot_args, rg_mode, ot_mode, base_rg, base_ot):
    rg = Job(rg_args, rg_mode)
    rg.wait_steps(30)
    ot = Job(ot_args, ot_mode)
    shares, slow = [], []
    while ot_mode and ot.proc.poll() is None:
        time.sleep(0.5)
        item, host = listed(ot.pid), listed(rg.pid)
        if item.get("gate"):
            shares.append(f"{item['gate'][0]}{item['share_permille']}")
            slow.append(host.get("slowdown_permille"))
    ro = ot.finish()
    if "error" in ro:
        result(name + "-error", ot=str(ro)[:300].replace(" ", "_"))
        rg.kill()
        return
    both, rate = steady(rg, ot)
    rg.kill()
    result(name, rg_p50=both["p50_ms"], rg_p50_percent=(both["p50_ms"] / base_rg["p50_ms"] - 1) * 100,
           rg_p99=both["p99_ms"], rg_p99_percent=(both["p99_ms"] / base_rg["p99_ms"] - 1) * 100,
           rg_mean_percent=(both["mean_ms"] / base_rg["mean_ms"] - 1) * 100, ot_rate=rate,
           ot_percent=rate / base_ot["rate"] * 100, steps=both["n"])
    if ot_mode:
        s = ro["stats"]
        result(name + "-stats", gate_waits=s["gate_waits"], gated_s=s["gated_ns"] / 1e9, fail_open=s["fail_open"],
               slice_ok=s["slice_ok"], shares=",".join(shares), slowdown=",".join(map(str, slow)))


def main(gap_ms="8", seconds="20", skip=""):
    sec = float(seconds)
    rg = ["rg", sec + 40, gap_ms]
    base_rg = alone(["rg", 5, gap_ms])
    base_ot = alone(["ot", 5])
    result("pair-alone", gap_ms=gap_ms, rg_p50=base_rg["p50_ms"], rg_p99=base_rg["p99_ms"], ot_rate=base_ot["rate"])
    pair("pair-default", ["rg", 60, gap_ms], ["ot", 6], None, None, base_rg, base_ot)
    modes = (["--role", "guaranteed"], ["--role", "opportunistic"])
    for name, env in (("muster", {}), ("muster-warm", {"MUSTER_GPU_WARM": "1"}),
                      ("muster-eps40", {"MUSTER_GPU_EPS": "40"})):
        if name.endswith(tuple(skip.split(","))) and skip:
            continue
        os.environ.update(env, MUSTER_GPU_RUN_DIR=f"/tmp/muster-{name}")  # a node side of its own
        pair("pair-" + name, rg, ["ot", sec], *modes, base_rg, base_ot)
        for key in env:
            del os.environ[key]


if __name__ == "__main__":
    main(*sys.argv[1:])
