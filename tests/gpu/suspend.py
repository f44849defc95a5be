# SPDX-License-Identifier: Apache-2.0
"""E10, E11: suspend.py small | alternate GIB | hold GIB [PINNED...] - pause, evict, release and back, with checksums; a training job's loss
curve with and without; two jobs in turns. PINNED: how much of the host memory stays registered over each release."""
import os
import sys
import time

from lab import STANDIN, Job, listed, order, orders, own_node, result


def prepared(job, gib, seconds=60):
    """The host memory of an eviction made ahead of time; how long that took."""
    start = time.monotonic()
    order("set", job.pid, f"prepare={int(gib * 1024 + 1024)}M")
    want = min(gib * 2**30, listed(job.pid).get("movable_bytes", 0))
    while listed(job.pid).get("area_bytes", 0) < want and time.monotonic() - start < seconds:
        time.sleep(0.2)
    return time.monotonic() - start


def held(gib, name):
    job = Job(["hold", gib, 400], ["--role", "opportunistic"])
    if job.wait_steps(2, 120):
        result(name + "-prepare", gib=gib, seconds=prepared(job, gib), area_gib=listed(job.pid).get("area_bytes", 0) / 2**30)
        return job
    result(name + "-error", text=job.tail()[-300:])
    job.kill()
    return None


def checked(job, within=30):
    """The job has compared all of its memory."""
    open(job.log + ".check", "w").close()
    end = time.monotonic() + within
    while not os.path.exists(job.log + ".checked") and time.monotonic() < end:
        time.sleep(0.05)
    if not os.path.exists(job.log + ".checked"):
        return False
    os.remove(job.log + ".checked")
    return True


def hold(gib, pinned):
    own_node("hold")
    job = held(gib, "hold")
    if not job:
        return
    plan = [("pause", "resume", None), ("evict", "resume", None)] + [("release", "restore", p) for p in pinned]
    for verb, back, p in plan:
        if p not in (None, "default"):
            order("set", job.pid, f"pinned={p}")
        if not orders("hold", job, verb, back, verb=verb, gib=gib, pinned=p):
            break
        if not checked(job):
            result("hold-error", verb=verb, text="the job did not check its memory")
            break
    r = job.stop()
    result("hold-content", bad=r.get("bad"), checks=r.get("checks"), error=str(r.get("error", "")))


def curve():
    """The loss of a training job, suspended three ways on its way, against one left alone; and the driver's checkpoint by itself."""
    own_node("small")
    args = ["train", 240, 32, 8, 1024]
    want = Job(args).finish()
    job = Job(args, ["--role", "opportunistic"])
    job.wait_steps(30)
    prepared(job, 5, 4)
    used = listed(job.pid).get("used_bytes", 0) / 2**30
    for verb, back in (("pause", "resume"), ("evict", "resume"), ("evict", "resume"), ("release", "restore"), ("release", "restore")):
        orders("small", job, verb, back, verb=verb, gib=used)
        time.sleep(0.3)
    native = Job(args, ["--role", "opportunistic", "--native"])  # its start is not timed
    got = job.finish()
    native.wait_steps(30)
    time.sleep(1)
    orders("small", native, "release", "restore", verb="driver")
    native.kill()
    result("small-curve", equal=want.get("digest") == got.get("digest"), want=want.get("digest"), got=got.get("digest", str(got)[:200]))


def alternate(gib, switches=6, quantum=3.0):
    """Two jobs that hold `gib` each take turns; a switch is one out and the other home."""
    own_node("alternate")
    jobs = [held(gib, "alternate")]
    order("evict", jobs[0].pid)
    jobs.append(held(gib, "alternate"))
    running, seconds = 1, []
    for _ in range(switches):
        start = time.monotonic()
        rc, text = order("evict", jobs[running].pid)[1:]
        rc2, text2 = order("resume", jobs[1 - running].pid)[1:]
        seconds.append(time.monotonic() - start)
        if rc or rc2:
            result("alternate-error", text=f"{text} | {text2}")
            break
        running = 1 - running
        time.sleep(0.5 if STANDIN else quantum)
    seconds.sort()
    result("alternate", gib=gib, switch_s=seconds[len(seconds) // 2], switch_s_max=seconds[-1], switches=len(seconds),
           of_half_percent=100 * 60 / (60 + seconds[-1]))
    order("resume", jobs[1 - running].pid)
    good = [checked(job) for job in jobs]
    r = [job.stop() for job in jobs]
    result("alternate-content", bad=sum(x.get("bad", 1) for x in r), checked=all(good))


def main(what="small", gib="40", *pinned):
    gib = 0.05 if STANDIN else float(gib)
    if what == "small":
        curve()
    elif what == "alternate":
        alternate(gib)
    else:
        hold(gib, pinned or ("default",) * 3)


main(*sys.argv[1:])
