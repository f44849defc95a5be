# SPDX-License-Identifier: Apache-2.0
"""neighbours.py caps | surge | trial | foreign | split | nvml | abi - what the node side does between the jobs of one GPU, on a card.

caps     a movable neighbour holds most of the card, a guaranteed job comes and leaves: limits, how soon they hold, contents
surge    a movable guaranteed job wants 8 GiB more of a full card at once
trial    two neighbours want more than there is, one of them gains by it
foreign  a program without the library: shown, and what it holds left to it
split    the guaranteed job's copies beside a neighbour that copies a GiB at a time
nvml     what nvidia-smi is told under a limit
abi      signatures and look-ups against the toolkit's header; needs its path"""
import os
import subprocess
import sys
import time

from lab import BUILD, HERE, STANDIN, Job, listed, own_node, percentile, result, total_gib

GIB = 2**30
GUARANTEED, NEIGHBOUR = ["--role", "guaranteed"], ["--role", "opportunistic"]


def until(seconds, condition):
    """Seconds until it holds; NaN when it never does."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        if condition():
            return time.monotonic() - start
        time.sleep(0.1)
    return float("nan")


def gib(job, field):
    return listed(job.pid).get(field, 0) / GIB


def started(name, *jobs):
    """All of them have begun; else it is said and they are ended."""
    for job in jobs:
        if not job.wait_steps(2, 60):
            result(name + "-error", text=job.tail()[-300:])
            for other in jobs:
                other.kill()
            return False
    return True


def caps():
    total = total_gib()
    ot = Job(["fill", total * 0.8, 200], NEIGHBOUR + ["--host-pool", "2G"])
    if not started("caps", ot):
        return
    rg = Job(["fill", total * 0.3, 200], GUARANTEED)
    if not started("caps", rg, ot):
        return
    held = until(25, lambda: 0 < gib(ot, "cap_bytes") and gib(ot, "used_bytes") <= gib(ot, "cap_bytes"))
    both = gib(rg, "used_bytes") + gib(ot, "used_bytes")
    result("caps", held_s=held, neighbour_cap_gib=gib(ot, "cap_bytes"), neighbour_used_gib=gib(ot, "used_bytes"),
           neighbour_host_gib=gib(ot, "host_bytes"), guaranteed_gib=gib(rg, "used_bytes"), both_gib=both, card_gib=total)
    first = rg.stop()
    home = until(30, lambda: gib(ot, "host_bytes") == 0)
    last = ot.stop()
    result("caps-home", home_s=home, bad=first.get("bad", 1) + last.get("bad", 1), error=str(last.get("error", "")))


def surge():
    total = total_gib()
    ot = Job(["fill", total * 0.84, 200], NEIGHBOUR + ["--host-pool", "8G"])
    if not started("surge", ot):
        return
    until(10, lambda: gib(ot, "pool_bytes") > 7)
    rg = Job(["burst", total * 0.11, 8, 1], GUARANTEED + ["--movable"])
    rg.wait_steps(1, 60)
    open(rg.log + ".go", "w").close()
    begin = time.monotonic()
    until(20, lambda: os.path.exists(rg.log + ".got"))
    served = time.monotonic() - begin
    home = until(25, lambda: listed(rg.pid) and gib(rg, "host_bytes") == 0)
    r = rg.stop()
    back = ot.stop()
    result("surge", served_s=served, home_s=home, ms=",".join(f"{x:.0f}" for x in r.get("ms", [])), oom=r.get("oom"), good=r.get("good"),
           neighbour_bad=back.get("bad"), error=str(r.get("err", ""))[-200:])


def trial():
    """Both hold 0.6 of the card; one works on all of it, the other on a tenth."""
    total, begin = total_gib(), time.monotonic()
    jobs = [Job(["touch", total * 0.6, part, 200], NEIGHBOUR) for part in (1.0, 0.1)]
    if not started("trial", *jobs):
        return
    seen = []
    while time.monotonic() - begin < (12 if STANDIN else 50):
        time.sleep(2)
        seen.append([(gib(job, "cap_bytes"), len(job.lines())) for job in jobs])
    third = max(1, len(seen) // 3)
    rates = [[(part[-1][j][1] - part[0][j][1]) / max(1, 2 * (len(part) - 1)) for part in (seen[:third + 1], seen[-third - 1:])] for j in (0, 1)]
    ends = [job.stop() for job in jobs]
    result("trial", caps_gib=";".join(f"{a[0]:.1f}/{b[0]:.1f}" for a, b in seen), wide_rate=rates[0][0], wide_rate_late=rates[0][1],
           narrow_rate=rates[1][0], narrow_rate_late=rates[1][1], bad=sum(e.get("bad", 1) for e in ends))


def foreign():
    ot = Job(["fill", 4, 100], NEIGHBOUR)
    if not started("foreign", ot):
        return
    plain = Job(["fill", 8, 60])
    plain.wait_steps(1, 60)
    shown = until(10, lambda: listed(plain.pid).get("role") == "foreign")
    result("foreign", shown_s=shown, used_gib=gib(plain, "used_bytes"), note="" if shown == shown else "not shown: a container numbers processes otherwise")
    plain.kill()
    gone = until(10, lambda: not listed(plain.pid))
    result("foreign-gone", gone_s=gone, neighbour_bad=ot.stop().get("bad"))


def split():
    for name, modes in (("driver", (None, None)), ("muster", (GUARANTEED, NEIGHBOUR))):
        own_node("split-" + name)
        rg = Job(["copy", 60, 64, 0.005], modes[0])
        if not started("split", rg):
            return
        rg.wait_steps(200, 20)
        alone = [float(line[2]) for line in rg.lines()[20:]]
        ot = Job(["copy", 40, 1024, 0], modes[1])
        if not started("split", ot):
            return
        time.sleep(2 if STANDIN else 5)
        n = len(rg.lines())
        time.sleep(2 if STANDIN else 5)
        beside = [float(line[2]) for line in rg.lines()[n:]]
        result("split", mode=name, alone_ms=percentile(alone, 50) * 1e3, beside_ms=percentile(beside, 50) * 1e3,
               p50_percent=(percentile(beside, 50) / percentile(alone, 50) - 1) * 100, neighbour_copies=len(ot.lines()))
        ot.kill()
        rg.kill()


def nvml():
    env = {**os.environ, "LD_PRELOAD": os.path.join(BUILD, "libmuster_gpu.so"), "MUSTER_GPU_MEMORY": "20G", "MUSTER_GPU_NVML_VIEW": "1"}
    p = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"], capture_output=True, text=True, env=env)
    result("nvml", total_mib=p.stdout.strip(), want_mib=20480, rc=p.returncode)


def abi(header=""):
    p = subprocess.run([sys.executable, os.path.join(HERE, "abi_check.py"), header], capture_output=True, text=True)
    lines = (p.stdout + p.stderr).splitlines()
    print("\n".join(lines), flush=True)
    words = next((line.split()[2:] for line in reversed(lines) if line.startswith("RESULT abi ")), [])
    result("abi", rc=p.returncode, **{k: int(v) for k, v in (w.split("=") for w in words)})


def main(what="caps", *args):
    own_node(what)
    {f.__name__: f for f in (caps, surge, trial, foreign, split, nvml, abi)}[what](*args)


main(*sys.argv[1:])
