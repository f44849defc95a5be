#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One machine that is controller and node, with users and folders as the installed units have them; two users on it."""
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tempfile

from cluster import BUILD, MUSTERD, done, free_port, ok
from test_tls import until

AGENT = os.path.join(BUILD, "muster-agent")

CONTROLLER, ANN, BOB = "daemon", "games", "nobody"  # accounts that every Debian has


def unit(name):
    """The settings of the [Service] part that say where and as whom."""
    settings = {}
    with open(os.path.join(BUILD, "systemd", name)) as f:
        for line in f:
            key, sep, value = line.strip().partition("=")
            if sep and not key.startswith("#"):
                settings[key] = value
    return settings


def folder_make(root, service, owner):
    """As systemd makes StateDirectory."""
    path = os.path.join(root, service["StateDirectory"])
    os.makedirs(path, exist_ok=True)
    os.chmod(path, int(service["StateDirectoryMode"], 8))
    os.chown(path, owner.pw_uid, owner.pw_gid)
    return path


def start(command, user, log):
    return subprocess.Popen(command, user=user.pw_uid, group=user.pw_gid, extra_groups=[], stdout=log, stderr=log,
                            env={"PATH": os.environ["PATH"]}, cwd="/", start_new_session=True)


class Machine:
    def __init__(self, root):
        self.root, self.socket, self.port = root, root + "/musterd.sock", free_port()
        self.log = open(root + "/log", "w+b")
        self.controller = pwd.getpwnam(CONTROLLER)
        ctl, node = unit("musterd.service"), unit("muster-agent.service")
        ok(ctl["User"] == "muster" and "User" not in node, "the controller has a user of its own, the agent is root", (ctl, node))
        self.var = folder_make(root, ctl, self.controller)
        self.state = folder_make(root, node, pwd.getpwuid(0))
        made = subprocess.run([MUSTERD, "init", "--dir", root + "/etc", "--state", self.var, "--hosts", "localhost"],
                              capture_output=True, text=True)
        ok(made.returncode == 0, "musterd init", made)
        self.token = re.search(r"muster-agent join \S+ (\S+)", made.stdout).group(1)
        # What it does by itself where there is a user of that name; for that one, where muster is installed.
        for folder in (root + "/etc", self.var):
            os.chown(folder, self.controller.pw_uid, self.controller.pw_gid)
            for name in os.listdir(folder):
                os.chown(folder + "/" + name, self.controller.pw_uid, self.controller.pw_gid)
        os.chown(root, self.controller.pw_uid, -1)
        os.mkdir(root + "/etc/conf.d")
        with open(root + "/etc/conf.d/10.yaml", "w") as f:
            f.write('listen: ["127.0.0.1:%d", %s]\n' % (self.port, self.socket))
        self.processes = []

    def controller_start(self):
        process = start([MUSTERD, "--config", self.root + "/etc/muster.yaml"], self.controller, self.log)
        self.processes.append(process)
        ok(until(lambda: self.cli("root", "whoami").returncode == 0), "the controller answers", self.words())
        return process

    def join(self):
        return subprocess.run([AGENT, "join", "https://localhost:%d" % self.port, self.token, "--node", "gpu01", "--state", self.state],
                              capture_output=True, text=True)

    def agent_start(self):
        process = start([AGENT, "--state", self.state, "--fake", "4:H100"], pwd.getpwuid(0), self.log)
        self.processes.append(process)
        return process

    def cli(self, user, *words):
        account = pwd.getpwnam(user)
        env = {"PATH": os.environ["PATH"], "HOME": self.root, "MUSTER_URL": "unix:" + self.socket}
        return subprocess.run([os.path.join(BUILD, "muster"), *words], user=account.pw_uid, group=account.pw_gid, extra_groups=[],
                              env=env, cwd="/", capture_output=True, text=True, timeout=60)

    def words(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-3000:]

    def stop(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
                process.wait(30)


def jobs(m):
    ran = m.cli(ANN, "run", "-G", "2", "--", "sh", "-c", "id -un; echo x >$TMPDIR/x && cat $TMPDIR/x")
    ok(ran.returncode == 0 and ran.stdout == ANN + "\nx\n", "a command of a user, with a folder for its files", (ran, m.words()))
    told = m.cli(ANN, "submit", "--parsable", "-J", "long", "-G", "1", "--env", "KEY=hidden", "--chdir", "/", "--wrap", "echo password; sleep 300")
    ok(told.returncode == 0, "a script", told)
    job = told.stdout.strip()
    ok(until(lambda: m.cli(ANN, "logs", job).stdout == "password\n"), "it runs", (m.cli(ANN, "show", job), m.words()))
    return job


def strangers(m, job):
    os.mkdir(m.root + "/open")
    os.chmod(m.root + "/open", 0o777)
    for words in (("logs", job), ("cancel", job), ("exec", job, "--", "id"), ("set", job, "priority=high"),
                  ("node", "drain", "gpu01", "--reason", "x"), ("token", "new", "--user", ANN), ("cluster", "backup", m.root + "/open/x")):
        told = m.cli(BOB, *words)
        ok(told.returncode != 0 and "NotAllowed" in told.stderr, "another user: no " + " ".join(words[:2]), told)
    shown = m.cli(BOB, "show", "--json", job)
    ok("hidden" not in shown.stdout and "password" not in shown.stdout, "nor its command, nor its variables", shown)


def private(m):
    loose = [name for name in os.listdir(m.var) if stat.S_IMODE(os.lstat(m.var + "/" + name).st_mode) & 0o077]
    ok(not loose, "what the controller keeps is for its user alone", loose)


def reachable():
    """Whether the controller's user can start what was built: not below a home that is closed to others."""
    try:
        account = pwd.getpwnam(CONTROLLER)
        subprocess.run([MUSTERD, "--version"], user=account.pw_uid, group=account.pw_gid, extra_groups=[], capture_output=True)
        return True
    except PermissionError:
        return False


def main():
    if os.getuid() != 0:
        print("1..0 # SKIP becomes other users: needs root")
        return
    if not reachable():
        print("1..0 # SKIP others cannot enter the folders above %s" % MUSTERD)
        return
    root = tempfile.mkdtemp()
    os.chmod(root, 0o755)
    m = Machine(root)
    try:
        process = m.controller_start()
        joined = m.join()
        ok(joined.returncode == 0, "a node joins", (joined, m.words()))
        agent = m.agent_start()
        ok(until(lambda: "gpu01" in m.cli(ANN, "nodes").stdout), "the node is there", m.words())
        ok("cannot reach" not in m.words(), "the agent has nothing to say about its folder", m.words())
        job = jobs(m)
        strangers(m, job)
        private(m)
        told = m.cli("root", "token", "new", "--join")
        ok(told.returncode == 0 and "muster-agent join https://CONTROLLER:7717 TOKEN" in told.stderr,
           "how another node joins is told with an address, not with a socket", told)
        process.terminate()
        ok(process.wait(30) == 0, "the controller stops")
        m.controller_start()
        ok(until(lambda: "RUNNING" in m.cli(ANN, "queue").stdout), "and finds its job again", m.words())
        look = ("exec", job, "--", "sh", "-c", "id -un; echo $KEY")
        ok(until(lambda: m.cli(ANN, *look).stdout == ANN + "\nhidden\n"), "whose user can look inside, once its node is back",
           (m.cli(ANN, *look), m.words()))
        ok(m.cli(ANN, "cancel", "--now", job).returncode == 0 and until(lambda: job not in m.cli(ANN, "queue").stdout), "and end it")
        agent.terminate()
        agent.wait(30)
        os.chmod(m.state, 0o700)
        m.agent_start()
        ok(until(lambda: "others may not enter" in m.words() and m.state in m.words()), "an agent in a closed folder says so", m.words())
    finally:
        m.stop()
        shutil.rmtree(root, ignore_errors=True)
    done()


if __name__ == "__main__":
    sys.exit(main())
