#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of several roles, with real processes: servers beside workers, GPUs of each task, who finds whom, how many ends
end the whole, OpenPAI's task roles, and a controller that is killed in between."""
import json
import os
import shutil
import signal
import subprocess
import tempfile

from cluster import BUILD, Musterd, done, ok

MUSTER = os.path.join(BUILD, "muster")
SAY = 'echo "$MUSTER_ROLE $MUSTER_ROLE_INDEX/$MUSTER_ROLE_COUNT [$CUDA_VISIBLE_DEVICES]"; '

# Servers end with their workers, who therefore wait until each server has said something.
HERE = tempfile.mkdtemp()
os.chmod(HERE, 0o777)
SPOKEN = "touch %s/$MUSTER_JOB_ID.$MUSTER_ROLE_INDEX; " % HERE
HEARD = "until [ -e %s/$MUSTER_JOB_ID.%d ]; do sleep 0.05; done; "

PAI = """
protocolVersion: 2
name: %s
type: job
taskRoles:
  ps:
    instances: 1
    completion: {minFailedInstances: 1, minSucceededInstances: -1}
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands: ['echo $PAI_CURRENT_TASK_ROLE_NAME sees $PAI_TASK_ROLE_LIST', 'SPOKEN', 'sleep 60']
  worker:
    instances: 2
    completion: {minFailedInstances: 1, minSucceededInstances: 2}
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 2}
    commands: ['HEARD', 'echo $PAI_CURRENT_TASK_ROLE_NAME $PAI_TASK_INDEX of $PAI_TASK_ROLE_TASK_COUNT_worker']
extras: {hivedScheduler: {taskRoles: {worker: {skuType: H100, skuNum: 2}}}}
""".replace("SPOKEN", SPOKEN).replace("HEARD", HEARD % (HERE, 0))


def submit(m, roles, **more):
    a = m.post("/jobs", dict(roles=roles, **more))
    return a.json["id"] if a.status == 201 else a


def output(m, job):
    tasks = m.get("/jobs/%d/tasks" % job).json["items"]
    return sorted(sum((m.get("/jobs/%d/logs?task=%d" % (job, t["rank"])).body.decode().splitlines() for t in tasks), []))


def servers(m):
    job = submit(m, {"ps": {"nodes": 2, "per_node": {"cpu": 1}, "run": SAY + SPOKEN + "sleep 60"},
                     "worker": {"nodes": 3, "per_node": {"gpu": "H100:4", "cpu": 1}, "env": {"SHARD": "x"},
                                "completion": {"min_succeeded": 3},
                                "run": SAY + HEARD % (HERE, 0) + HEARD % (HERE, 1) + "echo shard $SHARD; exit 0"}})
    ok(m.wait_state(job, "COMPLETED"), "workers that are done end their servers", m.get("/jobs/%d" % job))
    j = m.get("/jobs/%d" % job).json
    ok(j["gpus"] == 12 and j["nodes"] == 3 and j["exit_code"] == 0, "it held what its workers need, on a node each", j)
    lines = output(m, job)
    ok([line for line in lines if line.startswith("worker")] == ["worker %d/3 [0,1,2,3]" % i for i in range(3)],
       "each worker has its GPUs and its number", lines)
    ok([line for line in lines if line.startswith("ps")] == ["ps 0/2 []", "ps 1/2 []"], "servers have none", lines)
    ok(lines.count("shard x") == 3, "variables of a role")
    tasks = m.get("/jobs/%d/tasks" % job).json["items"]
    where = {(r["role"], r["index"]): t["rank"] for t in tasks for r in t["roles"]}
    ok(where == {("ps", 0): 0, ("ps", 1): 1, ("worker", 0): 0, ("worker", 1): 1, ("worker", 2): 2}, "who is where", where)
    ok(all(r["exit_code"] == 0 for t in tasks for r in t["roles"] if r["role"] == "worker"), "and how it ended", tasks)


def sizes(m):
    job = submit(m, {"small": {"nodes": 2, "per_node": {"gpu": 1}, "run": SAY}, "large": {"nodes": 2, "per_node": {"gpu": 4}, "run": SAY}})
    ok(m.wait_state(job, "COMPLETED"), "tasks of different sizes fill like nodes", m.get("/jobs/%d" % job))
    ok(output(m, job) == ["large 0/2 [0,1,2,3]", "large 1/2 [0,1,2,3]", "small 0/2 [4]", "small 1/2 [4]"],
       "no two tasks have the same GPU", output(m, job))
    a = submit(m, {"one": {"per_node": {"gpu": 1}, "run": "true"}, "many": {"nodes": 4, "per_node": {"gpu": 8}, "run": "true"}})
    ok(a.status == 422 and a.json["code"] == "Infeasible.NodeSize" and a.json["hints"], "what does not is refused, with a hint", a)
    job = submit(m, {"w": {"nodes": 8, "per_node": {"gpu": 1}, "run": SAY}})
    ok(m.wait_state(job, "COMPLETED"), "more tasks than nodes share nodes")
    ok(m.get("/jobs/%d" % job).json["nodes"] < 8, "evenly")


def ends(m):
    job = submit(m, {"a": {"nodes": 2, "per_node": {"gpu": 1}, "run": "[ $MUSTER_ROLE_INDEX = 0 ] && exit 7; sleep 60"}})
    ok(m.wait_state(job, "FAILED") and m.get("/jobs/%d" % job).json["exit_code"] == 7, "one failure ends all, unless told",
       m.get("/jobs/%d" % job))
    job = submit(m, {"a": {"nodes": 3, "per_node": {"gpu": 1}, "completion": {"min_failed": 2},
                           "run": "[ $MUSTER_ROLE_INDEX = 1 ] && exit 7; exit 0"}})
    ok(m.wait_state(job, "COMPLETED"), "one of two failures that it takes is no failure", m.get("/jobs/%d" % job))
    job = submit(m, {"a": {"nodes": 3, "per_node": {"gpu": 1}, "completion": {"min_failed": 2},
                           "run": "[ $MUSTER_ROLE_INDEX = 2 ] || exit 7; sleep 60"}})
    ok(m.wait_state(job, "FAILED"), "two of them are", m.get("/jobs/%d" % job))
    job = submit(m, {"a": {"nodes": 2, "per_node": {"gpu": 1}, "completion": {"min_failed": -1}, "run": "exit 3"}})
    ok(m.wait_state(job, "COMPLETED"), "none is, where it says so", m.get("/jobs/%d" % job))
    job = submit(m, {"a": {"nodes": 2, "per_node": {"gpu": 1}, "run": "sleep 60"}})
    m.wait_state(job, "RUNNING")
    m.ask("DELETE", "/jobs/%d" % job)
    ok(m.wait_state(job, "CANCELLED"), "cancelled as any job")
    job = submit(m, {"a": {"nodes": 2, "per_node": {"gpu": 1}, "run": "[ $MUSTER_ATTEMPT = 1 ] && exit 0; sleep 60"}})
    m.wait_state(job, "RUNNING")
    m.post("/jobs/%d/requeue" % job)
    ok(m.wait_state(job, "COMPLETED") and m.get("/jobs/%d" % job).json["attempt"] == 1, "queued again, its ends counted anew",
       m.get("/jobs/%d" % job))


def refusals(m):
    for roles, words in (({"a": {"per_node": {"gpu": 1}, "mounts": ["/a:/b"], "run": "true"}}, "those of all roles"),
                         ({"a": {"per_node": {"gpu": 1}, "image": "", "run": "true"}}, "name of an image"),
                         ({"a": {"per_node": {"gpu": 1}, "image": "/img", "run": "x"}, "b": {"run": "x"}},
                          "role 'a' runs in an image and role 'b' in none"),
                         ({"a": {"per_node": {"gpu": 1}, "image": "/img", "run": "x"}, "b": {"image": "torch:2", "run": "x"}},
                          "all directories, or all names"),
                         ({}, "1 to 16"), ({"a": {"run": "true"}}, "has GPUs"), ({"a": {"per_node": {"gpu": 1}}}, "run"),
                         ({"a b": {"per_node": {"gpu": 1}, "run": "x"}}, "named"),
                         ({"a": {"per_node": {"gpu": 1}, "run": "x", "colour": 1}}, "colour"),
                         ({"a": {"per_node": {"gpu": "1..2"}, "run": "x"}}, "fixed"),
                         ({"a": {"per_node": {"gpu": 1}, "run": "x", "completion": {"min_failed": 2}}}, "min_failed"),
                         ({t: {"per_node": {"gpu": t + ":1"}, "run": "x"} for t in "ABCDE"}, "at most 4 types")):
        a = m.post("/jobs", {"roles": roles})
        ok(a.status == 400 and words in a.json["detail"], "refused: %s" % words, a)
    a = m.post("/jobs", {"roles": {"a": {"per_node": {"gpu": 1}, "run": "x"}}, "nodes": 2})
    ok(a.status == 400 and "with roles" in a.json["detail"], "not beside nodes", a)


def rootfs(folder, word):
    """A root file system with a shell and a file that says which one it is."""
    root = folder + "/" + word
    for name in ("bin", "proc", "dev", "sys", "tmp", "etc"):
        os.makedirs(root + "/" + name)
    shutil.copy("/bin/busybox", root + "/bin/busybox")
    for name in ("sh", "cat", "echo", "sleep"):
        os.symlink("busybox", root + "/bin/" + name)
    with open(root + "/etc/word", "w") as f:
        f.write(word + "\n")
    return root


def images(m, folder):
    """Roles in images of their own, as directories."""
    one, two = rootfs(folder, "one"), rootfs(folder, "two")
    job = submit(m, {"ps": {"per_node": {"cpu": 1}, "image": two, "run": "echo ps $(cat /etc/word)"},
                     "worker": {"nodes": 2, "per_node": {"gpu": 1, "cpu": 1}, "run": "echo worker $(cat /etc/word)"}},
                 image=one, env={"PATH": "/bin"})
    ok(m.wait_state(job, "COMPLETED"), "roles in images of their own", (m.get("/jobs/%d" % job), output(m, job)))
    ok(output(m, job) == ["ps two", "worker one", "worker one"], "each sees its own", output(m, job))
    text = """
protocolVersion: 2
name: pai-images
type: job
prerequisites: [{name: i1, type: dockerimage, uri: ONE}, {name: i2, type: dockerimage, uri: TWO}]
taskRoles:
  ps: {instances: 1, dockerImage: i2, resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}, commands: ['cat /etc/word']}
  worker: {instances: 2, dockerImage: i1, resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 1}, commands: ['cat /etc/word']}
""".replace("ONE", one).replace("TWO", two)
    a = m.ask("POST", "/jobs", text, headers={"Content-Type": "application/yaml"})
    if ok(a.status == 201, "OpenPAI's task roles in images of their own", a):
        job = a.json["id"]
        ok(m.wait_state(job, "COMPLETED") and output(m, job) == ["one", "one", "two"],
           "run in them", (m.get("/jobs/%d" % job), output(m, job)))
        ok([a.get("image") for a in (m.get("/jobs/%d" % job).json["spec"]["roles"][r] for r in ("ps", "worker"))] == [two, one],
           "and are told so", m.get("/jobs/%d" % job))
    a = m.ask("POST", "/jobs", text.replace(two, "'torch:2'"), headers={"Content-Type": "application/yaml"})
    ok(a.status == 400 and "all directories" in a.json["detail"], "of two kinds they are refused", a)


def openpai(m):
    a = m.ask("POST", "/jobs", PAI % "pai", headers={"Content-Type": "application/yaml"})
    ok(a.status == 201, "two task roles of OpenPAI", a)
    job = a.json["id"]
    ok(m.wait_state(job, "COMPLETED"), "ends when its workers have", m.get("/jobs/%d" % job))
    ok(output(m, job) == ["ps sees ps,worker", "worker 0 of 2", "worker 1 of 2"], "with its variables", output(m, job))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(PAI % "pai")
        f.flush()
        r = subprocess.run([MUSTER, "submit", "--convert", f.name], capture_output=True, text=True)
    ok(r.returncode == 0 and "min_succeeded: 2" in r.stdout and 'gpu: "H100:2"' in r.stdout, "shown in our form", r)


def killed():
    with tempfile.TemporaryDirectory() as state:
        m = Musterd("2x2:H100", state=state)
        m.start()
        m.wait_nodes(2)
        gate = os.path.join(state, "gate")
        job = submit(m, {"w": {"nodes": 2, "per_node": {"gpu": 1}, "completion": {"min_succeeded": 2},
                               "run": "[ $MUSTER_ROLE_INDEX = 0 ] && exit 0; while [ ! -e %s ]; do sleep 0.1; done" % gate},
                         "ps": {"nodes": 2, "run": "sleep 60"}})
        first = lambda: m.get("/jobs/%d/tasks" % job).json["items"][0]["roles"]
        ok(m.until(lambda: any(r["role"] == "w" and r["exit_code"] == 0 for r in first())), "a worker has ended", first())
        m.stop(signal.SIGKILL)
        m.start()
        m.wait_nodes(2)
        ok(any(r["role"] == "w" and r["exit_code"] == 0 for r in first()), "which a killed controller still knows", first())
        open(gate, "w").close()
        ok(m.wait_state(job, "COMPLETED"), "and counts the next one to it", m.get("/jobs/%d" % job))
        m.stop()


TYPED = 'echo "$MUSTER_ROLE $MUSTER_ROLE_INDEX $MUSTER_GPU_SKU [$CUDA_VISIBLE_DEVICES]"; '
PAI_TYPES = """
protocolVersion: 2
name: types
type: job
taskRoles:
  actor: {instances: 2, resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 1}, commands: ['TYPED']}
  learner: {instances: 1, resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 4}, commands: ['TYPED']}
extras: {hivedScheduler: {taskRoles: {actor: {skuType: A100}, learner: {skuType: H100}}}}
""".replace("TYPED", TYPED.replace("'", "''"))


def types_run(m):
    job = submit(m, {"learner": {"nodes": 2, "per_node": {"gpu": "H100:4", "cpu": 1}, "run": TYPED},
                     "actor": {"nodes": 4, "per_node": {"gpu": "A100:1"}, "run": TYPED},
                     "log": {"nodes": 3, "run": TYPED}})
    ok(m.wait_state(job, "COMPLETED"), "roles on two types of GPU", (m.get("/jobs/%d" % job), output(m, job)))
    j = m.get("/jobs/%d" % job).json
    ok(j["gpus"] == 12 and j["nodes"] == 4 and j["gpu_type"] == "H100+A100", "with the GPUs of both", j)
    ok(output(m, job) == ["actor 0 A100 [0]", "actor 1 A100 [1]", "actor 2 A100 [0]", "actor 3 A100 [1]",
                          "learner 0 H100 [0,1,2,3]", "learner 1 H100 [0,1,2,3]",
                          "log 0 H100 []", "log 1 H100 []", "log 2 H100 []"], "each on its own", output(m, job))
    where = {(r["role"], r["index"]): t["rank"] for t in m.get("/jobs/%d/tasks" % job).json["items"] for r in t["roles"]}
    ok(len({where[("actor", i)] for i in range(4)} | {where[("learner", i)] for i in range(2)}) == 4, "who is where", where)
    a = m.ask("POST", "/jobs", PAI_TYPES, headers={"Content-Type": "application/yaml"})
    if ok(a.status == 201, "OpenPAI's task roles with types of their own", a):
        job = a.json["id"]
        ok(m.wait_state(job, "COMPLETED") and output(m, job) == ["actor 0 A100 [0]", "actor 1 A100 [0]", "learner 0 H100 [0,1,2,3]"],
           "run on them", (m.get("/jobs/%d" % job), output(m, job)))


def types():
    """Several types of GPU in one gang: all of it or nothing, also over the death of the controller."""
    roles = lambda run: {"l": {"nodes": 2, "per_node": {"gpu": "H100:4"}, "run": run},
                         "a": {"nodes": 2, "per_node": {"gpu": "A100:2"}, "run": run}}
    with tempfile.TemporaryDirectory() as state:
        m = Musterd("2x4:H100,2x2:A100", state=state)
        m.start()
        m.wait_nodes(4)
        types_run(m)
        a = submit(m, {"l": {"per_node": {"gpu": "H100:1"}, "run": "x"}, "a": {"per_node": {"gpu": "A100|H100:1"}, "run": "x"}})
        ok(a.status == 400 and "no type in common" in a.json["detail"], "types that overlap are refused", a)
        a = submit(m, {"l": {"per_node": {"gpu": "H100:1"}, "run": "x"}, "a": {"nodes": 3, "per_node": {"gpu": "A100:2"}, "run": "x"}})
        ok(a.status == 422 and a.json["code"] == "Infeasible.NodeSize", "and more than there ever are", a)
        one = m.post("/jobs", {"run": "sleep 600", "gpus": "A100:1"}).json["id"]
        m.wait_state(one, "RUNNING")
        gate = os.path.join(state, "gate")
        job = submit(m, roles(TYPED + "while [ ! -e %s ]; do sleep 0.1; done" % gate))
        ok(m.until(lambda: (m.get("/jobs/%d" % job).json["reason"] or {}).get("code") == "InsufficientGpus"), "it waits for the type that is short",
           m.get("/jobs/%d" % job))
        why = m.get("/jobs/%d/why" % job).json
        ok(why["asks"]["text"] == "2 nodes x 4 H100, and 2 nodes x 2 A100" and why["asks"]["gpus"] == 12, "and says what for", why)
        short = m.post("/jobs", {"run": "true", "gpus": "A100:4"}).json["id"]
        ok(m.until(lambda: "(needs 4, free 3)" in (m.get("/jobs/%d" % short).json["reason"] or {}).get("message", "")),
           "what is free is counted of the type that is asked for", m.get("/jobs/%d" % short))
        m.ask("DELETE", "/jobs/%d" % short)
        other = m.post("/jobs", {"run": "true", "gpus": "H100:8"}).json["id"]
        ok(m.wait_state(other, "COMPLETED") and m.state(job) == "PENDING", "it holds none of the other meanwhile")
        m.stop(signal.SIGKILL)
        m.start()
        m.wait_nodes(4)
        ok(m.state(job) == "PENDING", "it waits on when the controller was killed", m.get("/jobs/%d" % job))
        m.ask("DELETE", "/jobs/%d" % one)
        ok(m.wait_state(job, "RUNNING"), "and starts when all is there", m.get("/jobs/%d" % job))
        m.stop(signal.SIGKILL)
        m.start()
        m.wait_nodes(4)
        gpus = {g["sku"]: g for g in m.get("/gpus").json["items"]}
        ok(gpus["H100"]["free"] == 0 and gpus["A100"]["free"] == 0, "it has all of both types, also then", gpus)
        open(gate, "w").close()
        ok(m.wait_state(job, "COMPLETED"), "and ends", (m.get("/jobs/%d" % job), output(m, job)))
        ok(len([line for line in output(m, job) if line.startswith("a ") and "A100" in line]) == 2, "as it began", output(m, job))
        m.stop()


def contained(m):
    """In containers: each process has the variables of its own task, also where its node has others."""
    folder = tempfile.mkdtemp()
    if os.geteuid() or not shutil.which("runc", path="/usr/sbin:/usr/bin:/sbin:/bin") or not os.path.exists("/bin/busybox"):
        print("# SKIP containers: root, runc and a static busybox are needed")
        return
    try:
        os.chmod(folder, 0o755)
        root = rootfs(folder, "root")
        job = submit(m, {"a": {"nodes": 2, "per_node": {"gpu": 2}, "env": {"X": "of a"}, "run": "echo a $X $MUSTER_ROLE_INDEX"},
                         "b": {"nodes": 2, "run": "echo b $X [$CUDA_VISIBLE_DEVICES]"}},
                     image=root, env={"PATH": "/bin", "X": "of all"})
        ok(m.wait_state(job, ("COMPLETED", "FAILED")) and m.state(job) == "COMPLETED", "in containers", (m.get("/jobs/%d" % job), output(m, job)))
        ok(output(m, job) == ["a of a 0", "a of a 1", "b of all []", "b of all []"], "with their own variables", output(m, job))
        images(m, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    with Musterd("4x8:H100") as m:
        m.wait_nodes(4)
        servers(m)
        sizes(m)
        ends(m)
        refusals(m)
        openpai(m)
        contained(m)
        ok(m.alive(), "musterd is there")
    killed()
    types()
    shutil.rmtree(HERE)
    done()


main()
