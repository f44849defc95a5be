# SPDX-License-Identifier: Apache-2.0
"""E3, E4: a guaranteed job beside a dense opportunistic one: alone, by the driver's time slicing, with the runtime.

pair.py GAP_MS [SETTING...]: each setting is what the runtime is tried with, `default` or NAME=VALUE,NAME=VALUE with names without their
MUSTER_GPU_ (AIM=0,WINDOW=600). `driver` is the pair without the runtime. Three windows of eight seconds each, after three of settling; a pair that noise has paused at once is begun again, twice at most, and each time is a line (`pair-again`). The guaranteed job is compared with itself alone in two other starts, one before and one after the neighbour's own, both before the pair; and with itself in the same process before and after. Without gaps (0) the
neighbour's first step may take minutes, as it should: it is measured from when it is known to the node side."""
import os
import sys
import time

from lab import STANDIN, Job, between, listed, order, own_node, percentile, result

SETTLE, WINDOW = (1.0, 1.0) if STANDIN else (3.0, 8.0)
OWN = 1.0 if STANDIN else 5.0
BACK = 1.0 if STANDIN else 3.0
WINDOWS = int(os.environ.get("MUSTER_GPU_WINDOWS", "3"))
ALONE = 2 if STANDIN else 6


def window(rg, ot, begin, end):
    """The guaranteed job's steps and the other's rate while both ran."""
    steps = between(rg.lines(), begin, end)
    times = [float(line[0]) for line in ot.lines()]
    rate = sum(begin <= t <= end for t in times) / (end - begin)
    return percentile(steps, 50) * 1e3, percentile(steps, 99) * 1e3, sum(steps) / max(len(steps), 1) * 1e3, rate, len(steps)


def watch(ot, rg, until):
    """What the controller did meanwhile."""
    seen = []
    while time.monotonic() < until and ot.proc.poll() is None:
        time.sleep(0.5)
        item, host = listed(ot.pid), listed(rg.pid)
        if item.get("gate"):
            seen.append(f"{item['gate'][0]}{item['share_permille']}:{host.get('slowdown_permille')}:{item.get('edge_us')}")
    return seen


def closed(ot, seconds=3.0):
    """Was it let in and then paused?"""
    end, opened = time.monotonic() + seconds, False
    while time.monotonic() < end:
        gate = listed(ot.pid).get("gate")
        opened |= gate == "harvest"
        time.sleep(0.2)
    return opened and gate == "closed"


def known(ot, seconds=60):
    """It has a context: whatever it launches waits from now on."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and ot.proc.poll() is None:
        if listed(ot.pid).get("used_bytes"):
            return True
        time.sleep(0.2)
    return False


def pair(setting, gap_ms, modes, base, seconds):
    rg = Job(["rg", seconds + 240, gap_ms], modes[0])
    windows, settle = (WINDOWS, SETTLE) if modes[1] else (1, SETTLE / 3)
    rg.wait_steps(200 if gap_ms != "0" else 600)
    alone = [float(line[2]) for line in rg.lines()[-150:]]
    for _ in range(3):
        ot = Job(["ot", seconds], modes[1])
        if not (ot.wait_steps(1) if gap_ms != "0" or not modes[1] else known(ot)):
            result("pair-error", setting=setting, gap_ms=gap_ms, text=ot.tail()[-300:])
            rg.kill()
            return
        # One period of noise at the very start pauses a neighbour for half a minute, as it should; that is no measurement.
        if not modes[1] or gap_ms == "0" or not closed(ot):
            break
        result("pair-again", setting=setting, gap_ms=gap_ms, slowdown_permille=listed(rg.pid).get("slowdown_permille"))
        ot.kill()
        time.sleep(0.5)
    begin, seen, rates, halves = time.monotonic() + settle, [], [], []
    for i in range(windows):  # each told when it ends: what is cut off later is still a measurement
        if modes[1]:
            seen += watch(ot, rg, begin + (i + 1) * WINDOW)
        time.sleep(max(0, begin + (i + 1) * WINDOW - time.monotonic()))
        p50, p99, mean, rate, n = window(rg, ot, begin + i * WINDOW, begin + (i + 1) * WINDOW)
        rates.append(rate)
        halves.append(p50)
        result("pair", setting=setting, gap_ms=gap_ms, window=i, p50_percent=(p50 / base["p50_ms"] - 1) * 100,
               p99_percent=(p99 / base["p99_ms"] - 1) * 100, mean_percent=(mean / base["mean_ms"] - 1) * 100,
               before_percent=(p50 / (percentile(alone, 50) * 1e3) - 1) * 100, ot_percent=rate / base["rate"] * 100, steps=n)
    if modes[1]:
        item = listed(ot.pid)
        result("pair-control", setting=setting, gap_ms=gap_ms, slice_ok=item.get("slice_ok"), fail_open=item.get("fail_open"), warmed=listed(rg.pid).get("warmed"), gaps=item.get("gaps"), gaps_late=item.get("gaps_late"),
               gated_s=item.get("gated_ns", 0) / 1e9, trace=",".join(seen))
        back(rg, ot, setting, gap_ms, percentile(alone, 50) * 1e3, halves)
        rg.kill()
        own(ot, setting, gap_ms, rates)
    ot.kill()
    rg.kill()


def back(rg, ot, setting, gap_ms, before, halves):
    """The guaranteed job's own speed once more, the other paused: its start may have been up to 1 % off another's."""
    order("pause", ot.pid)
    time.sleep(0.5)
    begin = time.monotonic()
    time.sleep(BACK)
    after = percentile(between(rg.lines(), begin, begin + BACK), 50) * 1e3
    order("resume", ot.pid)
    result("pair-back", setting=setting, gap_ms=gap_ms, before_ms=before, after_ms=after,
           percents=",".join(f"{(p50 / ((before + after) / 2) - 1) * 100:.2f}" for p50 in halves))


def own(ot, setting, gap_ms, rates):
    """The same process alone, right afterwards: starts of one program differ by a fifth in speed, so this is the surer measure."""
    time.sleep(OWN / 4)
    begin = time.monotonic()
    time.sleep(OWN)
    rate = sum(begin <= float(line[0]) for line in ot.lines()) / (time.monotonic() - begin)
    result("pair-own", setting=setting, gap_ms=gap_ms, rate=rate, percents=",".join(f"{r / rate * 100:.1f}" for r in rates if rate))


def main(gap_ms="8", *settings):
    seconds = SETTLE + WINDOWS * WINDOW + 8 + 2 * OWN
    base = Job(["rg", ALONE, gap_ms]).finish()
    other = Job(["ot", ALONE]).finish()
    if "p50_ms" not in base or "rate" not in other:
        result("pair-error", gap_ms=gap_ms, text=str(base)[:200] + str(other)[:200])
        return
    # Alone twice, because starts differ by a fifth: their mean is its speed alone. Without gaps it gets next to nothing anyway.
    again = Job(["ot", ALONE]).finish().get("rate", other["rate"]) if gap_ms != "0" else other["rate"]
    base["rate"] = (other["rate"] + again) / 2
    first = base["p50_ms"]
    if gap_ms != "0":  # and the guaranteed job on a warm card
        warm = Job(["rg", ALONE, gap_ms]).finish()
        for key in ("p50_ms", "p99_ms", "mean_ms"):
            base[key] = (base[key] + warm.get(key, base[key])) / 2
    result("pair-alone", gap_ms=gap_ms, p50_ms=base["p50_ms"], first_p50_ms=first, p99_ms=base["p99_ms"], rate=base["rate"], rates=f"{other['rate']:.2f},{again:.2f}")
    for setting in settings or ("driver", "default"):
        env = dict(word.split("=") for word in setting.split(",")) if "=" in setting else {}
        env = {"MUSTER_GPU_" + k: v for k, v in env.items()}
        os.environ.update(env)
        own_node("pair-" + setting.replace(",", "-").replace("=", ""))
        modes = (None, None) if setting == "driver" else (["--role", "guaranteed"], ["--role", "opportunistic"])
        pair(setting, gap_ms, modes, base, seconds)
        for key in env:
            del os.environ[key]


main(*sys.argv[1:])
