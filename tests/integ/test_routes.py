#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every route of the OpenAPI file by every role, by nodes, by join tokens and by whoever has no token: who is refused.

Each route has a row here. One that is added to the file without a row fails the test: who adds it says who may use it.
"""
import http.client
import json
import os
import re
import subprocess
import tempfile

from cluster import BUILD, done, ok
from test_tls import Lab

HERE = os.path.dirname(os.path.abspath(__file__))
# Who may: open - whoever comes; read - viewers too; user - who may have jobs; admin; join - a join token; agent - a node.
ROWS = {
    "open": """
        GET /version
        GET /healthz
        GET /readyz
        GET /openapi.json
        POST /login
        POST /login/once
        GET /login/oidc
        POST /login/oidc
    """,
    "read": """
        GET /whoami
        DELETE /tokens/{id}
        GET /jobs
        GET /jobs/{id}
        GET /jobs/{id}/why
        GET /jobs/{id}/attempts
        GET /jobs/{id}/tasks
        GET /jobs/{id}/events
        GET /jobs/{id}/metrics
        GET /jobs/{id}/logs
        GET /arrays/{id}
        GET /nodes
        GET /nodes/{name}
        GET /nodes/{name}/gpus/{index}
        GET /gpus
        GET /vcs
        GET /vcs/{name}
        GET /vcs/{name}/usage
        GET /usage
        GET /overview
        GET /alerts
        GET /cells
        GET /topology
        GET /queue
        GET /schedule
        GET /history
        GET /reports/{kind}
        GET /users
        GET /licenses
        GET /users/{name}/limits
        GET /reservations
        GET /reservations/{name}
        GET /config/discover
        GET /config
        GET /scheduler
        GET /scheduler/trace/{id}
        GET /events
        GET /estimator
    """,
    "user": """
        GET /tokens
        POST /tokens
        POST /jobs
        POST /jobs:plan
        POST /jobs:batch
        PATCH /jobs/{id}
        DELETE /jobs/{id}
        GET /jobs/{id}/exec
        GET /jobs/{id}/input
        GET /jobs/{id}/forward/{port}
        POST /jobs/{id}/{action}
        DELETE /arrays/{id}
        GET /secrets
        PUT /secrets/{name}
        DELETE /secrets/{name}
        GET /sim
        POST /sim
        GET /sim/{id}
        DELETE /sim/{id}
        GET /sim/{id}/{file}
    """,
    "admin": """
        PATCH /nodes/{name}
        DELETE /nodes/{name}
        POST /nodes/{name}/rejoin
        PATCH /nodes/{name}/gpus/{index}
        POST /vcs
        PUT /vcs/{name}
        DELETE /vcs/{name}
        PUT /users/{name}/limits
        POST /reservations
        PUT /reservations/{name}
        DELETE /reservations/{name}
        GET /webhooks
        POST /webhooks
        DELETE /webhooks/{id}
        POST /config/reload
        PUT /config
        GET /backup
        GET /audit
        PATCH /scheduler
    """,
    "join": """
        POST /join
    """,
    "agent": """

    """,
}
TOP = [(("GET", path), access) for path, access in  # those that are not below /api/v1
       (("//healthz", "open"), ("//readyz", "open"), ("//metrics", "read"), ("//metrics/jobs", "read"), ("//metrics/users", "read"),
        ("//agent/v1", "agent"))]
MAY = {"open": {"none", "viewer", "user", "vc-admin", "admin", "join", "agent", "wrong"}, "read": {"viewer", "user", "vc-admin", "admin"},
       "user": {"user", "vc-admin", "admin"}, "admin": {"admin"}, "join": {"join"}, "agent": {"agent"}}


def rows():
    return {tuple(line.split()): access for access, text in ROWS.items() for line in text.strip().splitlines()}


def of_file():
    with open(os.path.join(HERE, "..", "..", "api", "openapi.json")) as f:
        paths = json.load(f)["paths"]
    return {(method.upper(), path) for path, methods in paths.items() for method in methods
            if method in ("get", "post", "put", "patch", "delete")}


class Caller:
    """One connection of one role."""

    def __init__(self, lab, token=None, cert=None):
        self.lab, self.head, self.cert, self.connection = lab, {"Authorization": "Bearer " + token} if token else {}, cert, None

    def ask(self, method, path):
        for _ in range(2):
            if self.connection is None:
                self.connection = http.client.HTTPSConnection("localhost", self.lab.port, timeout=30, context=self.lab.context(self.cert))
            try:
                self.connection.request(method, path, "{}" if method != "GET" else None, dict(self.head, **{"Content-Type": "application/json"}))
                reply = self.connection.getresponse()
                return reply.status, reply.read(1 << 20).decode(errors="replace")
            except (OSError, http.client.HTTPException):
                self.connection = None
        return 0, "no answer"


def callers(lab, folder):
    def token(**what):
        return lab.json("POST", "/tokens", what, token=lab.admin)["token"]

    node = subprocess.run([os.path.join(BUILD, "muster-agent"), "join", "https://localhost:%d" % lab.port, lab.join_token, "--node", "n1",
                           "--state", folder + "/node"], capture_output=True, text=True)
    ok(node.returncode == 0, "a node", node)
    return {"none": Caller(lab), "wrong": Caller(lab, "mus_" + "x" * 43), "viewer": Caller(lab, token(user="nobody", role="viewer")),
            "user": Caller(lab, token(user="nobody", role="user")), "vc-admin": Caller(lab, token(user="nobody", role="vc-admin", scope="vc:nlp")),
            "admin": Caller(lab, lab.admin), "join": Caller(lab, token(join=True, nodes=100)),
            "agent": Caller(lab, cert=(folder + "/node/node.crt", folder + "/node/node.key"))}


def refused(status, text):
    """For who it is, whatever was asked."""
    return status == 401 or (status == 403 and ") does not allow this" in text)


def main():
    known, there = rows(), of_file()
    ok(there - set(known) == set(), "each route of the file has a row", sorted(there - set(known)))
    ok(set(known) - there == set(), "and each row is of a route", sorted(set(known) - there))
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        lab = Lab(folder)
        lab.start()
        try:
            who = callers(lab, folder)
            holes, shut = [], []
            for (method, path), access in sorted(known.items()) + TOP:
                # Of things that are not there, so that nothing is changed by those who may.
                real = ("" if path.startswith("//") else "/api/v1") + re.sub(r"\{(id|index)\}", "999999", re.sub(r"\{(name|file|kind)\}", "nothere", path.replace("//", "/")))
                for name, caller in who.items():
                    if access == "open" and name in ("wrong", "agent", "join"):
                        continue  # whoever asks there is not looked at
                    status, text = caller.ask(method, real)
                    if name in MAY[access] and (refused(status, text) or status == 0 or status >= 500) and "NotSupported" not in text \
                            and "this link was used" not in text:
                        shut.append((method, path, name, status, text[:100]))
                    if name not in MAY[access] and not refused(status, text):
                        holes.append((method, path, name, status, text[:100]))
            ok(not holes, "%d routes by %d callers: nobody gets in who may not" % (len(known), len(who)), holes)
            ok(not shut, "and those get in who may", shut)
        finally:
            lab.stop()
    done()


if __name__ == "__main__":
    main()
