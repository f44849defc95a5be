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


def job_capture(steps="300", how="graph"):
    """A whole training step, forward, backward and optimizer, as one graph, in the way of torch.cuda.make_graphed_callables and its
    manual: the backward pass is recorded by autograd's own thread. `once` keeps its first graph, `eager` has none; all give the same results."""
    torch.manual_seed(11)
    model = torch.nn.Sequential(*[m for _ in range(4) for m in (torch.nn.Linear(1024, 1024), torch.nn.GELU())],
                                torch.nn.Linear(1024, 64)).to(DEV)
    opt = torch.optim.Adam(model.parameters(), lr=1e-4, capturable=True)
    data = torch.randn(8, 256, 1024, device=DEV)
    x = data[0].clone()

    def step():
        opt.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # as the manual has it: libraries and the optimizer make their memory first
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graphs, log, losses, captured = [], Log(), [], 0.0
    for n in range(int(steps)):
        if how != "eager" and n % (25 if how == "graph" else int(steps)) == 0:  # again and again, so that every state of gate and limit is met
            start = time.perf_counter()
            graphs.append(torch.cuda.CUDAGraph())
            opt.zero_grad(set_to_none=True)
            with torch.cuda.graph(graphs[-1]):
                loss = step()
            captured = max(captured, time.perf_counter() - start)
        x.copy_(data[n % 8])
        if graphs:
            graphs[-1].replay()
        else:
            loss = step()
        losses.append(loss.item())
        log.add(n, losses[-1])
    total = sum(p.detach().double().sum().item() for p in model.parameters())
    return {"digest": repr((sum(losses), total)), "graphs": len(graphs), "captured_s": captured, "stats": stats()}


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


def models():
    """Six training loops of different kinds: name -> a function that makes one step, ending with the optimizer's."""
    def loop(model, opt, make, loss, accumulate=1):
        def step():
            for _ in range(accumulate):
                x, y = make()
                loss(model(x), y).backward()
            opt.step()
            opt.zero_grad()
        return step

    rand = lambda *size: torch.randn(*size, device=DEV)  # noqa: E731
    labels = lambda n, k: torch.randint(0, k, (n,), device=DEV)  # noqa: E731
    entropy = torch.nn.functional.cross_entropy
    torch.manual_seed(3)
    text = transformer(4, 512)
    conv = torch.nn.Sequential(*[m for i in range(6) for m in (torch.nn.Conv2d(3 if i == 0 else 64, 64, 3, padding=1),
                               torch.nn.BatchNorm2d(64), torch.nn.ReLU())], torch.nn.AdaptiveAvgPool2d(1),
                               torch.nn.Flatten(), torch.nn.Linear(64, 10)).to(DEV)
    mlp = torch.nn.Sequential(*[m for _ in range(6) for m in (torch.nn.Linear(1024, 1024), torch.nn.GELU())],
                              torch.nn.Linear(1024, 10)).to(DEV)
    lstm = torch.nn.LSTM(256, 256, 2, batch_first=True).to(DEV)
    deep = transformer(2, 256)
    auto = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.Tanh(), torch.nn.Linear(256, 784)).to(DEV)
    tokens = lambda n, t: torch.randint(0, 8192, (n, t), device=DEV)  # noqa: E731
    return {
        "transformer": loop(text, torch.optim.AdamW(text.parameters()), lambda: (tokens(8, 64), labels(512, 8192)),
                            lambda o, y: entropy(o.flatten(0, 1), y)),
        "conv": loop(conv, torch.optim.SGD(conv.parameters(), lr=0.01, momentum=0.9), lambda: (rand(32, 3, 32, 32), labels(32, 10)),
                     entropy),
        "mlp-fused": loop(mlp, torch.optim.Adam(mlp.parameters(), fused=True), lambda: (rand(256, 1024), labels(256, 10)), entropy),
        "lstm": loop(lstm, torch.optim.Adam(lstm.parameters()), lambda: (rand(32, 50, 256), None),
                     lambda o, _: o[0].square().mean()),
        "accumulated": loop(deep, torch.optim.AdamW(deep.parameters()), lambda: (tokens(4, 32), labels(128, 8192)),
                            lambda o, y: entropy(o.flatten(0, 1), y), accumulate=4),
        "plain-sgd": loop(auto, torch.optim.SGD(auto.parameters(), lr=0.01, foreach=False), lambda: (rand(64, 784), None),
                          lambda o, _: o.square().mean()),
    }


def job_tiers(seconds="4"):
    """How many of a training loop's steps does the library see, and how well does it know how long they are?"""
    out = {}
    for name, step in models().items():
        start = time.monotonic()
        while time.monotonic() - start < 2.5:  # the signal is found
            step()
            torch.cuda.synchronize()
        seen, spans, walls, hit, last = stat("steps"), [], [], 0, time.perf_counter()
        first, start = seen, time.monotonic()
        while time.monotonic() - start < float(seconds):
            step()
            torch.cuda.synchronize()
            now, count = time.perf_counter(), stat("steps")
            spans.append(now - last)
            walls.append(stat("step_wall_us") / 1e6)
            hit += count > seen
            last, seen = now, count
        truth = sum(spans) / len(spans)
        records = max(seen - first, 1)
        out[name] = {"tier": stat("tier"), "recall": hit / len(spans), "per_step": records / len(spans),
                     "period_error": abs(sum(spans) / records - truth) / truth, "ms": truth * 1e3}
    return out


def captured_step():
    """A whole mini-batch as one graph: forward, backward (which another thread launches) and optimizer; captured once, run three
    times on other input."""
    model = transformer(2, 256)
    opt = torch.optim.AdamW(model.parameters(), capturable=True)
    x = torch.randint(0, 8192, (4, 33), device=DEV)

    def step():
        loss = torch.nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        opt.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            opt.zero_grad(set_to_none=True)
            step()
    torch.cuda.current_stream().wait_stream(side)
    opt.zero_grad(set_to_none=True)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        loss = step()
    for _ in range(3):
        x.copy_(torch.randint(0, 8192, (4, 33)))
        g.replay()
        loss.item()
    return {}


def job_tiny(kind="eager"):
    """Three small steps, for recording."""
    if kind == "step":
        return captured_step()
    model = transformer(2, 256)
    opt = torch.optim.AdamW(model.parameters())
    x = torch.randint(0, 8192, (4, 33), device=DEV)
    if kind == "graph":
        a = torch.randn(512, 512, device=DEV)
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            (a @ a).relu()
        torch.cuda.synchronize()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            b = (a @ a).relu()
            (b @ a).tanh()
        for _ in range(20):
            g.replay()
        torch.cuda.synchronize()
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        loss.item()
    return {}


def job_hostile(kind="long", seconds="8"):
    """A neighbour that is hard to hold back: kernels of 20 ms, a graph of 100 ms, ten thousand tiny launches at a time."""
    log = Log()
    ms = 1_700_000  # cycles of torch's sleeping kernel, about
    tiny = torch.zeros(32, device=DEV)
    graph = torch.cuda.CUDAGraph()
    if kind == "graph":
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            torch.cuda._sleep(ms)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            for _ in range(100):
                torch.cuda._sleep(ms)
    end, n = time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        if kind == "long":
            torch.cuda._sleep(20 * ms)
        elif kind == "graph":
            graph.replay()
        else:
            for _ in range(10000):
                tiny.add_(1)
        if n % 4 == 3 or kind != "long":
            torch.cuda.synchronize()
        log.add(n)
        n += 1
    return {"n": n, "stats": stats()}


def job_phases(spans="10,10,8,8", gap_ms="8", size="4096"):
    """A guaranteed job that changes: so many products a step, twice as many, an evaluation without optimizer, the first again.
    The log's third column is the step; phase and step are in $JOB_LOG.phases."""
    a = torch.randn(int(size), int(size), device=DEV, dtype=torch.bfloat16)
    w = torch.nn.Parameter(torch.randn(int(size), int(size), device=DEV, dtype=torch.bfloat16))
    opt = torch.optim.SGD([w], lr=0.0, foreach=False)
    w.grad = torch.zeros_like(w)
    log, marks = Log(), []
    for phase, (span, products) in enumerate(zip(map(float, spans.split(",")), (16, 32, 10, 16))):
        begin = time.monotonic()
        marks.append(begin)
        n = 0
        while time.monotonic() < begin + span:
            start = time.perf_counter()
            for _ in range(products):
                a @ w
            if phase != 2:
                opt.step()
            torch.cuda.synchronize()
            busy(float(gap_ms) / 1e3)
            log.add(n, time.perf_counter() - start)
            n += 1
    return {"marks": marks + [time.monotonic()]}


def job_burst(first_gib="16", burst_gib="4", stay="0"):
    """A guaranteed job that holds some memory and suddenly wants more; how long that took. With `stay` it then works on until told
    to end; $JOB_LOG.got says that it has what it wanted."""
    keep = [torch.empty(int(float(first_gib) * 2**30), dtype=torch.uint8, device=DEV)]
    torch.cuda.synchronize()
    log = Log()
    log.add(0)
    flag = os.environ["JOB_LOG"] + ".go"
    while not os.path.exists(flag):
        time.sleep(0.01)
    times, oom = [], 0
    for i in range(int(burst_gib) // 2):
        start = time.perf_counter()
        try:
            keep.append(torch.full((2 * 2**30,), i, dtype=torch.uint8, device=DEV))
            torch.cuda.synchronize()
        except torch.OutOfMemoryError:
            oom += 1
        times.append(time.perf_counter() - start)
    open(os.environ["JOB_LOG"] + ".got", "w").close()
    end = time.monotonic() + (60 if stay != "0" else 0)
    while time.monotonic() < end and not os.path.exists(os.environ["JOB_LOG"] + ".check.stop"):
        keep[0][:1024].add_(1)
        torch.cuda.synchronize()
        log.add(1)
        time.sleep(0.005)
    good = all((t == i).all().item() for i, t in enumerate(keep[1:]))
    return {"ms": [t * 1e3 for t in times], "oom": oom, "good": good}


def job_fill(gib="100", seconds="60"):
    """Holds memory in pieces of 1 GiB with a value each; checks them at the end."""
    parts = [torch.full((2**30,), i % 251, dtype=torch.uint8, device=DEV) for i in range(int(float(gib)))]
    torch.cuda.synchronize()
    log = Log()
    flag = os.environ["JOB_LOG"] + ".check.stop"
    x, n = torch.randn(256, 256, device=DEV), 0
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end and not os.path.exists(flag):
        x = (x @ x).clamp(-1, 1)
        torch.cuda.synchronize()
        log.add(n)
        n += 1
        time.sleep(0.002)
    return {"bad": sum(not (p == i % 251).all().item() for i, p in enumerate(parts)), "stats": stats()}


def job_touch(gib="60", part="1.0", seconds="60"):
    """Holds memory and works on a part of it, a GiB a step and one after the other; what it works on is counted and checked."""
    parts = [torch.zeros(2**30, dtype=torch.uint8, device=DEV) for _ in range(int(float(gib)))]
    torch.cuda.synchronize()
    log, n, used = Log(), 0, max(1, int(len(parts) * float(part)))
    flag = os.environ["JOB_LOG"] + ".check.stop"
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end and not os.path.exists(flag):
        parts[n % used].add_(1)
        torch.cuda.synchronize()
        log.add(n)
        n += 1
    want = [(n // used + (i < n % used)) % 256 if i < used else 0 for i in range(len(parts))]
    return {"bad": sum(not (p == w).all().item() for p, w in zip(parts, want)), "n": n}


def job_copy(seconds="30", mib="64", pause="0"):
    """Copies from pinned host memory to the GPU, each waited for; how long each took."""
    host = torch.empty(int(mib) * 2**20, dtype=torch.uint8, pin_memory=True)
    gpu = torch.empty(int(mib) * 2**20, dtype=torch.uint8, device=DEV)
    log, n, end = Log(), 0, time.monotonic() + float(seconds)
    while time.monotonic() < end:
        start = time.perf_counter()
        gpu.copy_(host, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        log.add(n, time.perf_counter() - start)
        n += 1
        if float(pause):
            time.sleep(float(pause))
    return {"n": n, "stats": stats()}


class Ring:
    """An all-reduce between processes of one machine: a file of memory, and counters they wait on."""

    def __init__(self, path, rank, size, words):
        import numpy as np

        self.rank, self.size, self.turn = rank, size, 0
        self.count = np.memmap(path + ".count", dtype=np.int64, mode="r+", shape=(2 * size,))
        self.data = np.memmap(path + ".data", dtype=np.float32, mode="r+", shape=(2, size, words))

    def wait(self, column):
        self.count[column * self.size + self.rank] += 1
        while min(self.count[column * self.size:(column + 1) * self.size]) < self.turn:
            time.sleep(0)

    def sum(self, values):
        self.turn += 1
        half = self.data[self.turn % 2]
        half[self.rank] = values
        self.wait(0)
        total = half.sum(axis=0)
        self.wait(1)
        return total


def job_rank(steps="400"):
    """One rank of data parallel training, gradients averaged through memory: ranks wait for one another in each step."""
    import numpy as np

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)).to(DEV)
    opt = torch.optim.AdamW(model.parameters())
    words = sum(p.numel() for p in model.parameters())
    ring = Ring(os.environ["RING"], rank, size, words)
    data = torch.randn(8, 64, 256, device=DEV, generator=torch.Generator(DEV).manual_seed(rank))
    log, total = Log(), 0.0
    for step in range(int(steps)):
        loss = (model(data[step % 8]) - data[step % 8]).square().mean()
        loss.backward()
        grads = torch.cat([p.grad.flatten() for p in model.parameters()]).cpu().numpy()
        mean = torch.from_numpy(np.ascontiguousarray(ring.sum(grads) / size)).to(DEV)
        for p, g in zip(model.parameters(), mean.split([p.numel() for p in model.parameters()])):
            p.grad.copy_(g.view_as(p))
        opt.step()
        opt.zero_grad()
        total += loss.item()
        log.add(step, total)
    return {"digest": repr(total), "rank": rank}


def job_slices(seconds="20"):
    """What became of this process' time slice, each second."""
    x, end, seen = torch.randn(1024, 1024, device=DEV), time.monotonic() + float(seconds), []
    log, n = Log(), 0
    while time.monotonic() < end:
        x = (x @ x).clamp(-1, 1)
        torch.cuda.synchronize()
        log.add(n)
        n += 1
        time.sleep(0.005)
    return {"slice_ok": stat("slice_ok"), "groups": stat("slice_groups"), "uid": os.getuid(), "n": n}


if __name__ == "__main__":
    result = globals()["job_" + sys.argv[1]](*sys.argv[2:])
    print(json.dumps(result), flush=True)
