#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Too few files may be open: said at the start, nothing is lost, and it is over when those who hold connections leave."""
import tempfile

from cluster import Musterd, done, muster, ok

FILES, KEPT = 64, 32


class Poor(Musterd):
    """May have no more open files than FILES."""

    def start(self):
        self.command = ["prlimit", "--nofile=%d:%d" % (FILES, FILES)] + self.command
        super().start()


def open_still(s):
    s.setblocking(False)
    try:
        return s.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def main():
    with tempfile.TemporaryDirectory() as folder, Poor("2x4:H100", state=folder) as m:
        m.wait_nodes(2)
        ok("files=%d" % FILES in m.stderr() and "LimitNOFILE" in m.stderr(), "it says that it may have few files", m.stderr())
        job = m.post("/jobs", {"run": "sleep 1; echo through", "gpus": 1}).json["id"]
        idle = []
        for _ in range(2 * FILES):
            try:
                idle.append(m.connect(5))
            except OSError:
                break
        ok(len(idle) > FILES, "strangers take more connections than there are files", len(idle))
        ok(m.until(lambda: sum(open_still(s) for s in idle) <= FILES - KEPT), "those beyond the limit are cut off",
           sum(open_still(s) for s in idle))
        for s in idle:
            s.close()
        ok(m.until(lambda: muster(m, "queue").returncode == 0), "but as soon as they are gone", m.stderr())
        ok(m.wait_state(job, "COMPLETED"), "what ran meanwhile has ended well", m.get("/jobs/%d" % job).json)
        ok(muster(m, "logs", job).stdout == "through\n", "with its output")
        r = muster(m, "run", "-G1", "--", "echo", "again")
        ok((r.returncode, r.stdout) == (0, "again\n"), "and others run", r)
    done()


main()
