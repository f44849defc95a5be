# SPDX-License-Identifier: Apache-2.0
"""Operations of the client, written once for both of its forms.

An operation is a generator: it yields a Request and is sent the Answer, or yields a Pause. Client drives it with blocking
sockets, AsyncClient with asyncio. An error of the transport is thrown into the generator.
"""
import os
import time
import uuid
from dataclasses import dataclass
from typing import Any, Dict, Generator, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from . import types
from .errors import Busy, InvalidRequest, JobFailed, Unreachable, WaitTimeout
from .transport import Answer, Request

OVER = frozenset(("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"))
JobId = Union[int, str]
T = TypeVar("T")

_TRIES = 8
_WAIT_SECONDS = 25
_PAGE = 1000
_WAITED = "id,name,array,state,reason,attempt,exit_code,signal,end_text,elapsed_seconds,nodelist"


@dataclass(frozen=True)
class Pause:
    seconds: float


Operation = Generator[Union[Request, Pause], Any, T]


def ask(request: Request) -> Operation[Answer]:
    """Sends it, again where the controller is busy or, if that has the same effect, restarts."""
    pause = 0.1
    for left in range(_TRIES, -1, -1):
        try:
            answer: Answer = yield request
            return answer.check()
        except Busy as e:
            if not left:
                raise
            wait = max(min(e.retry_after, 10.0), pause)
        except Unreachable:
            if not left or not (request.again or request.method == "GET"):
                raise
            wait = pause
        yield Pause(wait)
        pause = min(pause * 2, 5.0)
    raise AssertionError("not reached")


def ask_json(method: str, path: str, body: Any = None, **query: Any) -> Operation[Any]:
    answer = yield from ask(Request(method, path, query, body, again=method in ("PUT", "DELETE")))
    return answer.json()


def pages(path: str, query: Mapping[str, Any], limit: Optional[int] = None) -> Operation[List[Any]]:
    """A list, page by page; `limit` is of items in all."""
    items: List[Any] = []
    more = dict(query)
    while limit is None or len(items) < limit:
        more["limit"] = _PAGE if limit is None else min(_PAGE, limit - len(items))
        answer = yield from ask(Request("GET", path, more))
        page = answer.json()
        items += page["items"]
        if not page.get("next"):
            break
        more["cursor"] = page["next"]
    return items


def submission(run: Union[str, Sequence[str], None], keys: Mapping[str, Any]) -> Dict[str, Any]:
    """The keys of muster-job(5). A text is a shell command or script, a list a command with its arguments."""
    tree = {key: value for key, value in keys.items() if value is not None}
    if isinstance(run, str):
        tree["run"] = run
    elif run is not None:
        tree["args"] = [str(word) for word in run]
    if "dir" not in tree and "image" not in tree:
        tree["dir"] = os.getcwd()
    if os.environ.get("MUSTER_VC"):
        tree.setdefault("vc", os.environ["MUSTER_VC"])
    if "env" in tree:
        tree["env"] = {str(k): str(v) for k, v in dict(tree["env"]).items()}
    return tree


def submit(tree: Union[Dict[str, Any], str]) -> Operation[Dict[str, Any]]:
    """A Job or an Array. The key lets it be sent again, should the answer be lost: it is submitted once."""
    request = Request("POST", "/jobs", body=tree, headers={"Idempotency-Key": uuid.uuid4().hex}, again=True)
    answer = yield from ask(request)
    made: Dict[str, Any] = answer.json()
    return made


def job_wait(job: JobId, until: str, timeout: Optional[float]) -> Operation[types.Job]:
    """`until`: started, ended or over. The controller keeps the question until it has come so far."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _WAIT_SECONDS if end is None else end - time.monotonic()
        seconds = max(1, min(_WAIT_SECONDS, int(left) + 1))
        try:
            answer = yield from ask(Request("GET", "/jobs/%s" % job, {"until": until, "limit": seconds}, seconds=seconds + 30.0))
        except Unreachable:
            if end is not None and time.monotonic() >= end:
                raise
            continue  # one that restarts has forgotten nothing
        now: types.Job = answer.json()
        if now["state"] in OVER or (until == "started" and now["state"] not in ("PENDING", "STARTING")) or \
                (until == "ended" and now["state"] == "PENDING" and now["attempt"] > 0):
            return now
        if end is not None and time.monotonic() >= end:
            raise WaitTimeout("job %s is %s after %g s" % (job, now["state"], timeout or 0), code="WaitTimeout")


def job_check(job: Any) -> Any:
    """The same job; JobFailed unless it has completed."""
    if job["state"] != "COMPLETED":
        how = job.get("end_text") or ("exit code %s" % job["exit_code"] if job.get("exit_code") is not None else "")
        raise JobFailed("job %s: %s%s" % (job["id"], job["state"], ": " + how if how else ""), job)
    return job


def job_log(job: JobId, query: Mapping[str, Any]) -> Operation[bytes]:
    """What there is now of the output of one task."""
    parts: List[bytes] = []
    more = dict(query)
    while True:
        answer = yield from ask(Request("GET", "/jobs/%s/logs" % job, more))
        parts.append(answer.body)
        if not answer.body:
            return b"".join(parts)
        more.pop("tail", None)
        more["offset"] = int(answer.headers.get("x-log-offset", "0")) + len(answer.body)


def attempt_next(job: JobId, attempt: int) -> Operation[Optional[int]]:
    """The output of this attempt has come to an end: which to read next, the same where there may be more, None after
    the last."""
    answer = yield from ask(Request("GET", "/jobs/%s" % job, {"fields": "state,attempt"}))
    now = answer.json()
    if now["attempt"] == attempt and now["state"] == "PENDING":
        now = yield from job_wait(job, "started", None)
    if now["attempt"] > attempt:
        return attempt + 1
    if now["state"] in OVER:
        return None
    yield Pause(0.2)
    return attempt


def jobs_state(ids: Sequence[int], array: Optional[int]) -> Operation[Dict[int, types.JobItem]]:
    """Those jobs now, in short."""
    items: List[Any] = []
    if array is not None:
        items = yield from pages("/jobs", {"array": array, "all": 1, "fields": _WAITED})
    else:
        for at in range(0, len(ids), 200):
            some = ",".join(str(i) for i in ids[at:at + 200])
            items += yield from pages("/jobs", {"ids": some, "all": 1, "fields": _WAITED})
    return {item["id"]: item for item in items}


def jobs_over(ids: Sequence[int], array: Optional[int], seconds: float) -> Operation[List[types.JobItem]]:
    """Which of these are over, after that long at the latest, or as soon as the first of the list is."""
    if ids:
        limit = max(1, int(seconds))
        yield from ask(Request("GET", "/jobs/%d" % ids[0], {"until": "over", "limit": limit, "fields": "id,state"}, seconds=limit + 30.0))
    now = yield from jobs_state(ids, array)
    return [now[i] for i in ids if i in now and now[i]["state"] in OVER]


def sweep_array(values: Mapping[str, Iterable[Any]], parallel: Optional[int]) -> Tuple[Dict[str, Any], List[Dict[str, Any]]]:
    """The array as the controller takes it, and the parameters of its elements by their index."""
    rows: List[Dict[str, Any]] = [{}]
    for name, of in values.items():
        rows = [dict(row, **{str(name): value}) for row in rows for value in ([of] if isinstance(of, str) else list(of))]
    if not values or not rows:
        raise InvalidRequest("sweep: every parameter needs a value", code="InvalidSpec")
    array: Dict[str, Any] = {"keys": [str(name) for name in values], "rows": [[str(v) for v in row.values()] for row in rows]}
    if parallel:
        array["parallel"] = parallel
    return array, rows


class LineReader:
    """Bytes in, whole lines out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[str]:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            yield line.decode("utf-8", "replace")

    def end(self) -> Iterator[str]:
        if self._rest:
            yield self._rest.decode("utf-8", "replace")
        self._rest = b""


class EventReader:
    """Server-sent events. `last` is the id of the last one, from which a broken stream is resumed."""

    def __init__(self, last: Optional[int]) -> None:
        self.last = last
        self._lines = LineReader()
        self._data: List[str] = []

    def restart(self) -> None:
        self._lines, self._data = LineReader(), []

    def feed(self, data: bytes) -> Iterator[str]:
        """The data of each event that is whole now."""
        for line in self._lines.feed(data):
            name, _, value = line.rstrip("\r").partition(":")
            value = value[1:] if value.startswith(" ") else value
            if line.strip() == "":
                whole, self._data = "\n".join(self._data), []
                if whole:
                    yield whole
            elif name == "id" and value.isdigit():
                self.last = int(value)
            elif name == "data":
                self._data.append(value)

    def request(self, kinds: Optional[Sequence[str]], job: Optional[JobId]) -> Request:
        headers = {"Accept": "text/event-stream"}
        if self.last is not None:
            headers["Last-Event-ID"] = str(self.last)
        return Request("GET", "/events", {"kinds": ",".join(kinds) if kinds else None, "job": job}, headers=headers, seconds=90.0)
