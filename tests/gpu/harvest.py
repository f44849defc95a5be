# SPDX-License-Identifier: Apache-2.0
"""Real programs as owners and guests of one GPU (programs.py), by each way of sharing it, in one run.

harvest.py OWNER:GUEST[,OWNER:GUEST...] WAY...: a way is `driver` (its time slicing), `runtime`, `duty` (AntMan's own law), `open` (the
guest's gate open, the short hardware slice alone), `mpsN` (MPS, the guest on N % of the processors at a lower priority). The owner runs
alone first, in the same process; then the guest comes. The guest's own speed is taken after the owner has gone."""
import os
import subprocess
import sys
import time

import lab
from lab import Job, between, listed, own_node, percentile, result

lab.JOBS = os.path.join(lab.HERE, "programs.py")
ALONE, WINDOW, OWN = 5.0, 9.0, 4.0


def busy():
    p = subprocess.run(["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"], capture_output=True, text=True)
    return int(p.stdout.split()[0])


def mps(on):
    if on:
        subprocess.run(["nvidia-cuda-mps-control", "-d"], capture_output=True)
    else:
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, capture_output=True)
    time.sleep(1)


def rate(job, begin, end):
    return len(between(job.lines(), begin, end)) / (end - begin)


def pair(owner_name, guest_name, way):
    own_node(f"harvest-{owner_name}-{guest_name}-{way}")
    owner_mode, guest_mode, guest_env = None, None, {}
    if way in ("runtime", "duty", "open"):
        owner_mode, guest_mode = ["--role", "guaranteed"], ["--role", "opportunistic"]
    if way == "open":
        guest_env = {"WORLD_SIZE": "2", "RANK": "0"}
    if way == "duty":
        os.environ["MUSTER_GPU_LAW"] = "duty"
    if way.startswith("mps"):
        mps(True)
        guest_env = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": way[3:], "CUDA_MPS_CLIENT_PRIORITY": "1"}
    owner = Job([owner_name, 120], owner_mode)
    try:
        if not owner.wait_steps(20):
            result("harvest-error", owner=owner_name, guest=guest_name, way=way, text=owner.tail()[-300:])
            return
        time.sleep(1)
        begin = time.monotonic()
        used = []
        while time.monotonic() < begin + ALONE:
            used.append(busy())
            time.sleep(0.3)
        alone = between(owner.lines(), begin, time.monotonic())
        guest = Job([guest_name, 120], guest_mode, env=guest_env)
        came = guest.wait_steps(3, 25)
        time.sleep(2)
        begin = time.monotonic()
        time.sleep(WINDOW)
        end = time.monotonic()
        both, got = between(owner.lines(), begin, end), rate(guest, begin, end)
        item = listed(guest.pid) if guest_mode else {}
        owner.kill()
        guest.wait_steps(len(guest.lines()) + 10, 20)
        time.sleep(0.5)
        begin = time.monotonic()
        time.sleep(OWN)
        own = rate(guest, begin, time.monotonic())
        guest.kill()
        idle = 1 - sum(used) / len(used) / 100
        result("harvest", owner=owner_name, guest=guest_name, way=way, came=came, alone_p50_ms=percentile(alone, 50) * 1e3,
               alone_p99_ms=percentile(alone, 99) * 1e3, p50_percent=(percentile(both, 50) / percentile(alone, 50) - 1) * 100,
               p99_percent=(percentile(both, 99) / percentile(alone, 99) - 1) * 100,
               mean_percent=(sum(both) / max(len(both), 1) / (sum(alone) / len(alone)) - 1) * 100, idle=idle, guest_rate=got, guest_alone=own,
               guest_percent=got / own * 100 if own else float("nan"), of_idle_percent=got / own / idle * 100 if own and idle > 0.005 else float("nan"),
               gate=item.get("gate"), share=item.get("share_permille"), slice=item.get("slice_us"), slice_ok=item.get("slice_ok"))
    finally:
        owner.kill()
        if way.startswith("mps"):
            mps(False)
        os.environ.pop("MUSTER_GPU_LAW", None)


for names in sys.argv[1].split(","):
    for one in sys.argv[2:]:
        pair(*names.split(":"), one)
