# SPDX-License-Identifier: Apache-2.0
"""E10, E11: pause, evict, release and back, with checksums; a training job's loss curve with and without."""
import os
import sys
import time

from lab import Job, listed, order, result, used_mib


def hold(gib, name):
    job = Job(["hold", gib, 400], ["--role", "opportunistic"])
    if not job.wait_steps(2, 120):
        result(name + "-error", text=job.tail()[-300:].replace("\n", "|").replace(" ", "_"))
        job.kill()
        return
    start = time.monotonic()
    order("set", job.pid, f"prepare={int(gib * 1024 + 1024)}M")
    while listed(job.pid).get("area_bytes", 0) < gib * 2**30 and time.monotonic() - start < 60:
        time.sleep(0.2)
    result(name + "-prepare", seconds=time.monotonic() - start, area_gib=listed(job.pid).get("area_bytes", 0) / 2**30)
    before = used_mib()
    for verb, back, pinned in (("pause", "resume", 0), ("evict", "resume", 0), ("release", "restore", 0),
                               ("release", "restore", 0), ("release", "restore", 0), ("release", "restore", 1)):
        if verb == "release":
            order("set", job.pid, f"pinned={pinned}")
        out, rc, text = order(verb, job.pid)
        left = used_mib()
        home, rc2, text2 = order(back, job.pid)
        result(f"{name}-{verb}", pinned=pinned, save_s=out, restore_s=home, used_before_mib=before, used_after_mib=left,
               rc=f"{rc},{rc2}", said=f"{text}|{text2}".replace(" ", "_"))
        if rc or rc2:
            break
        open(job.log + ".check", "w").close()
        end = time.monotonic() + 30
        while not os.path.exists(job.log + ".checked") and time.monotonic() < end:
            time.sleep(0.05)
        if os.path.exists(job.log + ".checked"):
            os.remove(job.log + ".checked")
        else:
            result(f"{name}-{verb}-error", text="the job did not check its memory")
            break
    r = job.stop()
    result(name + "-content", bad=r.get("bad"), checks=r.get("checks"), error=str(r.get("error")).replace(" ", "_"))


def curve():
    """The loss of a training job, suspended three ways on its way, against one left alone."""
    args = ["train", 250, 32, 8, 1024]
    want = Job(args).finish()
    job = Job(args, ["--role", "opportunistic"])
    job.wait_steps(30)
    order("set", job.pid, "prepare=6G")
    time.sleep(2)
    for verb, back in (("pause", "resume"), ("evict", "resume"), ("release", "restore")):
        out, rc, text = order(verb, job.pid)
        time.sleep(0.2)
        home, rc2, text2 = order(back, job.pid)
        result(f"small-{verb}", save_s=out, restore_s=home, rc=f"{rc},{rc2}", said=f"{text}|{text2}".replace(" ", "_"))
        time.sleep(0.3)
    got = job.finish()
    native = Job(args, ["--role", "opportunistic", "--native"])
    native.wait_steps(30)
    time.sleep(1)
    out, rc, text = order("release", native.pid)
    home, rc2, text2 = order("restore", native.pid)
    result("small-driver-alone", save_s=out, restore_s=home, rc=f"{rc},{rc2}", said=f"{text}|{text2}".replace(" ", "_"))
    native.kill()
    result("small-curve", equal=want.get("digest") == got.get("digest"), want=want.get("digest"),
           got=got.get("digest", str(got)[:200].replace(" ", "_")))


def alternate(gib, switches=4, quantum=3.0):
    """Two jobs that hold `gib` each take turns; a switch is one out and the other home."""
    jobs = [Job(["hold", gib, 400], ["--role", "opportunistic"]) for _ in range(1)]
    jobs[0].wait_steps(2, 120)
    order("set", jobs[0].pid, f"prepare={int(gib * 1024 + 1024)}M")
    while listed(jobs[0].pid).get("area_bytes", 0) < gib * 2**30:
        time.sleep(0.2)
    order("evict", jobs[0].pid)
    jobs.append(Job(["hold", gib, 400], ["--role", "opportunistic"]))
    jobs[1].wait_steps(2, 120)
    order("set", jobs[1].pid, f"prepare={int(gib * 1024 + 1024)}M")
    while listed(jobs[1].pid).get("area_bytes", 0) < gib * 2**30:
        time.sleep(0.2)
    running, seconds = 1, []
    for _ in range(switches):
        start = time.monotonic()
        a, rc, text = order("evict", jobs[running].pid)
        b, rc2, text2 = order("resume", jobs[1 - running].pid)
        seconds.append(time.monotonic() - start)
        if rc or rc2:
            result("alternate-error", text=f"{text}|{text2}".replace(" ", "_"))
            break
        running = 1 - running
        time.sleep(quantum)
    result("alternate", gib=gib, switch_s_max=max(seconds), switch_s_median=sorted(seconds)[len(seconds) // 2],
           of_half_speed_at_60s=60 / (60 + max(seconds)))
    order("resume", jobs[1 - running].pid)
    for job in jobs:
        open(job.log + ".check", "w").close()
    time.sleep(2)
    r = [job.stop() for job in jobs]
    result("alternate-content", bad=[x.get("bad") for x in r], checks=[x.get("checks") for x in r])


def main(what="all", gib="40"):
    if what in ("all", "small"):
        curve()
    if what == "alternate":
        alternate(float(gib))
    if what in ("all", "hold"):
        hold(float(gib), f"hold{gib}")


main(*sys.argv[1:])
