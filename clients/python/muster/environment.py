# SPDX-License-Identifier: Apache-2.0
"""What a program finds out about its job, from inside: ranks, peers, notices, checkpoints. See muster-env(7)."""
import json
import os
import socket
from typing import Any, Dict, List, Mapping, Optional


def _number(env: Mapping[str, str], *names: str, default: int = 0) -> int:
    for name in names:
        if env.get(name, "").lstrip("-").isdigit():
            return int(env[name])
    return default


class JobEnvironment:
    """The job that this process runs in. The properties of submitit's class of this name are here too."""

    def __init__(self, environ: Optional[Mapping[str, str]] = None) -> None:
        self._env: Mapping[str, str] = os.environ if environ is None else environ
        if not self.activated():
            raise RuntimeError("not inside a job of muster: MUSTER_JOB_ID is not set")

    def activated(self) -> bool:
        return "MUSTER_JOB_ID" in self._env

    @property
    def job_id(self) -> str:
        """The id; 12_3 of an element of an array."""
        if self.array_job_id:
            return "%s_%s" % (self.array_job_id, self.array_task_id)
        return self._env["MUSTER_JOB_ID"]

    @property
    def raw_job_id(self) -> str:
        return self._env["MUSTER_JOB_ID"]

    @property
    def array_job_id(self) -> Optional[str]:
        return self._env.get("MUSTER_ARRAY_ID")

    @property
    def array_task_id(self) -> Optional[str]:
        return self._env.get("MUSTER_ARRAY_INDEX")

    @property
    def attempt(self) -> int:
        return _number(self._env, "MUSTER_ATTEMPT")

    @property
    def hostname(self) -> str:
        return socket.gethostname()

    @property
    def hostnames(self) -> List[str]:
        return [h for h in self._env.get("MUSTER_HOSTS", "").split(",") if h]

    @property
    def num_nodes(self) -> int:
        return _number(self._env, "MUSTER_NNODES", default=1)

    @property
    def node(self) -> int:
        """The rank of this node."""
        return _number(self._env, "MUSTER_NODE_RANK", "NODE_RANK")

    @property
    def num_tasks(self) -> int:
        """Processes: those of torchrun or of launch: task, else one."""
        return _number(self._env, "WORLD_SIZE", "MUSTER_NTASKS", default=1)

    @property
    def global_rank(self) -> int:
        return _number(self._env, "RANK", "MUSTER_NODE_RANK")

    @property
    def local_rank(self) -> int:
        return _number(self._env, "LOCAL_RANK")

    @property
    def gpus(self) -> int:
        return _number(self._env, "MUSTER_GPUS")

    @property
    def main_address(self) -> str:
        return self._env.get("MASTER_ADDR", "127.0.0.1")

    @property
    def main_port(self) -> int:
        return _number(self._env, "MASTER_PORT", default=29500)

    @property
    def checkpoint_dir(self) -> Optional[str]:
        return self._env.get("MUSTER_CKPT_DIR")

    @property
    def resuming(self) -> bool:
        """There may be something to resume from."""
        return self._env.get("MUSTER_RESUME") == "1"

    @property
    def grace_seconds(self) -> int:
        return _number(self._env, "MUSTER_GRACE_SECONDS")

    def notice(self) -> Optional[Dict[str, Any]]:
        """Why and until when the job has to leave, None where it has not: {"kind": "preempt", "deadline": ...}. A training
        loop asks this between steps, saves, and exits with 85 to be queued again."""
        path = self._env.get("MUSTER_NOTICE_FILE")
        try:
            with open(path or "", encoding="utf-8") as f:
                found = json.load(f)
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def checkpointed(self, step: Optional[int] = None, path: Optional[str] = None) -> bool:
        """Tells the scheduler that the job has saved, so that less is lost when it is preempted. False: nobody listens."""
        line = "ckpt" + (" step=%d" % step if step is not None else "") + (" path=%s" % path if path else "")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                s.settimeout(5)
                s.connect(self._env["MUSTER_SOCKET"])
                s.sendall(line.encode() + b"\n")
        except (OSError, KeyError):
            return False
        return True


class TorchDistributedEnvironment:
    """Variables of torch.distributed for a job that was launched once a task, as submitit's class of this name. torchrun
    and launch: task set them already."""

    def __init__(self, env: Optional[JobEnvironment] = None) -> None:
        env = env or JobEnvironment()
        self.master_addr = env.main_address
        self.master_port = env.main_port
        self.rank = env.global_rank
        self.world_size = env.num_tasks
        self.local_rank = env.local_rank
        self.local_world_size = _number(os.environ, "LOCAL_WORLD_SIZE", default=max(1, env.num_tasks // env.num_nodes))

    def export(self, set_cuda_visible_devices: bool = False, overwrite: bool = False) -> "TorchDistributedEnvironment":
        """Sets those that are not set. Each task of muster sees its own GPUs already."""
        values = {"MASTER_ADDR": self.master_addr, "MASTER_PORT": self.master_port, "RANK": self.rank,
                  "WORLD_SIZE": self.world_size, "LOCAL_RANK": self.local_rank, "LOCAL_WORLD_SIZE": self.local_world_size}
        if set_cuda_visible_devices:
            values["CUDA_VISIBLE_DEVICES"] = self.local_rank
        for name, value in values.items():
            if overwrite or name not in os.environ:
                os.environ[name] = str(value)
        return self
