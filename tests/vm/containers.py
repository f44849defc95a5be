# SPDX-License-Identifier: Apache-2.0
"""The same in containers: a directory by runc, the name of an image by podman, without a registry."""
import os

from machine import content, ended, group, left, logs, muster, ok, run, says, shell, show, submit, until

ROOT = "/opt/box"
OPEN = "for i in 0 1 2 3; do [ ! -e /dev/nvidia$i ] || echo has /dev/nvidia$i; done; cat /dev/nvidia0 2>&1"


def box():
    """A root file system of one program."""
    if os.path.isdir(ROOT):
        return
    for folder in ("bin", "tmp", "proc", "sys", "dev", "etc", "home/ann", "data"):
        os.makedirs(ROOT + "/" + folder)
    shell("chmod 1777 %s/tmp; cp /bin/busybox %s/bin; tar -C %s -cf /opt/box.tar ." % (ROOT, ROOT, ROOT))
    for name in ("sh", "ls", "cat", "sleep", "id", "env", "dd", "ps", "touch", "tty", "hostname"):
        os.symlink("busybox", ROOT + "/bin/" + name)
    shell("tar -C %s -cf /opt/box.tar ." % ROOT)


def life(image, me):
    """What holds in either: who it is, its group, its GPU, its mounts; exec and attach; signals, memory, sleep; nothing is left."""
    with_image = ("-G", "1", "--cpus", "1", "--mem", "300M", "--chdir", "/", "--image", image)
    folder = "/home/ann/data"
    run("ann", "mkdir", "-p", folder)
    job = submit("ann", *with_image, "--mount", folder + ":/data", "--env", "COLOUR=dark blue", "--wrap",
                 "id -u; hostname; echo $COLOUR; %s; echo out >/data/made; ls /; echo up; sleep 600" % OPEN)
    ok(says("ann", job, "\nup\n"), "runs", (show(job), logs("ann", job), shell("journalctl -u muster-agent -n 5 --no-pager")))
    said = logs("ann", job)
    ok(said.startswith("%d\nnode1\ndark blue\n" % me), "as whom, where, with its variables, and no word that is not the job's", said)
    ok("has /dev/nvidia0\n" in said and "has /dev/nvidia1\n" not in said and "No such device or address" in said, "with its GPU and no other", said)
    ok("\nroot\n" not in said and "\nusr\n" not in said, "in its image", said)
    ok(content(folder + "/made") == "out\n" and shell("stat -c %%U %s/made" % folder).strip() == "ann", "its files outside are ann's", shell("ls -ln " + folder))
    procs = shell("find %s -name cgroup.procs -exec cat {} +" % group(job)).split()
    names = [content("/proc/%s/comm" % pid).strip() for pid in procs]
    ok("sleep" in names, "in the group of the job", names)
    outside = [pid for pid in shell("pgrep -u ann").split() if pid not in procs]
    ok(not outside, "and nothing of it elsewhere", [content("/proc/%s/cmdline" % pid).replace("\0", " ") for pid in outside])
    told = muster("ann", "exec", job, "--", "sh", "-c", "id -u; echo $COLOUR; ls /data")
    ok(told.stdout == "%d\ndark blue\nmade\n" % me, "exec: inside", told)
    told = run("ann", "script", "-qec", "muster attach %d" % job, "/dev/null", data="tty; ls /data; exit\n")
    ok("/dev/" in told.stdout and "made" in told.stdout, "attach: with a terminal", told)
    other = submit("ann", *with_image, "--wrap", "echo up; sleep 600")
    ok(says("ann", other, "up"), "a second of the same user", logs("ann", other))
    told = muster("ann", "exec", job, "--", "sh", "-c", "echo still; ls /data")
    ok(told.stdout == "still\nmade\n", "and the first can still be entered", told)
    muster("ann", "cancel", "--now", other)
    ok(ended(other)["state"] == "CANCELLED" and muster("ann", "exec", job, "--", "id").returncode == 0, "also when the second was killed")
    told = muster("ann", "suspend", job)
    ok(told.returncode == 0 and until(lambda: "frozen 1" in content(group(job) + "/cgroup.events")), "suspended", told)
    muster("ann", "resume", job)
    ok(until(lambda: "frozen 0" in content(group(job) + "/cgroup.events")), "resumed", show(job))
    muster("ann", "cancel", "--now", job)
    ok(ended(job)["state"] == "CANCELLED" and until(lambda: not left("ann")), "cancelled, and nothing runs", (show(job), left("ann")))
    ends(with_image)
    ok(until(lambda: not shell("find /var/lib/muster-agent/tmp -mindepth 2"), 20),
       "its files are gone", shell("find /var/lib/muster-agent/tmp -mindepth 1 -maxdepth 3"))


def ends(with_image):
    job = submit("ann", *with_image, "--wrap", "exit 7")
    ok(ended(job)["exit_code"] == 7, "its exit code", show(job))
    job = submit("ann", *with_image, "-t", "6s", "--grace", "10s", "--wrap", "trap 'echo told; cat $MUSTER_NOTICE_FILE; exit 0' TERM; echo up; while :; do sleep 0.2; done")
    ok(ended(job)["state"] == "TIMEOUT" and '"kind"' in logs("ann", job), "a time limit, with notice and signal", (show(job), logs("ann", job)))
    job = submit("ann", *with_image, "--wrap", "echo up; dd if=/dev/zero of=/dev/null bs=500M count=1; sleep 1; echo $?")
    end = ended(job)
    ok(end["state"] == "OUT_OF_MEMORY" or "memory" in (end["end_text"] or ""), "killed for its memory, and told so", (end, logs("ann", job)))
    job = submit("ann", *with_image, "--keep-on-fail", "10m", "--wrap", "echo here >$MUSTER_TMPDIR/left; exit 9")
    ok(until(lambda: show(job)["kept_until"]), "its place is kept when it failed", show(job))
    told = muster("ann", "exec", job, "--", "sh", "-c", "cat $MUSTER_TMPDIR/left; ls /")
    ok(told.stdout.startswith("here\n") and "usr" not in told.stdout, "and can be looked into", told)
    muster("ann", "cancel", job)
    ok(ended(job)["exit_code"] == 9, "it ends as it failed", show(job))


def runc():
    """an image that is a directory"""
    box()
    life(ROOT, int(shell("id -u ann")))


def podman():
    """an image with a name, imported by its user"""
    box()
    made = run("ann", "podman", "import", "/opt/box.tar", "box")
    ok(made.returncode == 0, "an image without a registry", made)
    shell("pkill -u ann")  # what podman leaves running for its user outside of jobs
    until(lambda: not left("ann"))
    life("box", 0)  # root inside is its user outside
    shm = shell("ls /dev/shm | grep -v muster")
    job = submit("ann", "-G", "1", "--image", "nowhere.invalid/none", "--chdir", "/", "--wrap", "true")
    ok(ended(job)["state"] == "FAILED" and "nowhere.invalid" in logs("ann", job), "an image that is nowhere fails, and says so", (show(job), logs("ann", job)))
    ok(shell("ls /dev/shm | grep -v muster") == shm, "no locks are left in memory", shm)
    stored = run("ann", "podman", "--log-level=error", "ps", "--all", "--quiet")
    ok(stored.stdout.strip() == "", "no container is left in the store of its user", stored)
    shell("pkill -u ann")
