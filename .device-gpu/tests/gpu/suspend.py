# SPDX-License-Identifier: Apache-2.0
"""E10, E11: pause, evict, release and back, with checksums; a training job's loss curve with and without."""
import os
import sys
import time

from lab import Job, listed, order, result, used_mib


def hold(gib, name, release=True):
    job = Job(["hold", gib, 400], ["--role", "opportunistic", "--native"] if gib == 0 else ["--role", "opportunistic"])
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
    for verb, back in (("pause", "resume"), ("evict", "resume"), ("release", "restore")):
        if verb == "release" and not release:
            continue
        out, rc, text = order(verb, job.pid)
        left = used_mib()
        home, rc2, text2 = order(back, job.pid)
        result(f"{name}-{verb}", save_s=out, restore_s=home, used_before_mib=before, used_after_mib=left,
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
    args = ["train", 400, 32, 8, 1024]
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
    result("small-curve", equal=want.get("digest") == got.get("digest"), want=want.get("digest"),
           got=got.get("digest", str(got)[:200].replace(" ", "_")))


def main(what="all", gib="40"):
    if what in ("all", "small"):
        curve()
    if what in ("all", "hold"):
        hold(float(gib), f"hold{gib}")


main(*sys.argv[1:])
