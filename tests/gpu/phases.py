# SPDX-License-Identifier: Apache-2.0
"""E6: the controller over changes. A neighbour arrives, the guaranteed job doubles its batch, evaluates, goes back; for each
phase the time until its steps are within 2 % of what they are alone, and how often the share was cut."""
import time

from lab import Job, listed, own_node, percentile, result


def steps(job, begin, end):
    return [(float(line[0]), float(line[2])) for line in job.lines() if begin <= float(line[0]) <= end]


def settled(points, base):
    """Seconds until the median of ten steps in a row is within 2 % and stays so for the next thirty."""
    for i in range(0, len(points) - 40, 5):
        if all(percentile([s for _, s in points[k:k + 10]], 50) <= 1.02 * base for k in range(i, i + 30, 10)):
            return points[i][0] - points[0][0]
    return float("nan")


def main():
    own_node("phases")
    alone = Job(["phases", "3,3,3,3"])
    base = alone.finish(90)
    bases = [percentile([s for _, s in steps(alone, a + 0.7, b)], 50) for a, b in zip(base["marks"], base["marks"][1:])]
    rg = Job(["phases", "10,10,8,8"], ["--role", "guaranteed"])
    rg.wait_steps(60)
    ot = Job(["ot", 60], ["--role", "opportunistic"])
    trace = []
    while rg.proc.poll() is None:
        item = listed(ot.pid)
        if "share_permille" in item:
            trace.append((time.monotonic(), item["share_permille"] if item["gate"] != "closed" else 0))
        time.sleep(0.1)
    marks = rg.finish()["marks"]
    left = time.monotonic()
    time.sleep(1.5)
    after = listed(ot.pid).get("gate")
    ot.kill()
    for name, a, b, alone_s in zip(("arrives", "batch-x2", "evaluation", "back"), marks, marks[1:], bases):
        begin = max(a, trace[0][0]) if trace else a
        points = steps(rg, begin, b)
        shares = [u for t, u in trace if begin <= t <= b]
        cuts = sum(y < x for x, y in zip(shares, shares[1:]))
        late = [s for _, s in points[len(points) // 2:]]
        result("phases", phase=name, alone_ms=alone_s * 1e3, settled_s=settled(points, alone_s), cuts=cuts,
               late_p50_percent=(percentile(late, 50) / alone_s - 1) * 100,
               shares=",".join(str(u) for u in shares[::5]))
    result("phases", phase="neighbour-alone", gate=after, after_s=time.monotonic() - left)


main()
