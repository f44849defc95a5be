#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An ordinary user and a node that mean ill: other people's jobs, rights that are not theirs, paths that lead elsewhere."""
import json
import os
import socket
import struct
import subprocess
import tempfile
import time

from cluster import BUILD, Musterd, done, drain, ok
from test_tls import Lab, agent_run, until, upgrade

SECRET = "hunter2-in-a-command"


def token(lab, by=None, **what):
    a = lab.told("POST", "/tokens", what, token=by or lab.admin)
    return a.json.get("token") if a.status == 201 else a


def ending(lab, theirs):
    """A viewer's token ends itself and no other, not even another of the same person."""
    own, other = (lab.json("POST", "/tokens", {"user": "nobody", "role": "viewer"}, token=lab.admin) for _ in range(2))
    for what, name in ((theirs, "another's"), (other["id"], "a second one of its own"), ("t99999", "one that is not there")):
        ok(lab.told("DELETE", "/tokens/" + what, token=own["token"]).status == 403, "a viewer's token does not end " + name)
    ok(lab.told("DELETE", "/tokens/" + own["id"], token=own["token"]).status == 204, "but itself")
    ok(lab.told("GET", "/jobs", token=own["token"]).status == 401, "and is over")
    ok(lab.told("GET", "/jobs", token=other["token"]).status == 200, "the other one is not")
    ok(lab.told("DELETE", "/tokens/" + theirs).status == 401, "without a token nothing is ended")


def handing_on(lab):
    """Nobody makes a token that may more than the one it is made with."""
    lead = token(lab, user="nobody", role="vc-admin", scope="vc:nlp")
    for what in ({"scope": "vc:cv"}, {"role": "vc-admin", "scope": "vc:cv"}, {"role": "user", "scope": ""}, {"role": "admin"},
                 {"role": "user", "scope": "jobs"}, {"user": "root"}, {"join": True}):
        a = lab.told("POST", "/tokens", what, token=lead)
        ok(a.status == 403, "the admin of nlp does not hand on %s" % json.dumps(what), a)
    a = lab.told("POST", "/tokens", {"role": "vc-admin"}, token=lead)
    ok(a.status == 201 and a.json["scope"] == "vc:nlp", "but what it is itself", a)
    a = lab.told("POST", "/tokens", {"scope": "read"}, token=lead)
    ok(a.status == 201, "and reading", a)
    jobs = token(lab, user="nobody", role="user", scope="jobs")
    a = lab.told("POST", "/tokens", {"scope": ""}, token=jobs)
    ok(a.status == 403, "a token for jobs makes none without bounds", a)
    for scope, role in (("jobs", "user"), ("vc:nlp", "vc-admin"), ("read", "viewer")):
        a = lab.told("GET", "/whoami", token=token(lab, user="root", role="admin", scope=scope))
        ok(a.json["role"] == role, "an admin's token for %s is a %s's" % (scope, role), a)
    user = token(lab, user="nobody", role="user")
    a = lab.told("POST", "/tokens", {"role": "vc-admin", "scope": "vc:nlp"}, token=user)
    ok(a.status == 403, "a user does not become a lead", a)
    theirs = lab.json("POST", "/tokens", {"user": "daemon", "role": "user"}, token=lab.admin)["id"]
    ok(lab.told("DELETE", "/tokens/" + theirs, token=user).status == 404, "nor takes other people's tokens back")
    ending(lab, theirs)
    for path in ("/secrets/..%2F..%2Fx", "/secrets/" + "a" * 300, "/secrets/a%00b", "/secrets/A=B"):
        ok(lab.told("PUT", path, {"value": "x"}, token=user).status in (400, 404, 422), "no secret is called %.20s" % path)
    lab.told("PUT", "/secrets/MINE", {"value": "tell-nobody"}, token=token(lab, user="daemon", role="user"))
    for who in (user, lead, lab.admin):
        ok(b"tell-nobody" not in lab.told("GET", "/secrets", token=who).body, "nobody reads a secret")
    return user


def victim(lab):
    t = token(lab, user="daemon", role="user")
    job = lab.json("POST", "/jobs", {"name": "theirs", "run": "echo %s; echo ckpt step=1 path=/secret/place >&9; sleep 60" % SECRET,
                                     "env": {"KEY": SECRET}, "gpus": 1, "dir": "/tmp", "comment": SECRET, "tags": {"k": SECRET}}, token=t)
    if "id" not in job:
        job = lab.json("POST", "/jobs", {"name": "theirs", "run": "echo %s; sleep 60" % SECRET, "env": {"KEY": SECRET}, "gpus": 1,
                                         "dir": "/tmp"}, token=t)
    until(lambda: lab.json("GET", "/jobs/%d" % job["id"], token=t)["state"] == "RUNNING")
    return t, job["id"]


def prying(lab, user, viewer, job):
    """Every way to read that there is, as a stranger."""
    paths = ["/jobs/%d%s" % (job, p) for p in ("", "/why", "/attempts", "/tasks", "/events", "/metrics", "/logs", "/logs?stream=err", "/logs?attempt=0&task=0")]
    paths += ["/jobs", "/jobs?fields=id,spec,env,run,comment", "/jobs?all=1&name=theirs", "/queue", "/history", "/overview", "/topology", "/schedule", "/cells",
              "/users", "/events", "/scheduler/trace/%d" % job, "/estimator", "/reports/jobs", "/reports/users", "/config", "/alerts", "/nodes/n1", "/sim", "/secrets"]
    for who, name in ((user, "a user"), (viewer, "a viewer")):
        told = [(p, lab.told("GET", p, token=who)) for p in paths]
        leaks = [(p, a.status) for p, a in told if SECRET.encode() in a.body or a.status >= 500]
        ok(not leaks, "%s finds no command, variable or output in %d places" % (name, len(paths)), leaks)
        ok(lab.told("GET", "/jobs/%d/logs" % job, token=who).status == 403, "and is told so at the output")
    for path in ("/jobs/%d/logs?task=..%%2F..%%2Fetc" % job, "/jobs/%d/logs?task=-1" % job, "/jobs/%d/logs?attempt=999999999999" % job,
                 "/jobs/%d_1/logs" % job, "/jobs/%d.0/logs" % job, "/jobs/0%d/logs" % job, "/jobs//%d/logs" % job, "/jobs/%d/logs/" % job,
                 "/jobs/%%2e%%2e/jobs/%d/logs" % job):
        a = lab.told("GET", path, token=user)
        ok(a.status in (400, 403, 404) and SECRET.encode() not in a.body, "nor at %.60s" % path, a)
    for head in ({"X-Forwarded-User": "daemon"}, {"X-Remote-User": "root"}, {"X-Forwarded-For": "127.0.0.1"}, {"Cookie": "token=" + lab.admin},
                 {"Host": "localhost", "Origin": "http://localhost"}, {"X-HTTP-Method-Override": "DELETE"}):
        a = lab.told("GET", "/jobs/%d/logs" % job, token=user, headers=head)
        ok(a.status == 403, "nor with the header %s" % list(head)[0], a)
    for method, path, body in (("POST", "/jobs/%d/suspend" % job, None), ("POST", "/jobs/%d/signal" % job, {"signal": 9}), ("POST", "/jobs/%d/requeue" % job, None),
                               ("PATCH", "/jobs/%d" % job, {"time_seconds": 1}), ("DELETE", "/jobs/%d?now=1" % job, None), ("GET", "/backup", None), ("GET", "/audit", None),
                               ("GET", "/webhooks", None), ("POST", "/webhooks", {"to": "http://169.254.169.254/"}), ("PUT", "/users/nobody/limits", {"max_gpus": 1000}),
                               ("PUT", "/vcs/nlp", {"policy": "fifo"}), ("POST", "/config/reload", None)):
        a = lab.told(method, path, body, token=user)
        ok(a.status == 403, "and may not %s %s" % (method, path), a)


def as_another(lab, user, folder):
    """The name a job runs under is that of the token."""
    for more in ({"user": "root"}, {"uid": 0}, {"submitted_by": "daemon"}, {"gid": 0}):
        a = lab.told("POST", "/jobs", dict({"run": "id", "gpus": 1}, **more), token=user)
        ok(a.status == 400, "nobody submits with %s" % json.dumps(more), a)
    key = {"Idempotency-Key": "same-key"}
    one = lab.told("POST", "/jobs", {"run": "true", "gpus": 1, "dir": "/tmp"}, token=user, headers=key)
    two = lab.told("POST", "/jobs", {"run": "true", "gpus": 1, "dir": "/tmp"}, token=token(lab, user="daemon", role="user"), headers=key)
    ok(one.json["id"] != two.json["id"], "a key of somebody else's is another key", (one, two))
    ok(lab.told("POST", "/jobs", {"run": "true", "gpus": 1, "notify": ["end=http://169.254.169.254/latest"]}, token=user).status >= 400,
       "nobody is told anything where the cluster tells nobody")
    # Files: what it may not write itself is not written for it, whatever it is called.
    os.mkdir(folder + "/mine")
    os.chmod(folder + "/mine", 0o777)
    with open(folder + "/precious", "w") as f:
        f.write("untouched")
    os.chmod(folder + "/precious", 0o600)
    os.symlink(folder + "/precious", folder + "/mine/link")
    os.link(folder + "/precious", folder + "/mine/hard")
    os.mkfifo(folder + "/mine/fifo", 0o666)
    os.chmod(folder + "/mine/fifo", 0o666)
    for name in ("link", "hard", "../precious", "%x"):
        a = lab.told("POST", "/jobs", {"run": "echo overwritten", "gpus": 1, "dir": folder + "/mine", "output": folder + "/mine/" + name,
                                       "name": "..%sprecious" % os.sep}, token=user)
        if a.status == 201:
            until(lambda: lab.json("GET", "/jobs/%d" % a.json["id"], token=user)["state"] in ("FAILED", "COMPLETED", "CANCELLED"))
        ok(open(folder + "/precious").read() == "untouched", "not through %s" % name, a)
    a = lab.told("POST", "/jobs", {"run": "echo x", "gpus": 1, "dir": folder + "/mine", "output": folder + "/mine/fifo", "retries": 0}, token=user)
    ok(until(lambda: all(n["connected"] for n in lab.json("GET", "/nodes", token=lab.admin)["items"])), "a pipe nobody reads holds no node up")
    ok(a.status == 201 and until(lambda: lab.json("GET", "/jobs/%d" % a.json["id"], token=user)["state"] == "FAILED"),
       "and is refused", a)
    a = lab.told("POST", "/jobs", {"run": "id -u; cat /proc/self/status | grep NoNewPrivs", "gpus": 1, "dir": "/root"}, token=user)
    if a.status == 201:
        until(lambda: lab.json("GET", "/jobs/%d" % a.json["id"], token=user)["state"] in ("FAILED", "COMPLETED"))
        said = lab.told("GET", "/jobs/%d/logs" % a.json["id"], token=user).body
        ok(not said.startswith(b"0\n"), "a folder of root's makes nobody root", said)


def say(s, value):
    text = json.dumps(value).encode()
    s.sendall(struct.pack(">I", len(text)) + text)


def evil_node(lab, folder, job, victim_token):
    """A certificate of its own, and all the wrong words."""
    join = lab.json("POST", "/tokens", {"join": True, "nodes": 2}, token=lab.admin)["token"]
    words = [os.path.join(BUILD, "muster-agent"), "join", "https://localhost:%d" % lab.port, join]
    r = subprocess.run(words + ["--node", "n1", "--state", folder + "/fake"], capture_output=True, text=True)
    ok(r.returncode != 0 and "another machine" in r.stderr + r.stdout, "nobody joins in the place of a node that is there", r)
    r = subprocess.run(words[:3] + ["--token-file", "-", "--node", "evil", "--state", folder + "/evil"], capture_output=True, text=True, input="wrong\n")
    ok(r.returncode != 0, "a wrong token from standard input is refused", r)
    r = subprocess.run(words[:3] + ["--token-file", "-", "--node", "evil", "--state", folder + "/evil"], capture_output=True, text=True, input=join + "\n")
    ok(r.returncode == 0, "one joins as itself, with a token that no list of processes shows", r)
    cert = (folder + "/evil/node.crt", folder + "/evil/node.key")
    for path in ("/jobs", "/jobs/%d/logs" % job, "/tokens", "/secrets", "/backup", "/nodes"):
        raw = lab.context(cert).wrap_socket(socket.create_connection(("127.0.0.1", lab.port), 10), server_hostname="localhost")
        raw.sendall(("GET /api/v1%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % path).encode())
        said = drain(raw)
        ok(b" 403 " in said[:40] or b" 401 " in said[:40], "a node reads no %s" % path, said[:200])
        raw.close()
    s, head = upgrade(lab, cert)
    ok(b" 101 " in head, "and is let in", head)
    say(s, {"t": "hello", "v": 1, "node": "evil", "agent": "a" * 32, "boot": "b", "address": "10.0.0.1", "version": "0",
            "inventory": {"sku": "H100", "memory_mib": 80000, "gpus": [{"index": 0, "uuid": "x", "numa": 0, "link": 0}], "sockets": 1, "groups": 1,
                          "cpus": 1, "memory_bytes": 1 << 30, "labels": {}, "fake": True, "fences": [], "runtimes": []}, "tasks": [], "seq": 0})
    time.sleep(0.3)
    before = lab.json("GET", "/jobs/%d" % job, token=victim_token)
    seq = 0
    for state in ("exited", "running", "refused", "ready"):
        seq += 1
        try:
            say(s, {"t": "report", "seq": seq, "at": int(time.time() * 1e6), "job": job, "attempt": before["attempt"], "rank": 0, "state": state,
                    "exit": 0, "cause": "exit"})
        except OSError:
            break
    try:
        say(s, {"t": "report", "seq": seq + 1, "node": "n1", "gpu": {"index": 0, "ok": False, "reason": "XID 79"}})
        say(s, {"t": "answer", "id": 1, "ok": True, "data": "eA=="})
    except OSError:
        pass
    time.sleep(0.5)
    after = lab.json("GET", "/jobs/%d" % job, token=victim_token)
    ok(after["state"] == "RUNNING" and after["attempt"] == before["attempt"], "what it says of jobs on other nodes counts for nothing", after)
    gpu = lab.json("GET", "/nodes/n1", token=lab.admin)
    ok(gpu["gpus_unhealthy"] == 0, "nor of other nodes' GPUs", gpu)
    s.close()


def named(lab, user, path):
    return [j["id"] for j in lab.json("GET", path, token=user)["items"]]


def nameless(lab, user):
    """privacy: sizes - other people's jobs have no names, nor are they found or sorted by them."""
    t, job = victim(lab)
    array = lab.json("POST", "/jobs", {"name": "swept", "run": "true", "gpus": 1, "dir": "/tmp", "array": "0-1", "hold": True}, token=t)["id"]
    mine = [lab.json("POST", "/jobs", {"name": name, "run": "true", "gpus": 1, "dir": "/tmp", "hold": True}, token=user)["id"] for name in ("sat", "umt")]
    for key in ("find=eir", "name=theirs"):
        for path in ("/jobs?" + key, "/jobs?all=1&merge=arrays&" + key, "/queue?" + key):
            ok(named(lab, user, path) == [], "%s finds no name that is not told" % path, named(lab, user, path))
    ok(named(lab, t, "/jobs?find=EIR") == [job] and named(lab, user, "/jobs?find=MT") == mine[1:], "but everybody's own")
    order = [i for i in named(lab, user, "/jobs?sort=name") if i in mine + [job]]
    ok(order == [job] + mine, "nor are names told by their order", order)
    a = lab.json("GET", "/arrays/%d" % array, token=user)
    ok(a["name"] is None and a["size"] == 2, "arrays have none either", a)
    ok(lab.json("GET", "/arrays/%d" % array, token=t)["name"] == "swept", "but for their owners")
    for one in mine:
        lab.told("DELETE", "/jobs/%d?now=1" % one, token=user)
    lab.told("DELETE", "/jobs/%d?now=1" % job, token=t)
    until(lambda: job in named(lab, t, "/history?name=theirs"))
    over = [j["name"] for j in lab.json("GET", "/history", token=user)["items"] if j["id"] == job]
    ok(over == [None] and job not in named(lab, user, "/history?name=theirs"), "nor when they are over", over)
    for who, told in ((t, True), (user, False)):
        names = [i["key"] for i in lab.json("GET", "/reports/jobs", token=who)["items"]]
        ok(("theirs" in names) == told, "in a report it is told to those who may know: %s" % told, names)
        own = lab.json("GET", "/reports/users?name=theirs", token=who)["items"]
        ok((own != []) == told, "and used as a filter by them: %s" % told, own)
    return t, array


def unseen(lab, user, theirs, array):
    """privacy: none - other people's jobs are not there at all, in events either."""
    for method in ("GET", "DELETE"):
        ok(lab.told(method, "/arrays/%d" % array, token=user).status == 404, "%s: no array of theirs" % method)
    for who, told in ((theirs, True), (user, False)):
        over = lab.json("GET", "/history", token=who)["items"]
        ok(any(j["user"] == "daemon" for j in over) == told, "the history has those jobs: %s" % told, over)
        sums = lab.json("GET", "/reports/users", token=who)["items"]
        ok(any(i["key"] == "daemon" for i in sums) == told and len(sums) > 1, "a report names who had them: %s" % told, sums)
        some = lab.json("GET", "/reports/usage?group=jobs&user=daemon", token=who)["items"]
        ok((some != []) == told, "and finds them by that: %s" % told, some)
        people = [u["name"] for u in lab.json("GET", "/users", token=who)["items"]]
        ok(("daemon" in people) == told, "the list of users has them: %s" % told, people)
    ok(lab.told("DELETE", "/arrays/%d" % array, token=theirs).status == 200, "which is there")
    t, job = victim(lab)
    use = lab.json("GET", "/vcs/default/usage", token=user)["items"]
    ok("daemon" not in [u["user"] for u in use], "nor are they told to use a virtual cluster", use)
    a = lab.told("GET", "/events?job=%d" % job, token=user)
    ok(a.json["items"] == [], "no events of other people's jobs", a)
    a = lab.told("GET", "/events", token=user)
    ok(all(e["job"] in (None,) or lab.told("GET", "/jobs/%d" % e["job"], token=user).status == 200 for e in a.json["items"]), "nor in the list of all", a)
    a = lab.told("GET", "/events?job=%d" % job, token=t)
    ok(a.status == 200 and a.json["items"], "their owner has them", a)
    s = lab.context().wrap_socket(socket.create_connection(("127.0.0.1", lab.port), 10), server_hostname="localhost")
    s.sendall(("GET /api/v1/events?since=0 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nAuthorization: Bearer %s\r\n\r\n" % user).encode())
    time.sleep(0.5)
    lab.told("DELETE", "/jobs/%d?now=1" % job, token=t)
    s.settimeout(2)
    said = drain(s)
    ok(b"event: " in said and ('"job":%d' % job).encode() not in said, "nor in the stream", said[-300:])
    s.close()


def tried_out():
    """A cluster to try out that root has started: it says that other users' jobs cannot run in its own nodes, and why."""
    with tempfile.TemporaryDirectory() as folder:
        for mode, enters in ((0o700, False), (0o711, True)):
            state = os.path.join(folder, "%o" % mode)
            os.chmod(folder, 0o755)
            os.mkdir(state, mode)
            with Musterd("1x1:H100", state=state) as m:
                said = [line for line in m.said if "other users" in line]
                ok(said == [] if enters else len(said) == 1 and " %s;" % state in said[0], "mode %o: what it says" % mode, m.said)
                m.wait_nodes(1)
                theirs = {"Authorization": "Bearer " + m.post("/tokens", {"user": "nobody", "role": "user"}).json["token"]}
                job = m.post("/jobs", {"run": "id -un", "gpus": 1, "dir": "/"}, headers=theirs).json["id"]
                ok(m.wait_state(job, "COMPLETED" if enters else "FAILED"), "mode %o: and it is so" % mode, m.get("/jobs/%d" % job))


def main():
    if os.geteuid() != 0:
        print("1..0 # SKIP jobs of several users need root")
        return
    tried_out()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        lab = Lab(folder)
        lab.configure("vcs: {default: {quota: {H100: 4}}, nlp: {quota: {H100: 0}}, cv: {quota: {H100: 0}}}\n")
        lab.start()
        agent = None
        try:
            subprocess.run([os.path.join(BUILD, "muster-agent"), "join", "https://localhost:%d" % lab.port, lab.join_token, "--node", "n1", "--state",
                            folder + "/node"], check=True, capture_output=True)
            agent = agent_run(lab, folder + "/node")
            until(lambda: any(n["connected"] for n in lab.json("GET", "/nodes", token=lab.admin)["items"]))
            user, viewer = handing_on(lab), token(lab, user="nobody", role="viewer")
            theirs, job = victim(lab)
            prying(lab, user, viewer, job)
            as_another(lab, user, folder)
            evil_node(lab, folder, job, theirs)
            lab.told("DELETE", "/jobs/%d?now=1" % job, token=theirs)
            lab.stop()
            lab.configure("auth: {privacy: sizes}\nvcs: {default: {quota: {H100: 4}}, nlp: {quota: {H100: 0}}, cv: {quota: {H100: 0}}}\n")
            lab.start()
            theirs, array = nameless(lab, user)
            lab.stop()
            lab.configure("auth: {privacy: none}\nvcs: {default: {quota: {H100: 4}}, nlp: {quota: {H100: 0}}, cv: {quota: {H100: 0}}}\n")
            lab.start()
            unseen(lab, user, theirs, array)
        finally:
            lab.end(agent)
    done()


if __name__ == "__main__":
    main()
