# SPDX-License-Identifier: Apache-2.0
"""Where the controller is, and the token: found as the command line finds them.

The address: the argument, MUSTER_URL, the context of the file (MUSTER_CONTEXT or its `current`), the Unix socket of this
machine, http://127.0.0.1:7717. The token: the argument, MUSTER_TOKEN, the context's; for a controller of this machine
that was started with --dev, the file it has left for its user.
"""
import json
import os
import re
import stat
import urllib.parse
from dataclasses import dataclass
from typing import Any, Dict, Optional

from .errors import ConfigError

SOCKET = "/run/muster/musterd.sock"
LOCAL = "http://127.0.0.1:7717"
_FILE_MAX = 1 << 20


@dataclass(frozen=True)
class Context:
    """`url` is http://, https:// or unix:/PATH; `ca` a file of authorities, "" for the system's."""

    url: str
    token: str = ""
    ca: str = ""
    name: str = ""
    local: bool = False  # the token is that of musterd --dev here


def config_path() -> str:
    """The file of contexts, ~/.config/muster/config.yaml unless told."""
    if os.environ.get("MUSTER_CONFIG"):
        return os.environ["MUSTER_CONFIG"]
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "muster", "config.yaml")


def _scalar(text: str, where: str) -> str:
    text = text.strip()
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            raise ConfigError("%s: cannot read %s" % (where, text)) from None
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        return text[1:-1].replace("''", "'")
    return text


_PAIR = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^:,{}"']+)\s*:\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,{}"']*)\s*(,|$)""")
_LINE = re.compile(r"""( *)("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^:#"']+)\s*:(?:\s+(.*))?$""")


def _flow(text: str, where: str) -> Dict[str, str]:
    inner, found, at = text.strip()[1:-1], {}, 0
    while inner[at:].strip():
        match = _PAIR.match(inner, at)
        if not match:
            raise ConfigError("%s: cannot read %s" % (where, text))
        found[_scalar(match.group(1), where)] = _scalar(match.group(2), where)
        at = match.end()
    return found


def contexts_read(text: str, where: str = "config.yaml") -> Dict[str, Any]:
    """The file as {"current": NAME, "contexts": {NAME: {"url", "token", "ca"}}}: the part of YAML it is written in, which
    is mappings of strings, over lines or in braces."""
    top: Dict[str, Any] = {"current": "", "contexts": {}}
    within, one = "", None
    for number, line in enumerate(text.splitlines(), 1):
        place = "%s:%d" % (where, number)
        if not line.strip() or line.lstrip().startswith("#") or line.strip() == "---":
            continue
        match = _LINE.match(line)
        if not match:
            raise ConfigError("%s: expected a key and a value" % place)
        depth, key, value = len(match.group(1)), _scalar(match.group(2), place), (match.group(3) or "").strip()
        if value and value[0] not in "\"'{":
            value = value.split(" #", 1)[0].rstrip()
        if depth == 0 and key == "current":
            top["current"] = _scalar(value, place)
        elif depth == 0:
            within, one = key, None
            if key != "contexts" or value not in ("", "{}"):
                raise ConfigError("%s: unknown key '%s'" % (place, key))
        elif within == "contexts" and value.startswith("{"):
            top["contexts"][key] = _flow(value, place)
        elif within == "contexts" and not value:
            one = top["contexts"].setdefault(key, {})
        elif one is not None:
            one[key] = _scalar(value, place)
        else:
            raise ConfigError("%s: cannot read this line" % place)
    return top


def _of_file(name: Optional[str]) -> Context:
    path = config_path()
    try:
        with open(path, encoding="utf-8") as f:
            file = contexts_read(f.read(_FILE_MAX), path)
    except FileNotFoundError:
        file = {"current": "", "contexts": {}}
    except OSError as e:
        raise ConfigError("%s: %s" % (path, e.strerror)) from None
    wanted = name or file["current"]
    found = file["contexts"].get(wanted) if wanted else None
    if name and found is None:
        raise ConfigError("no context '%s'; `muster context` lists them" % name)
    if not found:
        return Context("")
    return Context(found.get("url", ""), found.get("token", ""), found.get("ca", ""), wanted)


def _private_read(path: str) -> str:
    """A token of a file that its owner alone can open; "" otherwise."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as f:
        about = os.fstat(f.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
            return ""
        return f.read(128).split(b"\n")[0].decode("ascii", "replace").strip()


def dev_token(url: str) -> str:
    """The token of a controller that this user has started with --dev at that port of this machine; "" without one."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        return ""
    folders = ["/run/muster-dev" if os.geteuid() == 0 else "/run/user/%d/muster-dev" % os.geteuid()]
    if os.environ.get("XDG_RUNTIME_DIR"):
        folders.append(os.path.join(os.environ["XDG_RUNTIME_DIR"], "muster-dev"))
    folders.append(os.path.join(os.path.expanduser("~"), ".cache", "muster-dev"))
    for folder in folders:
        try:
            about = os.lstat(folder)
        except OSError:
            continue
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
            continue
        token = _private_read(os.path.join(folder, str(parts.port or 7717)))
        if token:
            return token
    return ""


def context_find(url: Optional[str] = None, token: Optional[str] = None, ca: Optional[str] = None,
                 name: Optional[str] = None) -> Context:
    """What is to be used now; arguments go before the environment, that before the file."""
    told = url or (None if name else os.environ.get("MUSTER_URL"))
    found = Context(told) if told else _of_file(name or os.environ.get("MUSTER_CONTEXT"))
    address = found.url or ("unix:" + SOCKET if os.path.exists(SOCKET) else LOCAL)
    if not address.startswith(("http://", "https://", "unix:/")):
        raise ConfigError("expected http://HOST:PORT, https://HOST:PORT or unix:/PATH, got '%s'" % address)
    secret = token or os.environ.get("MUSTER_TOKEN") or found.token
    local = "" if secret else dev_token(address)
    secret = secret or local
    if "\r" in secret or "\n" in secret:
        raise ConfigError("the token has a line break in it")
    return Context(address.rstrip("/"), secret, ca or os.environ.get("MUSTER_CACERT") or found.ca, found.name, bool(local))
