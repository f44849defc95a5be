#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sweep, cell by cell as in a notebook: 2 x 3 jobs, the results as they come, the best of them at the end.

Try it on an emulated cluster: musterd --dev --fake 2x4:H100, then MUSTER_URL=... python3 examples/sweep.py
"""
# %% The controller, found as the command line finds it
import muster

client = muster.Client()
print("cluster", client.version()["cluster"], "with", sum(n["gpus"] for n in client.nodes()), "GPUs")

# %% A job for each combination; the values are variables of its environment
TRAIN = """
sleep 0.2
python3 -c 'import os; lr = float(os.environ["lr"]); print("loss", round((lr - 0.03) ** 2 + int(os.environ["seed"]) / 1e4, 6))'
"""
sweep = client.sweep(TRAIN, {"lr": [0.1, 0.01, 0.03], "seed": range(2)}, gpus=1, time="10m", name="sweep", parallel=4)

# %% The results, as they come
losses = {}
for run in sweep.as_completed(timeout=300):
    if not run.ok:
        print(run.params, run.state, run.job.log(stream="err", tail=3))
        continue
    loss = float(run.job.log(tail=1).split()[1])
    losses[(run.params["lr"], run.params["seed"])] = loss
    print("lr=%-5s seed=%s  loss=%g" % (run.params["lr"], run.params["seed"], loss))

# %% The best
best = min(losses, key=lambda key: losses[key])
print("best: lr=%s seed=%s" % best)
