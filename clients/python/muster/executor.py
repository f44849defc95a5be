# SPDX-License-Identifier: Apache-2.0
"""Python functions as jobs: an Executor of concurrent.futures, with the interface of submitit's as well.

A call is pickled into a folder that the nodes see too (a home folder on NFS), and its result comes back the same way.
Functions of a script are found by importing the script again, as multiprocessing does; with cloudpickle installed also
those of a notebook.
"""
import concurrent.futures
import contextlib
import os
import pickle
import sys
import threading
import time
import uuid
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from . import operations
from .client import Client
from .errors import InvalidRequest, JobFailed, MusterError
from .worker import RESULT, DelayedSubmission, call_dump, file_write

_RESULT_SECONDS = 10.0  # until a network file system shows what a node has written
_SUBMITIT_WITHOUT_EFFECT = frozenset(("stderr_to_stdout", "slurm_max_num_timeout", "slurm_signal_delay_s", "slurm_wait_for",
                                      "slurm_srun_args", "slurm_use_srun"))


class _RemoteTraceback(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return "\n\n" + self.text


def _keys_of(parameters: Dict[str, Any]) -> Dict[str, Any]:
    """submitit's names of parameters as keys of muster-job(5); all others are such keys."""
    keys: Dict[str, Any] = {}
    for name, value in parameters.items():
        if value is None or name in _SUBMITIT_WITHOUT_EFFECT:
            continue
        plain = name[len("slurm_"):] if name.startswith("slurm_") else name
        if plain == "timeout_min" or name == "slurm_time":
            keys["time"] = "%dm" % value if isinstance(value, (int, float)) else value
        elif plain == "gpus_per_node":
            keys.setdefault("per_node", {})["gpu"] = value
        elif plain == "mem_gb":
            keys.setdefault("per_node", {})["memory"] = "%gG" % value
        elif name == "slurm_mem":
            keys.setdefault("per_node", {})["memory"] = value
        elif plain == "partition":
            keys["vc"] = value
        elif plain == "job_name":
            keys["name"] = value
        elif plain == "array_parallelism":
            keys["parallel"] = int(value)
        elif plain == "tasks_per_node" or name == "slurm_ntasks_per_node":
            keys.update({"tasks_per_node": int(value), "launch": "task"} if int(value) > 1 else {})
        elif name in ("slurm_nodes", "slurm_cpus_per_task", "slurm_constraint", "slurm_exclude", "slurm_nodelist",
                      "slurm_comment", "slurm_account"):
            keys[plain] = value
        elif name.startswith("slurm_"):
            raise InvalidRequest("%s has no counterpart in muster; leave it out, or give a key of muster-job(5)" % name)
        else:
            keys[name] = value
    return keys


class FunctionJob(concurrent.futures.Future):
    """The future of a call: a Future of concurrent.futures, and submitit's Job."""

    def __init__(self, executor: "Executor", call: DelayedSubmission, tasks: int) -> None:
        super().__init__()
        self._executor = executor
        self._call = call
        self._tasks = tasks
        self._file = ""
        self._values: List[Any] = []
        self._ending = threading.Lock()
        self.id = 0  # 0 inside batch()
        self.job_id = ""

    def _placed(self, file: str, id: int, job_id: str) -> None:
        self._file, self.id, self.job_id = file, id, job_id

    def submission(self) -> DelayedSubmission:
        return self._call

    @property
    def num_tasks(self) -> int:
        return self._tasks

    @property
    def state(self) -> str:
        return self._executor.client.job(self.id)["state"]

    def results(self, timeout: Optional[float] = None) -> List[Any]:
        """Of every task, by rank."""
        super().result(timeout)
        return self._values

    def wait(self, timeout: Optional[float] = None) -> None:
        concurrent.futures.wait([self], timeout)

    def stdout(self) -> str:
        return self._executor.client.log(self.id)

    def stderr(self) -> str:
        return self._executor.client.log(self.id, stream="err")

    def get_info(self) -> Dict[str, Any]:
        return dict(self._executor.client.job(self.id))

    def cancel(self, check: bool = False) -> bool:
        """Also one that runs already. False: it was over before."""
        if self.done():
            return False
        if self.id:
            self._executor.client.cancel(self.id)
        return self._mark_cancelled()

    def _mark_cancelled(self) -> bool:
        with self._ending:  # the thread that watches may be about to do the same
            if self.done():
                return self.cancelled()
            super().cancel()
            self.set_running_or_notify_cancel()
            return True

    def _load(self, rank: int, seconds: float) -> Optional[Tuple[str, Any, str]]:
        end = time.monotonic() + seconds
        while True:
            try:
                with open(RESULT % (self._file, rank), "rb") as f:
                    found: Tuple[str, Any, str] = pickle.load(f)
                    return found
            except FileNotFoundError:
                if time.monotonic() >= end:
                    return None
                os.listdir(os.path.dirname(self._file))  # has NFS look again
                time.sleep(0.1)

    def _finish(self, info: Any) -> None:
        """The job is over: whoever waits has its result."""
        try:
            seconds = _RESULT_SECONDS if info["state"] == "COMPLETED" else 0.5
            found = [self._load(rank, seconds) for rank in range(self._tasks)]
            error: Optional[BaseException] = None
            for rank, outcome in enumerate(found):
                if outcome and outcome[0] == "error":
                    error = outcome[1]
                    error.__cause__ = _RemoteTraceback(outcome[2])
                    break
                if outcome is None and error is None:
                    how = info.get("end_text") or "exit code %s" % info.get("exit_code")
                    error = JobFailed("job %s: %s (%s) without a result of task %d; its output: muster logs %s" %
                                      (self.job_id, info["state"], how, rank, self.job_id), info)
            if error is None:
                self._values = [outcome[1] for outcome in found if outcome]
        except Exception as e:  # what cannot be unpickled here is an error of this call, not of all
            error = e
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            if info["state"] == "CANCELLED" and isinstance(error, JobFailed):
                self._mark_cancelled()
            elif error is not None:
                self.set_exception(error)
            else:
                self.set_result(self._values[0])


class Executor(concurrent.futures.Executor):
    """Executor(folder, gpus=1, time="2h"): further keys as in muster-job(5), or submitit's by update_parameters()."""

    def __init__(self, folder: str = "muster_jobs", client: Optional[Client] = None, python: Optional[str] = None,
                 **keys: Any) -> None:
        self.client = client or Client()
        self.folder = os.path.abspath(os.fspath(folder))
        self._python = python or sys.executable
        self._keys = _keys_of(keys)
        self._lock = threading.Condition()
        self._left: Dict[int, FunctionJob] = {}
        self._watcher: Optional[threading.Thread] = None
        self._gathered: Optional[List[FunctionJob]] = None
        self._closed = False

    def update_parameters(self, **parameters: Any) -> None:
        """For the calls from now on. None takes a key away."""
        keys = _keys_of(parameters)
        if "gpu" in keys.get("per_node", {}):
            self._keys.pop("gpus", None)
        keys["per_node"] = {**self._keys.get("per_node", {}), **keys.get("per_node", {})} or None
        self._keys.update(keys)
        for name in [n for n in self._keys if self._keys[n] is None or parameters.get(n, "") is None]:
            del self._keys[name]

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> FunctionJob:  # type: ignore[override]
        job = FunctionJob(self, DelayedSubmission(fn, *args, **kwargs), self._task_count())
        if self._gathered is not None:
            self._gathered.append(job)
        else:
            self._send([job])
        return job

    def map_array(self, fn: Callable[..., Any], *iterables: Iterable[Any]) -> List[FunctionJob]:
        """One array with a job for each tuple of arguments."""
        jobs = [FunctionJob(self, DelayedSubmission(fn, *args), self._task_count()) for args in zip(*iterables)]
        if jobs:
            self._send(jobs)
        return jobs

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: Optional[float] = None,  # type: ignore[override]
            chunksize: int = 1) -> Iterator[Any]:
        """As Executor.map of concurrent.futures: results in order. One array."""
        end = None if timeout is None else time.monotonic() + timeout
        jobs = self.map_array(fn, *iterables)

        def results() -> Iterator[Any]:
            try:
                for job in jobs:
                    yield job.result(None if end is None else max(0.0, end - time.monotonic()))
            finally:
                for job in jobs:
                    job.cancel()

        return results()

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Everything submitted inside becomes one array at its end."""
        if self._gathered is not None:
            raise RuntimeError("batch() inside batch()")
        self._gathered = []
        try:
            yield
            jobs = self._gathered
        finally:
            self._gathered = None
        if jobs:
            self._send(jobs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            self._closed = True
            jobs = list(self._left.values())
        if cancel_futures:
            for job in jobs:
                job.cancel()
        if wait:
            concurrent.futures.wait(jobs)

    def _task_count(self) -> int:
        nodes = self._keys.get("nodes", 1)
        return int(self._keys.get("tasks_per_node", 1)) * (nodes if isinstance(nodes, int) else 1) \
            if self._keys.get("launch") == "task" else 1

    def _dump(self, call: DelayedSubmission) -> bytes:
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        path = [p or os.getcwd() for p in sys.path]
        try:
            import cloudpickle as pickler  # type: ignore
        except ImportError:
            pickler = pickle
            module = getattr(call.function, "__module__", "") or type(call.function).__module__
            if module == "__main__" and not main:
                raise MusterError("functions of a notebook or prompt need cloudpickle; or put the function into a file") from None
        try:
            return call_dump(call, pickler, os.path.abspath(main) if main else None, path)
        except (pickle.PicklingError, AttributeError, TypeError) as e:
            raise MusterError("the call cannot be pickled: %s" % e, hints=["lambdas and local functions need cloudpickle"]) from e

    def _send(self, jobs: List[FunctionJob]) -> None:
        if self._closed:
            raise RuntimeError("cannot submit after shutdown()")
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        base = os.path.join(self.folder, uuid.uuid4().hex)
        data = [self._dump(job.submission()) for job in jobs]  # all of them can be, or nothing is submitted
        files = ["%s.%d" % (base, i) for i in range(len(jobs))]
        for file, one in zip(files, data):
            file_write(file, one)
        keys = dict(self._keys)
        parallel = keys.pop("parallel", None)
        env = dict(keys.get("env", {}))
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        env.setdefault("PYTHONPATH", os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")])))
        keys["env"] = env
        keys.setdefault("name", getattr(jobs[0].submission().function, "__name__", "call"))
        command = [self._python, "-u", "-m", "muster"]
        if len(jobs) == 1:
            made = self.client.submit(command + [files[0]], **keys)
            jobs[0]._placed(files[0], made.id, str(made.id))
        else:
            script = "exec %s %s.${MUSTER_ARRAY_INDEX}" % (" ".join("'%s'" % w.replace("'", "'\\''") for w in command),
                                                           "'%s'" % base.replace("'", "'\\''"))
            array = "0-%d%s" % (len(jobs) - 1, "%%%d" % parallel if parallel else "")
            sweep = self.client.submit_array(script, array, **keys)
            for i, job in enumerate(jobs):
                job._placed(files[i], sweep[i].id, "%d_%d" % (sweep.id, i))
        with self._lock:
            self._left.update({job.id: job for job in jobs})
            if self._watcher is None or not self._watcher.is_alive():
                self._watcher = threading.Thread(target=self._watch, name="muster-executor", daemon=True)
                self._watcher.start()

    def _watch(self) -> None:
        """Until none is left: each job that is over gives its future a result."""
        while True:
            with self._lock:
                if not self._left:
                    self._watcher = None
                    return
                ids = list(self._left)
            try:
                over = self.client.run(operations.jobs_over(ids, None, 1.0))
            except MusterError as e:
                if e.status and e.status < 500 and e.status != 429:
                    self._give_up(e)
                    return
                time.sleep(1.0)  # it restarts
                continue
            for info in over:
                with self._lock:
                    job = self._left.pop(info["id"])
                job._finish(info)

    def _give_up(self, error: MusterError) -> None:
        with self._lock:
            jobs, self._left, self._watcher = list(self._left.values()), {}, None
        for job in jobs:
            with contextlib.suppress(concurrent.futures.InvalidStateError):
                job.set_exception(error)
