#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Virtual clusters and policies that are wrong in the configuration: `musterd --check` names the place, a start refuses
them, and where a controller reads its file again, what there was stays."""
import os
import shutil
import signal
import subprocess
import tempfile

from cluster import MUSTERD, Musterd, done, ok

HEAD = 'cluster: check\nlisten: ["127.0.0.1:0"]\n'
GOOD = HEAD + "policy: las\nvcs:\n  nlp: {guarantee: {H100: 4}, policy: srsf}\n  cv: {quota: {H100: 4}}\n"

BAD = (
    ("vcs:\n  nlp: {guarantee: {H100: 4}, policy: nosuch}\n", ":4:39: ", "no policy 'nosuch'"),
    ("vcs:\n  nlp: {guarantees: {H100: 4}}\n", ":4:9: ", "did you mean 'guarantee'"),
    ("vcs:\n  nlp: {guarantee: {H100: many}}\n", ":4:27: ", "expected a number"),
    ("vcs:\n  nlp:\n    quota: {H100: 4}\n    set: {nokey: 1}\n", ":6:10: ", "no setting 'nokey'"),
    ("vcs:\n  nlp: {policy: las}\n", ":4:8: ", "either 'quota' or 'guarantee'"),
    ("vcs: [nlp]\n", ":3:6: ", "vcs"),
    ("policy: nosuch\n", ":3:9: ", "nosuch"),
    ("limits: {tokens_per_user: none}\n", ":3:27: ", "whole number"),
)


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def run(*words):
    return subprocess.run([MUSTERD, *words], capture_output=True, text=True, timeout=60)


def vcs(m):
    return {vc["name"]: (vc["policy"], vc["guarantee"]) for vc in m.get("/vcs").json["items"]}


def main():
    folder = tempfile.mkdtemp()
    path = folder + "/muster.yaml"
    for text, place, words in BAD:
        write(path, HEAD + text)
        for options in (("--check", "--state", folder + "/state"), ("--dev", "--state", folder + "/state")):
            r = run("--config", path, *options)
            ok(r.returncode == 2 and path + place in r.stderr and words in r.stderr, "%s: %s" % (options[0], words), r)
    ok(not os.path.exists(folder + "/state"), "nothing was begun")
    write(path, GOOD)
    ok(run("--config", path, "--check", "--state", folder + "/state").returncode == 0, "a good one")
    os.mkdir(folder + "/conf.d")
    write(folder + "/conf.d/more.yaml", "vcs:\n  nlp: {quota: {H100: 4}, policy: nosuch}\n")
    r = run("--config", path, "--check", "--state", folder + "/state")
    ok(r.returncode == 2 and "conf.d/more.yaml:2:35: " in r.stderr, "in another file", r)
    shutil.rmtree(folder + "/conf.d")
    with Musterd("1x8:H100", args=("--config", path), log="info") as m:
        m.wait_nodes(1)
        ok(m.until(lambda: "nlp" in vcs(m)), "the controller has them", vcs(m))
        had = vcs(m)
        for text, place, words in BAD[:4]:
            write(path, HEAD + text)
            told = m.stderr().count("not reloaded")
            m.process.send_signal(signal.SIGHUP)
            ok(m.until(lambda told=told: m.stderr().count("not reloaded") > told) and path + place in m.stderr(), "not reloaded: " + words,
               m.stderr()[-400:])
            ok(vcs(m) == had, "what there was stays", vcs(m))
        write(path, GOOD.replace("H100: 4", "H100: 2"))
        m.process.send_signal(signal.SIGHUP)
        ok(m.until(lambda: vcs(m) != had), "a good one is taken", vcs(m))
    shutil.rmtree(folder)
    done()


main()
