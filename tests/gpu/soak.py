# SPDX-License-Identifier: Apache-2.0
"""E15: two training jobs and random orders to them; losses as of a job left alone. soak.py [SECONDS]"""
import random
import sys
import time

from lab import Job, listed, order, own_node, result


def main(seconds="60"):
    own_node("soak")
    steps = int(float(seconds) * 40)
    draw, args = random.Random(11), ["train", steps, 16, 4, 512]
    alone = Job(args)
    jobs = [Job(args, ["--role", "opportunistic", "--memory", "24G", "--host-pool", "2G"]) for _ in range(2)]
    for job in jobs:
        job.wait_steps(20)
        order("set", job.pid, "prepare=4G")
    end, done, failed = time.monotonic() + float(seconds), {}, 0
    while time.monotonic() < end and all(job.proc.poll() is None for job in jobs):
        job = draw.choice(jobs)
        verb = draw.choice(["pause", "boundary", "evict", "release", "memory", "share"])
        if verb == "memory":
            orders = [("set", job.pid, f"memory={draw.choice([1200, 1600, 2000])}M"), ("set", job.pid, "memory=24G")]
        elif verb == "share":
            orders = [("set", job.pid, f"share={draw.choice([0.2, 0.5])}"), ("set", job.pid, "share=1")]
        elif verb == "boundary":
            orders = [("pause", "--at-boundary", job.pid), ("resume", job.pid)]
        else:
            orders = [(verb, job.pid), ("restore", job.pid)]
        for one in orders:
            rc, text = order(*one)[1:]
            if rc and len(job.lines()) < steps:  # one that has done all its steps may be gone any moment
                failed += 1
                result("soak-refused", order="_".join(map(str, one)), said=text)
            time.sleep(draw.random() * 0.3)
        done[verb] = done.get(verb, 0) + 1
    for job in jobs:
        item = listed(job.pid)
        result("soak-state", state=item.get("state"), used_gib=item.get("used_bytes", 0) / 2**30,
               host_gib=item.get("host_bytes", 0) / 2**30, note=str(item.get("note")))
    want = alone.finish(200)
    got = [job.finish(200) for job in jobs]
    result("soak", seconds=seconds, orders=sum(done.values()), kinds=str(done).replace(" ", ""), failed=failed,
           equal=[g.get("digest") == want.get("digest") for g in got], errors=[str(g.get("error")) for g in got])


main(*sys.argv[1:])
