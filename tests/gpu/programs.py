# SPDX-License-Identifier: Apache-2.0
"""Training programs as their authors would write them, none made for the runtime: python3 programs.py NAME SECONDS.

Their idle time is in hundreds of short gaps a step, between dependent kernels or while data is loaded. Each appends a line
`time step seconds` to $JOB_LOG for every step, and prints one JSON line at its end.
"""
import json
import os
import sys
import time

LOG = open(os.environ["JOB_LOG"], "a", buffering=1) if os.environ.get("JOB_LOG") else None


def loop(step, seconds):
    """Calls step() until the time is over; step() returns after its result is known on the host."""
    end, n, last = time.monotonic() + seconds, 0, time.monotonic()
    while time.monotonic() < end:
        step()
        now = time.monotonic()
        if LOG:
            LOG.write(f"{now:.6f} {n} {now - last!r}\n")
        last, n = now, n + 1
    return {"steps": n}


def trainer(model, loss_of, batches, lr=1e-4):
    import torch

    opt = torch.optim.AdamW(model.parameters(), lr=lr)

    def step():
        loss = loss_of(model, next(batches))
        loss.backward()
        opt.step()
        opt.zero_grad()
        loss.item()

    return step


def forever(make):
    while True:
        yield make()


def resnet(seconds):
    """ResNet-50 on images that four loader processes decode and augment."""
    import torch
    import torchvision

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 20

        def __getitem__(self, i):
            image = torch.randint(0, 255, (3, 256, 256), dtype=torch.uint8)
            image = torchvision.transforms.functional.resized_crop(image, i % 16, i % 16, 224, 224, [224, 224])
            return image.float() / 255, i % 1000

    def batches():
        while True:
            yield from torch.utils.data.DataLoader(Images(), batch_size=64, num_workers=4, pin_memory=True)

    model = torchvision.models.resnet50().cuda()

    def loss_of(m, batch):
        x, y = batch
        return torch.nn.functional.cross_entropy(m(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))

    return loop(trainer(model, loss_of, batches()), seconds)


def bert(seconds):
    """BERT fine-tuning, sentences of all lengths padded to the longest."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig(num_labels=2)).cuda()

    def batch():
        lengths = torch.randint(8, 128, (8,))
        mask = (torch.arange(128)[None] < lengths[:, None]).long()
        return {"input_ids": torch.randint(0, 30000, (8, 128)).cuda(), "attention_mask": mask.cuda(),
                "labels": torch.randint(0, 2, (8,)).cuda()}

    return loop(trainer(model, lambda m, b: m(**b).loss, forever(batch)), seconds)


def gpt2(seconds):
    """GPT-2 with a batch of two: the host launches slower than the GPU computes."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).cuda()

    def batch():
        x = torch.randint(0, 50000, (2, 256)).cuda()
        return {"input_ids": x, "labels": x}

    return loop(trainer(model, lambda m, b: m(**b).loss, forever(batch)), seconds)


def unet(seconds):
    """A small denoising U-Net."""
    import torch
    from torch import nn

    def block(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(8, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1), nn.GroupNorm(8, b), nn.SiLU())

    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            w = [64, 128, 256, 512]
            self.down = nn.ModuleList([block(3, w[0])] + [block(w[i], w[i + 1]) for i in range(3)])
            self.up = nn.ModuleList([block(w[i + 1] + w[i], w[i]) for i in reversed(range(3))])
            self.out = nn.Conv2d(w[0], 3, 1)

        def forward(self, x):
            kept = []
            for i, layer in enumerate(self.down):
                x = layer(x if i == 0 else nn.functional.max_pool2d(x, 2))
                kept.append(x)
            for i, layer in enumerate(self.up):
                x = layer(torch.cat([nn.functional.interpolate(x, scale_factor=2), kept[2 - i]], 1))
            return self.out(x)

    model = Unet().cuda()

    def loss_of(m, x):
        noise = torch.randn_like(x)
        return nn.functional.mse_loss(m(x + noise), noise)

    return loop(trainer(model, loss_of, forever(lambda: torch.randn(8, 3, 64, 64).cuda())), seconds)


def gnn(seconds):
    """A graph network: many small kernels."""
    import torch
    from torch_geometric.nn import GCNConv

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([GCNConv(64, 64) for _ in range(8)])

        def forward(self, x, edges):
            for layer in self.layers:
                x = layer(x, edges).relu()
            return x

    edges = torch.randint(0, 5000, (2, 40000)).cuda()
    model = Net().cuda()
    return loop(trainer(model, lambda m, x: m(x, edges).pow(2).mean(), forever(lambda: torch.randn(5000, 64).cuda())), seconds)


def jaxmlp(seconds):
    """A multi-layer perceptron in JAX."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.PRNGKey(0), 6)
    weights = [jax.random.normal(k, (1024, 1024)) * 0.03 for k in keys]

    def loss(w, x):
        for m in w:
            x = jax.nn.relu(x @ m)
        return jnp.mean(x * x)

    @jax.jit
    def update(w, x):
        value, grads = jax.value_and_grad(loss)(w, x)
        return [a - 1e-3 * g for a, g in zip(w, grads)], value

    state = {"w": weights, "x": jax.random.normal(keys[0], (512, 1024))}

    def step():
        for _ in range(8):
            state["w"], value = update(state["w"], state["x"])
        float(value)

    return loop(step, seconds)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](float(sys.argv[2]))), flush=True)
