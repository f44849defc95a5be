# SPDX-License-Identifier: Apache-2.0
"""muster: jobs on shared GPU servers, from Python. No dependencies beyond the standard library.

    import muster

    client = muster.Client()
    job = client.submit("python train.py", gpus=4, time="2h")
    for line in job.follow():
        print(line)
    job.wait(check=True)

docs/python.md has the rest.
"""
from . import types
from .asynchronous import AsyncClient, AsyncJob, AsyncSweep
from .client import Client, Ended, Job, Sweep
from .contexts import Context, context_find
from .environment import JobEnvironment, TorchDistributedEnvironment
from .errors import (Busy, ConfigError, Conflict, Infeasible, InvalidRequest, JobFailed, MusterError, NotFound,
                     PermissionDenied, Unreachable, WaitTimeout)
from .executor import Executor, FunctionJob
from .worker import DelayedSubmission

__all__ = ["AsyncClient", "AsyncJob", "AsyncSweep", "Busy", "Client", "ConfigError", "Conflict", "Context", "DelayedSubmission",
           "Ended", "Executor", "FunctionJob", "Infeasible", "InvalidRequest", "Job", "JobEnvironment", "JobFailed",
           "MusterError", "NotFound", "PermissionDenied", "Sweep", "TorchDistributedEnvironment", "Unreachable", "WaitTimeout",
           "context_find", "types"]
