#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Slurm's names: what scripts written for them rely on works, and what is not there is an error, not ignored. And the
parts of muster that have no name there: steps inside a job, a port of a job brought here, top on a terminal."""
import json
import os
import pty
import re
import select
import subprocess
import tempfile
import time
import urllib.request

from cluster import BUILD, Musterd, done, free_port, ok

MUSTER = os.path.realpath(os.path.join(BUILD, "muster"))
NAMES = ("sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "sacct", "scontrol", "sprio", "sshare", "sstat")


class Shell:
    def __init__(self, m, folder):
        self.folder = folder
        for name in NAMES:
            os.symlink(MUSTER, os.path.join(folder, name))
        self.env = dict(os.environ, MUSTER_URL="http://%s:%d" % (m.host, m.port), HOME=folder, TZ="UTC",
                        PATH=folder + ":" + os.path.dirname(MUSTER) + ":" + os.environ["PATH"])
        for name in list(self.env):
            if name.startswith(("MUSTER_JOB", "MUSTER_NN", "SLURM_")):
                del self.env[name]

    def __call__(self, text, code=0, stdin=None):
        """What it prints; the exit code is checked."""
        p = subprocess.run(text, shell=True, cwd=self.folder, env=self.env, input=stdin, capture_output=True, text=True,
                           timeout=60)
        if code is not None and p.returncode != code:
            ok(False, "%s: exit %d, not %d" % (text, p.returncode, code), p.stdout + p.stderr)
        return p.stdout + (p.stderr if code else "")


def batch(sh, m):
    with open(os.path.join(sh.folder, "job.sh"), "w") as f:
        f.write("#!/bin/sh\n#SBATCH -J named -t 5\n#SBATCH --gres=gpu:2\necho args $1 $2 id $SLURM_JOB_ID\n")
    out = sh("sbatch job.sh one two")
    ok(re.fullmatch(r"Submitted batch job \d+\n", out), "sbatch says what scripts read", out)
    job = int(out.split()[3])
    m.wait_state(job, "COMPLETED")
    ok(sh("muster logs %d" % job) == "args one two id %d\n" % job, "script arguments, SLURM_ variables")
    job = sh("sbatch --parsable --wrap='echo $SLURM_NTASKS' -G1").strip()
    ok(job.isdigit(), "--parsable, --wrap", job)
    ok(sh("sbatch -G1", stdin="#!/bin/sh\n#SBATCH -J from-stdin\ntrue\n").startswith("Submitted batch job"),
       "script from standard input")
    sh("sbatch --wait -G1 --wrap 'exit 7'", code=7)
    ok(True, "--wait exits as the job did")
    first = sh("sbatch --parsable -G1 --wrap 'sleep 1'").strip()
    second = sh("sbatch --parsable -G1 --dependency=afterok:%s --wrap 'echo $MINE' --export=MINE=x" % first).strip()
    ok(m.wait_state(int(second), "COMPLETED") and sh("muster logs " + second) == "x\n", "--dependency, --export")
    sh("sbatch -G1 --wrap true --nonsense", code=2)
    ok("--nonsense" in sh("sbatch -G1 --wrap true --nonsense", code=2), "a flag there is not is an error")
    array = sh("sbatch --parsable -G1 -a 0-3 -o '%A_%a.out' --wrap 'echo $SLURM_ARRAY_TASK_ID; sleep 60'").strip()
    ok(m.until(lambda: os.path.exists(os.path.join(sh.folder, array + "_3.out"))), "arrays, -o %A_%a")
    sh("scancel %s_3" % array)
    ok(m.until(lambda: m.get("/jobs/%s_3" % array).json["state"] == "CANCELLED"), "scancel of one element")
    ok(m.get("/jobs/%s_2" % array).json["state"] == "RUNNING", "and of no other")
    rows = sh("squeue -h -o '%i|%t|%K' -j " + array).split()
    ok(rows == ["%s_%d|R|%d" % (array, i, i) for i in range(3)], "squeue -h -o, -j of an array", rows)
    late = sh("sbatch --parsable -G1 --dependency=afterany:%s_2 --wrap true" % array).strip()
    ok(m.get("/jobs/" + late).json["reason"]["code"] == "Dependency", "a job after one element of an array")
    gone = sh("sbatch --parsable -G1 --dependency=afterok:%s --wrap true" % array).strip()
    sh("scancel " + array)
    ok(m.wait_state(int(late), "COMPLETED"), "starts when that has ended")
    ok(m.wait_state(int(gone), "CANCELLED") and "DependencyNeverSatisfied" in m.get("/jobs/" + gone).json["end_text"],
       "one after an array that did not end well never does")
    ok("no job" in sh("sbatch -G1 --dependency=afterok:999_1 --wrap true", code=2), "one after what is not there")
    m.until(lambda: not m.get("/jobs").json["items"])


def lists(sh, m):
    job = sh("sbatch --parsable -G2 -J wide --wrap 'sleep 60' -t 1:00:00").strip()
    m.wait_state(int(job), "RUNNING")
    lines = sh("squeue").splitlines()
    ok(lines[0].split() == ["JOBID", "PARTITION", "NAME", "USER", "ST", "TIME", "NODES", "NODELIST(REASON)"] and
       lines[1].split()[:3] == [job, "default", "wide"] and lines[1].split()[4] == "R", "squeue", lines)
    ok(sh("squeue --noheader --format='%.3u|%-5T|%l' --me".replace("%-5T", "%T")).strip().endswith("|RUNNING|1:00:00"),
       "squeue formats")
    ok(json.loads(sh("squeue --json"))["jobs"][0]["job_id"] == int(job), "squeue --json")
    ok("there is no %z" in sh("squeue -o %z", code=2), "a letter there is not is an error")
    ok(sh("squeue -t PD -h") == "", "squeue -t")
    lines = sh("squeue -l").splitlines()
    ok(len(lines) == 3 and lines[1].split() == ["JOBID", "PARTITION", "NAME", "USER", "STATE", "TIME", "TIME_LIMI", "NODES", "NODELIST(REASON)"] and
       lines[2].split()[4:8:2] == ["RUNNING", "1:00:00"], "squeue -l, with the date", lines)
    ok(len(sh("squeue -l -h").splitlines()) == 1, "which is of its headers")
    late = sh("sbatch --parsable -G16 -J late -t 5 --wrap true").strip()
    m.until(lambda: m.get("/jobs/%s?eta=1" % late).json["eta"])
    lines = [line.split() for line in sh("squeue --start").splitlines()]
    ok(lines[0] == ["JOBID", "PARTITION", "NAME", "USER", "ST", "START_TIME", "NODES", "SCHEDNODES", "NODELIST(REASON)"] and
       len(lines) == 2 and lines[1][0] == late and lines[1][4] == "PD" and lines[1][5][:2] == "20" and lines[1][7] == "(null)",
       "squeue --start: who waits, and until when", lines)
    sh("scancel " + late)
    lines = [line.split() for line in sh("sinfo -s").splitlines()]
    ok(lines == [["PARTITION", "AVAIL", "TIMELIMIT", "NODES(A/I/O/T)", "NODELIST"], ["default*", "up", "infinite", "1/1/0/2", "gpu[01-02]"]],
       "sinfo -s", lines)
    lines = sh("sinfo -h -o '%N %t %G'").splitlines()
    ok("gpu01 mix gpu:H100:8" in lines and "gpu02 idle gpu:H100:8" in lines, "sinfo", lines)
    sh("scontrol update JobId=%s TimeLimit=2:00:00" % job)
    ok(m.get("/jobs/" + job).json["limit_seconds"] == 7200, "scontrol update")
    ok("not supported" in sh("scontrol reconfigure", code=2), "scontrol of what is not there")
    sh("scancel -n wide")
    m.wait_state(int(job), "CANCELLED")
    rows = sh("sacct -n -P -o JobID,State,ExitCode -j " + job).split()
    ok(rows and rows[0].startswith(job + "|CANCELLED|"), "sacct", rows)
    bad = sh("sacct -o JobID,State,Nonsense 2>&1", code=2)
    ok("Nonsense" in bad and "JobID" not in bad, "sacct: a field there is not is told before anything is printed", bad)
    job = sh("sbatch --parsable -G1 --begin=now+1 --wrap 'kill -9 $$'").strip()
    m.wait_state(int(job), "FAILED")
    rows = sh("sacct -n -P -o State,ExitCode -j " + job).split()
    ok(rows == ["FAILED|0:9"], "sacct: a signal is no exit code; begin in Slurm's seconds", rows)
    sh("srun -G1 --kill-on-bad-exit=1 sh -c 'exit 4'", code=4)
    ok(sh("srun -G1 -K echo hello") == "hello\n", "srun")


def pairs(text):
    """Key=Value words, as tools split what scontrol prints."""
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def tools(sh, m):
    """The commands that tools for Slurm issue, and how they read the answers: SkyPilot, dstack, submitit, Snakemake, TorchX,
    Open OnDemand, Parsl, NeMo-Run, PyTorch's multi-node example. The forms of the answers are those of Slurm 22.05."""
    ok(sh("scontrol show hostnames 'gn[1-2],x[08-10]'") == "gn1\ngn2\nx08\nx09\nx10\n", "scontrol show hostnames")
    ok(sh("SLURM_JOB_NODELIST='gn[1-2]' scontrol show hostnames") == "gn1\ngn2\n", "of the job it runs in")
    ok(sh("scontrol show hostnames ''") == "", "of no nodes")
    ok(sh("scontrol show hostlist gn1,gn2,x08") == "gn[1-2],x08\n", "scontrol show hostlist")
    for name in NAMES:
        ok(sh(name + " --version").startswith("slurm-wlm 22.05"), name + " --version")
    host = sh("scontrol ping")
    ok(re.fullmatch(r"Slurmctld\(primary\) at \S+ is UP\n", host), "scontrol ping", host)
    job = sh("sbatch --parsable -N2 --gpus-per-node=2 -J two -t 60 --comment hi --wrap 'sleep 300'").strip()
    array = sh("sbatch --parsable -N1 --gres=gpu:2 -a 0-3%2 -J arr --wrap 'sleep 300'").strip()
    late = sh("sbatch --parsable -N2 --gpus-per-node=8 -t 1-0 -J late --dependency=afterok:%s --wrap true" % job).strip()
    m.wait_state(int(job), "RUNNING")
    m.until(lambda: m.get("/jobs/%s_1" % array).json["state"] == "RUNNING")

    one = pairs(sh("scontrol show job " + job))
    ok((one["JobId"], one["JobName"], one["JobState"], one["NumNodes"], one["TimeLimit"], one["Partition"], one["NodeList"], one["BatchHost"],
        one["Reason"], one["ExitCode"], one["Comment"]) ==
       (job, "two", "RUNNING", "2", "01:00:00", "default", "gpu[01-02]", "gpu01", "None", "0:0", "hi"), "scontrol show job", one)
    ok(one["TresPerNode"] == "gres/gpu:H100:2" and one["UserId"].endswith(")") and one["StartTime"][10] == "T" and
       one["EndTime"][:16] > one["StartTime"][:16], "its GPUs, user and times", one)
    lines = sh("scontrol -o show job " + array).splitlines()
    ok(len(lines) == 4 and all(line.startswith("JobId=") for line in lines) and pairs(lines[1])["ArrayTaskId"] == "1",
       "-o before the verb, a line an element", lines)
    ok(sh("scontrol show -o job " + job).count("\n") == 1, "and before the noun")
    ok(pairs(sh("scontrol show job " + late))["Dependency"] == "afterok:%s(unfulfilled)" % job, "a dependency")
    ok("Invalid job id" in sh("scontrol show job 999 2>&1", code=1), "a job there is not")
    node = pairs(sh("scontrol show node=gpu01"))
    ok((node["NodeName"], node["NodeAddr"], node["State"], node["Gres"]) == ("gpu01", "127.0.0.1", "MIXED", "gpu:H100:8"), "scontrol show node=N", node)
    ok(node["AllocTRES"].endswith("gres/gpu=6") and node["CfgTRES"].endswith("gres/gpu=8"), "GPUs in use and all", node)
    ok(len(sh("scontrol show -o node").splitlines()) == 2 and len(sh("scontrol -o show node 'gpu[01-02]'").splitlines()) == 2, "all nodes, a line each")
    ok(sh("scontrol show node nope", code=1) == "Node nope not found\n", "a node there is not")
    part = pairs(sh("scontrol show partitions -o"))
    ok((part["PartitionName"], part["Nodes"], part["State"], part["TotalNodes"], part["Default"]) == ("default", "gpu[01-02]", "UP", "2", "YES"),
       "scontrol show partitions", part)
    ok("ClusterName " in sh("scontrol show config"), "scontrol show config")

    ok(sh("squeue -h --only-job-state --jobs %s -o %%T" % job) == "RUNNING\n", "squeue --only-job-state (SkyPilot, dstack)")
    ok(sh("squeue -h --nodelist gpu02 -o %b") == "gres/gpu:H100:2\n", "squeue %b: of a node, with the type")
    ok(sh("squeue --noconvert -h --job %s -o '%%i|%%Z|%%L|%%B|%%U'" % job).startswith(job + "|" + sh.folder + "|"), "squeue: beginnings of flags")
    ok("Invalid job id" in sh("squeue -j 999 2>&1", code=1), "squeue of a job there is not fails")
    ok(sh("squeue -O jobid,name:6,statecompact -h -j " + job).split() == [job, "two", "R"], "squeue -O")
    ok([line for line in sh("squeue -h -o %i -S -i").split()][0] == late, "squeue -S")
    jobs = json.loads(sh("squeue --json"))
    one = [j for j in jobs["jobs"] if j["job_id"] == int(job)][0]
    ok(jobs["meta"]["Slurm"]["version"]["major"] == 22 and (one["job_state"], one["nodes"], one["name"], one["time_limit"]) ==
       ("RUNNING", "gpu[01-02]", "two", 60), "squeue --json: Slurm's names", one)
    ok([n["nodename"] for n in one["job_resources"]["allocated_nodes"]] == ["gpu01", "gpu02"], "and where it runs (TorchX)")

    rows = sh("sacct -o JobID,State,NodeList --parsable2 -j " + job).splitlines()
    ok(rows == ["JobID|State|NodeList", job + "|RUNNING|gpu[01-02]"], "sacct of a running job (submitit)", rows)
    rows = sh("sacct -X --parsable2 --clusters all --noheader --format=JobIdRaw,State --name two").splitlines()
    ok(rows == [job + "|RUNNING"], "sacct by name (Snakemake)", rows)
    ok(sh("sacct -n -P -X -o State -j %s -s RUNNING" % late) == "", "sacct -s RUNNING")
    ok(sh("sacct -b -n -P -j " + job) == job + "|RUNNING|0:0\n" and "NodeList" in sh("sacct --helpformat"), "sacct -b, --helpformat")

    lines = [line.split() for line in sh("sinfo").splitlines()]
    ok(lines == [["PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST"], ["default*", "up", "infinite", "2", "mix", "gpu[01-02]"]],
       "sinfo: nodes of one state share a line", lines)
    ok(sh("sinfo -h -o %R") == "default\n" and sh("sinfo -a -h -o %P") == "default*\n", "sinfo %R, %P")
    ok(len(sh("sinfo -h -N -o '%N..%P'").splitlines()) == 2 and sh("sinfo -h -n gpu02 -o '%n %T %G'") == "gpu02 mixed gpu:H100:8\n", "sinfo -N, -n")
    ok(json.loads(sh("sinfo --json"))["nodes"][0]["gres"] == "gpu:H100:8", "sinfo --json")
    waiting = sh("sprio -h -o %i").split()
    ok(array + "_2" in waiting, "sprio", waiting)
    ok("default" in sh("sshare -h"), "sshare")

    ok(sh("srun --overlap --jobid=%s -n1 sh -c 'echo $MUSTER_NODE_RANK'" % job) == "0\n", "srun --overlap --jobid from outside (SkyPilot, NeMo-Run)")
    ok(sorted(sh("srun --jobid %s sh -c 'echo $MUSTER_NODE_RANK'" % job).split()) == ["0", "1"], "on all its nodes")
    ok(sh("srun --overlap --jobid=%s -w gpu02 sh -c 'echo $MUSTER_NODE_RANK'" % job) == "1\n", "or on those named")
    ok("not nodes of job" in sh("srun --jobid=%s -w gpu09 true 2>&1" % job, code=2), "which are to be its own")
    ok("empty list" in sh("srun -w '' -G1 true", code=2), "srun -w '' is refused")
    sh("scontrol hold jobid=%s" % late)
    ok(m.get("/jobs/" + late).json["held"], "scontrol hold jobid=N")
    sh("scontrol release " + late)
    ok(sh("scontrol write batch_script %s -" % late) == "true", "scontrol write batch_script")
    sh("scontrol update nodename=gpu02 state=drain reason=fan")
    ok(pairs(sh("scontrol show node gpu02"))["State"] == "MIXED+DRAIN" and "fan" in sh("sinfo -R"), "scontrol update nodename= state=drain, sinfo -R")
    sh("scontrol update nodename=gpu02 state=resume")
    single = sh("sbatch --parsable -d singleton -J two -G1 --wrap true").strip()
    ok(m.get("/jobs/" + single).json["reason"]["code"] == "Dependency", "--dependency=singleton waits for the job of its name")
    sh("scancel --full " + job)
    ok(m.wait_state(int(single), "COMPLETED"), "and starts when that has ended")
    sh("scancel -u " + m.get("/whoami").json["user"])
    m.until(lambda: not m.get("/jobs").json["items"])


TORCHRUN = """#!/bin/bash
#SBATCH --job-name=multinode-example
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=4
#SBATCH --open-mode=append --hint=nomultithread
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
nodes_array=($nodes)
head_node=${nodes_array[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" echo address-of-$head_node)
echo Node IP: $head_node_ip
srun echo torchrun --nnodes 2 --rdzv_id $SLURM_JOB_ID --rdzv_endpoint $head_node_ip:29500
"""


def scripts(sh, m):
    """Scripts as people have them."""
    with open(os.path.join(sh.folder, "torch.sh"), "w") as f:
        f.write(TORCHRUN)
    p = subprocess.run("sbatch --parsable torch.sh", shell=True, cwd=sh.folder, env=sh.env, capture_output=True, text=True, timeout=60)
    ok(p.returncode == 0 and "torch.sh:7: --open-mode has no effect here" in p.stderr and "--hint has no effect" in p.stderr,
       "flags without effect are taken, and said so", p.stderr)
    ok(m.wait_state(int(p.stdout), ("COMPLETED", "FAILED"), 60), "a torchrun script of two nodes")
    lines = sorted(sh("muster logs " + p.stdout).splitlines())
    ok(lines == ["Node IP: address-of-gpu01"] + ["torchrun --nnodes 2 --rdzv_id %d --rdzv_endpoint address-of-gpu01:29500" % int(p.stdout)] * 2,
       "knows its head node", lines)
    with open(os.path.join(sh.folder, "crlf.sh"), "w", newline="") as f:
        f.write("#!/bin/sh\r\n#SBATCH -t 5\r\ntrue\r\n")
    ok("crlf.sh:1: lines end in CR LF" in sh("sbatch crlf.sh", code=2), "a script with lines of Windows is refused in words")


def steps(sh, m):
    job = sh("sbatch --parsable -N2 --gpus-per-node=2 --wrap '"
             "srun -n4 sh -c \"echo t\\$SLURM_PROCID/\\$WORLD_SIZE n\\$MUSTER_NODE_RANK\"; srun sh -c \"exit 9\"; echo code $?'").strip()
    ok(m.wait_state(int(job), ("COMPLETED", "FAILED"), 60), "a job with steps")
    lines = sh("muster logs " + job).splitlines()
    ok(sorted(lines) == ["code 9", "t0/4 n0", "t1/4 n0", "t2/4 n1", "t3/4 n1"], "srun inside a job runs on its nodes", lines)
    say = "srun sh -c \"echo t\\$SLURM_PROCID of \\$SLURM_NTASKS, \\$LOCAL_RANK of \\$LOCAL_WORLD_SIZE\"; echo $SLURM_NTASKS $SLURM_NTASKS_PER_NODE"
    job = sh("sbatch --parsable -N2 --ntasks-per-node=2 --gpus-per-node=2 --wrap '%s; %s'" % (say, say.replace("srun", "srun -N1"))).strip()
    m.wait_state(int(job), ("COMPLETED", "FAILED"), 60)
    lines = sh("muster logs " + job).splitlines()
    ok(sorted(lines) == ["4 2"] * 2 + ["t0 of 2, 0 of 2", "t0 of 4, 0 of 2", "t1 of 2, 1 of 2", "t1 of 4, 1 of 2", "t2 of 4, 0 of 2",
                         "t3 of 4, 1 of 2"], "with the tasks that #SBATCH asked for", lines)
    job = sh("sbatch --parsable -N1 -n3 -G1 --wrap 'srun sh -c \"echo t\\$SLURM_PROCID\"'").strip()
    m.wait_state(int(job), ("COMPLETED", "FAILED"), 60)
    ok(sorted(sh("muster logs " + job).split()) == ["t0", "t1", "t2"], "or in all", sh("muster logs " + job))


def checkpoint(sh, m):
    job = sh("muster submit --parsable -G1 --wrap 'muster ckpt done --step 7 --path /x/7 && sleep 30'").strip()
    ok(m.until(lambda: m.get("/jobs/" + job).json["last_checkpoint_time"], 20), "muster ckpt done is heard")
    sh("muster cancel --now " + job)
    ok("MUSTER_SOCKET" in sh("muster ckpt done", code=2), "and says where it belongs")


def forward(sh, m):
    there, here = free_port(), free_port()
    job = sh("muster submit --parsable -G1 --wrap 'mkdir w; cd w; echo hello >x; python3 -m http.server %d --bind 127.0.0.1'"
             % there).strip()
    m.wait_state(int(job), "RUNNING")
    p = subprocess.Popen([MUSTER, "forward", job, "%d:%d" % (there, here)], env=sh.env, stdout=subprocess.DEVNULL)

    def get():
        try:
            return urllib.request.urlopen("http://127.0.0.1:%d/x" % here, timeout=5).read() == b"hello\n"
        except OSError:
            return False

    ok(m.until(get, 20), "muster forward: a page of the job is seen here")
    p.terminate()
    p.wait()
    sh("muster cancel --now " + job)


def top(sh, m, *words):
    """On a terminal of 100 columns: it draws, follows, takes keys and leaves the terminal as it was."""
    job = sh("sbatch --parsable -G3 -J seen-in-top --wrap 'sleep 60'").strip()
    m.wait_state(int(job), "RUNNING")
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(sh.env, TERM="xterm", COLUMNS="100", LINES="30")
        os.execv(MUSTER, ["muster", "top"] + list(words))
    text = b""

    def read(seconds, until=None):
        nonlocal text
        end = time.time() + seconds
        while time.time() < end and (until is None or until not in text):
            if select.select([fd], [], [], 0.1)[0]:
                try:
                    text += os.read(fd, 65536)
                except OSError:
                    return
    read(15, b"seen-in-top")
    read(1)
    ok(b"seen-in-top" in text and (b"UTILISATION" if words else b"H100") in text, "muster top draws", text[-600:])
    os.write(fd, b"q")
    read(5)
    end, status = time.time() + 10, 0
    while time.time() < end:
        got, status = os.waitpid(pid, os.WNOHANG)
        if got:
            break
        time.sleep(0.05)
    ok(got and status == 0, "q leaves it", status)
    ok(b"\x1b[?1049l" in text or b"\x1b[?25h" in text, "and the terminal is as it was", text[-200:])
    os.close(fd)
    sh("scancel " + job)


def main():
    with tempfile.TemporaryDirectory() as folder, Musterd("2x8:H100") as m:
        m.wait_nodes(2)
        sh = Shell(m, folder)
        batch(sh, m)
        lists(sh, m)
        tools(sh, m)
        scripts(sh, m)
        steps(sh, m)
        checkpoint(sh, m)
        forward(sh, m)
        top(sh, m)
        top(sh, m, "seen-in-top")
    done()


main()
