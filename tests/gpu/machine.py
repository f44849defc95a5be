# SPDX-License-Identifier: Apache-2.0
"""One line: what is measured, on what."""
import datetime
import os
import subprocess
import sys

from lab import STANDIN, result


def said(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


gpu, _, driver = ("the fake driver, none", "", "") if STANDIN else said(
    "nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").partition(", ")
torch = "" if STANDIN else said(sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda)")
settings = {k: v for k, v in os.environ.items() if k in
            ("MUSTER_GPU_AIM", "MUSTER_GPU_BEFORE", "MUSTER_GPU_EPS", "MUSTER_GPU_LEAK_FROM", "MUSTER_GPU_PINNED",
             "MUSTER_GPU_WINDOW")}
result("machine", gpu=gpu, driver=driver, torch=torch, cores=os.cpu_count(), date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
       settings=" ".join(f"{k}={v}" for k, v in sorted(settings.items())) or "default",
       sources=said("sh", os.path.join(os.path.dirname(os.path.abspath(__file__)), "pack.sh"), "--sources")[:12])
