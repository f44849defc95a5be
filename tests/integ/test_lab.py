#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster as a lab installs it: init, TLS, two agents; what its administrator and its researchers do in the first week."""
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

from cluster import AGENT, MUSTER, MUSTERD, Installed, done, ok

# What torchrun does with these variables, less the arithmetic: rank 0 listens, all meet there, and the sum goes round.
MEET = r"""
import os, socket, sys, time
env = os.environ
rank, world = int(env["RANK"]), int(env["WORLD_SIZE"])
host, port = env["MASTER_ADDR"], int(env["MASTER_PORT"])
total = rank
if rank == 0:
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    peers = [listener.accept()[0] for _ in range(world - 1)]
    seen = {0}
    for peer in peers:
        other = int(peer.recv(16))
        seen.add(other)
        total += other
    assert seen == set(range(world)), seen
    for peer in peers:
        peer.sendall(b"%d" % total)
else:
    for _ in range(200):
        try:
            peer = socket.create_connection((host, port), 20)
            break
        except OSError:
            time.sleep(0.05)
    peer.sendall(b"%d" % rank)
    total = int(peer.recv(16))
print("rank %d of %d local %s of %s node %s: %d" %
      (rank, world, env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"], env["NODE_RANK"], total))
"""


class Lab(Installed):
    """One controller and its agents in a folder; `clients` is where people keep what they log in with."""

    def __init__(self, folder, name="lab", clients=None, nodes=("n1", "n2")):
        super().__init__(folder, "--nodes", "8", name=name)
        self.nodes, self.agents = nodes, {}
        self.url = "https://localhost:%d" % self.port
        self.env = dict(os.environ, MUSTER_CONFIG=(clients or folder) + "/muster.yaml", HOME=folder)
        for key in ("MUSTER_URL", "MUSTER_TOKEN", "MUSTER_CONTEXT"):
            self.env.pop(key, None)
        self.configure('listen: [":%d"]\nlease: {time: 30s, node_timeout: 5s, beat: 500ms}\n' % self.port)

    def login(self):
        return self.muster("login", self.url, "--name", self.name, "--ca", self.etc + "/ca.crt", "--token", "-", data=self.admin)

    def join(self):
        for node in self.nodes:
            r = subprocess.run([AGENT, "join", self.url, self.join_token, "--node", node, "--state", self.folder + "/" + node],
                               capture_output=True, text=True)
            ok(r.returncode == 0, "%s: %s joins" % (self.name, node), r)
            self.agent(node)

        for more in (["--fake", "4:H100"], ["--label", "rack=r1"]):
            r = subprocess.run([AGENT, "join", self.url, self.join_token, *more], capture_output=True, text=True)
            ok(r.returncode == 2 and more[0][2:] in r.stderr, "%s is not for join, and it says so" % more[0], r)
        for wrong, told in (("--fkae", "no such flag: --fkae"), ("--node", "needs a value: --node")):
            r = subprocess.run([AGENT, wrong], capture_output=True, text=True)
            ok(r.returncode == 2 and told in r.stderr, "muster-agent %s: %s" % (wrong, told), r)

    def agent(self, node):
        with open("%s/%s.log" % (self.folder, node), "ab") as log:
            self.agents[node] = subprocess.Popen([AGENT, "--state", self.folder + "/" + node, "--fake", "4:H100", "--allow-root",
                                                  "--no-sync"], stdout=log, stderr=log)

    def muster(self, *words, data=None):
        return subprocess.run([MUSTER] + [str(w) for w in words], env=self.env, capture_output=True, text=True, input=data,
                              timeout=60)

    def json(self, *words):
        r = self.muster(*words, "--json")
        return json.loads(r.stdout) if r.returncode == 0 else {"error": r.stderr}

    def until(self, condition, seconds=40):
        end = time.time() + seconds
        while time.time() < end:
            if condition():
                return True
            time.sleep(0.05)
        return False

    def state(self, job):
        return self.json("show", job).get("state")

    def connected(self):
        return sum(n["connected"] for n in self.json("nodes").get("items", []))


def both_kinds(lab):
    """":PORT" is every address of the machine, of IPv6 too where there is one."""
    kinds = [(socket.AF_INET, "127.0.0.1")]
    if os.path.exists("/proc/net/if_inet6") and "00000000000000000000000000000001" in open("/proc/net/if_inet6").read():
        kinds.append((socket.AF_INET6, "::1"))
    for kind, address in kinds:
        with socket.socket(kind) as s:
            ok(s.connect_ex((address, lab.port)) == 0, "it listens on %s" % address, lab.log())
    if len(kinds) == 2:
        context = ssl.create_default_context(cafile=lab.folder + "/etc/ca.crt")
        with socket.create_connection(("::1", lab.port), 10) as plain, context.wrap_socket(plain, server_hostname="::1") as s:
            ok(s.version() is not None, "and its certificate knows that address")


def words_of_vcs(lab):
    """What is wrong with a virtual cluster is told by its keys, not by a place in a text that nobody wrote."""
    for words, told in ((["quota.H100=99"], "vcs: virtual clusters are owed 99 GPUs of type H100, the cluster has 8"),
                        (["quota.H100=-1"], "vcs.nlp.quota.H100: expected a whole number from 0 to 4194304, got '-1'"),
                        (["quota.A100=4"], "vcs.nlp.quota.A100: 'A100' is not among the skus; did you mean 'H100'?"),
                        (["quota.H100=4", "borrow=zz"],
                         "vcs.nlp.borrow: expected none, all, a number of GPUs, or a share such as 50%"),
                        (["quota.H100=4", "max_user_gpus=-2"],
                         "vcs.nlp.max_user_gpus: expected a whole number from 1 to 4194304, got '-2'")):
        r = lab.muster("vc", "create", "nlp", *words)
        ok(r.returncode == 2 and r.stderr == "muster: error: %s [InvalidSpec]\n" % told, "vc create %s" % " ".join(words), r)


def gang(lab):
    """One process a GPU on two nodes; each finds the others by the variables alone, and they add up."""
    script = lab.folder + "/meet.py"
    with open(script, "w") as f:
        f.write(MEET)
    r = lab.muster("run", "-N", "2", "--ntasks-per-node=4", "--gpus-per-task=1", "--", sys.executable, script)
    lines = sorted(re.findall(r"rank .*", r.stdout))
    wanted = ["rank %d of 8 local %d of 4 node %d: 28" % (n, n % 4, n // 4) for n in range(8)]
    ok(r.returncode == 0 and lines == wanted, "eight ranks on two nodes meet at MASTER_ADDR:MASTER_PORT", r)
    r = lab.muster("run", "-N", "2", "--gpus-per-node=4", "--", "sh", "-c",
                   'echo "$PET_NNODES $PET_NODE_RANK $PET_NPROC_PER_NODE $PET_RDZV_BACKEND ${RANK-torchrun} '
                   '$([ "$PET_MASTER_ADDR" = "$MASTER_ADDR" ] && echo same) $(cat $MUSTER_HOSTFILE | wc -l)"')
    lines = sorted(re.findall(r"2 .*", r.stdout))
    ok(lines == ["2 0 4 static torchrun same 2", "2 1 4 static torchrun same 2"], "torchrun needs no flags", r)


def again_or_not(lab):
    """A time to begin at; and who is to blame for an end decides whether there is another try."""
    job = lab.json("submit", "-G", "1", "--begin", "2s", "--wrap", "true")
    reason = lab.json("show", job["id"])["reason"]
    ok(reason and reason["code"] == "BeginTime", "it waits for its time", reason)
    ok(lab.until(lambda: lab.state(job["id"]) == "COMPLETED"), "and runs then", lab.json("show", job["id"]))
    for what, run, more, attempts, end in (
            ("the user's error is not retried", "exit 1", [], 1, "FAILED"),
            ("a crash of its own neither", "kill -SEGV $$", [], 1, "FAILED"),
            ("but a code that was named is", '[ "$MUSTER_ATTEMPT" = 1 ] || exit 7', ["--retry-on", "7"], 2, "COMPLETED"),
            ("and what somebody killed", '[ "$MUSTER_ATTEMPT" = 1 ] || kill -KILL $$', [], 2, "COMPLETED")):
        job = lab.json("submit", "-G", "1", "--retries", "1", *more, "--wrap", run)["id"]
        ok(lab.until(lambda: lab.state(job) == end) and lab.json("show", job)["attempt"] == attempts - 1, what, lab.json("show", job))


# Saves itself when it is told to leave, and tells what it was told.
SAVES = """trap 'cat "$MUSTER_NOTICE_FILE"; exit 85' TERM
echo "attempt $MUSTER_ATTEMPT on $MUSTER_HOSTS"
while [ ! -e %s ]; do sleep 0.1; done
"""


def gang_drained(lab):
    """A node is drained that holds half of a gang: all of it is told, leaves, and goes on when there is room for all."""
    gate = lab.folder + "/gate"
    job = lab.json("submit", "-J", "half", "-N", "2", "--gpus-per-node=2", "--wrap", SAVES % gate)["id"]
    ok(lab.until(lambda: lab.state(job) == "RUNNING"), "a gang runs on both nodes", lab.json("show", job))
    r = lab.muster("node", "drain", "n2", "--reason", "new cable", "--deadline", "1s")
    ok(r.returncode == 0, "one of them is drained", r)
    ok(lab.until(lambda: lab.state(job) == "PENDING"), "the whole gang leaves", lab.json("show", job))
    why = lab.json("why", job)
    ok(why["receipt"]["step"] == "drain" and why["receipt"]["lost_gpu_seconds"] == 0,
       "it saved itself, and has lost nothing", why["receipt"])
    ok(lab.until(lambda: lab.json("gpus")["items"][0]["used"] == 0), "no GPU stays taken", lab.json("gpus"))
    first = lab.muster("logs", "--attempt", "0", job).stdout
    ok('"kind":"drain"' in first, "it was told why before the signal", first)
    lab.muster("node", "resume", "n2")
    ok(lab.until(lambda: lab.state(job) == "RUNNING"), "and runs again when the node is back", why)
    open(gate, "w").close()
    ok(lab.until(lambda: lab.state(job) == "COMPLETED"), "to its end", lab.json("show", job))


def two_contexts(lab, other):
    """Two clusters in one file: each is asked by name, and neither knows the other's jobs."""
    r = other.login()
    ok(r.returncode == 0, "a second cluster, the same person", r)
    lines = lab.muster("context", "--no-header").stdout.split("\n")
    ok(sum(line.startswith("*") for line in lines) == 1 and "second" in [x for x in lines if x.startswith("*")][0],
       "the last one is the one that is asked", lines)
    r = lab.muster("context", lab.name)
    ok(r.returncode == 0 and lab.json("cluster", "status").get("cluster") == lab.name, "chosen", r)
    ok(lab.json("cluster", "status", "--context", "second").get("cluster") == "second", "or named")
    other.env["MUSTER_CONTEXT"] = "second"
    ok(other.json("cluster", "status").get("cluster") == "second", "or by MUSTER_CONTEXT")
    r = lab.muster("--context", "second", "nodes")
    ok(r.returncode == 2 and "hint: muster VERB --context" in r.stderr, "a flag before the verb: where it belongs", r)
    r = lab.muster("nodes", "--context", "third")
    ok(r.returncode == 3 and "third" in r.stderr, "one that is not there", r)


def by_hand(lab):
    """Virtual clusters that were made, or closed, by hand do not keep the file from being read again."""
    def file(gpus):
        with open(lab.folder + "/etc/conf.d/vcs.yaml", "w") as f:
            f.write("vcs:\n  default: {quota: {H100: %d}}\n" % gpus)
        return lab.muster("config", "reload")

    guarantees = lambda: {v["name"]: v["guarantee"].get("H100") for v in lab.json("vc")["items"]}
    ok(file(4).returncode == 0 and lab.until(lambda: guarantees() == {"default": 4}), "as the file says", guarantees())
    for words in (["create", "made", "quota.H100=2"], ["create", "gone", "quota.H100=1"], ["rm", "gone"]):
        r = lab.muster("vc", *words)
        ok(r.returncode == 0, "vc " + " ".join(words), r)
    ok(file(5).returncode == 0 and lab.until(lambda: guarantees() == {"default": 5, "made": 2}),
       "the file is read again, and what was made stays", (guarantees(), lab.log()))


def certificate_over(lab):
    """A node's certificate is over: it says so, its job runs on, and joining again under its name is all that is needed."""
    gate, etc, node = lab.folder + "/gate3", lab.folder + "/etc", lab.folder + "/n1"
    job = lab.json("submit", "-G", "1", "-w", "n1", "--wrap", "while [ ! -e %s ]; do sleep 0.1; done" % gate)["id"]
    ok(lab.until(lambda: lab.state(job) == "RUNNING"), "a job runs on it")
    lab.agents["n1"].terminate()
    lab.agents["n1"].wait(30)
    for words in (["req", "-new", "-key", node + "/node.key", "-subj", "/CN=n1", "-out", node + "/old.csr"],
                  ["x509", "-req", "-in", node + "/old.csr", "-CA", etc + "/ca.crt", "-CAkey", etc + "/ca.key", "-CAcreateserial",
                   "-days", "0", "-out", node + "/node.crt"]):
        made = subprocess.run(["openssl"] + words, capture_output=True, text=True)
        ok(made.returncode == 0, "openssl " + words[0], made)
    time.sleep(1.1)
    lab.agent("n1")
    said = lambda: open(lab.folder + "/n1.log").read()
    ok(lab.until(lambda: "expired" in said()), "it says that its certificate has expired", said()[-800:])
    token = lab.json("node", "rejoin", "n1")["token"]
    r = subprocess.run([AGENT, "join", lab.url, token, "--node", "n1", "--state", node], capture_output=True, text=True)
    ok(r.returncode == 0, "it joins again while the agent tries on", r)
    ok(lab.until(lambda: lab.connected() == 2), "and is back", said()[-800:])
    ok(lab.state(job) == "RUNNING", "with its job", lab.json("show", job))
    open(gate, "w").close()
    ok(lab.until(lambda: lab.state(job) == "COMPLETED"), "which ends well", lab.json("show", job))


def elsewhere(lab, folder):
    """The controller's machine burns down while jobs run. A backup is restored on another one."""
    gate = lab.folder + "/gate2"
    wait = "echo %%s; while [ ! -e %s ]; do sleep 0.1; done; echo end" % gate
    kept = lab.json("submit", "-G", "2", "--wrap", wait % "kept")["id"]
    ok(lab.until(lambda: lab.state(kept) == "RUNNING"), "a job runs")
    ok(lab.muster("cluster", "backup", folder + "/lab.backup").returncode == 0, "a backup")
    lost = lab.json("submit", "-G", "1", "-w", "n2", "--wrap", wait % "secret")["id"]
    ended = lab.json("submit", "-G", "1", "-w", "n2", "--wrap", "echo nor this")["id"]
    ok(lab.until(lambda: lab.state(lost) == "RUNNING" and lab.state(ended) == "COMPLETED"), "jobs it does not know")
    lab.stop(signal.SIGKILL)
    shutil.rmtree(lab.folder + "/var")
    r = subprocess.run([MUSTERD, "restore", folder + "/lab.backup", "--state", folder + "/there"], capture_output=True, text=True)
    ok(r.returncode == 0, "restored elsewhere", r)
    lab.start(folder + "/there")
    ok(lab.until(lambda: lab.connected() == 2), "the nodes find it", lab.log())
    ok(lab.state(kept) == "RUNNING", "the job of the backup runs on", lab.json("show", kept))
    again = [lab.json("submit", "-G", "1", "-w", "n2", "--wrap", "echo mine")["id"] for _ in range(2)]
    ok(again == [lost, ended], "numbers are given again that it does not know to be taken", again)
    ok(lab.until(lambda: all(lab.state(j) == "COMPLETED" for j in again)), "their jobs run", [lab.json("show", j) for j in again])
    logs = [lab.muster("logs", j).stdout for j in again]
    ok(logs == ["mine\n", "mine\n"], "and nobody finds what others of that number wrote", logs)
    open(gate, "w").close()
    ok(lab.until(lambda: lab.state(kept) == "COMPLETED"), "the first ends well", lab.json("show", kept))
    ok(lab.muster("logs", kept).stdout == "kept\nend\n", "with all of its output", lab.muster("logs", kept))


def main():
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(folder + "/lab")
        try:
            lab.start()
            r = lab.login()
            ok(r.returncode == 0, "its administrator logs in", r)
            lab.join()
            ok(lab.until(lambda: lab.connected() == 2), "two nodes", lab.log())
            both_kinds(lab)
            words_of_vcs(lab)
            gang(lab)
            again_or_not(lab)
            gang_drained(lab)
            other = Lab(folder + "/second", "second", folder + "/lab", ())
            try:
                other.start()
                two_contexts(lab, other)
            finally:
                other.end()
            by_hand(lab)
            certificate_over(lab)
            elsewhere(lab, folder)
        finally:
            lab.end(*lab.agents.values())
    done()


main()
