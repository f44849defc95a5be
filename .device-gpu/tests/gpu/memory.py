# SPDX-License-Identifier: Apache-2.0
"""E7, E8: the limit of a running PyTorch job lowered by 4 GiB and raised again; results as in a run left alone."""
import time

from lab import Job, listed, order, result


def main():
    args = ["train", 240, 64, 8, 1024]
    want = Job(args).finish()
    job = Job(args, ["--role", "opportunistic", "--memory", "16G", "--host-pool", "5G"])
    job.wait_steps(20)
    time.sleep(3)
    item = listed(job.pid)
    used = item.get("used_bytes", 0) / 2**30
    result("memory-before", used_gib=used, movable_gib=item.get("movable_bytes", 0) / 2**30)
    low = max(1, int((used - 4) * 1024))
    for value in (low, 16 * 1024, low, 16 * 1024):
        seconds, rc, text = order("set", job.pid, f"memory={value}M")
        item = listed(job.pid)
        result("memory-set", to_mib=value, seconds=seconds, rc=rc, used_gib=item.get("used_bytes", 0) / 2**30,
               host_gib=item.get("host_bytes", 0) / 2**30, soft=item.get("soft_refusals"), said=text.replace(" ", "_"))
        time.sleep(0.5)
    got = job.finish()
    result("memory-curve", equal=want.get("digest") == got.get("digest"), want=want.get("digest"),
           got=got.get("digest", str(got)[:300].replace(" ", "_")))


main()
