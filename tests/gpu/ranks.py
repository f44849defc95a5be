# SPDX-License-Identifier: Apache-2.0
"""Two ranks of one job on one GPU (gradients averaged through memory), paused together at a step they agree on, evicted together; the loss is
that of two ranks left alone."""
import time

from lab import TEMP, Job, listed, order, own_node, result


def start(mode, name):
    """Both ranks, and the memory they meet in: 525 568 parameters, two halves, two ranks."""
    ring = f"{TEMP}/ring-{name}"
    for suffix, size in ((".count", 2 * 2 * 8), (".data", 2 * 2 * 525568 * 4)):
        with open(ring + suffix, "wb") as f:
            f.truncate(size)
    env = {"WORLD_SIZE": "2", "MUSTER_JOB_ID": "ranks", "RING": ring}
    return [Job(["rank", 900], mode, env=dict(env, RANK=str(i))) for i in range(2)]


def main():
    own_node("ranks")
    want = [job.finish(120) for job in start(None, "alone")]
    jobs = start(["--role", "opportunistic"], "run")
    for job in jobs:
        job.wait_steps(30)
    same, seconds = 0, []
    for verb in ("pause", "pause", "pause", "evict", "pause"):
        took, rc, text = order(verb, "--job", "ranks", "--at-boundary")
        steps = [listed(job.pid).get("steps") for job in jobs]
        same += rc == 0 and steps[0] == steps[1]
        seconds.append(took)
        order("resume", "--job", "ranks")
        time.sleep(0.2)
    got = [job.finish(120) for job in jobs]
    result("ranks", together=f"{same}/5", seconds=",".join(f"{s:.3f}" for s in seconds), equal=[g.get("digest") for g in got] == [w.get("digest") for w in want],
           error=str(got[0].get("err", want[0].get("err", "")))[-200:].replace(" ", "_").replace("\n", "|"))


main()
