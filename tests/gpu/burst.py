# SPDX-License-Identifier: Apache-2.0
"""E9: the card is full, a neighbour holds most of it; the guaranteed job wants 4 GiB more at once."""
import time

from lab import Job, listed, order, own_node, result, used_mib


def main(total_gib=139):
    own_node("burst")
    first = 16
    ot = Job(["fill", total_gib - first - 4, 90], ["--role", "opportunistic", "--host-pool", "8G"])
    if not ot.wait_steps(2, 60):
        result("burst-error", text=ot.tail()[-300:])
        ot.kill()
        return
    end = time.monotonic() + 15
    while listed(ot.pid).get("pool_bytes", 0) < 7 * 2**30 and time.monotonic() < end:
        time.sleep(0.2)
    rg = Job(["burst", first, 4], ["--role", "guaranteed"])
    rg.wait_steps(1, 60)
    used = used_mib()
    open(rg.log + ".go", "w").close()
    r = rg.finish(60)
    item = listed(ot.pid)
    result("burst", used_before_mib=used, oom=r.get("oom"), good=r.get("good"), ms=",".join(f"{x:.0f}" for x in r.get("ms", [])),
           neighbour_host_gib=item.get("host_bytes", 0) / 2**30, error=str(r.get("err", ""))[-200:])
    seconds, rc, text = order("set", ot.pid, "memory=139G")
    result("burst-home", seconds=seconds, rc=rc, host_gib=listed(ot.pid).get("host_bytes", 0) / 2**30)
    back = ot.stop()
    result("burst-content", bad=back.get("bad"))


main()
