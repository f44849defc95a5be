# SPDX-License-Identifier: Apache-2.0
"""E1: every kernel CUPTI saw went through the library. Runs with the library preloaded and MUSTER_GPU_COUNT=1."""
import torch
from torch.profiler import ProfilerActivity, profile

from jobs import stat, transformer
from lab import result


def kernels(prof):
    n = graph = 0
    for e in prof.profiler.kineto_results.events():
        name = e.name()
        # Memory operations and the spans of record_function() are no kernels.
        if "CUDA" in str(e.device_type()) and not name.startswith(("Memcpy", "Memset", "Optimizer.", "ProfilerStep")):
            n += 1
        if name in ("cudaGraphLaunch", "cuGraphLaunch"):
            graph += 1
    return n, graph


def measure(name, fn, graphs=False, **more):
    fn()
    torch.cuda.synchronize()
    before, before_graph = stat("launches"), stat("graph_launches")
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as prof:
        fn()
        torch.cuda.synchronize()
    seen, graph = kernels(prof)
    ours, ours_graph = stat("launches") - before, stat("graph_launches") - before_graph
    if graphs:
        result("coverage", case=name, graph_launches=ours_graph, cupti_graph_launches=graph, kernels=ours, **more)
    else:
        result("coverage", case=name, launches=ours, cupti=seen, ratio=ours / max(seen, 1))


def captured(fn):
    """A graph of it, and the launches that were counted meanwhile."""
    before, graph = stat("launches"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fn()
    return graph, stat("launches") - before


def main():
    model = transformer(4, 512)
    opt = torch.optim.AdamW(model.parameters())
    x = torch.randint(0, 8192, (8, 65), device="cuda")

    def step():
        loss = torch.nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()

    step()
    measure("eager", step)
    conv = torch.nn.Conv2d(16, 32, 3).cuda()
    image = torch.randn(8, 16, 64, 64, device="cuda")
    measure("cudnn", lambda: conv(image).sum().backward())
    measure("cufft", lambda: torch.fft.rfft2(image))
    a = torch.randn(512, 512, device="cuda")
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        for _ in range(3):
            (a @ a).relu()
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        (a @ a).relu()
    measure("graph", lambda: [g.replay() for _ in range(10)], graphs=True)
    x = torch.randint(0, 8192, (8, 65), device="cuda")
    whole = torch.optim.AdamW(model.parameters(), capturable=True)

    def train():
        whole.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()).backward()
        whole.step()

    with torch.cuda.stream(s):
        for _ in range(3):
            train()
    torch.cuda.synchronize()
    whole.zero_grad(set_to_none=True)
    steps, none = captured(train), captured(lambda: None)
    # Its backward pass is another thread's, and none of it is a launch. What PyTorch itself launches before it captures (it fills its
    # random state) is what an empty graph has.
    measure("step", lambda: [steps[0].replay() for _ in range(10)], graphs=True, captured=steps[1] - none[1], before_capture=none[1])
    try:
        import triton_case
        measure("triton", triton_case.run)
    except Exception as e:
        result("coverage", case="triton", error=repr(e)[:200])
    try:
        compiled = torch.compile(lambda v: (v.sin() * v.cos()).sum(dim=1))
        compiled(a)
        measure("compile", lambda: compiled(a))
    except Exception as e:
        result("coverage", case="compile", error=repr(e)[:200])


main()
