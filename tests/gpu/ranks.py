# SPDX-License-Identifier: Apache-2.0
"""Two ranks of one job on one GPU (gradients averaged through memory), paused together at a step they agree on, evicted together; the loss is
that of two ranks left alone."""
import time

from lab import STANDIN, TEMP, Job, listed, order, own_node, result


def start(mode, name):
    """Both ranks, and the memory they meet in: 525 568 parameters, two halves, two ranks."""
    ring = f"{TEMP}/ring-{name}"
    for suffix, size in ((".count", 2 * 2 * 8), (".data", 2 * 2 * 525568 * 4)):
        with open(ring + suffix, "wb") as f:
            f.truncate(size)
    env = {"WORLD_SIZE": "2", "MUSTER_JOB_ID": "ranks", "RING": ring}
    return [Job(["rank", 1500 if STANDIN else 4000], mode, env=dict(env, RANK=str(i))) for i in range(2)]


def main():
    own_node("ranks")
    alone = start(None, "alone")  # at the same time: what counts is after which step each stops, not when
    jobs = start(["--role", "opportunistic", "--movable"], "run")
    for job in jobs:
        job.wait_steps(30)
    end = time.monotonic() + 10
    while any(listed(job.pid).get("tier", 4) > 2 for job in jobs) and time.monotonic() < end:
        time.sleep(0.1)  # until their steps are seen
    same, seconds = 0, []
    for verb in ("pause", "pause", "pause", "evict", "pause"):
        took, rc, text = order(verb, "--job", "ranks", "--at-boundary")
        time.sleep(0.1)
        steps = [job.lines()[-1][1] for job in jobs]  # as they count themselves
        same += rc == 0 and steps[0] == steps[1]
        seconds.append(took)
        result("ranks-order", verb=verb, seconds=took, rc=rc, steps=",".join(steps), said=text)
        order("resume", "--job", "ranks")
        time.sleep(0.2)
    got = [job.finish(60) for job in jobs]
    want = [job.finish(60) for job in alone]
    result("ranks", together=same, of=len(seconds), seconds_max=max(seconds), equal=[g.get("digest") for g in got] == [w.get("digest") for w in want],
           error=str(got[0].get("err", want[0].get("err", "")))[-200:])


main()
