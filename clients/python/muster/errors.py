# SPDX-License-Identifier: Apache-2.0
"""Errors. All of them are MusterError; the class says which kind, as the exit codes of the command line do."""
from typing import Any, Dict, List, Optional


class MusterError(Exception):
    """`status` is the HTTP status (0: no answer), `code` the machine-readable reason, `hints` say what to do."""

    def __init__(self, detail: str, status: int = 0, code: str = "", hints: Optional[List[str]] = None,
                 errors: Optional[List[Dict[str, Any]]] = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.code = code
        self.hints = hints or []
        self.errors = errors or []

    def __str__(self) -> str:
        text = self.detail + (" [%s]" % self.code if self.code else "")
        for error in self.errors:
            text += "\n  %s: %s" % (error.get("path", ""), error.get("message", ""))
        return text + "".join("\nhint: " + hint for hint in self.hints)


class ConfigError(MusterError):
    """The address, the context or the file of contexts cannot be used."""


class Unreachable(MusterError):
    """The controller does not answer."""


class InvalidRequest(MusterError):
    """The request is malformed: an unknown key, a bad value."""


class PermissionDenied(MusterError):
    """No token, a wrong one, or not permitted."""


class NotFound(MusterError):
    """There is no such job, node, virtual cluster."""


class Conflict(MusterError):
    """The job is in the wrong state for this, or was changed meanwhile."""


class Infeasible(MusterError):
    """No node of this cluster can run it, or it is over a limit."""


class Busy(MusterError):
    """Too many requests, or the controller is not ready; `retry_after` is in seconds."""

    retry_after: float = 1.0


class WaitTimeout(MusterError, TimeoutError):
    """The time given to wait has passed. The job goes on."""


class JobFailed(MusterError):
    """A job that was waited for did not complete. `job` is its last state."""

    def __init__(self, detail: str, job: Any) -> None:
        super().__init__(detail, code=str(job.get("state", "")))
        self.job = job


_CLASSES = {400: InvalidRequest, 401: PermissionDenied, 403: PermissionDenied, 404: NotFound, 405: InvalidRequest,
            406: InvalidRequest, 409: Conflict, 412: Conflict, 413: InvalidRequest, 414: InvalidRequest, 415: InvalidRequest,
            422: Infeasible, 429: Busy, 431: InvalidRequest, 503: Busy}


def problem_error(status: int, problem: Any, headers: Dict[str, str]) -> MusterError:
    """The error of an answer with a status of 400 and above."""
    if not isinstance(problem, dict):
        problem = {"detail": "the controller answered %d" % status}
    error = _CLASSES.get(status, MusterError)(str(problem.get("detail") or problem.get("title") or status), status,
                                              str(problem.get("code") or ""), list(problem.get("hints") or []),
                                              list(problem.get("errors") or []))
    if isinstance(error, Busy):
        try:
            error.retry_after = float(headers.get("retry-after", "1"))
        except ValueError:
            error.retry_after = 1.0
    return error
