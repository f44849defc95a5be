#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--json of every verb: one object that says what it is, of a kind that the OpenAPI document or muster(1) describes; a
refusal is one object on standard error and nothing on standard output."""
import json
import os
import shlex
import tempfile

from cluster import Musterd, done, muster, ok

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("MUSTER_SOURCE", os.path.join(HERE, "..", ".."))

# What is done in this order to a cluster of two nodes; {folder} has files. Each succeeds.
VERBS = """submit -J runs -G 1 --wrap 'sleep 60' | Job
submit -J wide -G 8 --wrap true | Job
submit -J held --hold --wrap true | Job
submit --dry-run -G 1 --wrap true | Plan
submit -J over -G 1 --wrap true | Job
wait over | JobList
sweep -f {folder}/sweep.yaml | Array
plan -G 1 --wrap true | Plan
queue | JobList
show runs | Job
why wide | Explanation
prio | JobList
hold held | BatchResult
release held | BatchResult
cancel wide | BatchResult
set runs time=1h | BatchResult
suspend runs | BatchResult
gpus | GpuSummaryList
nodes | NodeList
vc | VcList
history | JobList
report users | ReportList
report vcs | ReportList
events | EventList
whoami | Principal
login {url} --name lab --token {token} | Principal
context lab | ContextList
logout lab --revoke | Logout
context rm lab | ContextList
context | ContextList
token new --user ann --role user | Token
token ls | TokenList
token rm {token_id} | Removed
node ls | NodeList
node show gpu01 | Node
node drain gpu02 --reason x | Node
node resume gpu02 | Node
node health | GpuList
node label gpu02 a=b | Node
gpu drain gpu02:0 --reason x | Node
gpu resume gpu02:0 | Node
vc create nlp quota.H100=2 | Vc
vc set nlp borrow=none | Vc
vc rm nlp | Vc
config show | Config
config discover | ClusterFile
config validate {folder}/vcs.yaml | Config
config diff {folder}/vcs.yaml | ConfigDiff
config apply {folder}/vcs.yaml | Config
user ls | UserList
user limits ann max_gpus=4 | Limits
resv create maint --nodes gpu02 --start now+1h --duration 1h | Reservation
resv ls | ReservationList
resv rm maint | Removed
secret set key | Kept
secret ls | SecretList
secret rm key | Removed
licenses | LicenseList
sched diag | Scheduler
sched pause | Scheduler
sched resume | Scheduler
sched policy srsf | Scheduler
sched trace runs | DecisionList
cluster status | Version
cluster backup {folder}/x.backup | Backup
doctor | CheckList"""

REFUSED = (("show 999", 3), ("hold over", 5), ("submit -G 64 --wrap true", 6), ("nodes --nope", 2), ("vc create nlp quota.H100=x", 2),
           ("config reload", 5), ("--json nodes", 2))

# Kinds that the client makes itself: muster(1) tells of them.
OWN = {"ContextList", "Kept", "Removed", "Logout", "CheckList", "Backup", "GpuList"}


def words_of(line, known):
    return [w.format(**known) for w in shlex.split(line)]


def parsed(text):
    try:
        value = json.loads(text)
        return value if isinstance(value, dict) else None
    except ValueError:
        return None


def main():
    with open(os.path.join(SOURCE, "api", "openapi.json")) as f:
        document = f.read()
    with open(os.path.join(SOURCE, "man", "muster.1.scd")) as f:
        manual = f.read()
    with tempfile.TemporaryDirectory() as folder, Musterd("2x4:H100", state=folder + "/state") as m:
        os.environ["HOME"] = folder
        with open(folder + "/sweep.yaml", "w") as f:
            f.write("name: sweep\ngpus: 1\nrun: 'true'\narray: {values: {lr: [1, 2]}}\n")
        with open(folder + "/vcs.yaml", "w") as f:
            f.write("vcs:\n  default: {quota: {H100: 8}}\n")
        m.wait_nodes(2)
        known = {"folder": folder, "url": "http://%s:%d" % (m.host, m.port),
                 "token": m.post("/tokens", {"role": "user", "expires_seconds": 600}).json["token"],
                 "token_id": m.post("/tokens", {"role": "user", "expires_seconds": 600}).json["id"]}
        for line in VERBS.split("\n"):
            command, kind = line.split(" | ")
            r = muster(m, *words_of(command, known), "--json", data="hush" if command.startswith("secret set") else "")
            value = parsed(r.stdout)
            ok(r.returncode == 0 and value is not None and value.get("kind") == kind and value.get("apiVersion") == "v1",
               "%s --json is a %s" % (command, kind), (r.returncode, r.stdout[:300], r.stderr[:300]))
            told = kind in manual if kind in OWN else '"%s"' % kind in document
            ok(told, "and the documents tell what a %s is" % kind)
        for command, code in REFUSED:
            r = muster(m, *words_of(command, known), *([] if "--json" in command else ["--json"]), data="")
            value = parsed(r.stderr)
            ok(r.returncode == code and not r.stdout and value is not None and value.get("detail"),
               "%s is refused in JSON" % command, (r.returncode, r.stdout[:300], r.stderr[:300]))
        m.post("/jobs:batch", {"action": "cancel", "name": "runs"})
        m.until(lambda: not m.get("/jobs").json["items"])
    done()


main()
