# SPDX-License-Identifier: Apache-2.0
"""Tier 1 on a stand-in for torch: the library hooks the optimizer of an unmodified program. Runs with it preloaded, TAP."""
import sys
import time
import types

from driver import context, stat

hooks = []
torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(is_initialized=lambda: True, empty_cache=lambda: trimmed.append(1))
trimmed = []
optim = types.ModuleType("torch.optim.optimizer")
optim.register_optimizer_step_post_hook = hooks.append
sys.modules["torch"] = torch

context()

# torch.optim is not imported yet: nothing may happen, and the library asks again later.
for _ in range(1000):
    pass
early = len(hooks)
sys.modules["torch.optim.optimizer"] = optim
end = time.monotonic() + 5
while not hooks and time.monotonic() < end:
    time.sleep(0.01)
before = stat(b"steps")
for step in range(36):
    for hook in hooks:
        hook(None, (), {})

checks = [(early == 0, "no hook before torch is there"), (len(hooks) == 1, "one hook, once"),
          (stat(b"steps") - before in (35, 36), "a step ends at every boundary"), (stat(b"tier") == 1, "tier 1"),
          (hooks and hooks[0](None, (), {}) is None, "the hook returns nothing")]
for i, (good, text) in enumerate(checks, 1):
    print(f"{'ok' if good else 'not ok'} {i} - {text}")
print(f"1..{len(checks)}")
sys.exit(not all(good for good, _ in checks))
