#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""musterd --dev on a machine with other users: who started it has everything, the others nothing."""
import os
import socket
import subprocess
import sys
import tempfile
import time

from cluster import BUILD, MUSTERD, Musterd, done, drain, muster, ok

OTHER = 65534
ROUTES = ("/jobs", "/nodes", "/whoami", "/secrets", "/backup", "/tokens", "/config", "/events")


def upgrade(m, *headers):
    """As an agent comes."""
    with socket.create_connection((m.host, m.port), 20) as s:
        s.sendall(("GET /agent/v1 HTTP/1.1\r\nHost: localhost:%d\r\nConnection: Upgrade\r\nUpgrade: muster-agent\r\n%s\r\n"
                   % (m.port, "".join(h + "\r\n" for h in headers))).encode())
        s.shutdown(socket.SHUT_WR)
        return drain(s)[:40]


def strangers(m):
    """Without the token, whoever asks."""
    for path in ROUTES:
        a = m.get(path, headers={"Authorization": None})
        ok(a.status == 401, "GET %s asks for a token" % path, a)
    a = m.post("/jobs", {"run": "true", "gpus": 1}, headers={"Authorization": None})
    ok(a.status == 401, "no job is taken", a)
    for text in ("mus_" + "A" * 43, m.token[:-1], m.token + "A", m.token.lower(), "Bearer"):
        ok(m.get("/jobs", headers={"Authorization": "Bearer " + text}).status == 401, "nor by another token")
    ok(m.get("/jobs", headers={"Host": "evil.example"}).status == 401, "nor by the right one under another name of this machine")
    ok(m.get("/jobs", headers={"Origin": "http://evil.example"}).status == 401, "nor for a page of another site")
    ok(b" 401 " in upgrade(m), "nobody is an agent")
    ok(b" 101 " in upgrade(m, "Authorization: Bearer " + m.token), "but with the token", m.stderr())
    ok(m.get("/whoami").json["via"] == "dev", "which is whoever started it")


def link(m):
    code = m.link.split("#once=")[1]
    for wrong in ("", code[:-1], code + "A", 7):
        ok(m.post("/login/once", {"code": wrong}, headers={"Authorization": None}).status == 401, "a wrong code is refused")
    a = m.post("/login/once", {"code": code}, headers={"Authorization": None})
    ok(a.status == 201 and a.json["token"] == m.token, "the code of the link is good for the token", a)
    ok(m.post("/login/once", {"code": code}, headers={"Authorization": None}).status == 401, "once")


def as_other(path):
    """What another user is answered on the socket, or why it does not get there."""
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            os.setgroups([])
            os.setresgid(OTHER, OTHER, OTHER)
            os.setresuid(OTHER, OTHER, OTHER)
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(path)
                s.sendall(b"GET /api/v1/jobs HTTP/1.0\r\n\r\n")
                os.write(write, s.recv(100))
        except OSError as problem:
            os.write(write, type(problem).__name__.encode())
        os._exit(0)
    os.close(write)
    said = os.read(read, 200).decode()
    os.close(read)
    os.wait()
    return said


def other(m):
    """Another user of the machine."""
    words = [os.path.join(BUILD, "muster"), "nodes"]
    env = dict(os.environ, MUSTER_URL="http://127.0.0.1:%d" % m.port, HOME="/nonexistent")
    r = subprocess.run(words, user=OTHER, group=OTHER, extra_groups=[], env=env, capture_output=True, text=True)
    ok(r.returncode == 4 and "token" in r.stderr, "muster of another user gets nothing", r)
    ok(os.stat(m.token_file).st_mode & 0o777 == 0o600 and os.stat(os.path.dirname(m.token_file)).st_mode & 0o777 == 0o700, "the file is one user's")
    os.chmod(os.path.dirname(m.token_file), 0o755)  # the socket itself, if somebody got that far
    tried = as_other(m.token_file + ".sock")
    ok("PermissionError" in tried, "the socket is closed to others", tried)
    os.chmod(m.token_file + ".sock", 0o666)
    tried = as_other(m.token_file + ".sock")
    ok(" 401 " in tried, "and the kernel says who comes there", tried)
    r = muster(m, "nodes")
    ok(r.returncode == 4, "a file that others could have written is not believed", r)
    os.chmod(os.path.dirname(m.token_file), 0o700)
    ok(muster(m, "nodes").returncode == 0, "who started it needs to do nothing")


def published(folder):
    """What is printed into a file that others can read has no token."""
    with open(folder + "/log", "w") as log:
        os.chmod(folder + "/log", 0o644)
        process = subprocess.Popen([MUSTERD, "--dev", "--listen", "127.0.0.1:0", "--state", folder + "/state"], stdout=log, stderr=log)
        for _ in range(600):
            with open(folder + "/log") as f:
                said = f.read()
            if "MUSTER_URL" in said:
                break
            try:
                process.wait(0.05)
                break
            except subprocess.TimeoutExpired:
                pass
        file = said.split("its token is in ")[1].split(",")[0]
        with open(file) as f:
            token = f.read()
        ok("mus_" not in said and "once" not in said and len(token) > 40, "neither token nor link, but where it is", said)
        process.terminate()
        process.wait(30)
        ok(not os.path.exists(file) and not os.path.exists(file + ".sock"), "they are gone with it")


def asked_before_it_starts():
    """`musterd --dev & muster nodes`: the client waits, and then finds the token that was made meanwhile."""
    port = int(subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools/port.py")],
                              stdout=subprocess.PIPE, check=True).stdout)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    client = subprocess.Popen([BUILD + "/muster", "nodes"], env=dict(environment, MUSTER_URL="http://127.0.0.1:%d" % port),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.3)
    server = subprocess.Popen([MUSTERD, "--dev", "--listen", "127.0.0.1:%d" % port],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    said = client.communicate(timeout=30)
    server.terminate()
    server.wait()
    ok(client.returncode == 0, "who asks before it has started is not refused", said)


def main():
    asked_before_it_starts()
    with Musterd("1x1:H100") as m:
        m.wait_nodes(1)
        ok(m.token and m.link, "a token and a link are printed", m.said)
        strangers(m)
        link(m)
        if os.geteuid() == 0:
            other(m)
        m.token_file = None
    with tempfile.TemporaryDirectory() as folder:
        published(folder)
    done()


if __name__ == "__main__":
    main()
