# SPDX-License-Identifier: Apache-2.0
"""E7, E8: memory.py [KIND...] - the limit of a running PyTorch job lowered by 4 GiB and raised again; results as in a run left alone. KIND: cold, a job
that holds memory it does not use; hot, one whose whole working set is cut into; expandable, the same with PyTorch's expandable segments, which it maps itself
(compared with a run without them). All three by default. The runs left alone are made first, all at once: nothing is timed in them."""
import sys
import time

from lab import STANDIN, Job, listed, order, own_node, result


TRAIN = ["train", 200, 64, 8, 1024]
KINDS = {"cold": (["cold", 900], 32, {}), "hot": (TRAIN, 16, {}), "expandable": (TRAIN, 16, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})}


def sweep(name, args, cap_gib, env, want):
    job = Job(args, ["--role", "opportunistic", "--memory", f"{cap_gib}G", "--host-pool", "5G"], env=env)
    job.wait_steps(20)
    end = time.monotonic() + (1 if STANDIN else 8)
    while listed(job.pid).get("pool_bytes", 0) < 4 * 2**30 and time.monotonic() < end:
        time.sleep(0.2)
    used = listed(job.pid).get("used_bytes", 0) / 2**30
    result(name + "-start", used_gib=used, movable_gib=listed(job.pid).get("movable_bytes", 0) / 2**30,
           pool_gib=listed(job.pid).get("pool_bytes", 0) / 2**30)
    low = max(1, int((used - 4) * 1024))
    for value in (low, cap_gib * 1024, low, cap_gib * 1024):
        seconds, rc, text = order("set", job.pid, f"memory={value}M")
        item = listed(job.pid)
        result(name, to_mib=value, seconds=seconds, rc=rc, used_gib=item.get("used_bytes", 0) / 2**30,
               host_gib=item.get("host_bytes", 0) / 2**30, soft=item.get("soft_refusals"), said=text)
        time.sleep(0.5)
    got = job.finish()
    result(name + "-curve", equal=want.get("digest") == got.get("digest"), cold_intact=got.get("cold_intact"),
           error=str(got.get("error", "")) + got.get("err", "")[-300:], used_before_gib=used)


def main(*kinds):
    kinds = kinds or tuple(KINDS)
    own_node("memory")
    alone = {tuple(args): Job(args) for args, _, _ in map(KINDS.get, kinds)}
    want = {args: job.finish(180) for args, job in alone.items()}
    for kind in kinds:
        args, cap_gib, env = KINDS[kind]
        sweep("memory-" + kind, args, cap_gib, env, want[tuple(args)])


main(*sys.argv[1:])
