#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that are slow, broken or mean: each costs others nothing, and is refused with words or cut off."""
import http.client
import json
import os
import re
import socket
import struct
import tempfile
import threading
import time

from cluster import Musterd, done, drain, ok

CONF = """
cluster: hostile
listen: ["127.0.0.1:0"]
limits:
  header_time: 1s
  body_time: 1.5s
  idle_time: 1s
  send_time: 2s
  connections: 400
  connections_per_address: 300
  body: 1M
  event_streams: 4
"""


class Meter(threading.Thread):
    """An honest client that asks all the while; the slowest of its answers is what others are made to pay."""

    def __init__(self, m):
        super().__init__()
        self.m, self.worst, self.count, self.going, self.bad, self.own = m, 0.0, 0, True, [], 0

    def run(self):
        while self.going:
            start, sent = time.time(), None
            connection = http.client.HTTPConnection(self.m.host, self.m.port, timeout=30)
            try:
                connection.request("GET", "/api/v1/jobs?limit=5", headers=self.m.head())
                sent = time.time()
                if connection.getresponse().status != 200:
                    self.bad.append("status")
            except OSError as problem:
                if (sent or time.time()) - start < 1:  # header_time; beyond it this process had no turn, on a busy machine
                    self.bad.append(problem)
                else:
                    self.own += 1
            finally:
                connection.close()
            self.worst = max(self.worst, time.time() - start)
            self.count += 1
            time.sleep(0.01)


def statuses(text):
    return re.findall(rb"HTTP/1.1 (\d+)", text)


def slow_loris(m):
    conns = [m.connect() for _ in range(150)]
    for s in conns:
        s.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-A: ")
    start = time.time()
    ends = 0
    while time.time() - start < 60 and ends < len(conns):
        ends = 0
        for s in conns:
            s.settimeout(0.001)
            try:
                s.send(b"a")
                s.recv(1, socket.MSG_PEEK)
                ends += 1
            except socket.timeout:
                pass
            except OSError:
                ends += 1
        time.sleep(0.1)
    ok(ends == len(conns), "slow-loris: all %d are cut off, dripping bytes does not help" % len(conns), ends)
    text = drain(conns[0])
    ok(statuses(text) in ([b"408"], []), "slow-loris: told 408", text[:100])
    for s in conns:
        s.close()


def slow_body(m):
    s = m.connect()
    s.sendall(b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
    start, cut = time.time(), False
    while not cut and time.time() - start < 60:  # its last byte would be sent in 200 s
        try:
            s.sendall(b" ")
            s.settimeout(0.2)
            cut = s.recv(1000) is not None
        except socket.timeout:
            pass
        except OSError:
            cut = True
    ok(cut, "a body that drips is cut off", time.time() - start)
    s.close()


def half_open(m):
    conns = [m.connect() for _ in range(100)]
    gone = 0
    for s in conns:
        s.settimeout(60)
        try:
            gone += s.recv(10) == b""
        except ConnectionError:
            gone += 1
        except socket.timeout:
            pass
        s.close()
    ok(gone == 100, "connections that say nothing are closed", gone)


def giant_body(m):
    text = m.raw(b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
    ok(statuses(text) == [b"413"], "a giant body is refused by its length", text[:200])
    s = m.connect()
    s.sendall(b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        for _ in range(64):
            s.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
    except OSError:
        pass
    text = drain(s)
    ok(statuses(text) in ([b"413"], []), "a giant body in chunks too", text[:200])
    s.close()
    for _ in range(8):  # on a busy machine it may be taken for a body that drips, and cut off
        text = m.raw(b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 600000\r\n\r\n" + b"[" * 600000)
        if statuses(text) not in ([], [b"408"]):
            break
    ok(statuses(text) == [b"400"], "brackets without end are no JSON", text[:200])


def in_one_go(m):
    """More than is looked at in one turn, and then the end: all that was asked is answered."""
    text = m.raw(b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n" * 900 + b"GET /api")
    ok(statuses(text) == [b"200"] * 900, "who asks 900 times and closes its end has 900 answers", len(statuses(text)))


def many_headers(m):
    s = m.connect()
    s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    sent = 0
    try:
        for _ in range(1000):
            s.sendall(b"A: b\r\n" * 1000)
            sent += 1000
    except OSError:
        pass
    text = drain(s)
    ok(statuses(text) in ([b"431"], []), "a million headers are refused", (sent, text[:100]))
    s.close()
    text = m.raw(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n")
    ok(statuses(text) in ([b"414"], []), "a long request line", text[:100])
    text = m.raw(b"GET / HTTP/1.1\r\nA: " + b"a" * 100000 + b"\r\n\r\n")
    ok(statuses(text) in ([b"431"], []), "a long header", text[:100])


def smuggling(m):
    for name, text in (
            ("two lengths", b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"),
            ("length and chunks", b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
                                  b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n"),
            ("a folded header", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c: d\r\n\r\n"),
            ("bare line feeds", b"GET /healthz HTTP/1.1\nHost: localhost\n\n"),
            ("a null byte", b"GET /healthz\0 HTTP/1.1\r\n\r\n"),
            ("TLS", bytes.fromhex("1603010200010001fc0303") + os.urandom(200)),
            ("noise", os.urandom(2000)),
            ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ):
        answer = m.raw(text)
        ok(statuses(answer) == [b"400"], "%s: 400 and closed" % name, answer[:200])


def no_reader(m):
    """Asks for much and reads nothing: its answers are not piled up."""
    before = rss(m)
    conns = []
    for _ in range(20):
        s = m.connect()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)
        except OSError:
            pass
        conns.append(s)
    time.sleep(3)
    after = rss(m)
    for s in conns:
        s.close()
    # Sanitizers keep what was given back for a while, to see who still uses it.
    limit = 600 if os.environ.get("MUSTER_SANITIZED") else 200
    ok(after - before < limit << 10, "who reads nothing is cut off; memory grows by less than %d MiB" % limit,
       (before, after))


def rss(m):
    with open("/proc/%d/status" % m.process.pid) as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


def too_many(m):
    conns = []
    closed = 0
    for _ in range(350):
        try:
            conns.append(m.connect(tcp=True))
        except OSError:
            closed += 1
    time.sleep(0.2)
    for s in conns:
        s.setblocking(False)
        try:
            closed += s.recv(1) == b""
        except BlockingIOError:
            pass
        except OSError:
            closed += 1
    ok(closed >= 40, "more connections from one address than it may have are closed at once", closed)
    for s in conns:
        s.close()
    ok(m.until(lambda: alive(m)), "and room comes back")


def alive(m):
    try:
        return m.get("/healthz").status == 200
    except OSError:
        return False


def listeners(m):
    conns = []
    full = b""
    for _ in range(8):
        s = m.connect()
        s.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        s.settimeout(60)
        full += s.recv(300)
        conns.append(s)
    ok(full.count(b"503 ") == 4, "listeners beyond the limit are refused", full)
    for s in conns:
        s.close()
    ok(m.until(lambda: b"muster_event_streams 0" in m.get("/metrics").body, 20), "those that left are forgotten")


def upgrade(m):
    s = m.connect()
    s.sendall(b"GET /agent/v1 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: muster-agent\r\n\r\n")
    s.settimeout(5)
    head = b""
    while b"\r\n\r\n" not in head:
        head += s.recv(1000)
    return s


def frame(value):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack(">I", len(text)) + text


def frames(m):
    hello = {"t": "hello", "v": 1, "node": "evil", "agent": "a" * 32, "boot": "b", "address": "1.2.3.4", "version": "0",
             "inventory": {"sku": "H100", "memory_mib": 80000, "gpus": [{"index": 0, "uuid": "x", "numa": 0, "link": 0}],
                           "sockets": 1, "groups": 1, "cpus": 1, "memory_bytes": 1 << 30, "labels": {}, "fake": True,
                           "fences": [], "runtimes": []}, "tasks": [], "seq": 0}
    for name, data in (
            ("a frame of four gigabytes", b"\xff\xff\xff\xff" + b"x" * 100),
            ("a frame that is no JSON", frame(b"\x00\x01\x02garbage")),
            ("a frame that is no object", frame(b"[1,2,3]")),
            ("deep brackets", frame(b"[" * 100000)),
            ("a kind that is none", frame({"t": "dance"})),
            ("a report before hello", frame({"t": "report", "seq": 1})),
            ("noise", os.urandom(5000)),
            ("a second hello", frame(hello) + frame(hello)),
            ("a hello without a node", frame({"t": "hello"})),
            ("an inventory that is none", frame(dict(hello, node="evil2", inventory=7))),
            ("a million GPUs", frame(dict(hello, node="evil3", inventory=dict(
                hello["inventory"], gpus=[{"index": i, "uuid": "x"} for i in range(20000)])))),
    ):
        s = upgrade(m)
        try:
            s.sendall(data)
        except OSError:
            pass
        s.settimeout(60)
        start = time.time()
        drain(s)
        ok(time.time() - start < 59 and alive(m), "agent: %s is cut off" % name)
        s.close()
    s = upgrade(m)
    s.sendall(frame(dict(hello, node="real")))
    time.sleep(0.3)
    for bad in ({"t": "report", "seq": 1, "at": 0, "job": 1, "attempt": 0, "rank": 0, "state": "exited"},
                {"t": "report", "seq": -5}, {"t": "report", "seq": 2, "job": "x", "attempt": [], "rank": {}, "state": 4},
                {"t": "report", "seq": 3, "job": 2 ** 62, "attempt": 2 ** 40, "rank": -1, "state": "running"},
                {"t": "report", "seq": 4, "gpu": {"index": 10 ** 9, "ok": False, "reason": "x" * 10000}},
                {"t": "beat", "n": "x", "gpus": [{"util": 1e300}] * 3}, {"t": "answer", "id": 12345, "ok": True}):
        try:
            s.sendall(frame(bad))
        except OSError:
            s.close()
            s = upgrade(m)
            s.sendall(frame(dict(hello, node="real")))
            time.sleep(0.2)
    time.sleep(0.3)
    ok(alive(m) and m.get("/jobs").status == 200, "agent: reports that make no sense change nothing")
    s.close()
    s = upgrade(m)
    start = time.time()
    s.settimeout(60)
    drain(s)
    ok(time.time() - start < 59, "agent: one that never says hello is cut off")
    s.close()


def main():
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as conf:
        conf.write(CONF)
        conf.flush()
        with Musterd("1x8:H100", args=["--config", conf.name]) as m:
            m.wait_nodes(1)
            meter = Meter(m)
            worst = {}
            meter.start()
            for part in (slow_loris, slow_body, half_open, giant_body, in_one_go, many_headers, smuggling, no_reader, frames,
                         listeners):
                meter.worst = 0.0
                part(m)
                worst[part.__name__] = meter.worst
                ok(alive(m), "alive after " + part.__name__)
            meter.going = False
            meter.join()
            print("# honest client: %d requests, the slowest meanwhile: %s" %
                  (meter.count, ", ".join("%s %.0f ms" % (k, v * 1e3) for k, v in worst.items())))
            ok(meter.count - meter.own > 100 and not meter.bad, "an honest client is answered all the while", meter.bad[:3])
            too_many(m)
            # All GPUs of the one that is a node: those above were taken for one too, and have a lease to run out.
            job = m.post("/jobs", {"run": "echo fine", "gpus": 8})
            ok(job.status == 201 and m.wait_state(job.json["id"], "COMPLETED", 120), "and jobs run", job)
            status = m.stop()
            ok(status == 0, "stops cleanly", (status, m.stderr()[-2000:]))
    done()


main()
