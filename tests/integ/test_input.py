#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Standard input of `muster run`: from pipes, files and terminals to tasks that read it all, some of it, or nothing; in the
queue, in another attempt, in the background; what becomes of it when the one who sends it goes."""
import hashlib
import os
import pty
import signal
import subprocess
import tempfile
import time

from cluster import MUSTER, Musterd, done, muster, ok


def url(m):
    return "http://%s:%d" % (m.host, m.port)


def run(m, *words, **how):
    return subprocess.run([MUSTER, "run", *words], env=dict(os.environ, MUSTER_URL=url(m)), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False, **how)


def start(m, *words, **how):
    return subprocess.Popen([MUSTER, "run", *words], env=dict(os.environ, MUSTER_URL=url(m)), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **how)


def kinds(m, folder):
    a = run(m, "--", "cat", input=b"hello\n")
    ok(a.returncode == 0 and a.stdout == b"hello\n", "a pipe", a)
    name = os.path.join(folder, "in")
    data = os.urandom(5 << 20)
    with open(name, "wb") as f:
        f.write(data)
    with open(name, "rb") as f:
        a = run(m, "--", "md5sum", stdin=f)
    ok(a.stdout.split()[:1] == [hashlib.md5(data).hexdigest().encode()], "a file larger than any buffer, byte for byte", a)
    a = run(m, "--", "cat", stdin=subprocess.DEVNULL)
    ok(a.returncode == 0 and a.stdout == b"", "/dev/null", a)
    a = run(m, "--", "cat", input=b"")
    ok(a.returncode == 0 and a.stdout == b"", "a pipe with nothing in it", a)
    a = run(m, "--input=none", "--", "cat", input=b"x\n")
    ok(a.returncode == 0 and a.stdout == b"", "none is carried where that is said", a)
    a = run(m, "--", "sh", "-c", "cat /dev/stdin", input=b"x\n")
    ok(a.stdout == b"x\n", "/dev/stdin can be opened", a)


def readers(m):
    begin = time.monotonic()
    a = run(m, "--", "sleep", "1", input=b"x" * (8 << 20))
    ok(a.returncode == 0 and time.monotonic() - begin < 30, "a task that reads nothing ends when it ends", a)
    a = run(m, "--", "head", "-c", "3", input=b"abcdef" * (1 << 20))
    ok(a.returncode == 0 and a.stdout == b"abc", "one that reads some of it too", a)
    a = run(m, "-N2", "--", "cat", input=b"a\n")
    ok(sorted(a.stdout.split(b"\n")) == [b"", b"0: a", b"1: a"], "every task reads all of it", a)
    a = run(m, "-N2", "--input=1", "--", "cat", input=b"a\n")
    ok(a.returncode == 0 and a.stdout == b"1: a\n", "or one of them", a)
    a = run(m, "-N2", "--ntasks-per-node=2", "--input=3", "--", "sh", "-c", "sed s/^/$RANK/", input=b"a\n")
    ok(a.returncode == 0 and a.stdout == b"1: 3a\n", "by its rank", a)
    for words in (["--input=2", "-G2"], ["--input=2", "-N2"], ["--input=4", "-N2", "--ntasks-per-node=2"], ["--input=x"], ["--input=-1"], ["--input=all", "-a", "0-1"], ["--input=all", "--pty"]):
        a = run(m, *words, "--", "cat", input=b"x")
        ok(a.returncode == 2 and b"input" in a.stderr, "refused: " + " ".join(words), a)


def waits(m):
    """The job waits in the queue; then it is queued again while it reads."""
    full = m.post("/jobs", {"run": "sleep 60", "nodes": 2, "per_node": {"gpu": "H100:8"}}).json["id"]
    ok(m.wait_state(full, "RUNNING"), "the cluster is full")
    p = start(m, "-J", "late", "--", "cat", stdin=subprocess.PIPE)
    p.stdin.write(b"early\n")
    p.stdin.close()
    time.sleep(1.5)
    ok(p.poll() is None and m.state(full) == "RUNNING", "one that reads waits in the queue")
    m.ask("DELETE", "/jobs/%d?now=1" % full)
    ok(p.stdout.read() == b"early\n" and p.wait(30) == 0, "and has its input when it runs", p.stderr.read())


def again(m):
    p = start(m, "-J", "again", "--", "sh", "-c", "read a; echo $MUSTER_ATTEMPT $a; test $MUSTER_ATTEMPT = 1 || sleep 60; cat",
              stdin=subprocess.PIPE)
    p.stdin.write(b"one\ntwo\n")
    p.stdin.flush()
    line = p.stdout.readline()
    ok(line == b"0 one\n", "an attempt has read some of it", line)
    a = muster(m, "requeue", "again")
    ok(a.returncode == 0, "it is queued again", a)
    p.stdin.close()
    rest = p.stdout.read()
    ok(rest == b"1 one\ntwo\n" and p.wait(30) == 0, "the next attempt reads it from the beginning", (rest, p.stderr.read()))


def terminal(m):
    env = dict(os.environ, MUSTER_URL=url(m))
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(MUSTER, [MUSTER, "run", "--", "sh", "-c", "read a; echo got $a; cat; echo end"], env)
    os.write(fd, b"line\n")
    text = b""
    while b"got line" not in text:
        text += os.read(fd, 4096)
    os.write(fd, b"\x04")
    try:
        while True:
            more = os.read(fd, 4096)
            text += more
            if not more:
                break
    except OSError:
        pass
    ok(b"end" in text and os.waitpid(pid, 0)[1] == 0, "a terminal, and Ctrl-D", text)


def background(m):
    """In the background of a terminal it is not stopped, and the shell's next line is not taken."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["MUSTER_URL"] = url(m)
        os.execvp("bash", ["bash", "--norc", "-i"])
    os.write(fd, b"PS1=; %s run -- sleep 2 & wait $!; echo code-$?\necho taken-by-$0\n" % MUSTER.encode())
    text = b""
    end = time.monotonic() + 30
    while b"taken-by-bash" not in text and time.monotonic() < end:
        text += os.read(fd, 4096)
    ok(b"code-0" in text and b"taken-by-bash" in text and b"Stopped" not in text, "in the background it runs on", text)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def gone(m, folder):
    """The client is killed and the job goes on (--detach): its task meets the end of its input."""
    name = os.path.join(folder, "count")
    p = start(m, "--detach", "-J", "left", "--", "sh", "-c", "wc -c >%s.part; mv %s.part %s" % (name, name, name), stdin=subprocess.PIPE)
    p.stdin.write(b"x" * 1000)
    p.stdin.flush()
    m.until(lambda: [j["state"] for j in m.get("/jobs?name=left").json["items"]] == ["RUNNING"])
    time.sleep(0.5)
    p.kill()
    p.wait()
    ok(m.until(lambda: os.path.exists(name)), "the task does not wait for more")
    with open(name, encoding="ascii") as f:
        ok(f.read().strip() == "1000", "and has what was sent")
    p.stdin.close()


def verb(m):
    job = m.post("/jobs", {"args": ["cat"], "launch": "node", "input": "all"}).json["id"]
    ok(m.get("/jobs/%d" % job).json["spec"]["input"] == "all", "a job file can ask for it")
    a = muster(m, "input", job, data="by hand\n")
    ok(a.returncode == 0 and m.wait_state(job, "COMPLETED"), "muster input gives it", a)
    ok(muster(m, "logs", job).stdout == "by hand\n", "all of it", muster(m, "logs", job))
    job = m.post("/jobs", {"run": "sleep 60"}).json["id"]
    ok(m.wait_state(job, "RUNNING"), "one that takes none")
    a = muster(m, "input", job, data="x")
    ok(a.returncode == 5 and "takes no input" in a.stderr, "is told as such", a)
    ok(m.get("/jobs/%d/input" % job).status == 426, "the route speaks WebSocket")
    ok(m.post("/jobs", {"run": "true", "input": "some"}).status == 400, "a wrong word is refused")
    ok(m.post("/jobs", {"run": "true", "input": 1}).status == 400, "a script is one task")
    ok(m.post("/jobs", {"run": "true", "input": "all", "array": "0-1"}).status == 400, "an array reads nothing")
    m.ask("DELETE", "/jobs/%d?now=1" % job)


def steps(m):
    """Inside of a job: the tasks of a step."""
    here = os.path.abspath(MUSTER)
    job = m.post("/jobs", {"run": "export MUSTER_URL=%s\nprintf 'x\\ny\\n' | %s run -- cat\necho z | %s run --input=1 -- cat\n"
                                  "%s run -- cat </dev/null\n" % (url(m), here, here, here),
                           "nodes": 2, "per_node": {"gpu": 1}}).json["id"]
    ok(m.wait_state(job, "COMPLETED"), "steps that read", muster(m, "logs", job))
    text = muster(m, "logs", job).stdout.split()
    ok(sorted(text) == ["x", "x", "y", "y", "z"], "all of them, or one", text)


def main():
    with tempfile.TemporaryDirectory() as folder, Musterd(fake="2x8:H100") as m:
        m.wait_nodes(2)
        kinds(m, folder)
        readers(m)
        waits(m)
        again(m)
        terminal(m)
        background(m)
        gone(m, folder)
        verb(m)
        steps(m)
    done()


main()
