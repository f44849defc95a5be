# SPDX-License-Identifier: Apache-2.0
"""HTTP for the synchronous client: one connection a thread, TLS, Unix sockets."""
import http.client
import json
import socket
import ssl
import threading
import urllib.parse
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple, Union

from .contexts import Context, dev_token
from .errors import Unreachable, problem_error

CONNECT_SECONDS = 10.0
_ANSWER_MAX = 256 << 20
VERSION = "1"


@dataclass
class Request:
    """`path` is below /api/v1. `again`: it may be sent twice, with the same effect."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    headers: Dict[str, str] = field(default_factory=dict)
    seconds: float = 60.0
    again: bool = False

    @property
    def target(self) -> str:
        query = {k: "1" if v is True else v for k, v in self.query.items() if v is not None and v is not False}
        return "/api/v1" + self.path + ("?" + urllib.parse.urlencode(query) if query else "")

    def encoded(self) -> Tuple[Optional[bytes], Dict[str, str]]:
        """The body and its headers."""
        if self.body is None:
            return None, dict(self.headers)
        if isinstance(self.body, (str, bytes)):
            data = self.body.encode() if isinstance(self.body, str) else self.body
            return data, dict({"Content-Type": "application/yaml"}, **self.headers)
        return json.dumps(self.body).encode(), dict({"Content-Type": "application/json"}, **self.headers)


@dataclass
class Answer:
    status: int
    headers: Dict[str, str]  # names in small letters
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def check(self) -> "Answer":
        if self.status >= 400:
            raise problem_error(self.status, self.json(), self.headers)
        return self


def tls_context(context: Context) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=context.ca or None)
    except (OSError, ssl.SSLError) as e:
        raise Unreachable("%s: cannot be used as authorities: %s" % (context.ca, e)) from None


def unreachable(context: Context, error: BaseException) -> Unreachable:
    hints = []
    if isinstance(error, ssl.SSLCertVerificationError) and not context.ca:
        hints.append("name the authority of the controller: Client(ca=FILE), or muster login URL --ca FILE")
    elif isinstance(error, ssl.SSLError):
        hints.append("is it http:// there?")
    text = str(error) or type(error).__name__
    return Unreachable("no answer from the controller at %s: %s" % (context.url, text), code="Unreachable", hints=hints)


def headers_of(context: Context, more: Mapping[str, str]) -> Dict[str, str]:
    head = {"User-Agent": "muster-python/" + VERSION, "Accept": "application/json", **more}
    # musterd --dev makes another token each time it starts.
    token = (dev_token(context.url) if context.local else "") or context.token
    if token:
        head["Authorization"] = "Bearer " + token
    return head


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Transport:
    """Safe to use from several threads."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._local = threading.local()
        self._tls = tls_context(context) if context.url.startswith("https://") else None

    def _connection(self) -> http.client.HTTPConnection:
        url = self.context.url
        if url.startswith("unix:"):
            return _UnixConnection(url[len("unix:"):], CONNECT_SECONDS)
        parts = urllib.parse.urlsplit(url)
        if self._tls:
            return http.client.HTTPSConnection(parts.hostname or "", parts.port or 7717, timeout=CONNECT_SECONDS,
                                               context=self._tls)
        return http.client.HTTPConnection(parts.hostname or "", parts.port or 7717, timeout=CONNECT_SECONDS)

    def _begin(self, connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
        body, more = request.encoded()
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(request.seconds)
        connection.request(request.method, request.target, body, headers_of(self.context, more))
        return connection.getresponse()

    def send(self, request: Request) -> Answer:
        kept: Optional[http.client.HTTPConnection] = getattr(self._local, "connection", None)
        connection = kept or self._connection()
        self._local.connection = None
        try:
            reply = self._begin(connection, request)
            body = reply.read(_ANSWER_MAX)
        except (OSError, http.client.HTTPException) as e:
            connection.close()
            if kept is not None and (request.again or request.method == "GET") and not isinstance(e, TimeoutError):
                return self.send(request)  # the controller has closed a connection that was idle
            raise unreachable(self.context, e) from e
        except BaseException:
            connection.close()
            raise
        if reply.will_close:
            connection.close()
        else:
            self._local.connection = connection
        return Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, body)

    def stream(self, request: Request) -> Iterator[Union[Answer, bytes]]:
        """First the answer without its body, then what comes of it, until its end. Unreachable: broken off."""
        connection = self._connection()
        try:
            try:
                reply = self._begin(connection, request)
                head = Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, b"")
                if head.status >= 400:
                    head.body = reply.read(1 << 20)
                yield head.check()
                while True:
                    data = reply.read1(65536)
                    if not data:
                        if reply.length:  # a chunked answer that is cut off has raised this by itself
                            raise http.client.IncompleteRead(b"", reply.length)
                        return
                    yield data
            except (OSError, http.client.HTTPException) as e:
                raise unreachable(self.context, e) from e
        finally:
            connection.close()

    def close(self) -> None:
        """Of this thread; those of others are closed when they end."""
        connection = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            connection.close()
