# SPDX-License-Identifier: Apache-2.0
"""The jobs of jobs.py on the fake driver: same names, same arguments, same answers, no PyTorch and no GPU. With it every script of
this folder runs anywhere (`all.sh --fake`), so that none of them is tried for the first time on a card. Its figures mean nothing."""
import ctypes
import json
import os
import sys
import threading
import time
import zlib

cuda = ctypes.CDLL("libcuda.so.1")
cuda.fake_kernel_register.restype = ctypes.c_void_p
MIB = 1 << 20


def need(code):
    if code:
        sys.exit(f"driver error {code}")


context = ctypes.c_void_p()
need(cuda.cuInit(0))
need(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
need(cuda.cuCtxSetCurrent(context))


def stat(name):
    try:
        fn = ctypes.CDLL(None).muster_gpu_stat
    except AttributeError:
        return 0
    fn.restype = ctypes.c_uint64
    return fn(name.encode())


def boundary():
    try:
        ctypes.CDLL(None).muster_step()
    except AttributeError:
        pass


def kernel(us):
    return ctypes.c_void_p(cuda.fake_kernel_register(b"work", None, 0, us))


def launch(f, times=1):
    for _ in range(times):
        need(cuda.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, None, None, None))


def alloc(mib):
    p = ctypes.c_uint64()
    size = ctypes.c_size_t(int(mib * MIB))
    if cuda.cuMemAlloc_v2(ctypes.byref(p), size) and cuda.cuMemAlloc_v2(ctypes.byref(p), size):
        sys.exit("out of memory")
    return p.value


class Log:
    def __init__(self):
        path = os.environ.get("JOB_LOG")
        self.file = open(path, "a", buffering=1) if path else None

    def add(self, step, value=0.0):
        if self.file:
            self.file.write(f"{time.monotonic():.6f} {step} {value!r}\n")


class Held:
    """Pieces of memory with known content."""

    def __init__(self, mib, piece=4):
        self.parts = [alloc(piece) for _ in range(max(1, int(mib / piece)))]
        self.size = piece * MIB
        for i, p in enumerate(self.parts):
            need(cuda.cuMemsetD8_v2(ctypes.c_uint64(p), i % 251 + 1, ctypes.c_size_t(self.size)))
        self.sums = [self.sum(p) for p in self.parts]

    def sum(self, p):
        """Of a copy by the driver: memory that moves has no other way."""
        copy = ctypes.create_string_buffer(self.size)
        need(cuda.cuMemcpyDtoH_v2(copy, ctypes.c_uint64(p), ctypes.c_size_t(self.size)))
        return zlib.crc32(copy)

    def bad(self):
        return sum(self.sum(p) != s for p, s in zip(self.parts, self.sums))


def loop(seconds, launches, us, gap_s=0.0, until=None):
    """Steps of so many launches; the times they took."""
    f, log, times, step = kernel(us), Log(), [], 0
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end and not (until and until(step)):
        start = time.perf_counter()
        launch(f, launches)
        need(cuda.cuStreamSynchronize(None))
        boundary()
        if gap_s:
            time.sleep(gap_s)
        times.append(time.perf_counter() - start)
        log.add(step, times[-1])
        step += 1
    return times


def middle(values, p=50):
    values = sorted(values) or [0.0]
    return values[min(len(values) - 1, len(values) * p // 100)]


def job_rg(seconds="10", gap_ms="8", *_):
    times = loop(seconds, 4, 200, float(gap_ms) / 1e3)
    return {"steps": len(times), "p50_ms": middle(times) * 1e3, "p99_ms": middle(times, 99) * 1e3,
            "mean_ms": sum(times) / len(times) * 1e3}


def job_ot(seconds="10", *_):
    held = Held(16)
    times = loop(seconds, 20, 100)
    return {"steps": len(times), "rate": len(times) / sum(times), "bad": held.bad()}


def job_train(steps="200", *_):
    held = Held(48)
    times = loop(600, 6, 300, 0.01, lambda step: step >= 2 * int(steps))
    return {"p50_ms": middle(times) * 1e3, "digest": f"{held.bad()}:{steps}"}


def job_cold(steps="400", *_):
    held = Held(64)
    return {**job_train(str(int(steps) // 3)), "cold_intact": held.bad() == 0}


def job_capture(steps="300", how="graph"):
    """Steps of a few copies, recorded anew now and then with a second thread's among them, or done as they are."""
    import threading

    held, stream, graph, run, graphs = Held(16), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), 0
    need(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    log, size, a, b, c = Log(), ctypes.c_size_t(MIB), *map(ctypes.c_uint64, held.parts[:3])

    def copies(first, second):
        need(cuda.cuCtxSetCurrent(context))
        need(cuda.cuMemcpyDtoDAsync_v2(second, first, size, stream))

    def step():
        copies(a, b)
        backward = threading.Thread(target=copies, args=(b, c))
        backward.start()
        backward.join()

    for n in range(int(steps)):
        need(cuda.cuMemsetD8_v2(a, n % 251, size))
        if how != "eager" and n % (25 if how == "graph" else int(steps)) == 0:
            need(cuda.cuStreamBeginCapture_v2(stream, 0))
            step()
            time.sleep(0.02)
            need(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
            need(cuda.cuGraphInstantiateWithFlags(ctypes.byref(run), graph, ctypes.c_uint64(0)))
            graphs += 1
        if graphs:
            need(cuda.cuGraphLaunch(run, stream))
        else:
            step()
        need(cuda.cuStreamSynchronize(stream))
        boundary()
        log.add(n)
        time.sleep(0.01)
    return {"digest": f"{held.sum(held.parts[2])}:{sum(held.sums[3:])}", "graphs": graphs, "captured_s": 0.0}


def job_toggle(pairs="1200"):
    times = loop(600, 20, 20, 0, lambda step: step >= min(int(pairs), 100))
    return {"inert_ms": middle(times) * 1e3, "percent": 0.0, "low": -1.0, "high": 1.0, "n": len(times), "calls": 21.0}


def job_hold(gib="0.05", seconds="60", *_):
    held = Held(float(gib) * 1024)
    flag, found = os.environ.get("JOB_LOG", "/nonexistent") + ".check", {"bad": 0, "checks": 0}
    log = Log()
    log.add(-1)

    def until(_):
        if os.path.exists(flag):
            found["bad"] += held.bad()
            found["checks"] += 1
            os.rename(flag, flag + "ed")
        return os.path.exists(flag + ".stop")

    loop(seconds, 4, 200, 0.001, until)
    return found


def job_fill(gib="100", seconds="60"):
    held = Held(float(gib) * 1024 if float(gib) < 1 else min(float(gib), 64))
    loop(seconds, 2, 100, 0.002, lambda _: os.path.exists(os.environ["JOB_LOG"] + ".check.stop"))
    return {"bad": held.bad()}


def job_burst(first="16", burst="4", stay="0"):
    Held(float(first) * 1024 if float(first) < 1 else float(first))
    Log().add(0)
    while not os.path.exists(os.environ["JOB_LOG"] + ".go"):
        time.sleep(0.01)
    times = []
    for _ in range(int(burst) // 2):
        start = time.perf_counter()
        Held(4)
        times.append((time.perf_counter() - start) * 1e3)
    open(os.environ["JOB_LOG"] + ".got", "w").close()
    if stay != "0":
        loop(60, 2, 100, 0.002, lambda _: os.path.exists(os.environ["JOB_LOG"] + ".check.stop"))
    return {"ms": times, "oom": 0, "good": True}


def job_touch(gib="60", part="1.0", seconds="60"):
    held = Held(float(gib) * 1024)
    loop(seconds, max(1, int(10 * float(part))), 100, 0.002, lambda _: os.path.exists(os.environ["JOB_LOG"] + ".check.stop"))
    return {"bad": held.bad()}


def job_copy(seconds="30", mib="64", pause="0"):
    times = loop(seconds, 1, 200 if mib == "64" else 2000, float(pause))
    return {"n": len(times)}


def job_hostile(kind="long", seconds="8"):
    launches, us = {"long": (1, 20000), "graph": (100, 1000), "tiny": (2000, 0)}[kind]
    return {"n": len(loop(seconds, launches, us))}


def job_phases(spans="10,10,8,8", *_):
    marks = []
    for span, launches in zip(map(float, spans.split(",")), (8, 16, 5, 8)):
        marks.append(time.monotonic())
        loop(span / 4, launches, 200, 0.008)
    return {"marks": marks + [time.monotonic()]}


def job_rank(steps="400"):
    """Ranks wait for one another in every step by a file."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with open(os.environ["RING"] + ".count", "r+b", buffering=0) as f:
        def others(step):
            f.seek(8 * rank)
            f.write((step + 1).to_bytes(8, "little"))
            while True:
                f.seek(0)
                data = f.read(8 * size)
                if min(int.from_bytes(data[8 * i:8 * i + 8], "little") for i in range(size)) > step:
                    return step >= int(steps)
                time.sleep(0.0005)

        loop(600, 4, 100, 0.002, others)
    return {"digest": steps, "rank": rank}


def job_slices(seconds="20"):
    times = loop(seconds, 2, 100, 0.005)
    return {"slice_ok": stat("slice_ok"), "groups": stat("slice_groups"), "uid": os.getuid(), "n": len(times)}


def job_tiers(*_):
    times = loop(1, 4, 100, 0.002)
    return {"transformer": {"tier": stat("tier"), "recall": 1.0, "per_step": 1.0, "period_error": 0.0, "ms": middle(times) * 1e3}}


def job_tiny(kind="eager"):
    """What record.sh records: for `step` a capture in which a second thread launches too, and memory that is allocated in it."""
    f, stream, graph, run = kernel(0), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    at = alloc(4)
    need(cuda.cuStreamCreate(ctypes.byref(stream), 0))

    def work(times):
        need(cuda.cuCtxSetCurrent(context))
        for _ in range(times):
            need(cuda.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, None, None))

    if kind in ("graph", "step"):
        need(cuda.cuStreamBeginCapture_v2(stream, 1))
        work(3)
        if kind == "step":
            backward = threading.Thread(target=work, args=(5,))
            backward.start()
            backward.join()
            work(2)
        need(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
        need(cuda.cuGraphInstantiateWithFlags(ctypes.byref(run), graph, ctypes.c_ulonglong(0)))
    for _ in range(3):
        if run:
            need(cuda.cuGraphLaunch(run, stream))
        work(1)
        need(cuda.cuStreamSynchronize(stream))
    need(cuda.cuMemFree_v2(ctypes.c_uint64(at)))
    return {}


if __name__ == "__main__":
    print(json.dumps(globals()["job_" + sys.argv[1]](*sys.argv[2:])), flush=True)
