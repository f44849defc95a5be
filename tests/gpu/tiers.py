# SPDX-License-Identifier: Apache-2.0
"""E14: mini-batch boundaries of six models, by the optimizer's hook, by kernels' names, by the period of the launches; each
compared with what the training loop itself knows."""
from lab import Job, own_node, result

own_node("tiers")
jobs = {tier: Job(["tiers"], "count", env={"MUSTER_GPU_TIER": str(tier)}) for tier in (1, 2, 3)}
for tier, job in jobs.items():
    r = job.finish(200)
    if "error" in r:
        result("tiers-error", tier=tier, text=str(r)[:300])
        continue
    for name, x in r.items():
        result("tiers", tier=tier, model=name, used=x["tier"], recall=x["recall"], boundaries_per_step=x["per_step"],
               period_error=x["period_error"], step_ms=x["ms"])
