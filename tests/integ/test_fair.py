#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One user who wants everything: connections, requests, bytes, tokens, documents that grow. Each has an end, which is
told with a time to come back, and others are served."""
import os
import socket
import tempfile

from cluster import Musterd, done, drain, ok

CONF = """
cluster: fair
listen: ["127.0.0.1:0"]
limits:
  connections_per_user: 20
  requests_per_user: 10
  tokens_per_user: 15
  bytes_per_user: 1M
  body: 4M
  header_time: 20s
  body_time: 20s
  idle_time: 30s
  event_streams: 40
  jobs_per_user: 3000
  held_per_user: 1M
  array: 2500
"""

# Nine lists of nine aliases each.
BOMB = "run: x\nenv:\n  A: &a [" + ",".join("x" * 9) + "]\n" + "".join(
    "  %s: &%s [%s]\n" % (k.upper(), k, ",".join(["*" + before] * 9)) for before, k in zip("abcdefgh", "bcdefghi"))


def memory(m):
    with open("/proc/%d/status" % m.process.pid) as f:
        return int(next(line for line in f if line.startswith("VmRSS")).split()[1]) << 10


def head(m, line, *headers):
    return ("\r\n".join((line + " HTTP/1.1", "Host: 127.0.0.1:%d" % m.port) + headers) + "\r\n\r\n").encode()


def send_much(s, data, most):
    """As much as is taken."""
    sent = 0
    s.settimeout(0.5)
    try:
        while sent < most:
            sent += s.send(data)
    except OSError:
        pass
    return sent


def strangers(m):
    """Their bodies are not kept, however many come."""
    before, sockets = memory(m), []
    for _ in range(120):
        s = m.connect(tcp=True)
        s.sendall(head(m, "POST /api/v1/jobs", "Authorization: Bearer mus_nobody-has-this-one", "Content-Length: 4000000"))
        sockets.append(s)
    told = [drain(s) for s in sockets]
    ok(all(b" 401 " in t for t in told), "120 bodies of 4 MB without a token that is known: each refused by its head", told[:1])
    sockets = []
    for _ in range(60):
        s = m.connect(tcp=True)
        s.sendall(head(m, "POST /api/v1/jobs", "Authorization: Bearer mus_nobody-has-this-one", "Transfer-Encoding: chunked"))
        send_much(s, b"8000\r\n" + b"x" * 32768 + b"\r\n", 400000)
        sockets.append(s)
    grown = memory(m) - before
    ok(grown < 60 << 20, "nor those without a length", grown)
    told = [drain(s) for s in sockets]
    ok(all(b" 413 " in t or not t for t in told) and any(b" 413 " in t for t in told), "which are cut at 64 KiB", told[:1])
    s = m.connect(tcp=True)
    s.sendall(head(m, "POST /api/v1/jobs", "Authorization: Bearer mus_nobody-has-this-one", "Content-Length: 5") + b"hello")
    s.shutdown(socket.SHUT_WR)
    ok(b" 401 " in drain(s), "a short one is read, and refused")


def documents(m, ann):
    """What is small and stands for much is counted before it is built."""
    answers = [m.ask("POST", "/jobs", BOMB, dict(ann, **{"Content-Type": "application/yaml"})) for _ in range(20)]
    ok(all(a.status == 400 and "values, aliases written out" in a.json["detail"] for a in answers), "YAML that grows", answers[0])
    a = m.ask("POST", "/jobs", "[" + "1," * 300000 + "1]", dict(ann, **{"Content-Type": "application/json"}))
    ok(a.status == 400 and "more than 200000 values" in a.json["detail"], "JSON of many values", a)


def connections(m, ann, bob):
    sockets = []
    for _ in range(24):
        s = m.connect(tcp=True)
        s.sendall(head(m, "GET /api/v1/whoami", *("%s: %s" % pair for pair in ann.items())))
        sockets.append((s, s.recv(4096)))
    good = [t for _, t in sockets if b" 200 " in t]
    refused = [t for _, t in sockets if b" 429 " in t]
    ok(len(good) == 20 and len(refused) == 4 and all(b"Retry-After: " in t for t in refused), "20 connections of one user",
       (len(good), refused[:1]))
    ok(m.get("/whoami", headers=bob).status == 200, "another user has some too")
    for s, _ in sockets:
        s.close()
    ok(m.until(lambda: m.get("/whoami", headers=ann).status == 200), "when they are closed there is room again")


def requests(m, ann, bob):
    sockets = []
    for _ in range(12):
        s = m.connect(tcp=True)
        s.sendall(head(m, "GET /api/v1/events", "Accept: text/event-stream", *("%s: %s" % pair for pair in ann.items())))
        sockets.append((s, s.recv(4096)))
    ok(sum(b" 200 " in t for _, t in sockets) == 10 and sum(b" 429 " in t for _, t in sockets) == 2, "10 requests on their way",
       [t[:40] for _, t in sockets])
    ok(m.get("/whoami", headers=bob).status == 200, "another user is answered")
    for s, _ in sockets:
        s.close()
    ok(m.until(lambda: m.get("/whoami", headers=ann).status == 200), "when they are over there is room again")


def held_bytes(m, ann, bob):
    sockets = []
    for _ in range(3):
        s = m.connect(tcp=True)
        s.sendall(head(m, "POST /api/v1/jobs", "Content-Length: 500000", *("%s: %s" % pair for pair in ann.items())))
        sockets.append(s)
    third = drain(sockets[2])
    ok(b" 429 " in third and b"Retry-After: " in third, "a third body that is more than one user's", third)
    a = m.ask("POST", "/jobs", " " * 500000, bob)
    ok(a.status in (400, 422), "another user's is read", a)
    for s in sockets:
        s.close()
    ok(m.until(lambda: m.ask("POST", "/jobs", " " * 900000, ann).status != 429), "when they are gone there is room again")


def tokens(m, ann, bob):
    made = []
    for _ in range(20):
        a = m.post("/tokens", {}, headers=ann)
        if a.status != 201:
            break
        made.append(a.json["id"])
    ok(len(made) == 14 and a.status == 429 and "retry-after" in a.headers and "tokens_per_user" in a.json["detail"],
       "15 tokens of one user", (len(made), a))
    ok(m.post("/tokens", {}, headers=bob).status == 201, "another user gets one")
    ok(m.ask("DELETE", "/tokens/" + made[0], headers=ann).status == 204 and m.post("/tokens", {}, headers=ann).status == 201,
       "one that was given back can be made anew")


def jobs(m, ann, bob):
    """What one user may have in the queue, and how long it may be."""
    job = {"run": "sleep 1000", "gpus": 1, "hold": True}
    a = m.post("/jobs", dict(job, array="1-2501"), headers=ann)
    ok(a.status == 422 and "limits.array" in a.json["detail"], "an array of 2,501 elements", a)
    arrays = [m.post("/jobs", dict(job, array="1-2500"), headers=ann)]
    a = m.post("/jobs", dict(job, array="1-501"), headers=ann)
    ok(arrays[0].status == 201 and a.status == 429 and "retry-after" in a.headers and "jobs_per_user" in a.json["detail"],
       "3,001 jobs of one user", a)
    ok(m.post("/jobs", dict(job, array="1-501"), headers=bob).status == 201, "another user has some too")
    a = m.ask("DELETE", "/arrays/%d" % arrays[0].json["id"], headers=ann)
    ok(a.status == 200 and a.json["states"] == {"CANCELLED": 2500}, "an array is cancelled whole, and then answered", a)
    long = dict(job, env={"K%d" % i: "x" * 900 for i in range(400)})
    made = [m.post("/jobs", long, headers=ann) for _ in range(3)]
    ok([a.status for a in made] == [201, 201, 429] and "held_per_user" in made[2].json["detail"], "submissions of 1.1 MB in all",
       made[2])
    ok(m.post("/jobs", long, headers=bob).status == 201, "another user's are taken")
    ok(m.ask("DELETE", "/jobs/%d" % made[0].json["id"], headers=ann).status == 200
       and m.post("/jobs", long, headers=ann).status == 201, "when one is over there is room again")


def burst(m, ann, bob):
    """Many readers of events and many events at once: they are told by and by, and miss none."""
    sockets = []
    for _ in range(9):
        s = m.connect()
        s.sendall(head(m, "GET /api/v1/events?kinds=job.submitted", "Accept: text/event-stream",
                       *("%s: %s" % pair for pair in ann.items())))
        s.settimeout(30)
        sockets.append((s, bytearray(s.recv(4096))))
    a = m.post("/jobs", {"run": "sleep 1000", "gpus": 1, "hold": True, "array": "1-2000"}, headers=ann)
    ok(a.status == 201 and m.get("/whoami", headers=bob).status == 200, "2,000 events for nine readers", a)
    for s, got in sockets:
        while got.count(b"event: job.submitted") < 2000 and b"event: reset" not in got:
            piece = s.recv(65536)
            if not piece:
                break
            got += piece
        s.close()
    ok(all(got.count(b"event: job.submitted") == 2000 for _, got in sockets), "each has read them all",
       [got.count(b"event: job.submitted") for _, got in sockets])
    ok(m.ask("DELETE", "/arrays/%d" % a.json["id"], headers=ann).status == 200, "it is cancelled")


def main():
    folder = tempfile.mkdtemp()
    with open(folder + "/muster.yaml", "w") as f:
        f.write(CONF)
    with Musterd("1x8:H100", args=("--config", folder + "/muster.yaml")) as m:
        m.wait_nodes(1)
        people = []
        for user in ("daemon", "nobody"):
            token = m.post("/tokens", {"user": user, "role": "user"}).json["token"]
            people.append({"Authorization": "Bearer " + token})
        strangers(m)
        documents(m, people[0])
        connections(m, *people)
        requests(m, *people)
        held_bytes(m, *people)
        burst(m, *people)
        jobs(m, *people)
        tokens(m, *people)
    os.remove(folder + "/muster.yaml")
    os.rmdir(folder)
    done()


main()
