# SPDX-License-Identifier: Apache-2.0
"""From `make install` to a cluster: a controller, a node that joins it, people by the socket and by tokens."""
import json
import re

from machine import content, muster, ok, run, say, shell, until


def versions():
    for command in ("uname -r", "cat /etc/debian_version", "systemctl --version | head -n 1", "podman --version", "crun --version | head -n 1",
                    "runc --version | head -n 1"):
        say("# %s: %s" % (command.split()[0], shell(command).strip()))


def install():
    """musterd init, the units, a node that joins by TLS"""
    versions()
    ok(shell("stat -f -c %T /sys/fs/cgroup").strip() == "cgroup2fs", "control groups of version 2, and no others")
    ok("muster:" in content("/etc/passwd"), "the controller's user is there", content("/etc/passwd"))
    verified = shell("systemd-analyze verify --man=no musterd.service muster-agent.service")
    ok("muster" not in verified, "systemd has nothing to say about the units", verified)
    # What jobs inherit from the agent's unit is theirs to do without: it is not confined, and its rating says so.
    for unit, most in (("musterd", 2.0), ("muster-agent", 9.6)):
        rated = re.search(r"exposure level for %s.service: ([0-9.]+)" % unit, shell("systemd-analyze security --no-pager %s.service" % unit))
        ok(rated is not None and float(rated.group(1)) <= most, "systemd rates %s: %s, at most %s" % (unit, rated and rated.group(1), most))
    made = shell("musterd init --hosts node1,localhost --nodes 1")
    joins = re.search(r"muster-agent (join \S+ \S+)", made)
    if not ok(joins is not None, "musterd init tells how to join", made):
        return
    started = shell("systemctl enable --now musterd")
    ok(shell("systemctl is-active musterd").strip() == "active", "the controller's unit is active", started + shell("journalctl -u musterd"))
    ok(shell("ps -o user= -C musterd").strip() == "muster", "as its own user")
    ok(shell("stat -c '%a %U' /var/lib/muster").strip() == "700 muster", "its state is nobody else's")
    joined = shell("muster-agent " + joins.group(1))
    ok("Joined as node1" in joined, "the node joins over TLS", joined)
    again = shell("muster-agent " + joins.group(1) + " --node other --state /tmp/other")
    ok("Joined" not in again, "its token was for one node", again)
    shell("systemctl enable --now muster-agent")
    ok(shell("systemctl is-active muster-agent").strip() == "active", "the agent's unit is active", shell("journalctl -u muster-agent"))
    ok(until(lambda: "idle" in muster("root", "nodes").stdout), "the node is there", muster("root", "nodes"))
    node = json.loads(muster("root", "node", "show", "--json", "node1").stdout)
    ok(node["gpus"] == 4 and node["sku"] == "H100" and not node["fake"], "with four GPUs", node)
    ok({"devices", "cpu", "memory", "kill", "freeze"} <= set(node["fences"]), "everything is enforced", node["fences"])
    ok(set(node["runtimes"]) == {"runc", "podman"}, "both runtimes are offered", node["runtimes"])
    doctor = muster("root", "doctor")
    ok(doctor.returncode == 0 and "error" not in doctor.stdout, "muster doctor is content", doctor)


def people():
    """ann by the socket, bob by a token over TLS"""
    who = muster("ann", "whoami")
    ok(who.returncode == 0 and "ann" in who.stdout, "ann is known by the socket", who)
    token = muster("root", "token", "new", "--user", "bob", "--role", "user").stdout.split()[-1]
    shell("install -m 644 /etc/muster/ca.crt /usr/local/share/muster-ca.crt")
    env = {"MUSTER_URL": "https://node1:7717", "MUSTER_CACERT": "/usr/local/share/muster-ca.crt"}
    who = muster("bob", "whoami", env=dict(env, MUSTER_TOKEN=token))
    ok(who.returncode == 0 and "bob" in who.stdout, "bob by his token, over TLS", who)
    who = muster("bob", "whoami", env=dict(env, MUSTER_TOKEN=token[:-4] + "AAAA"))
    ok(who.returncode != 0, "not by another one", who)
    ran = muster("bob", "run", "-G", "1", "--", "id", "-un", env=dict(env, MUSTER_TOKEN=token))
    ok(ran.stdout == "bob\n", "his job runs as he", ran)
    ran = muster("root", "run", "-G", "1", "--", "id")
    ok(ran.returncode != 0 and "uid=0" not in ran.stdout, "jobs of root are refused", ran)
    secret = run("bob", "cat", "/etc/muster/admin.token")
    ok(secret.returncode != 0, "nobody reads the administrator's token", secret)
