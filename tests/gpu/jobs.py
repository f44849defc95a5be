# SPDX-License-Identifier: Apache-2.0
"""Training jobs for the experiments, each a small program of its own: python3 jobs.py NAME ARGS...

Every job prints one JSON line at its end; while it runs it appends one line a step to $JOB_LOG when that is set.
"""
import json
import os
import sys
import time

import torch

DEV = "cuda"


def stat(name):
    """A number of the preloaded library's, or None without it."""
    import ctypes

    try:
        fn = ctypes.CDLL(None).muster_gpu_stat
    except AttributeError:
        return None
    fn.restype = ctypes.c_uint64
    fn.argtypes = [ctypes.c_char_p]
    return fn(name.encode())


def stats():
    names = ("on registered role launches graph_launches copies syncs gate_waits gated_ns fail_open used peak host_backed "
             "movable cap_hits soft_refusals spills promotions steps tier slice_groups slice_ok unknown").split()
    return {n: stat(n) for n in names}


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]


class Log:
    """Step times, as lines `time step value`."""

    def __init__(self):
        path = os.environ.get("JOB_LOG")
        self.file = open(path, "a", buffering=1) if path else None

    def add(self, step, value=0.0):
        if self.file:
            self.file.write(f"{time.monotonic():.6f} {step} {value!r}\n")


def transformer(layers=4, width=512, heads=8, vocab=8192):
    torch.manual_seed(1)
    enc = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
    model = torch.nn.Sequential(torch.nn.Embedding(vocab, width), torch.nn.TransformerEncoder(enc, layers),
                                torch.nn.Linear(width, vocab)).to(DEV)
    return model


def train(steps, batch=16, length=128, layers=4, width=512, sleep=0.0):
    """Eager transformer with a deterministic loss curve."""
    torch.manual_seed(2)
    torch.use_deterministic_algorithms(False)
    model = transformer(layers, width)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    log = Log()
    data = torch.randint(0, 8192, (8, batch, length + 1), device=DEV)
    losses, times = [], []
    for step in range(steps):
        start = time.perf_counter()
        x = data[step % 8]
        loss = torch.nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
        log.add(step, losses[-1])
        if sleep:
            time.sleep(sleep)
    return losses, times


def job_train(steps="200", batch="16", layers="4", width="512"):
    losses, times = train(int(steps), int(batch), layers=int(layers), width=int(width))
    times = times[20:] or times
    return {"p50_ms": percentile(times, 50) * 1e3, "p10_ms": percentile(times, 10) * 1e3, "first": losses[0],
            "last": losses[-1], "digest": repr(sum(losses))}


def job_toggle(pairs="1200"):
    """The same job with the library active and inert in turns, step by step, the order of each pair by chance: what it costs,
    without the noise of starts. The median of the paired differences and its 95 % interval."""
    import ctypes
    import random

    switch = ctypes.CDLL(None).muster_gpu_switch
    train(60)
    model = transformer()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randint(0, 8192, (16, 129), device=DEV)

    def step():
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=False)
        torch.cuda.synchronize()
        return time.perf_counter() - start

    import gc

    draw = random.Random(7)
    for _ in range(60):
        step()
    gc.disable()
    before, inert, diff = stat("launches") + stat("copies") + stat("syncs"), [], []
    for _ in range(int(pairs)):
        first = draw.randrange(2)
        t = {}
        for on in (first, 1 - first):
            switch(on)
            t[on] = step()
        inert.append(t[0])
        diff.append(t[1] - t[0])
    switch(1)
    calls = (stat("launches") + stat("copies") + stat("syncs") - before) / int(pairs)
    diff.sort()
    n, base = len(diff), percentile(inert, 50)
    half = int(0.98 * n**0.5)
    return {"inert_ms": base * 1e3, "percent": diff[n // 2] / base * 100, "low": diff[n // 2 - half] / base * 100,
            "high": diff[n // 2 + half] / base * 100, "n": n, "calls": calls}


def job_cold(steps="400", gib="12"):
    """A training job beside memory it holds and does not use, which is what a lower limit should move first."""
    cold = [torch.full((2**28,), i, dtype=torch.int32, device=DEV) for i in range(int(gib))]
    losses, times = train(int(steps), 16, layers=4, width=512)
    good = all((c == i).all().item() for i, c in enumerate(cold))
    return {"digest": repr(sum(losses)), "cold_intact": good, "p50_ms": percentile(times, 50) * 1e3}


def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def job_rg(seconds="10", gap_ms="8", size="4096", mms="16"):
    """About 3 ms of GPU work and a host gap, a step; ends with an optimizer step so that boundaries are seen."""
    a = torch.randn(int(size), int(size), device=DEV, dtype=torch.bfloat16)
    w = torch.nn.Parameter(torch.randn(int(size), int(size), device=DEV, dtype=torch.bfloat16))
    opt = torch.optim.SGD([w], lr=0.0, foreach=False)
    w.grad = torch.zeros_like(w)
    log = Log()
    times, step, gap = [], 0, float(gap_ms) / 1e3
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        start = time.perf_counter()
        for _ in range(int(mms)):
            a @ w
        opt.step()
        torch.cuda.synchronize()
        if gap:
            busy(gap)
        times.append(time.perf_counter() - start)
        log.add(step, times[-1])
        step += 1
    n = len(times)
    tail = times[n // 2:]
    return {"steps": n, "p50_ms": percentile(tail, 50) * 1e3, "p99_ms": percentile(tail, 99) * 1e3,
            "mean_ms": sum(tail) / len(tail) * 1e3, "stats": stats()}


def job_ot(seconds="10", batch="64"):
    """Dense training: the GPU is never idle alone."""
    model = transformer(8, 1024, 16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    log = Log()
    data = torch.randint(0, 8192, (int(batch), 129), device=DEV)
    marks, step = [], 0
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(data[:, :-1]).flatten(0, 1), data[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 2 == 1:
            torch.cuda.synchronize()
            marks.append((time.monotonic(), step))
        log.add(step)
        step += 1
    half = marks[len(marks) // 2:]
    rate = (half[-1][1] - half[0][1]) / (half[-1][0] - half[0][0]) if len(half) > 1 else 0.0
    return {"steps": step, "rate": rate, "stats": stats()}


def job_hold(gib="40", seconds="60", piece="1"):
    """Holds memory with known content and checks all of it whenever $JOB_LOG.check appears; small steps meanwhile."""
    n = int(float(gib) / float(piece))
    words = int(float(piece) * 2**30 / 8)
    parts = []
    for i in range(n):
        g = torch.Generator(device=DEV).manual_seed(i)
        parts.append(torch.randint(-2**62, 2**62, (words,), device=DEV, dtype=torch.int64, generator=g))
    sums = [p.sum().item() for p in parts]
    log = Log()
    log.add(-1, len(parts))
    x = torch.randn(1024, 1024, device=DEV)
    step, checks, bad = 0, 0, 0
    flag = os.environ.get("JOB_LOG", "/nonexistent") + ".check"
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        x = (x @ x).clamp(-1, 1)
        torch.cuda.synchronize()
        log.add(step, bad)
        step += 1
        if os.path.exists(flag):
            bad += sum(p.sum().item() != s for p, s in zip(parts, sums))
            checks += 1
            os.rename(flag, flag + "ed")
        if os.path.exists(flag + ".stop"):
            break
    return {"steps": step, "checks": checks, "bad": bad, "stats": stats()}


if __name__ == "__main__":
    result = globals()["job_" + sys.argv[1]](*sys.argv[2:])
    print(json.dumps(result), flush=True)
