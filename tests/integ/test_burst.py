#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A burst of submissions by 50 clients: each is accepted or refused with a reason, none is lost, reads are answered.

MUSTER_BURST submissions in all (2,000 unless told; 10,000 by hand), then kill -9 and a look at what is there.
"""
import http.client
import json
import os
import signal
import subprocess
import tempfile
import threading
import time

from cluster import MUSTERD, Musterd, done, ok

TOTAL = int(os.environ.get("MUSTER_BURST", "2000"))
CLIENTS = 50
BODY = json.dumps({"name": "burst", "run": "true", "gpus": "H100:1", "time": "1m", "hold": True})


class Submitter(threading.Thread):
    def __init__(self, m, number):
        super().__init__()
        self.m, self.number = m, number
        self.accepted, self.refused, self.lost = [], [], []

    def run(self):
        connection = http.client.HTTPConnection(self.m.host, self.m.port, timeout=60)
        for i in range(TOTAL // CLIENTS):
            try:
                connection.request("POST", "/api/v1/jobs", BODY, self.m.head(**{"Content-Type": "application/json",
                                                                              "Idempotency-Key": "%d-%d" % (self.number, i)}))
                reply = connection.getresponse()
                body = json.loads(reply.read())
                if reply.status == 201:
                    self.accepted.append(body["id"])
                else:
                    self.refused.append((reply.status, body.get("code")))
            except OSError as problem:
                self.lost.append(problem)
                connection.close()
        connection.close()


class Reader(threading.Thread):
    def __init__(self, m):
        super().__init__()
        self.m, self.times, self.bad, self.going = m, [], [], True

    def run(self):
        while self.going:
            start = time.time()
            try:
                if self.m.get("/jobs?limit=100").status != 200:
                    self.bad.append("status")
            except OSError as problem:
                self.bad.append(problem)
            self.times.append(time.time() - start)


def main():
    with tempfile.TemporaryDirectory() as state:
        with Musterd("1x8:H100", state=state) as m:
            m.wait_nodes(1)
            submitters = [Submitter(m, i) for i in range(CLIENTS)]
            reader = Reader(m)
            start = time.time()
            reader.start()
            for s in submitters:
                s.start()
            for s in submitters:
                s.join()
            took = time.time() - start
            reader.going = False
            reader.join()
            accepted = sorted(i for s in submitters for i in s.accepted)
            refused = [r for s in submitters for r in s.refused]
            lost = [r for s in submitters for r in s.lost]
            print("# %d accepted, %d refused in %.2f s (%.0f/s); %d reads, slowest %.0f ms" %
                  (len(accepted), len(refused), took, len(accepted) / took, len(reader.times),
                   max(reader.times) * 1e3))
            ok(not lost, "every submission is answered", lost[:3])
            ok(len(accepted) + len(refused) == TOTAL // CLIENTS * CLIENTS, "accepted or refused")
            ok(all(s in (422, 429, 503) and c for s, c in refused), "refusals have a reason", refused[:3])
            ok(len(set(accepted)) == len(accepted), "no id twice")
            ok(not reader.bad and len(reader.times) > 3, "reads are answered meanwhile", reader.bad[:3])
            listed = m.get("/jobs?limit=10000&fields=id").json["items"]
            ok(sorted(j["id"] for j in listed) == accepted, "all of them are there", len(listed))
            start = time.time()
            body = m.get("/jobs?limit=10000").body
            print("# a list of %d jobs: %.0f ms, %d bytes" % (len(listed), (time.time() - start) * 1e3, len(body)))
            copy = m.get("/backup")
            ok(copy.status == 200 and len(copy.body) > 1000, "a backup while it works", copy.status)
            with open(state + "/copy", "wb") as f:
                f.write(copy.body)
            restored = subprocess.run([MUSTERD, "restore", state + "/copy", "--state", state + "/second"],
                                      capture_output=True, text=True)
            ok(restored.returncode == 0, "restored", restored)
            with Musterd(None, state=state + "/second") as second:
                listed = second.get("/jobs?limit=10000&fields=id").json["items"]
                ok(sorted(j["id"] for j in listed) == accepted, "with every job", len(listed))
            m.stop(signal.SIGKILL)
            m.start()
            listed = m.get("/jobs?limit=10000&fields=id").json["items"]
            ok(sorted(j["id"] for j in listed) == accepted, "and after kill -9 still", len(listed))
            again = m.post("/jobs", BODY, headers={"Idempotency-Key": "%d-%d" % (CLIENTS - 1, TOTAL // CLIENTS - 1)})
            ok(again.status == 201 and again.json["id"] in accepted, "a repeated key is the same job there too", again)
            status = m.stop()
            ok(status == 0, "stops cleanly", (status, m.stderr()[-2000:]))
    done()


main()
