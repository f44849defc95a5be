# SPDX-License-Identifier: Apache-2.0
"""E5: a guaranteed job with gaps of 8 ms beside neighbours that are hard to hold back. Its own steps before each are the
baseline; the same pair without the runtime is shown too."""
import sys
import time

from lab import Job, between, listed, own_node, percentile, result


def main(which="muster,driver", seconds=7.0):
    seconds = float(seconds)
    for name, modes in (("muster", (["--role", "guaranteed"], ["--role", "opportunistic"])), ("driver", (None, None))):
        if name not in which.split(","):
            continue
        own_node("hostile-" + name)
        rg = Job(["rg", 200], modes[0])
        rg.wait_steps(150)
        for kind in ("long", "graph", "tiny"):
            begin = time.monotonic()
            time.sleep(2)
            alone = between(rg.lines(), begin, time.monotonic())
            ot = Job(["hostile", kind, seconds], modes[1])
            ot.wait_steps(1)
            start = time.monotonic() + seconds / 2
            share = []
            while ot.proc.poll() is None and time.monotonic() < start + seconds / 2:
                time.sleep(0.5)
                share.append(listed(ot.pid).get("share_permille") if modes[1] else None)
            ot.kill()
            # from the middle of the pairing on: the controller has settled
            with_it = between(rg.lines(), start, start + seconds / 2 - 0.3)
            result("hostile", mode=name, kind=kind, alone_p50=percentile(alone, 50) * 1e3,
                   p50_percent=(percentile(with_it, 50) / percentile(alone, 50) - 1) * 100,
                   p99_percent=(percentile(with_it, 99) / percentile(alone, 99) - 1) * 100, steps=len(with_it),
                   shares=",".join(str(s) for s in share))
        rg.kill()


main(*sys.argv[1:])
