# SPDX-License-Identifier: Apache-2.0
"""python -m muster FILE: calls the function that Executor has put into FILE, on a node, and leaves its result.

FILE holds the submitter's sys.path and main script, and the call itself as bytes, so that its modules can be imported
before it is unpickled. The result goes to FILE_RANK.result. A function with a method `checkpoint` is asked for the call
to go on with when the job has to leave; the job then exits with 85 and is queued again.
"""
import os
import pickle
import runpy
import signal
import sys
import traceback
import types as python_types
from typing import Any, Dict, Optional, Tuple

SAVED = 85
RESULT = "%s_%d.result"


class DelayedSubmission:
    """A call to be made later."""

    def __init__(self, function: Any, *args: Any, **kwargs: Any) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs

    def result(self) -> Any:
        return self.function(*self.args, **self.kwargs)


def file_write(path: str, data: bytes) -> None:
    """Whole or not at all, for the owner alone."""
    part = "%s.%d.part" % (path, os.getpid())
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    os.rename(part, path)


def call_dump(call: DelayedSubmission, pickler: Any, main: Optional[str], path: Any) -> bytes:
    return pickle.dumps({"version": 1, "main": main, "path": list(path), "call": pickler.dumps(call)})


def main_import(path: Optional[str]) -> None:
    """The submitter's script as a module, without what it does under `if __name__ == "__main__"`."""
    if not path or not os.path.exists(path):
        return
    module = python_types.ModuleType("__mp_main__")
    module.__dict__.update(runpy.run_path(path, run_name="__mp_main__"))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


def call_load(file: str) -> Tuple[Dict[str, Any], DelayedSubmission]:
    with open(file, "rb") as f:
        head = pickle.load(f)
    for place in head["path"]:
        if place not in sys.path:
            sys.path.append(place)
    main_import(head["main"])
    call = pickle.loads(head["call"])
    return head, call


def rank_here() -> int:
    for name in ("RANK", "MUSTER_NODE_RANK"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def leave_prepare(file: str, head: Dict[str, Any], call: DelayedSubmission) -> None:
    """SIGTERM: the function says with which call it goes on."""
    from .environment import JobEnvironment

    def on_leave(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        notice = JobEnvironment().notice() if "MUSTER_JOB_ID" in os.environ else None
        if not hasattr(call.function, "checkpoint") or (notice or {}).get("kind") == "cancel":
            os.kill(os.getpid(), number)
            return
        following = call.function.checkpoint(*call.args, **call.kwargs)
        if following is not None and rank_here() == 0:
            try:
                import cloudpickle as pickler  # type: ignore
            except ImportError:
                pickler = pickle
            file_write(file, call_dump(following, pickler, head["main"], head["path"]))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(SAVED)

    signal.signal(signal.SIGTERM, on_leave)


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m muster FILE", file=sys.stderr)
        return 2
    file = sys.argv[1]
    try:
        head, call = call_load(file)
        leave_prepare(file, head, call)
        outcome: Tuple[str, Any, str] = ("value", call.result(), "")
    except Exception as e:  # whatever it is, the submitter is shown it
        traceback.print_exc()
        outcome = ("error", e, traceback.format_exc())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        data = pickle.dumps(outcome)
    except Exception as e:  # the result cannot be carried
        text = "%s of the function cannot be pickled: %s" % ("The error" if outcome[0] == "error" else "The result", e)
        data = pickle.dumps(("error", RuntimeError(text), outcome[2]))
        outcome = ("error", None, "")
        print(text, file=sys.stderr)
    file_write(RESULT % (file, rank_here()), data)
    return 0 if outcome[0] == "value" else 1

