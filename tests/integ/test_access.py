#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may submit what to a virtual cluster: users, groups, the highest priority, GPUs and time; refused in words that say whom
to ask."""
import grp
import os
import pwd
import tempfile

from cluster import Musterd, done, muster, ok

ME = pwd.getpwuid(os.getuid()).pw_name
MY_GROUP = grp.getgrgid(os.getgid()).gr_name
RULES = """vcs:
  open: {quota: {H100: 2}}
  mine:
    quota: {H100: 2}
    access:
      ask: prof@example.org
      allow:
      - {users: [somebody, %s], priority: normal, gpus: 1, time: 2h}
  group: {quota: {H100: 2}, access: {default_time: 30m, allow: [{groups: [no-such-group, %s]}]}}
  other: {quota: {H100: 2}, access: {allow: [{users: [somebody]}]}}
""" % (ME, MY_GROUP)


def main():
    with tempfile.TemporaryDirectory() as folder, Musterd("1x8:H100", state=folder + "/s") as m:
        m.wait_nodes(1)
        file = folder + "/vcs.yaml"
        with open(file, "w") as f:
            f.write(RULES)
        r = muster(m, "config", "apply", file)
        ok(r.returncode == 0, "four virtual clusters, three with an access list", r)
        token = m.post("/tokens", {"role": "user"})
        ok(token.status == 201, "a token that is no administrator's", token)
        head = {"Authorization": "Bearer " + token.json["token"]}

        def ask(vc, **more):
            return m.ask("POST", "/jobs", dict({"run": "sleep 600", "gpus": 1, "vc": vc}, **more), headers=head)

        def refused(a, *words):
            return a.status == 403 and a.json["code"] == "NotAllowed" and all(w in a.json["detail"] for w in words)
        a = ask("open")
        ok(a.status == 201, "without a list everybody may submit", a)
        job = a.json.get("id", 0)
        a = ask("other")
        ok(refused(a, "may not submit to virtual cluster 'other'") and "ask an administrator" in a.json["hints"][0],
           "who is on no list is refused, and told whom to ask", a)
        a = ask("mine", time="1h")
        ok(a.status == 201, "who is on it may submit within its limits", a)
        ok(refused(ask("mine", time="1h", priority="high"), "priority normal (100) at most"), "a higher priority is refused")
        ok(refused(ask("mine", time="1h", gpus=2), "1 GPUs at most, not 2"), "more GPUs are")
        ok(refused(ask("mine", time="3h"), "120 min at most, not 180 min"), "a longer time is")
        a = ask("mine")
        ok(refused(a, "no time limit") and a.json["hints"] == ["ask prof@example.org"], "and none at all; with whom to ask", a)
        a = m.ask("POST", "/jobs:plan", {"run": "true", "gpus": 1, "vc": "other"}, headers=head)
        ok(refused(a, "may not submit"), "a plan says so, too", a)
        ok(refused(ask("mine", time="1h", gpus="1..4"), "1 GPUs at most, not 4"), "nor one that can grow to more")
        a = m.ask("POST", "/jobs:plan", {"run": "true", "gpus": 1, "vc": "open"}, headers=head)
        flags = [s["flags"] for s in a.json["alternatives"]]
        ok("-p group" in flags and "-p other" not in flags and "-p mine" not in flags,
           "no other virtual cluster is proposed than one that lets the user in", a)
        a = ask("group")
        ok(a.status == 201, "a group of the system lets its users in", a)
        ok(a.json["limit_seconds"] == 1800, "a job without a time limit has that of its virtual cluster", a)
        ok(ask("group", time="1h").json["limit_seconds"] == 3600, "one that names its own has that")
        a = m.ask("PATCH", "/jobs/%d" % job, {"vc": "other"}, headers=head)
        ok(refused(a, "may not submit"), "a job is not moved to where it could not have been submitted", a)
        ok(m.post("/jobs", {"run": "true", "gpus": 2, "vc": "other", "priority": "urgent"}).status == 201,
           "an administrator may do everything")
        for wrong, told in (("{allow: [{user: [a]}]}", "unknown key 'user'"), ("{allow: [{priority: top}]}", "priority: expected"),
                            ("{allow: [{time: soon}]}", "time: expected"), ("{deny: []}", "expected {ask: TEXT, default_time:")):
            with open(file, "w") as f:
                f.write("vcs:\n  open: {quota: {H100: 2}, access: %s}\n  mine: {quota: {}}\n  group: {quota: {}}\n  other: {quota: {}}\n" % wrong)
            r = muster(m, "config", "apply", file)
            ok(r.returncode != 0 and told in r.stderr and "vcs.open.access" in r.stderr, "refused: %s" % wrong, r)
        m.post("/jobs:batch", {"action": "cancel", "user": ME})
        m.until(lambda: not m.get("/jobs").json["items"])
    done()


main()
