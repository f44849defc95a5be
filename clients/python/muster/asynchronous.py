# SPDX-License-Identifier: Apache-2.0
"""The same client for asyncio: HTTP over asyncio's own streams, no threads."""
import asyncio
import json
import ssl
import time
import urllib.parse
from typing import Any, AsyncIterator, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union, cast

from . import operations, types
from .client import Ended
from .contexts import context_find
from .errors import Conflict, MusterError, NotFound, Unreachable, WaitTimeout
from .operations import JobId, Operation
from .transport import CONNECT_SECONDS, Answer, Request, headers_of, tls_context, unreachable

T = TypeVar("T")
_Streams = Tuple[asyncio.StreamReader, asyncio.StreamWriter]
_BODY_MAX = 256 << 20
_IDLE_MAX = 8


class _Broken(ConnectionError):
    pass


class AsyncTransport:
    """Connections are kept and used again, one request at a time each."""

    def __init__(self, url: Optional[str], token: Optional[str], ca: Optional[str], context: Optional[str]) -> None:
        self.context = context_find(url, token, ca, context)
        self._tls = tls_context(self.context) if self.context.url.startswith("https://") else None
        self._idle: List[_Streams] = []

    async def _open(self) -> _Streams:
        url = self.context.url
        if url.startswith("unix:"):
            return await asyncio.wait_for(asyncio.open_unix_connection(url[len("unix:"):], limit=1 << 20), CONNECT_SECONDS)
        parts = urllib.parse.urlsplit(url)
        dial = asyncio.open_connection(parts.hostname, parts.port or 7717, ssl=self._tls, limit=1 << 20)
        return await asyncio.wait_for(dial, CONNECT_SECONDS)

    async def _head(self, streams: _Streams, request: Request) -> Answer:
        reader, writer = streams
        body, more = request.encoded()
        host = urllib.parse.urlsplit(self.context.url).netloc or "localhost"
        lines = ["%s %s HTTP/1.1" % (request.method, request.target), "Host: " + host]
        lines += ["%s: %s" % pair for pair in headers_of(self.context, more).items()]
        if body is not None or request.method in ("POST", "PUT", "PATCH"):
            lines.append("Content-Length: %d" % len(body or b""))
        writer.write("\r\n".join(lines + ["", ""]).encode("latin-1") + (body or b""))
        await writer.drain()
        while True:
            text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            status = int(text[0].split(" ")[1])
            if status != 100:
                break
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in text[1:] if line)}
        return Answer(status, headers, b"")

    async def _parts(self, reader: asyncio.StreamReader, head: Answer) -> AsyncIterator[bytes]:
        if head.status in (204, 304):
            return
        if "chunked" in head.headers.get("transfer-encoding", ""):
            while True:
                left = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
                if left == 0:
                    await reader.readuntil(b"\r\n")
                    return
                while left:
                    data = await reader.read(min(left, 65536))
                    if not data:
                        raise _Broken("broken off")
                    left -= len(data)
                    yield data
                await reader.readexactly(2)
        length = head.headers.get("content-length")
        left = int(length) if length is not None else _BODY_MAX
        while left:
            data = await reader.read(min(left, 65536))
            if not data and length is None:
                return
            if not data:
                raise _Broken("broken off")
            left -= len(data)
            yield data

    async def _once(self, streams: _Streams, request: Request) -> Answer:
        answer = await self._head(streams, request)
        parts = [part async for part in self._parts(streams[0], answer)]
        answer.body = b"".join(parts)
        return answer

    async def send(self, request: Request) -> Answer:
        streams = self._idle.pop() if self._idle else None
        kept = streams is not None
        try:
            if streams is None:
                streams = await self._open()
            answer = await asyncio.wait_for(self._once(streams, request), request.seconds)
        except asyncio.CancelledError:
            if streams:
                streams[1].close()
            raise
        except (OSError, EOFError, ValueError, ssl.SSLError, asyncio.TimeoutError, asyncio.LimitOverrunError) as e:
            if streams:
                streams[1].close()
            if kept and (request.again or request.method == "GET") and not isinstance(e, asyncio.TimeoutError):
                return await self.send(request)  # the controller has closed a connection that was idle
            raise unreachable(self.context, e) from e
        keep = answer.headers.get("connection", "").lower() != "close" and (
            "content-length" in answer.headers or "transfer-encoding" in answer.headers or answer.status == 204)
        if keep and len(self._idle) < _IDLE_MAX:
            self._idle.append(streams)
        else:
            streams[1].close()
        return answer

    async def stream(self, request: Request) -> AsyncIterator[Union[Answer, bytes]]:
        """First the answer without its body, then what comes of it."""
        writer: Optional[asyncio.StreamWriter] = None
        try:
            reader, writer = await self._open()
            head = await asyncio.wait_for(self._head((reader, writer), request), CONNECT_SECONDS * 6)
            parts = self._parts(reader, head)
            if head.status >= 400:
                head.body = b"".join([part async for part in parts])
            yield head.check()
            while True:
                try:
                    yield await asyncio.wait_for(parts.__anext__(), request.seconds)
                except StopAsyncIteration:
                    return
        except (OSError, EOFError, ValueError, ssl.SSLError, asyncio.TimeoutError, asyncio.LimitOverrunError) as e:
            raise unreachable(self.context, e) from e
        finally:
            if writer:
                writer.close()

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for _, writer in idle:
            writer.close()
            try:
                await writer.wait_closed()
            except (OSError, ssl.SSLError):
                pass


class AsyncJob:
    """A job that was submitted."""

    def __init__(self, client: "AsyncClient", id: int, params: Optional[Dict[str, Any]] = None) -> None:
        self.client = client
        self.id = id
        self.params: Dict[str, Any] = params or {}

    def __repr__(self) -> str:
        return "<muster.AsyncJob %d>" % self.id

    async def info(self) -> types.Job:
        return await self.client.job(self.id)

    async def wait(self, timeout: Optional[float] = None, check: bool = False) -> types.Job:
        return await self.client.wait(self.id, timeout, check)

    async def wait_started(self, timeout: Optional[float] = None) -> types.Job:
        return await self.client.run(operations.job_wait(self.id, "started", timeout))

    async def log(self, task: int = 0, stream: str = "out", tail: Optional[int] = None,
                  attempt: Optional[int] = None) -> str:
        return await self.client.log(self.id, task, stream, tail, attempt)

    def follow(self, task: int = 0, stream: str = "out") -> AsyncIterator[str]:
        return self.client.follow(self.id, task, stream)

    async def cancel(self) -> None:
        await self.client.cancel(self.id)

    async def act(self, action: str, **body: Any) -> types.Job:
        return await self.client.act(self.id, action, **body)


class AsyncSweep(Sequence[AsyncJob]):
    """The elements of an array, by index."""

    def __init__(self, client: "AsyncClient", array: Mapping[str, Any], rows: Optional[List[Dict[str, Any]]] = None) -> None:
        self.client = client
        self.id = int(array["id"])
        self._jobs = [AsyncJob(client, id, rows[i] if rows else None) for i, id in enumerate(array["jobs"])]

    def __len__(self) -> int:
        return len(self._jobs)

    def __getitem__(self, index: Any) -> Any:
        return self._jobs[index]

    async def cancel(self) -> None:
        await self.client.run(operations.ask_json("DELETE", "/arrays/%d" % self.id))

    def as_completed(self, timeout: Optional[float] = None) -> AsyncIterator[Ended[AsyncJob]]:
        return self.client.as_completed(self._jobs, timeout, self.id)

    async def wait(self, timeout: Optional[float] = None, check: bool = False) -> List[Ended[AsyncJob]]:
        ended = {e.job.id: e async for e in self.as_completed(timeout)}
        if check:
            for job in self._jobs:
                operations.job_check(ended[job.id].info)
        return [ended[job.id] for job in self._jobs]


class AsyncClient:
    """As Client, with coroutines. One event loop; any number of tasks."""

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, ca: Optional[str] = None,
                 context: Optional[str] = None) -> None:
        self._transport = AsyncTransport(url, token, ca, context)
        self.context = self._transport.context

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *unused: Any) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def run(self, operation: Operation[T]) -> T:
        try:
            step = next(operation)
            while True:
                if isinstance(step, operations.Pause):
                    await asyncio.sleep(step.seconds)
                    step = operation.send(None)
                    continue
                try:
                    answer = await self._transport.send(step)
                except MusterError as e:
                    step = operation.throw(e)
                else:
                    step = operation.send(answer)
        except StopIteration as e:
            return cast(T, e.value)

    async def get(self, path: str, **query: Any) -> Any:
        return await self.run(operations.ask_json("GET", path, **query))

    async def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        return await self.run(operations.ask_json(method, path, body, **query))

    async def list(self, path: str, limit: Optional[int] = None, **query: Any) -> List[Any]:
        return await self.run(operations.pages(path, query, limit))

    async def version(self) -> types.Version:
        return cast(types.Version, await self.get("/version"))

    async def whoami(self) -> types.Principal:
        return cast(types.Principal, await self.get("/whoami"))

    async def submit(self, run: Union[str, Sequence[str], None] = None, **keys: Any) -> AsyncJob:
        made = await self.run(operations.submit(operations.submission(run, keys)))
        if made["kind"] == "Array":
            raise MusterError("this is an array of %d jobs: use submit_array() or sweep()" % len(made["jobs"]))
        return AsyncJob(self, made["id"])

    async def submit_array(self, run: Union[str, Sequence[str], None], array: Any, **keys: Any) -> AsyncSweep:
        return AsyncSweep(self, await self.run(operations.submit(operations.submission(run, dict(keys, array=array)))))

    async def sweep(self, run: Union[str, Sequence[str]], values: Mapping[str, Iterable[Any]],
                    parallel: Optional[int] = None, **keys: Any) -> AsyncSweep:
        array, rows = operations.sweep_array(values, parallel)
        made = await self.run(operations.submit(operations.submission(run, dict(keys, array=array))))
        return AsyncSweep(self, made, rows)

    async def plan(self, run: Union[str, Sequence[str], None] = None, **keys: Any) -> types.Plan:
        return cast(types.Plan, await self.call("POST", "/jobs:plan", operations.submission(run, keys)))

    async def job(self, id: JobId) -> types.Job:
        return cast(types.Job, await self.get("/jobs/%s" % id))

    async def attach(self, id: JobId) -> AsyncJob:
        return AsyncJob(self, (await self.job(id))["id"])

    async def jobs(self, limit: Optional[int] = None, **filters: Any) -> List[types.JobItem]:
        return cast("List[types.JobItem]", await self.list("/jobs", limit, **filters))

    async def nodes(self) -> List[types.NodeItem]:
        return cast("List[types.NodeItem]", await self.list("/nodes"))

    async def wait(self, id: JobId, timeout: Optional[float] = None, check: bool = False) -> types.Job:
        job = await self.run(operations.job_wait(id, "over", timeout))
        return cast(types.Job, operations.job_check(job)) if check else job

    async def as_completed(self, jobs: Iterable[AsyncJob], timeout: Optional[float] = None,
                           array: Optional[int] = None) -> AsyncIterator[Ended[AsyncJob]]:
        left = {job.id: job for job in jobs}
        end = None if timeout is None else time.monotonic() + timeout
        seconds = 1.0
        while left:
            over = await self.run(operations.jobs_over(list(left), array, seconds))
            for item in over:
                job = left.pop(item["id"])
                yield Ended(job, item, job.params)
            seconds = 1.0 if over else min(seconds * 1.5, 5.0)
            if left and end is not None and time.monotonic() >= end:
                raise WaitTimeout("%d jobs are not over after %g s" % (len(left), timeout or 0), code="WaitTimeout")

    async def cancel(self, id: JobId) -> None:
        try:
            await self.run(operations.ask_json("DELETE", "/jobs/%s" % id))
        except Conflict:
            pass

    async def act(self, id: JobId, action: str, **body: Any) -> types.Job:
        return cast(types.Job, await self.call("POST", "/jobs/%s/%s" % (id, action), body or None))

    async def log(self, id: JobId, task: int = 0, stream: str = "out", tail: Optional[int] = None,
                  attempt: Optional[int] = None) -> str:
        query = {"task": task or None, "stream": stream, "tail": tail, "attempt": attempt}
        return (await self.run(operations.job_log(id, query))).decode("utf-8", "replace")

    async def follow(self, id: JobId, task: int = 0, stream: str = "out") -> AsyncIterator[str]:
        """Lines as they come, from one attempt to the next, until the job is over."""
        attempt = (await self.job(id))["attempt"]
        await self.run(operations.job_wait(id, "started", None))
        offset, lines = 0, operations.LineReader()
        while True:
            query = {"task": task or None, "stream": stream, "attempt": attempt, "offset": offset or None, "follow": 1}
            try:
                async for part in self._transport.stream(Request("GET", "/jobs/%s/logs" % id, query, seconds=3600.0)):
                    if isinstance(part, Answer):
                        offset = int(part.headers.get("x-log-offset", offset))
                        continue
                    offset += len(part)
                    for line in lines.feed(part):
                        yield line
            except Unreachable:
                await asyncio.sleep(0.5)
                await self.run(operations.job_wait(id, "started", None))
                continue
            except (NotFound, Conflict):
                pass
            following = await self.run(operations.attempt_next(id, attempt))
            if following != attempt:
                for line in lines.end():
                    yield line
            if following is None:
                return
            offset, attempt = (offset if following == attempt else 0), following

    async def events(self, kinds: Optional[Sequence[str]] = None, job: Optional[JobId] = None,
                     since: Optional[int] = None) -> AsyncIterator[types.Event]:
        """What happens, from now on or after event `since`. Resumed by itself."""
        reader = operations.EventReader(since)
        while True:
            reader.restart()
            try:
                async for part in self._transport.stream(reader.request(kinds, job)):
                    if isinstance(part, bytes):
                        for text in reader.feed(part):
                            yield cast(types.Event, json.loads(text))
            except Unreachable:
                await asyncio.sleep(0.5)
