# SPDX-License-Identifier: Apache-2.0
"""The synchronous client."""
import json
import time
from typing import Any, Dict, Generic, Iterable, Iterator, List, Mapping, Optional, Sequence, TypeVar, Union, cast

from . import operations, types
from .contexts import Context, context_find
from .errors import Conflict, MusterError, NotFound, Unreachable, WaitTimeout
from .operations import JobId, Operation
from .transport import Answer, Request, Transport

T = TypeVar("T")


class Job:
    """A job that was submitted. It holds no connection and may be used from several threads."""

    def __init__(self, client: "Client", id: int, params: Optional[Dict[str, Any]] = None) -> None:
        self.client = client
        self.id = id
        self.params: Dict[str, Any] = params or {}  # of an element of a sweep

    def __repr__(self) -> str:
        return "<muster.Job %d>" % self.id

    def info(self) -> types.Job:
        return self.client.job(self.id)

    @property
    def state(self) -> str:
        return self.info()["state"]

    def wait(self, timeout: Optional[float] = None, check: bool = False) -> types.Job:
        """Until it is over. With check a job that did not complete is a JobFailed."""
        return self.client.wait(self.id, timeout, check)

    def wait_started(self, timeout: Optional[float] = None) -> types.Job:
        return self.client.run(operations.job_wait(self.id, "started", timeout))

    def log(self, task: int = 0, stream: str = "out", tail: Optional[int] = None, attempt: Optional[int] = None) -> str:
        """What there is of the output of one task. Errors are in it, unless the job has a file for them (error=), which is
        stream="err" then."""
        return self.client.log(self.id, task, stream, tail, attempt)

    def follow(self, task: int = 0, stream: str = "out") -> Iterator[str]:
        """Lines of output as they come, until the job is over."""
        return self.client.follow(self.id, task, stream)

    def events(self) -> List[types.Event]:
        return cast("List[types.Event]", self.client.get("/jobs/%d/events" % self.id)["items"])

    def why(self) -> types.Explanation:
        return cast("types.Explanation", self.client.get("/jobs/%d/why" % self.id))

    def cancel(self) -> None:
        self.client.cancel(self.id)

    def hold(self) -> None:
        self.client.act(self.id, "hold")

    def release(self) -> None:
        self.client.act(self.id, "release")

    def requeue(self) -> None:
        self.client.act(self.id, "requeue")

    def suspend(self) -> None:
        self.client.act(self.id, "suspend")

    def resume(self) -> None:
        self.client.act(self.id, "resume")

    def signal(self, number: int) -> None:
        self.client.act(self.id, "signal", signal=int(number))


class Sweep(Sequence[Job]):
    """The elements of an array, by index; those of a sweep have `params`."""

    def __init__(self, client: "Client", array: Mapping[str, Any], rows: Optional[List[Dict[str, Any]]] = None) -> None:
        self.client = client
        self.id = int(array["id"])
        self._jobs = [Job(client, id, rows[i] if rows else None) for i, id in enumerate(array["jobs"])]

    def __repr__(self) -> str:
        return "<muster.Sweep %d of %d>" % (self.id, len(self._jobs))

    def __len__(self) -> int:
        return len(self._jobs)

    def __getitem__(self, index: Any) -> Any:
        return self._jobs[index]

    def info(self) -> types.Array:
        return cast(types.Array, self.client.get("/arrays/%d" % self.id))

    def cancel(self) -> None:
        self.client.run(operations.ask_json("DELETE", "/arrays/%d" % self.id))

    def as_completed(self, timeout: Optional[float] = None) -> Iterator["Ended[Job]"]:
        """Each job when it is over, with its last state."""
        return self.client.as_completed(self._jobs, timeout, self.id)

    def wait(self, timeout: Optional[float] = None, check: bool = False) -> List["Ended[Job]"]:
        """All of them, by index."""
        ended = {e.job.id: e for e in self.as_completed(timeout)}
        if check:
            for job in self._jobs:
                operations.job_check(ended[job.id].info)
        return [ended[job.id] for job in self._jobs]


J = TypeVar("J")


class Ended(Generic[J]):
    """A job that is over."""

    def __init__(self, job: J, info: types.JobItem, params: Dict[str, Any]) -> None:
        self.job = job
        self.info = info
        self.params = params

    @property
    def state(self) -> str:
        return self.info["state"]

    @property
    def exit_code(self) -> Optional[int]:
        return self.info["exit_code"]

    @property
    def ok(self) -> bool:
        return self.state == "COMPLETED"

    def __repr__(self) -> str:
        return "<muster.Ended %d %s%s>" % (self.info["id"], self.state, " %r" % self.params if self.params else "")


class Client:
    """The controller, found as the command line finds it. Safe to use from several threads."""

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, ca: Optional[str] = None,
                 context: Optional[str] = None) -> None:
        self.context: Context = context_find(url, token, ca, context)
        self._transport = Transport(self.context)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def run(self, operation: Operation[T]) -> T:
        """Carries out an operation of operations.py."""
        try:
            step = next(operation)
            while True:
                if isinstance(step, operations.Pause):
                    time.sleep(step.seconds)
                    step = operation.send(None)
                    continue
                try:
                    answer = self._transport.send(step)
                except MusterError as e:
                    step = operation.throw(e)
                else:
                    step = operation.send(answer)
        except StopIteration as e:
            return cast(T, e.value)

    def get(self, path: str, **query: Any) -> Any:
        """Any GET below /api/v1, as in docs/rest.md."""
        return self.run(operations.ask_json("GET", path, **query))

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Any request below /api/v1."""
        return self.run(operations.ask_json(method, path, body, **query))

    def list(self, path: str, limit: Optional[int] = None, **query: Any) -> List[Any]:
        """All items of a list, whatever its pages."""
        return self.run(operations.pages(path, query, limit))

    def version(self) -> types.Version:
        return cast(types.Version, self.get("/version"))

    def whoami(self) -> types.Principal:
        return cast(types.Principal, self.get("/whoami"))

    def submit(self, run: Union[str, Sequence[str], None] = None, **keys: Any) -> Job:
        """A job; `run` is a shell command or script, or a list of a command and its arguments, and the other keys are
        those of muster-job(5): gpus=8, nodes=2, per_node={"gpu": 4}, time="2h", name=, vc=, priority=, env={...}."""
        made = self.run(operations.submit(operations.submission(run, keys)))
        if made["kind"] == "Array":
            raise MusterError("this is an array of %d jobs: use submit_array() or sweep()" % len(made["jobs"]))
        return Job(self, made["id"])

    def submit_array(self, run: Union[str, Sequence[str], None], array: Any, **keys: Any) -> Sweep:
        """`array` is "0-99%8" or a mapping as in muster-job(5)."""
        return Sweep(self, self.run(operations.submit(operations.submission(run, dict(keys, array=array)))))

    def submit_yaml(self, text: str) -> Union[Job, Sweep]:
        """A job file."""
        made = self.run(operations.submit(text))
        return Sweep(self, made) if made["kind"] == "Array" else Job(self, made["id"])

    def sweep(self, run: Union[str, Sequence[str]], values: Mapping[str, Iterable[Any]], parallel: Optional[int] = None,
              **keys: Any) -> Sweep:
        """A job for every combination of the values, which are variables of its environment; `parallel` at a time."""
        array, rows = operations.sweep_array(values, parallel)
        return Sweep(self, self.run(operations.submit(operations.submission(run, dict(keys, array=array)))), rows)

    def plan(self, run: Union[str, Sequence[str], None] = None, **keys: Any) -> types.Plan:
        """When and where such a job would start."""
        return cast(types.Plan, self.call("POST", "/jobs:plan", operations.submission(run, keys)))

    def job(self, id: JobId) -> types.Job:
        return cast(types.Job, self.get("/jobs/%s" % id))

    def attach(self, id: JobId) -> Job:
        """A handle of a job that was submitted elsewhere; also "12_3"."""
        return Job(self, self.job(id)["id"])

    def jobs(self, limit: Optional[int] = None, **filters: Any) -> List[types.JobItem]:
        """user= vc= state= name= tag= node= all=1 ...; without all=1 those that are not over."""
        return cast("List[types.JobItem]", self.list("/jobs", limit, **filters))

    def nodes(self) -> List[types.NodeItem]:
        return cast("List[types.NodeItem]", self.list("/nodes"))

    def gpus(self) -> List[types.GpuSummary]:
        return cast("List[types.GpuSummary]", self.list("/gpus"))

    def wait(self, id: JobId, timeout: Optional[float] = None, check: bool = False) -> types.Job:
        job = self.run(operations.job_wait(id, "over", timeout))
        return cast(types.Job, operations.job_check(job)) if check else job

    def as_completed(self, jobs: Iterable[Job], timeout: Optional[float] = None,
                     array: Optional[int] = None) -> Iterator[Ended[Job]]:
        """Each of these jobs when it is over."""
        left = {job.id: job for job in jobs}
        end = None if timeout is None else time.monotonic() + timeout
        seconds = 1.0
        while left:
            over = self.run(operations.jobs_over(list(left), array, seconds))
            for item in over:
                job = left.pop(item["id"])
                yield Ended(job, item, job.params)
            seconds = 1.0 if over else min(seconds * 1.5, 5.0)
            if left and end is not None and time.monotonic() >= end:
                raise WaitTimeout("%d jobs are not over after %g s" % (len(left), timeout or 0), code="WaitTimeout")

    def cancel(self, id: JobId) -> None:
        """Of a job that is over: nothing."""
        try:
            self.run(operations.ask_json("DELETE", "/jobs/%s" % id))
        except Conflict:
            pass

    def act(self, id: JobId, action: str, **body: Any) -> types.Job:
        """hold, release, suspend, resume, requeue, signal, checkpoint, resize."""
        return cast(types.Job, self.call("POST", "/jobs/%s/%s" % (id, action), body or None))

    def log(self, id: JobId, task: int = 0, stream: str = "out", tail: Optional[int] = None,
            attempt: Optional[int] = None) -> str:
        query = {"task": task or None, "stream": stream, "tail": tail, "attempt": attempt}
        return self.run(operations.job_log(id, query)).decode("utf-8", "replace")

    def follow(self, id: JobId, task: int = 0, stream: str = "out") -> Iterator[str]:
        """Lines as they come, from one attempt to the next, until the job is over."""
        attempt = self.job(id)["attempt"]
        self.run(operations.job_wait(id, "started", None))
        offset, lines = 0, operations.LineReader()
        while True:
            query = {"task": task or None, "stream": stream, "attempt": attempt, "offset": offset or None, "follow": 1}
            try:
                for part in self._transport.stream(Request("GET", "/jobs/%s/logs" % id, query, seconds=3600.0)):
                    if isinstance(part, Answer):
                        offset = int(part.headers.get("x-log-offset", offset))
                        continue
                    offset += len(part)
                    yield from lines.feed(part)
            except Unreachable:
                time.sleep(0.5)  # its node or the controller is away for a moment; then on from where it was
                self.run(operations.job_wait(id, "started", None))
                continue
            except (NotFound, Conflict):
                pass  # it has left no output
            following = self.run(operations.attempt_next(id, attempt))
            if following != attempt:
                yield from lines.end()
            if following is None:
                return
            offset, attempt = (offset if following == attempt else 0), following

    def events(self, kinds: Optional[Sequence[str]] = None, job: Optional[JobId] = None,
               since: Optional[int] = None) -> Iterator[types.Event]:
        """What happens, from now on or after event `since`; kinds are ["job.", "node.drained"]. Resumed by itself."""
        reader = operations.EventReader(since)
        while True:
            reader.restart()
            try:
                for part in self._transport.stream(reader.request(kinds, job)):
                    if isinstance(part, bytes):
                        for text in reader.feed(part):
                            yield cast(types.Event, json.loads(text))
            except Unreachable:
                time.sleep(0.5)
