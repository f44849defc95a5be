# SPDX-License-Identifier: Apache-2.0
"""E3, E4: a guaranteed job beside a dense opportunistic one: alone, by the driver's time slicing, with the runtime."""
import sys

from lab import Job, listed, result


def alone(args):
    return Job(args).finish()


def pair(name, rg_args, ot_args, rg_mode, ot_mode, base_rg, base_ot):
    rg = Job(rg_args, rg_mode)
    rg.wait_steps(30)
    ot = Job(ot_args, ot_mode)
    if ot_mode:
        ot.wait_steps(20)
        item = listed(ot.pid)
        result(name + "-state", gate=item.get("gate"), share=item.get("share_permille"), slice=item.get("slice_us"),
               slice_ok=item.get("slice_ok"), rg_slowdown=listed(rg.pid).get("slowdown_permille"))
    ro = ot.finish()
    rr = rg.finish()
    if "error" in rr or "error" in ro:
        result(name + "-error", rg=str(rr)[:300].replace(" ", "_"), ot=str(ro)[:300].replace(" ", "_"))
        return
    result(name, rg_p50=rr["p50_ms"], rg_p50_percent=(rr["p50_ms"] / base_rg["p50_ms"] - 1) * 100,
           rg_p99=rr["p99_ms"], rg_p99_percent=(rr["p99_ms"] / base_rg["p99_ms"] - 1) * 100,
           rg_mean_percent=(rr["mean_ms"] / base_rg["mean_ms"] - 1) * 100, ot_rate=ro["rate"],
           ot_percent=ro["rate"] / base_ot["rate"] * 100)
    if ot_mode:
        s = ro["stats"]
        result(name + "-stats", ot_gate_waits=s["gate_waits"], ot_gated_s=s["gated_ns"] / 1e9, fail_open=s["fail_open"],
               rg_tier=rr["stats"]["tier"], rg_steps=rr["stats"]["steps"], ot_tier=s["tier"],
               rg_groups=rr["stats"]["slice_groups"], rg_slice_ok=rr["stats"]["slice_ok"], ot_slice_ok=s["slice_ok"])


def main(gap_ms="8", seconds="20"):
    sec = float(seconds)
    rg = ["rg", sec + 22, gap_ms]
    base_rg = alone(["rg", 6, gap_ms])
    base_ot = alone(["ot", 6])
    result("pair-alone", gap_ms=gap_ms, rg_p50=base_rg["p50_ms"], rg_p99=base_rg["p99_ms"], ot_rate=base_ot["rate"])
    pair("pair-default", ["rg", 22, gap_ms], ["ot", 6], None, None, base_rg, base_ot)
    pair("pair-muster", rg, ["ot", sec], ["--role", "guaranteed"], ["--role", "opportunistic"], base_rg, base_ot)


main(*sys.argv[1:])
