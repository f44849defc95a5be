# SPDX-License-Identifier: Apache-2.0
"""gan.py FILE - a job with two optimizers on the stand-in for torch: one is stepped three times for each time of the other. Counts what
the library makes of it into FILE, then goes on until it is ended; saves itself when asked."""
import builtins
import ctypes
import os
import sys
import time

import torch
import torch.optim
from driver import context, cuda, stat


def note(text):
    with open(sys.argv[1], "a") as f:
        f.write(text + "\n")


def muster_on_checkpoint():
    note("saved")


context()
segments = [ctypes.c_uint64() for _ in range(8)]
for segment in segments:
    cuda.cuMemAlloc_v2(ctypes.byref(segment), ctypes.c_size_t(16 << 20))
critic, generator = torch.optim.optimizer.Optimizer(), torch.optim.optimizer.Optimizer()


def batch():
    for _ in range(3):
        critic.step()
    generator.step()


end = time.monotonic() + 10
while stat(b"tier") != 1 and time.monotonic() < end:  # by now the hook is there
    critic.step()
    time.sleep(0.01)
for _ in range(20):
    batch()
before = stat(b"steps")
for _ in range(50):
    batch()
note(f"batches {stat(b'steps') - before}")
note(f"hooks {len(torch.optim.optimizer.hooks)}")
note(f"tier {stat(b'tier')}")
note(f"own {getattr(builtins, 'own_sitecustomize', 'missing')}")
note(f"module {sys.modules['sitecustomize'].__file__}")
note("ready")
end = time.monotonic() + 60
while time.monotonic() < end:
    batch()
    time.sleep(0.01)
    if os.path.exists(sys.argv[1] + ".raise") != (torch.cuda.trimmed < 0):
        note("raises no more" if torch.cuda.trimmed < 0 else "raises")
        torch.cuda.trimmed = 0 if torch.cuda.trimmed < 0 else -1
    if torch.cuda.trimmed > 0:
        note("trimmed")
        torch.cuda.trimmed = 0
