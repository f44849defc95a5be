# SPDX-License-Identifier: Apache-2.0
"""cache.py FILE waits|works - a training loop on the stand-in for torch whose memory of a step is a framework's cache afterwards. `waits`: the host
has launched all of a step and waits for the GPU; `works`: it is busy itself until the step's end, and interrupted in the middle of it has nothing to drop.
FILE gets a line a step."""
import ctypes
import sys
import time

import torch
import torch.optim
from driver import context, cuda, stat

MIB = 1 << 20
cached = []


def drop():
    while cached:
        cuda.cuMemFree_v2(cached.pop())


def take():
    if cached:
        return cached.pop()
    segment = ctypes.c_uint64()
    for _ in range(3):  # refused once, so that the cache is dropped
        if cuda.cuMemAlloc_v2(ctypes.byref(segment), ctypes.c_size_t(8 * MIB)) == 0:
            return segment
        drop()
    raise MemoryError


context()
torch.cuda.empty_cache = drop
kept = [ctypes.c_uint64() for _ in range(4)]
for segment in kept:
    cuda.cuMemAlloc_v2(ctypes.byref(segment), ctypes.c_size_t(16 * MIB))
cuda.fake_kernel_register.restype = ctypes.c_void_p
kernel = cuda.fake_kernel_register(b"step", None, 0, 400000 if sys.argv[2] == "waits" else 0)
optimizer = torch.optim.optimizer.Optimizer()
end = time.monotonic() + 120
while time.monotonic() < end:
    used = [take() for _ in range(8)]
    if sys.argv[2] == "waits" and stat(b"tier") == 1:
        cuda.cuLaunchKernel(ctypes.c_void_p(kernel), 1, 1, 1, 1, 1, 1, 0, None, None, None)
        cuda.cuStreamSynchronize(None)
    else:
        for _ in range(12):
            time.sleep(0.005)
    cached += used
    optimizer.step()
    with open(sys.argv[1], "a") as f:
        f.write(f"{stat(b'tier')}\n")
