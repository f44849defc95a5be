#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster as it is installed: init, TLS, tokens and roles, a node that joins, reload, restart; and who is kept out."""
import http.client
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import time

from cluster import BUILD, MUSTERD, Answer, Installed, done, drain, ok


class Lab(Installed):
    def __init__(self, folder):
        super().__init__(folder, hosts="localhost,127.0.0.1")
        self.sock = folder + "/musterd.sock"
        again = subprocess.run([MUSTERD, "init", "--dir", self.etc, "--state", self.var], capture_output=True, text=True)
        ok(again.returncode == 5 and "already" in again.stderr, "a second init changes nothing", again)
        ok(all(os.stat(self.etc + "/" + f).st_mode & 0o077 == 0 for f in ("ca.key", "server.key", "admin.token")),
           "keys and the token are for the owner alone")
        deep = folder + "/not/there/yet"
        made = subprocess.run([MUSTERD, "init", "--dir", deep + "/etc", "--state", deep + "/var/"], capture_output=True, text=True)
        ok(made.returncode == 0 and os.path.exists(deep + "/etc/muster.yaml") and os.path.isdir(deep + "/var"), "folders are made", made)
        self.configure("")

    def configure(self, more):
        super().configure('listen: ["127.0.0.1:%d", %s]\nlease: {time: 30s, node_timeout: 10s, beat: 500ms}\n%s' %
                          (self.port, self.sock, more))

    def told(self, *args, **more):
        """Status and what was said."""
        reply = self.ask(*args, **more)
        return Answer(reply.status, dict(reply.getheaders()), reply.body)

    def json(self, *args, **more):
        return json.loads(self.ask(*args, **more).body)


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def people(lab):
    ok(lab.ask("GET", "/jobs").status == 401, "without a token: 401")
    ok(lab.ask("GET", "/jobs", token="mus_" + "a" * 43).status == 401, "with a made-up one: 401")
    ok(lab.json("GET", "/whoami", token=lab.admin)["role"] == "admin", "the admin's token")
    viewer = lab.json("POST", "/tokens", {"user": "nobody", "role": "viewer"}, token=lab.admin)["token"]
    user = lab.json("POST", "/tokens", {"user": "nobody", "role": "user"}, token=lab.admin)["token"]
    short = lab.json("POST", "/tokens", {"user": "nobody", "role": "user", "expires_seconds": 1}, token=lab.admin)["token"]
    read = lab.json("POST", "/tokens", {"user": "nobody", "role": "user", "scope": "read"}, token=lab.admin)["token"]
    ok(lab.ask("GET", "/jobs", token=viewer).status == 200, "a viewer reads")
    ok(lab.ask("POST", "/jobs", {"run": "true"}, token=viewer).status == 403, "but does not submit")
    ok(lab.ask("POST", "/jobs", {"run": "true"}, token=read).status == 403, "nor does a token for reading")
    for method, path, body in (("PATCH", "/nodes/n1", {"drain": True, "reason": "x"}), ("PUT", "/config", {}),
                               ("PATCH", "/scheduler", {"paused": True}), ("DELETE", "/nodes/n1", None)):
        ok(lab.ask(method, path, body, token=user).status == 403, "a user may not %s %s" % (method, path))
    ok(lab.ask("POST", "/tokens", {"user": "root", "role": "admin"}, token=user).status == 403, "nor become an admin")
    ok(lab.ask("POST", "/tokens", {"join": True}, token=user).status == 403, "nor let nodes in")
    listed = lab.json("GET", "/tokens", token=user)["items"]
    ok(listed and all(t["user"] == "nobody" and "hash" not in t for t in listed), "sees the own tokens, never a secret")
    mine = lab.json("POST", "/tokens", {"role": "user"}, token=user)
    ok(lab.ask("DELETE", "/tokens/" + mine["id"], token=user).status == 204, "takes one back")
    ok(lab.ask("GET", "/whoami", token=mine["token"]).status == 401, "which is worth nothing then")
    time.sleep(1.1)
    ok(lab.ask("GET", "/whoami", token=short).status == 401, "a token expires")
    with open(lab.var + "/" + sorted(os.listdir(lab.var))[0], "rb") as f:
        ok(user.encode() not in f.read(), "tokens are not in the store")
    local = Unix(lab.sock)
    local.request("GET", "/api/v1/whoami")
    who = json.loads(local.getresponse().read())
    ok(who["via"] == "socket" and who["uid"] == os.geteuid(), "on the Unix socket the kernel tells who it is", who)
    return user


def agent_run(lab, folder, *more):
    """Where and who it is, it knows from having joined."""
    return subprocess.Popen([os.path.join(BUILD, "muster-agent"), "--state", folder, "--fake", "4:H100", "--allow-root", "--log-level", "warn", *more],
                            stderr=subprocess.DEVNULL)


def upgrade(lab, cert=None):
    s = lab.context(cert).wrap_socket(socket.create_connection(("127.0.0.1", lab.port), 10), server_hostname="localhost")
    s.sendall(b"GET /agent/v1 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: muster-agent\r\n\r\n")
    head = b""
    while b"\r\n\r\n" not in head:
        data = s.recv(4096)
        if not data:
            break
        head += data
    return s, head


def joining(lab, folder):
    url = "https://localhost:%d" % lab.port
    join = [os.path.join(BUILD, "muster-agent"), "join", url]
    secret, pin = lab.join_token.split(".")
    wrong = subprocess.run(join + [secret + "." + "0" * 64, "--node", "n1", "--state", folder], capture_output=True, text=True)
    ok(wrong.returncode != 0, "an agent does not give its token to a stranger", wrong)
    done_ = subprocess.run(join + [lab.join_token, "--node", "n1", "--state", folder], capture_output=True, text=True)
    ok(done_.returncode == 0, "a node joins", done_)
    again = subprocess.run(join + [lab.join_token, "--node", "n2", "--state", folder + "2"], capture_output=True, text=True)
    ok(again.returncode != 0, "a join token that was used is worth nothing", again)
    ok(lab.ask("GET", "/jobs", token=lab.join_token).status == 401, "and is none of a person's")
    other = lab.json("POST", "/tokens", {"join": True}, token=lab.admin)["token"]
    ok(lab.ask("GET", "/jobs", token=other).status == 403, "a join token reads nothing")
    ok(lab.ask("POST", "/join", {"node": "../x", "csr": "x"}, token=other).status == 400, "names of nodes are names")
    ok(lab.ask("POST", "/join", {"node": "n3", "csr": "garbage"}, token=other).status == 400, "a request that is none")
    ok(lab.ask("POST", "/join", {"node": "n3", "csr": "garbage"}, token=other).status == 401, "uses its token up all the same")
    for nodes in (0, 10001, "2"):
        ok(lab.ask("POST", "/tokens", {"join": True, "nodes": nodes}, token=lab.admin).status == 400, "not for %r nodes" % nodes)
    ok(lab.ask("POST", "/tokens", {"nodes": 2}, token=lab.admin).status == 400, "nor for nodes that are not to join")
    rack = lab.json("POST", "/tokens", {"join": True, "nodes": 2}, token=lab.admin)["token"]
    left = lambda: [t["nodes"] for t in lab.json("GET", "/tokens", token=lab.admin)["items"] if "nodes" in t]
    ok(left() == [2], "a token for two nodes", left())
    ok(lab.ask("POST", "/join", {"node": "n3", "csr": "garbage"}, token=rack).status == 400 and left() == [1], "the first comes")
    ok(lab.ask("POST", "/join", {"node": "n4", "csr": "garbage"}, token=rack).status == 400 and left() == [], "and the second")
    ok(lab.ask("POST", "/join", {"node": "n5", "csr": "garbage"}, token=rack).status == 401, "no third")
    s, head = upgrade(lab)
    ok(b" 401 " in head, "an agent without certificate is not let in", head)
    s.close()
    found = [os.path.join(d, f) for d, _, files in os.walk(folder) for f in files]
    cert = [f for f in found if f.endswith((".crt", ".pem")) and "ca" not in os.path.basename(f) and "key" not in f]
    key = [f for f in found if "key" in os.path.basename(f)]
    if ok(cert and key, "it has a certificate and a key", found):
        s, head = upgrade(lab, (cert[0], key[0]))
        ok(b" 101 " in head, "with them it is let in", head)
        hello = json.dumps({"t": "hello", "v": 1, "node": "n9", "agent": "a", "boot": "b", "inventory": {}}).encode()
        s.sendall(struct.pack(">I", len(hello)) + hello)
        s.settimeout(5)
        ok(drain(s)[4:] == b'{"t":"bye","why":"its certificate is for n1, it says n9"}', "but not under another name, and told so")
        s.close()


def until(condition, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def others(lab, user):
    job = lab.json("POST", "/jobs", {"name": "secret", "run": "echo private; sleep 30", "gpus": 1, "env": {"KEY": "s3cret"}},
                   token=lab.admin)["id"]
    path = "/jobs/%d" % job
    ok(until(lambda: lab.json("GET", path, token=lab.admin)["state"] == "RUNNING"), "a job runs on it",
       lab.ask("GET", path, token=lab.admin).body)
    seen = lab.ask("GET", path, token=user)
    ok(b"s3cret" not in seen.body and json.loads(seen.body)["spec"] is None, "others do not see command or environment")
    ok(lab.ask("GET", path + "/logs", token=user).status == 403, "nor output")
    ok(lab.ask("DELETE", path, token=user).status == 403, "nor cancel it")
    ok(lab.ask("POST", path + "/hold", token=user).status == 403, "nor hold it")
    ok(lab.ask("PATCH", path, {"priority": 1}, token=user).status == 403, "nor change it")
    ok(lab.ask("GET", path + "/exec?cmd=id", token=user).status == 403, "nor enter it")
    ok(lab.ask("GET", path + "/forward/8888", token=user).status == 403, "nor reach its ports")
    batch = lab.json("POST", "/jobs:batch", {"action": "cancel", "ids": [job]}, token=user)
    ok(batch["items"][0]["status"] == 403, "nor in a batch", batch)
    ok(b"s3cret" not in lab.ask("GET", "/history", token=user).body, "nor in the history")
    own = lab.ask("POST", "/jobs", {"run": "id -un", "gpus": 1, "dir": "/tmp"}, token=user)
    number = json.loads(own.body).get("id", 0)
    ok(own.status == 201 and until(lambda: lab.json("GET", "/jobs/%d" % number, token=user)["state"] not in
                                   ("PENDING", "STARTING", "RUNNING", "COMPLETING")), "a user's own job runs", own.body)
    ok(lab.ask("GET", "/jobs/%d/logs" % number, token=user).body == b"nobody\n", "as that user",
       (lab.ask("GET", "/jobs/%d/logs" % number, token=user).body, lab.ask("GET", "/jobs/%d" % number, token=user).body))
    return job


def following(lab, user):
    """Somebody waits for a job and its output; the controller dies, the job ends meanwhile, the controller comes back."""
    env = dict(os.environ, MUSTER_URL="https://localhost:%d" % lab.port, MUSTER_TOKEN=user, MUSTER_CACERT=lab.etc + "/ca.crt")
    waiting = subprocess.Popen([os.path.join(BUILD, "muster"), "run", "-D", "/", "-J", "followed", "--", "sh", "-c",
                                "echo first; sleep 2; seq 1 300000; exit 3"], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    first = waiting.stdout.readline()
    ok(first == "first\n", "output comes", (first, lab.log()))
    lab.stop(signal.SIGKILL)
    time.sleep(2.5)
    lab.start()
    out, err = waiting.communicate(timeout=90)
    ok(waiting.returncode == 3 and out == "".join("%d\n" % i for i in range(1, 300001)), "all of it, in spite of that",
       (waiting.returncode, len(out), err))


def join(lab, token, node, folder, host="localhost"):
    return subprocess.run([os.path.join(BUILD, "muster-agent"), "join", "https://%s:%d" % (host, lab.port), token, "--node", node,
                           "--state", folder], capture_output=True, text=True)


def again(lab, folder):
    """The name of a node that is known is given for a token of that node alone, and what it had before is worth nothing."""
    elsewhere = tempfile.mkdtemp()
    any_name = lab.json("POST", "/tokens", {"join": True, "nodes": 10}, token=lab.admin)["token"]
    r = join(lab, any_name, "n1", folder)
    ok(r.returncode != 0 and "another machine" in r.stderr, "a token for new nodes does not give the name of one that is known", r)
    ok(lab.ask("POST", "/nodes/nothere/rejoin", token=lab.admin).status == 404, "a node that is not there does not come again")
    made = lab.json("POST", "/nodes/n1/rejoin", token=lab.admin)
    ok(made["scope"] == "rejoin:n1", "a token for this node", made)
    r = join(lab, made["token"], "n7", elsewhere)
    ok(r.returncode != 0 and "for the node n1" in r.stderr, "which is for no other", r)
    r = join(lab, made["token"], "n1", folder)
    ok(r.returncode == 0, "it joins again", r)
    r = join(lab, made["token"], "n1", elsewhere)
    ok(r.returncode != 0, "once", r)
    made = lab.json("POST", "/nodes/n1/rejoin", token=lab.admin)
    ok(join(lab, made["token"], "n1", elsewhere).returncode == 0, "another machine takes its place")
    s, head = upgrade(lab, (folder + "/node.crt", folder + "/node.key"))
    ok(b" 401 " in head, "and the certificate of the first one is worth nothing, without a command", head)
    s.close()
    made = lab.json("POST", "/nodes/n1/rejoin", token=lab.admin)
    ok(join(lab, made["token"], "n1", folder).returncode == 0, "nor after the change back")
    s, head = upgrade(lab, (elsewhere + "/node.crt", elsewhere + "/node.key"))
    ok(b" 401 " in head, "that of the second", head)
    s.close()
    some = lab.json("POST", "/tokens", {"join": True, "nodes": 10, "names": "m[01-02],t*"}, token=lab.admin)
    ok(some["scope"] == "names:m[01-02],t*", "a token for some names", some)
    for name, good in (("m01", True), ("m03", False), ("test7", True), ("xt", False)):
        r = join(lab, some["token"], name, tempfile.mkdtemp())
        ok((r.returncode == 0) == good and (good or "for nodes named" in r.stderr), "%s: %s" % (name, good), r)
    for names in ("", "a b", "m[", 5, "n" * 60, "../x"):
        ok(lab.ask("POST", "/tokens", {"join": True, "names": names}, token=lab.admin).status == 400, "no names: %s" % names)
    ok(lab.ask("POST", "/tokens", {"names": "m1"}, token=lab.admin).status == 400, "names are of tokens for nodes")
    r = join(lab, any_name, "n8", elsewhere, host="[::ffff:127.0.0.1]")
    ok(r.returncode != 0 and "certificate is not for ::ffff" in r.stderr, "a controller called by a name that it is not certified for", r)


def revoking(lab, folder):
    """A node whose key is in wrong hands."""
    ok(lab.ask("DELETE", "/nodes/n1", token=lab.admin).status == 409, "a node that is there is not forgotten")
    ok(lab.ask("DELETE", "/nodes/n1?revoke=1", token=lab.admin).status == 204, "but its certificate is revoked")
    cert = (folder + "/node.crt", folder + "/node.key")
    s, head = upgrade(lab, cert)
    ok(b" 401 " in head, "which does not let anybody in any more", head)
    s.close()
    ok(until(lambda: not lab.json("GET", "/nodes/n1", token=lab.admin)["connected"]), "it is cut off")
    lab.stop(signal.SIGKILL)
    lab.start()
    s, head = upgrade(lab, cert)
    ok(b" 401 " in head, "nor after a restart of the controller", head)
    s.close()
    time.sleep(1.1)  # certificates count in seconds
    again(lab, folder)
    s, head = upgrade(lab, cert)
    ok(b" 101 " in head, "and is let in", head)
    s.close()
    ok(until(lambda: lab.json("GET", "/nodes/n1", token=lab.admin)["connected"]), "as is its agent, which reads it anew")


def main():
    if os.geteuid() != 0:
        print("1..0 # SKIP jobs of several users need root")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        lab = Lab(folder)
        lab.start()
        agent = None
        try:
            user = people(lab)
            joining(lab, folder + "/node")
            agent = agent_run(lab, folder + "/node")
            ok(until(lambda: any(n["connected"] for n in lab.json("GET", "/nodes", token=lab.admin)["items"])),
               "the agent connects over mutual TLS", lab.log())
            job = others(lab, user)
            lab.configure("vcs: {default: {quota: {H100: 4}}, extra: {quota: {H100: 0}}}\nauth: {admins: [root, nobody]}\n")
            lab.process.send_signal(signal.SIGHUP)
            ok(until(lambda: b"reloaded" in lab.log().encode()), "SIGHUP reloads", lab.log())
            ok(lab.stop(signal.SIGKILL) == -9, "kill -9")
            lab.start()
            ok(until(lambda: lab.json("GET", "/jobs/%d" % job, token=lab.admin)["state"] == "RUNNING"),
               "the job still runs after it", lab.ask("GET", "/jobs/%d" % job, token=lab.admin).body)
            ok(lab.ask("GET", "/whoami", token=user).status == 200, "tokens are still good")
            lab.ask("DELETE", "/jobs/%d?now=1" % job, token=lab.admin)
            ok(until(lambda: lab.json("GET", "/jobs/%d" % job, token=lab.admin)["state"] == "CANCELLED"),
               "and is cancelled", lab.ask("GET", "/jobs/%d" % job, token=lab.admin).body)
            following(lab, user)
            revoking(lab, folder + "/node")
        finally:
            lab.end(agent)
    done()


if __name__ == "__main__":
    main()
