# SPDX-License-Identifier: Apache-2.0
"""Jobs without a container: whose they are, what they are inside of, how they end."""
import os
import time

from machine import content, ended, group, left, logs, muster, ok, run, says, show, shell, state, submit, until


def inside():
    """user, group, devices, private /tmp, exec, attach, output"""
    ran = muster("ann", "run", "-G", "1", "--cpus", "1", "--mem", "200M", "--", "sh", "-c", "id -un; id -gn; pwd; cat /proc/self/cgroup; cat /proc/self/oom_score_adj")
    lines = ran.stdout.split("\n")
    ok(lines[:3] == ["ann", "ann", "/home/ann"], "a command as its user, where it was submitted", ran)
    ok(lines[3].startswith("0::/muster/node1"), "in a group of its own", ran)
    ok(lines[4] == "0", "not spared as its agent is when memory runs out", ran)
    open_all = "for i in 0 1 2 3; do head -c 1 /dev/nvidia$i 2>&1 | sed 's/.*: //'; done"
    ran = muster("ann", "run", "-G", "2", "--", "sh", "-c", open_all)
    ok(sorted(ran.stdout.split("\n")[:4]) == ["No such device or address"] * 2 + ["Operation not permitted"] * 2,
       "two GPUs can be opened, the other two not", ran)
    out = "/home/ann/out-%j"
    job = submit("ann", "-G", "1", "--cpus", "1", "--mem", "300M", "-o", out, "--wrap", "echo secret >/tmp/mine; echo up; sleep 500")
    ok(says("ann", job, "up"), "a script runs", show(job))
    at = group(job)
    ok(content(at + "/memory.max").strip() == str(300 << 20), "its memory is limited", at)
    ok(content(at + "/cpu.max").strip() == "100000 100000", "its CPU time too", content(at + "/cpu.max"))
    ok(not os.path.exists("/tmp/mine"), "what it writes to /tmp is its own")
    told = muster("ann", "exec", job, "--", "sh", "-c", "id -un; cat /tmp/mine; cat /proc/self/cgroup")
    ok(told.stdout.startswith("ann\nsecret\n0::" + at[len("/sys/fs/cgroup"):]), "exec: as its user, with its /tmp, in its group", told)
    told = run("ann", "script", "-qec", "muster attach %d" % job, "/dev/null", data="tty; cat /tmp/mine; exit\n")
    ok("/dev/pts/" in told.stdout and "secret" in told.stdout, "attach: a shell with a terminal", told)
    told = muster("bob", "exec", job, "--", "id")
    ok(told.returncode != 0 and "NotAllowed" in told.stderr, "another user does not get in", told)
    kept = out.replace("%j", str(job))
    ok(content(kept) == "up\n" and shell("stat -c %U " + kept).strip() == "ann", "its output is in its file, which is ann's", shell("ls -l /home/ann"))
    muster("ann", "cancel", "--now", job)
    ok(ended(job)["state"] == "CANCELLED" and until(lambda: not group(job)), "cancelled, and its group is gone", show(job))
    ok(logs("ann", job) == "up\n", "what it said can be read afterwards", logs("ann", job))


def limits():
    """a memory hog, two busy loops on one CPU, more processes than may be"""
    job = submit("ann", "-G", "1", "--mem", "100M", "--wrap", "echo up; python3 -c 'a = bytearray(400 << 20)'; echo never")
    end = ended(job)
    ok(end["state"] == "OUT_OF_MEMORY" or "memory" in (end["end_text"] or ""), "who takes more memory than agreed is killed, and that is told", end)
    ok(logs("ann", job) == "up\n", "all of it is", logs("ann", job))
    ok("oom" in shell("journalctl -k --no-pager | grep -i 'memory cgroup out of memory\\|oom-kill' | tail -n 3").lower(), "by the kernel, for its group")
    ok(shell("systemctl is-active musterd muster-agent").split() == ["active"] * 2, "nobody else")
    job = submit("ann", "-G", "1", "--cpus", "1", "--wrap", "echo up; (while :; do :; done) & while :; do :; done")
    says("ann", job, "up")
    at = group(job) + "/cpu.stat"
    usage = lambda: int(content(at).split()[1])  # noqa: E731
    before, since = usage(), time.monotonic()
    time.sleep(5)
    share = (usage() - before) / 1e6 / (time.monotonic() - since)
    ok(share < 1.15, "two busy loops with one CPU have one between them", share)
    told = muster("ann", "suspend", job)
    ok(told.returncode == 0 and until(lambda: "frozen 1" in content(group(job) + "/cgroup.events")), "suspended: its group is frozen",
       (told, content(group(job) + "/cgroup.events")))
    before = usage()
    time.sleep(2)
    ok(usage() - before < 100000, "it takes no time", usage() - before)
    told = muster("ann", "resume", job)
    ok(told.returncode == 0 and until(lambda: "frozen 0" in content(group(job) + "/cgroup.events")), "resumed", (told, show(job)))
    ok(until(lambda: usage() - before > 1000000), "and at work again", usage() - before)
    muster("ann", "cancel", "--now", job)
    ok(ended(job)["state"] == "CANCELLED", "cancelled", show(job))


def ends():
    """time limit, notice before the signal, what is left behind, the command that saves"""
    told = "while [ ! -e $MUSTER_NOTICE_FILE ]; do sleep 0.1; done; cat $MUSTER_NOTICE_FILE"
    job = submit("ann", "-G", "1", "-t", "5s", "--grace", "5s", "--wrap", "trap 'echo signal; %s; exit 3' TERM; echo up; while :; do sleep 0.2; done" % told)
    end = ended(job)
    ok(end["state"] == "TIMEOUT", "a time limit ends it", end)
    said = logs("ann", job)
    ok("signal" in said and '"kind"' in said, "with a signal, and the notice was there before", said)
    job = submit("ann", "-G", "1", "--wrap", "setsid sleep 876 & (setsid sleep 877 &) ; echo up; sleep 1; exit 4")
    end = ended(job)
    ok(end["state"] == "FAILED" and end["exit_code"] == 4, "an exit code", end)
    ok("sleep" not in left("ann"), "nothing of it is left behind", left("ann"))
    job = submit("ann", "-G", "1", "--keep-on-fail", "10m", "--wrap", "echo here >/tmp/left; sleep 878 & sleep 1; exit 9")
    ok(until(lambda: show(job)["kept_until"]), "its place is kept when it failed, though something was left running", show(job))
    told = muster("ann", "exec", job, "--", "cat", "/tmp/left")
    ok(told.stdout == "here\n", "and can be looked into", told)
    muster("ann", "cancel", job)
    ok(ended(job)["exit_code"] == 9, "it ends as it failed", show(job))
    job = submit("ann", "-G", "1", "--ckpt-cmd", "cp /tmp/work /home/ann/saved", "--grace", "20s", "--wrap",
                 "echo of-its-own >/tmp/work; echo up; while [ ! -s /home/ann/saved ]; do sleep 0.2; done; exit 85")
    says("ann", job, "up")
    muster("ann", "requeue", job)
    ok(until(lambda: content("/home/ann/saved") == "of-its-own\n"), "the command that saves it sees its /tmp", (content("/home/ann/saved"), show(job)))
    muster("ann", "cancel", "--now", job)
    ended(job)
    ok(state(job) in ("CANCELLED", "COMPLETED"), "and it is gone", show(job))
