# SPDX-License-Identifier: Apache-2.0
"""A real musterd on loopback for tests: starts it, asks it, stops it; and TAP.

Only the standard library. MUSTER_BUILD is the build folder.
"""
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from port import free_port  # noqa: E402 (for the tests as well)
import left  # noqa: E402

BUILD = os.environ.get("MUSTER_BUILD", "build")
MUSTER = os.path.join(BUILD, "muster")
MUSTERD = os.path.join(BUILD, "musterd")
AGENT = os.path.join(BUILD, "muster-agent")

_count = 0
_failed = 0


def ok(condition, what, detail=None):
    """One TAP line; a failure goes on, and is told at the end."""
    global _count, _failed
    _count += 1
    print("%s %d - %s" % ("ok" if condition else "not ok", _count, what))
    if not condition:
        _failed += 1
        if detail is not None:
            print("# %s" % str(detail)[:2000].replace("\n", "\n# "))
    sys.stdout.flush()
    return bool(condition)


def muster(m, *words, data=None):
    """The client, told where this controller is: what it said and how it ended."""
    env = dict(os.environ, MUSTER_URL="http://%s:%d" % (m.host, m.port))
    return subprocess.run([MUSTER] + [str(w) for w in words], env=env, capture_output=True, text=True, input=data, timeout=60)


def done():
    remains = left.check()
    ok(not remains, "nothing of it is left on the machine", "\n".join(remains))
    print("1..%d" % _count)
    sys.exit(1 if _failed else 0)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return "%d %s" % (self.status, self.body[:600])


class Musterd:
    """musterd --dev; `fake` as on its command line. Use in a with statement."""

    def __init__(self, fake=None, args=(), state=None, log="warn", config=None):
        self.command = [MUSTERD, "--log", log]
        if config is None:
            self.command += ["--dev", "--listen", "127.0.0.1:0"]
        else:
            self.command += ["--config", config]
        if fake:
            self.command += ["--fake", fake]
        if state:
            self.command += ["--state", state]
        self.command += list(args)
        self.process = None
        self.host, self.port = "127.0.0.1", 0
        self.token, self.token_file, self.link = None, None, None  # as --dev prints them

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *unused):
        if self.process is not None and (kind is not None or self.process.poll() is not None):
            print("# musterd %s; its last words:\n# %s" %
                  ("is alive" if self.process.poll() is None else "ended with %s" % self.process.poll(),
                   self.stderr()[-4000:].replace("\n", "\n# ")))
        elif self.process is not None:
            self.audit()
        self.stop()

    def audit(self):
        """At the end of every test: the state of the controller agrees with itself. Told only where it does not."""
        try:
            a = self.get("/audit")
        except (OSError, AssertionError):
            return  # it takes no requests any more: the test has seen to that
        if a.status == 200 and not a.json["ok"]:
            ok(False, "the state of the controller agrees with itself", a)

    def start(self):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.said = []  # before it told its address
        for line in self.process.stdout:
            self.said.append(line)
            found = re.match(r"musterd: (?:its token is in (\S+),|.*MUSTER_TOKEN=(\S+)|.*(http:\S+#once=\S+))", line)
            if found:
                self.token_file = found.group(1) or self.token_file
                self.token = found.group(2) or self.token
                self.link = found.group(3) or self.link
            if "MUSTER_URL=http://" in line:
                self.host, port = line.strip().split("//")[1].rsplit(":", 1)
                self.port = int(port)
                break
        else:
            raise RuntimeError("musterd did not start: %s" % self.stderr())

    def stop(self, number=signal.SIGTERM):
        """Ends it; the exit status."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        self.process = None
        return status

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def alive(self):
        return self.process.poll() is None

    def connect(self, timeout=20, tcp=False):
        """With --dev to the Unix socket, where requests need no token."""
        if tcp or not self.token_file or not os.path.exists(self.token_file + ".sock"):
            return socket.create_connection((self.host, self.port), timeout)
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        s.connect(self.token_file + ".sock")
        return s

    def head(self, **more):
        """Headers of a request of the user who started it."""
        return dict({"Authorization": "Bearer " + self.token} if self.token else {}, **more)

    def raw(self, data, timeout=20):
        """Sends bytes, reads until the other end closes."""
        with self.connect(timeout) as s:
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            return drain(s)

    def ask(self, method, path, body=None, headers=None, timeout=30):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            head = {k: v for k, v in dict(self.head(), **(headers or {})).items() if v is not None}
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
                head.setdefault("Content-Type", "application/json")
            if path.startswith("//"):  # from the top, as in the table of routes
                path = path[1:]
                top = True
            else:
                top = path.startswith("/api") or path in ("/metrics", "/healthz", "/readyz", "/", "/style.css")
            connection.request(method, path if top else "/api/v1" + path, body, head)
            reply = connection.getresponse()
            return Answer(reply.status, dict((k.lower(), v) for k, v in reply.getheaders()), reply.read())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.ask("POST", path, body, **more)

    def wait_nodes(self, count, seconds=60):
        return self.until(lambda: sum(n["connected"] for n in self.get("/nodes").json["items"]) >= count, seconds)

    def until(self, condition, seconds=40):
        end = time.time() + seconds
        while time.time() < end:
            if condition():
                return True
            time.sleep(0.02)
        return False

    def state(self, job):
        return self.get("/jobs/%d" % job).json["state"]

    def wait_state(self, job, states, seconds=40):
        states = (states,) if isinstance(states, str) else states
        return self.until(lambda: self.state(job) in states, seconds)


class Installed:
    """A controller as it is installed: `musterd init` in a folder, TLS, a port of its own, its log beside it."""

    def __init__(self, folder, *init, name="lab", hosts="localhost"):
        self.folder, self.name, self.etc, self.var = folder, name, folder + "/etc", folder + "/var"
        self.port, self.process = free_port(), None
        os.makedirs(folder, exist_ok=True)
        made = subprocess.run([MUSTERD, "init", "--dir", self.etc, "--state", self.var, "--hosts", hosts, "--cluster", name, *init],
                              capture_output=True, text=True)
        ok(made.returncode == 0, "%s: musterd init" % name, made)
        self.join_token = re.search(r"muster-agent join \S+ (\S+)", made.stdout).group(1)
        with open(self.etc + "/admin.token") as f:
            self.admin = f.read().strip()
        os.mkdir(self.etc + "/conf.d")

    def configure(self, text):
        with open(self.etc + "/conf.d/10-test.yaml", "w") as f:
            f.write(text)

    def context(self, cert=None):
        c = ssl.create_default_context(cafile=self.etc + "/ca.crt")
        if cert:
            c.load_cert_chain(*cert)
        return c

    def ask(self, method, path, body=None, token=None, headers=None):
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=20, context=self.context())
        head = dict(headers or {})
        if token:
            head["Authorization"] = "Bearer " + token
        connection.request(method, "/api/v1" + path, json.dumps(body) if body is not None else None, head)
        reply = connection.getresponse()
        reply.body = reply.read()
        connection.close()
        return reply

    def start(self, state=None):
        command = [MUSTERD, "--config", self.etc + "/muster.yaml"] + (["--state", state] if state else [])
        with open(self.folder + "/musterd.log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(400):
            try:
                if self.ask("GET", "/readyz").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise RuntimeError(self.log())

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(30)

    def end(self, *agents):
        """All of it; an agent is None where there was none yet."""
        agents = [a for a in agents if a]
        for one in agents:
            one.terminate()
        for one in agents:
            one.wait(30)
        if self.process and self.process.poll() is None:
            status = self.stop()
            ok(status == 0, "%s: stops cleanly" % self.name, (status, self.log()))

    def log(self):
        with open(self.folder + "/musterd.log", errors="replace") as f:
            return f.read()[-3000:]


def agent(m, folder, name, gpus):
    """An agent of its own with emulated GPUs, its state in the folder."""
    return subprocess.Popen([AGENT, "--url", "http://%s:%d" % (m.host, m.port), "--node", name, "--fake", "%d:H100" % gpus,
                             "--state", os.path.join(folder, name), "--log-level", "err", "--no-sync", "--allow-root"])


class Agents(dict):
    """Several of them by name, for a with statement: all end with it."""

    def __init__(self, m, folder, names, gpus):
        super().__init__((name, agent(m, folder, name, gpus)) for name in names)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.values():
            process.terminate()
        for process in self.values():
            process.wait(30)


def drain(s, limit=1 << 24):
    """All bytes until the end; a reset is an end too."""
    out = b""
    try:
        while len(out) < limit:
            data = s.recv(65536)
            if not data:
                break
            out += data
    except (ConnectionError, socket.timeout):
        pass
    return out
