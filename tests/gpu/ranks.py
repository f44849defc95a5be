# SPDX-License-Identifier: Apache-2.0
"""Two ranks of one job on one GPU (gloo between them), paused together at a step they agree on, evicted together; the loss is
that of two ranks left alone."""
import time

from lab import Job, listed, order, own_node, result


def start(mode, port):
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "MUSTER_JOB_ID": "ranks",
           "GLOO_SOCKET_IFNAME": "lo"}
    return [Job(["rank", 900], mode, env=dict(env, RANK=str(i))) for i in range(2)]


def main():
    own_node("ranks")
    want = [job.finish(120) for job in start(None, 29611)]
    jobs = start(["--role", "opportunistic"], 29612)
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
