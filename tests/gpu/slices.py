# SPDX-License-Identifier: Apache-2.0
"""E12: hardware time slices as root, as another user, in a process namespace of its own, after a release and restore."""
import os
import shutil
import subprocess
import time

from lab import MUSTER, Job, listed, order, own_node, result


def slices(job):
    item = listed(job.pid)
    return f"{item.get('slice_us')}:{item.get('slice_ok')}"


def pair(name, rg, ot):
    rg.wait_steps(3)
    ot.wait_steps(3)
    time.sleep(1.5)
    result("slices", case=name, guaranteed=slices(rg), opportunistic=slices(ot))


def main():
    own_node("slices")
    rg = Job(["slices", 40], ["--role", "guaranteed"])
    ot = Job(["slices", 40], ["--role", "opportunistic"])
    pair("root", rg, ot)
    a, rc, text = order("release", ot.pid)
    b, rc2, text2 = order("restore", ot.pid)
    time.sleep(1.5)
    result("slices", case="after-restore", guaranteed=slices(rg), opportunistic=slices(ot), rc=f"{rc},{rc2}")
    ot.kill()
    time.sleep(1)
    result("slices", case="pair-ended", guaranteed=slices(rg))
    if shutil.which("unshare"):
        inner = Job(["slices", 12], ["--role", "opportunistic"], prefix=["unshare", "-m", "-p", "-f", "--mount-proc"])
        inner.wait_steps(3)
        time.sleep(1.5)
        p = subprocess.run([MUSTER, "gpu", "ls"], capture_output=True, text=True)
        rows = [line.split() for line in p.stdout.splitlines()[1:] if "opportunistic" in line]
        item = listed(int(rows[0][0])) if rows else {}
        result("slices", case="own-namespace", guaranteed=slices(rg), opportunistic=f"{item.get('slice_us')}:{item.get('slice_ok')}")
        inner.finish(40)
    rg.kill()
    if shutil.which("setpriv"):
        own_node("slices-user")
        home = "/tmp/muster-lab-home"
        os.makedirs(home, exist_ok=True)
        os.chmod(home, 0o777)
        who = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        env = {"HOME": home, "MUSTER_GPU_RUN_DIR": home + "/run", "JOB_LOG": "", "TORCHINDUCTOR_CACHE_DIR": home}
        rg = Job(["slices", 14], ["--role", "guaranteed"], env=env, prefix=who)
        ot = Job(["slices", 14], ["--role", "opportunistic"], env=env, prefix=who)
        time.sleep(11)
        p = subprocess.run(who + [MUSTER, "gpu", "ls", "--json"], capture_output=True, text=True, env=dict(os.environ, **env))
        r = [rg.finish(40), ot.finish(40)]
        result("slices", case="uid-65534", said=p.stdout[p.stdout.find("slice_us"):][:30],
               slice_ok=[x.get("slice_ok", str(x)[-120:]) for x in r], uid=[x.get("uid") for x in r])


main()
