# SPDX-License-Identifier: Apache-2.0
"""E7, E8: memory.py [both|cold|hot|expandable] - the limit of a running PyTorch job lowered by 4 GiB and raised again; results as in a run left alone. Once for a job
that holds memory it does not use, once for one whose whole working set is cut into."""
import sys
import time

from lab import STANDIN, Job, listed, order, own_node, result


def sweep(name, args, cap_gib, low_mib=None, env=None):
    want = Job(args, env=env).finish()
    job = Job(args, ["--role", "opportunistic", "--memory", f"{cap_gib}G", "--host-pool", "5G"], env=env)
    job.wait_steps(20)
    end = time.monotonic() + (1 if STANDIN else 8)
    while listed(job.pid).get("pool_bytes", 0) < 4 * 2**30 and time.monotonic() < end:
        time.sleep(0.2)
    used = listed(job.pid).get("used_bytes", 0) / 2**30
    result(name + "-start", used_gib=used, movable_gib=listed(job.pid).get("movable_bytes", 0) / 2**30,
           pool_gib=listed(job.pid).get("pool_bytes", 0) / 2**30)
    low = low_mib or max(1, int((used - 4) * 1024))
    for value in (low, cap_gib * 1024, low, cap_gib * 1024):
        seconds, rc, text = order("set", job.pid, f"memory={value}M")
        item = listed(job.pid)
        result(name, to_mib=value, seconds=seconds, rc=rc, used_gib=item.get("used_bytes", 0) / 2**30,
               host_gib=item.get("host_bytes", 0) / 2**30, soft=item.get("soft_refusals"), said=text)
        time.sleep(0.5)
    got = job.finish()
    result(name + "-curve", equal=want.get("digest") == got.get("digest"), cold_intact=got.get("cold_intact"),
           error=str(got.get("error", "")) + got.get("err", "")[-300:], used_before_gib=used)


def main(what="both"):
    own_node("memory-" + what)
    if what in ("both", "cold"):
        sweep("memory-cold", ["cold", 900], 32)
    if what in ("both", "hot"):
        sweep("memory-hot", ["train", 200, 64, 8, 1024], 16)
    if what == "expandable":  # PyTorch maps its memory itself
        sweep("memory-expandable", ["train", 200, 64, 8, 1024], 16, env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})


main(*sys.argv[1:])
