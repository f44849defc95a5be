# SPDX-License-Identifier: Apache-2.0
"""Units that are restarted under running jobs; and the machine."""
from containers import ROOT, box
from machine import KEPT, content, ended, group, logs, muster, ok, says, shell, show, state, submit, until

COUNT = "i=0; while :; do i=$((i + 1)); echo $i; sleep 0.5; done"


def beats(job):
    """Its last number; it counts as long as it lives."""
    lines = logs("ann", job).split()
    return int(lines[-1]) if lines else 0


def goes_on(job):
    before = beats(job)
    return until(lambda: beats(job) > before + 2) and state(job) == "RUNNING" and show(job)["attempt"] == 0


def three():
    box()
    plain = submit("ann", "-G", "1", "--wrap", COUNT)
    directory = submit("ann", "-G", "1", "--chdir", "/", "--image", ROOT, "--wrap", COUNT)
    named = submit("ann", "-G", "1", "--chdir", "/", "--image", "box", "--wrap", COUNT)
    jobs = {"a job": plain, "one in runc": directory, "one in podman": named}
    for name, job in jobs.items():
        ok(until(lambda: beats(job) > 0), name + " runs", (show(job), logs("ann", job)))
    return jobs


def all_go_on(jobs, what):
    ok(until(lambda: "node1" in muster("root", "nodes").stdout and "down" not in muster("root", "nodes").stdout), "the node is back after " + what)
    for name, job in jobs.items():
        ok(goes_on(job), "%s runs on after %s" % (name, what), (show(job), logs("ann", job)[-100:], group(job)))
        ok(until(lambda: muster("ann", "exec", job, "--", "sh", "-c", "echo in").stdout == "in\n"), "and can be entered",
           muster("ann", "exec", job, "--", "sh", "-c", "echo in"))


def units():
    """systemctl restart, and SIGKILL, of either unit under three jobs"""
    jobs = three()
    for what in ("systemctl restart musterd", "systemctl restart muster-agent", "systemctl kill -s KILL musterd",
                 "systemctl kill -s KILL --kill-who=main muster-agent"):
        shell(what)
        ok(until(lambda: shell("systemctl is-active musterd muster-agent").split() == ["active"] * 2), "both are active after " + what)
        all_go_on(jobs, what)
    ok(content("/proc/%s/oom_score_adj" % shell("systemctl show -P MainPID muster-agent").strip()).strip() == "-900", "the agent is spared when memory runs out")
    for job in jobs.values():
        muster("ann", "cancel", "--now", job)
        ended(job)


def before():
    """the machine is started anew under a job that may be tried again, one that may not, and one in podman"""
    KEPT["again"] = submit("ann", "-G", "1", "--retries", "2", "--wrap", "cat /proc/sys/kernel/random/boot_id; " + COUNT)
    KEPT["never"] = submit("ann", "-G", "1", "--no-requeue", "--wrap", COUNT)
    KEPT["podman"] = submit("ann", "-G", "1", "--retries", "2", "--chdir", "/", "--image", "box", "--wrap", COUNT)
    for name in ("again", "never", "podman"):
        ok(until(lambda: beats(KEPT[name]) > 0 if name != "again" else logs("ann", KEPT[name])), "a job runs: " + name, show(KEPT[name]))
    KEPT["boot"] = content("/proc/sys/kernel/random/boot_id")
    KEPT["done"] = submit("ann", "-G", "1", "--wrap", "echo said before")
    ended(KEPT["done"])
    return "reboot"


def after():
    """after it"""
    ok(content("/proc/sys/kernel/random/boot_id") != KEPT["boot"], "the machine was started anew")
    ok(until(lambda: shell("systemctl is-active musterd muster-agent").split() == ["active"] * 2), "systemd has started both units",
       shell("systemctl status musterd muster-agent"))
    ok(until(lambda: any(word in muster("root", "nodes").stdout for word in ("idle", "mixed", "alloc"))), "the node is there", muster("root", "nodes"))
    ok(logs("ann", KEPT["done"]) == "said before\n", "output of a job that ended before", logs("ann", KEPT["done"]))
    ok(until(lambda: show(KEPT["again"])["attempt"] == 1 and state(KEPT["again"]) == "RUNNING", 300), "what may be tried again runs again", show(KEPT["again"]))
    ok(says("ann", KEPT["again"], content("/proc/sys/kernel/random/boot_id").strip()), "on the machine as it is now", logs("ann", KEPT["again"]))
    ok(until(lambda: show(KEPT["podman"])["attempt"] == 1 and beats(KEPT["podman"]) > 2, 300), "so does the one in podman", (show(KEPT["podman"]), logs("ann", KEPT["podman"])))
    told = muster("ann", "exec", KEPT["podman"], "--", "sh", "-c", "echo in")
    ok(told.stdout == "in\n", "and can be entered", told)
    end = ended(KEPT["never"])
    ok(end["state"] == "NODE_FAIL" or "node" in (end["end_text"] or ""), "what may not has ended, for its node was lost", end)
    for name in ("again", "podman"):
        muster("ann", "cancel", "--now", KEPT[name])
        ok(ended(KEPT[name])["state"] == "CANCELLED", "cancelled", show(KEPT[name]))
    ok(muster("root", "doctor").returncode == 0, "muster doctor is content", muster("root", "doctor"))
