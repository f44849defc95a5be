#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shells that let go: muster shell, run --pty, salloc and run, in the queue and running, lose their terminal in many ways, and no job
is left holding GPUs; what they have by default; --detach, which keeps the job."""
import os
import pty
import pwd
import signal
import sys
import tempfile
import time

from cluster import MUSTER, Musterd, done, muster, ok

HOME = []
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")


class Terminal:
    """A program with a terminal of its own."""

    def __init__(self, m, words, program=MUSTER, env=None):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # As a terminal starts programs: what runs the tests may ignore signals (nohup).
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            try:
                os.execve(program, [os.path.basename(program)] + words, dict(os.environ, MUSTER_URL="http://127.0.0.1:%d" % m.port, **(env or {})))
            finally:
                os._exit(127)
        os.set_blocking(self.fd, False)

    def read(self):
        try:
            while True:
                data = os.read(self.fd, 65536)
                if not data:
                    break
                self.seen += data
        except OSError:
            pass
        return self.seen

    def write(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text, seconds=60):
        end = time.time() + seconds
        while text.encode() not in self.read() and time.time() < end:
            time.sleep(0.02)
        return text.encode() in self.seen

    def children(self):
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open("/proc/%s/stat" % name, encoding="utf-8", errors="replace") as f:
                        if int(f.read().rsplit(")", 1)[1].split()[1]) == self.pid:
                            found.append(int(name))
                except (OSError, IndexError, ValueError):
                    pass
        return found

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def status(self, seconds=60):
        """Of its end; None: it goes on."""
        end = time.time() + seconds
        while time.time() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if self.fd >= 0:
                self.read()
            time.sleep(0.02)
        return None

    def job(self, m, name, seconds=60):
        """The number of its job."""
        end = time.time() + seconds
        while time.time() < end:
            found = [j["id"] for j in m.get("/jobs?all=1&name=%s" % name).json["items"]]
            if found:
                return found[0]
            time.sleep(0.05)
        return 0


def send(number):
    def act(t):
        os.kill(t.pid, number)
    act.__name__ = signal.Signals(number).name
    return act


def terminal_closed(t):
    t.close()


def all_killed(t):
    """As when its machine is gone: the program and those it has started."""
    for pid in t.children() + [t.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def twice(t):
    os.kill(t.pid, signal.SIGTERM)
    time.sleep(0.05)
    t.close()


LOSSES = [send(signal.SIGHUP), send(signal.SIGTERM), send(signal.SIGKILL), send(signal.SIGQUIT), terminal_closed, twice]


def losses(m, salloc):
    """Every program, in every phase, by every loss: all of them at once."""
    programs = {"shell": (MUSTER, ["shell"], []), "pty": (MUSTER, ["run", "--pty"], ["--", "sleep", "600"]), "salloc": (salloc, [], []),
                "run": (MUSTER, ["run"], ["--", "sleep", "600"])}
    cases = []
    for program, (path, begin, end) in programs.items():
        for phase in ("queue", "running"):
            for number, loss in enumerate(LOSSES + ([all_killed] if phase == "running" and program != "run" else [])):
                name = "%s-%s-%d" % (program, phase, number)
                words = begin + HOME + ["-G", "1", "-t", "10m", "-J", name] + (["--hold"] if phase == "queue" else []) + end
                cases.append((name, loss, phase, Terminal(m, words, program=path)))
    for name, loss, phase, terminal in cases:
        job = terminal.job(m, name)
        if phase == "running":
            m.wait_state(job, "RUNNING", 90)
            if not name.startswith("run-"):
                terminal.expect("muster: job")
    time.sleep(0.5)
    for name, loss, phase, terminal in cases:
        loss(terminal)
    left, until = [], time.time() + 60
    for name, loss, phase, terminal in cases:
        job = terminal.job(m, name)
        if not job or not m.wait_state(job, OVER, max(1, until - time.time())):
            left.append((name, loss.__name__, m.state(job) if job else "no job"))
        if terminal.status(max(1, until - time.time())) is None:
            left.append((name, loss.__name__, "its program goes on"))
            os.kill(terminal.pid, signal.SIGKILL)
        terminal.close()
    ok(not left and len(cases) >= 40, "%d ways to lose a terminal: no job goes on" % len(cases), left)
    ok(m.until(lambda: not [n for n in m.get("/nodes").json["items"] if n["gpus_used"]]), "and no GPU is held")


def usual(m):
    t = Terminal(m, ["shell"] + HOME)
    own = pwd.getpwuid(os.getuid()).pw_shell
    job = t.job(m, "shell")
    ok(job, "its job is called shell")
    now = m.get("/jobs/%d" % job).json
    ok(now["limit_seconds"] == 8 * 3600 and now["spec"].get("idle_timeout"), "it has a time limit, and one of idleness", now["spec"])
    t.expect("muster: job")
    t.write("echo shell-$0-is; echo $SHELL\n")
    ok(t.expect("shell-%s-is" % own) or t.expect("shell--%s-is" % os.path.basename(own), 1), "the shell is the user's own (%s)" % own, t.seen)
    t.write("sleep 600\n")
    t.expect("sleep 600\r\n")
    time.sleep(0.5)
    t.write("\x03")
    t.expect("^C")
    time.sleep(0.5)  # it reads anew
    t.write("echo still-$((1+1))\n")
    ok(t.expect("still-2"), "Ctrl-C is the shell's", t.seen)
    t.write("exit 7\n")
    ok(t.status() == 7 and m.wait_state(job, OVER), "its exit code is that of the shell, and the job ends")
    t = Terminal(m, ["shell"] + HOME + ["-J", "eof", "-t", "5m"], env={"MUSTER_SHELL_IDLE": "20m"})
    t.expect("muster: job")
    job = t.job(m, "eof")
    spec = m.get("/jobs/%d" % job).json["spec"]
    ok(m.get("/jobs/%d" % job).json["limit_seconds"] == 300 and str(spec["idle_timeout"]) in ("1200", "20m", "1200s"), "both can be chosen", spec)
    t.write("echo ready-$((1+1))\n")
    t.expect("ready-2")
    time.sleep(0.5)
    t.write("\x04")
    ok(t.status() is not None and m.wait_state(job, OVER), "Ctrl-D ends it")
    t = Terminal(m, ["run", "-J", "interrupted", "-G", "1", "--", "sleep", "600"])
    job = t.job(m, "interrupted")
    m.wait_state(job, "RUNNING")
    time.sleep(0.3)
    t.write("\x03")
    ok(m.wait_state(job, "CANCELLED") and t.status() == 122, "Ctrl-C cancels what run waits for")


def detached(m):
    for name, words, loss in (("d1", ["shell"], terminal_closed), ("d2", ["shell"], send(signal.SIGKILL)),
                              ("d3", ["run"], send(signal.SIGTERM))):
        t = Terminal(m, words + HOME + ["--detach", "-G", "1", "-t", "10m", "-J", name] + (["--", "sleep", "600"] if words == ["run"] else []))
        job = t.job(m, name)
        m.wait_state(job, "RUNNING")
        time.sleep(0.5)
        loss(t)
        t.status()
        t.close()
        time.sleep(1)
        ok(m.state(job) == "RUNNING", "--detach: the job goes on (%s, %s)" % (words[0], loss.__name__))
        if name == "d1":
            a = Terminal(m, ["attach", str(job)])
            time.sleep(0.5)
            a.write("echo here-$((2+3)); exit\n")
            ok(a.expect("here-5") and a.status() is not None and m.state(job) == "RUNNING", "and can be entered again", a.seen)
            a.close()
        muster(m, "cancel", job)
        m.wait_state(job, OVER)
    t = Terminal(m, ["shell"] + HOME + ["--detach", "-J", "d4"])
    job = t.job(m, "d4")
    t.expect("muster: job")
    time.sleep(0.5)
    t.write("exit\n")
    ok(t.status() == 0 and m.wait_state(job, OVER), "one that is left by exit is over all the same")


def without_gpus(m):
    job = m.post("/jobs", {"run": "sleep 8", "gpus": 0, "per_node": {"cpu": 1}, "idle_timeout": "1s", "name": "cpus"}).json["id"]
    ok(m.wait_state(job, OVER) and m.state(job) == "COMPLETED", "a job without GPUs leaves none idle", m.get("/jobs/%d" % job))


def main():
    with tempfile.TemporaryDirectory() as folder:
        HOME.append("--export=PATH,HOME=" + folder)  # a login shell reads what its person has there
        salloc = os.path.join(folder, "salloc")
        os.symlink(os.path.abspath(MUSTER), salloc)
        with Musterd(fake="4x8:H100") as m:
            m.wait_nodes(4)
            usual(m)
            detached(m)
            losses(m, salloc)
            without_gpus(m)
    done()


if __name__ == "__main__":
    sys.exit(main())
