# SPDX-License-Identifier: Apache-2.0
"""Graphs of whole training steps, captured again and again by a guaranteed and by an opportunistic job, alone, beside one another, with
pauses in between, and one graph with limits lowered and raised under it: results as in a run without graphs and without the library."""
import time

from lab import STANDIN, Job, order, own_node, result

STEPS = 100 if STANDIN else 1000
GUARANTEED, OPPORTUNISTIC = ["--role", "guaranteed"], ["--role", "opportunistic", "--memory", "16G", "--host-pool", "1G"]


def told(case, want, got, **more):
    result("capture", case=case, **more, equal=want.get("digest") == got.get("digest"), graphs=got.get("graphs", 0), captured_s=got.get("captured_s"),
           gate_waits=(got.get("stats") or {}).get("gate_waits"), error=str(got.get("error", "")) + str(got.get("err", ""))[-300:])


def disturbed(case, want, args, words):
    job, orders, refused = Job(args, OPPORTUNISTIC), 0, []
    job.wait_steps(5)
    while job.proc.poll() is None:
        for verb, *rest in words:
            _, rc, text = order(verb, job.pid, *rest)
            orders += 1
            if rc and job.proc.poll() is None:
                refused.append(text)
        time.sleep(0.1)
    told(case, want, job.finish(), orders=orders, refused=len(refused), said=refused[-1:])


def main():
    own_node("capture")
    # Without the library, at the same time: nothing is timed.
    eager, plain, longer = Job(["capture", STEPS, "eager"]), Job(["capture", STEPS]), Job(["capture", 2 * STEPS, "eager"])
    want, long_want = eager.finish(), longer.finish()
    told("without the library", want, plain.finish())
    for role in (GUARANTEED, OPPORTUNISTIC):
        told(role[1] + " alone", want, Job(["capture", STEPS], role).finish())
    # Beside one another the gate opens and closes; each of them captures in the middle of it.
    rg = Job(["capture", 2 * STEPS], GUARANTEED)
    rg.wait_steps(5)
    ot = Job(["capture", STEPS], OPPORTUNISTIC)
    told("opportunistic beside guaranteed", want, ot.finish())
    told("guaranteed beside opportunistic", long_want, rg.finish())
    # A pause that comes in the middle of a capture waits for its end. What a capturing thread allocates above a limit is refused, so limits
    # are changed under a graph that is there.
    disturbed("pauses", want, ["capture", STEPS], (("pause",), ("resume",)))
    disturbed("limits", want, ["capture", STEPS, "once"], (("set", "memory=8M" if STANDIN else "memory=64M"), ("set", "memory=16G")))


main()
