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
NAMES = ("sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "sacct", "scontrol")


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
    ok(json.loads(sh("squeue --json"))["jobs"][0]["id"] == int(job), "squeue --json")
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
    ok(lines == [["PARTITION", "AVAIL", "TIMELIMIT", "NODES(A/I/O/T)", "NODELIST"], ["default", "up", "infinite", "1/1/0/2", "gpu[01-02]"]],
       "sinfo -s", lines)
    lines = sh("sinfo -h -o '%N %t %G'").splitlines()
    ok("gpu01 mix gpu:H100:8" in lines and "gpu02 idle gpu:H100:8" in lines, "sinfo", lines)
    ok("JobId" not in sh("scontrol show job " + job) and "wide" in sh("scontrol show job " + job), "scontrol show job")
    sh("scontrol update JobId=%s TimeLimit=2:00:00" % job)
    ok(m.get("/jobs/" + job).json["limit_seconds"] == 7200, "scontrol update")
    ok("not supported" in sh("scontrol reconfigure", code=2), "scontrol of what is not there")
    sh("scancel -n wide")
    m.wait_state(int(job), "CANCELLED")
    rows = sh("sacct -n -P -o JobID,State,ExitCode -j " + job).split()
    ok(rows and rows[0].startswith(job + "|CANCELLED|"), "sacct", rows)
    bad = sh("sacct -o JobID,State,MaxRSS 2>&1", code=2)
    ok("MaxRSS" in bad and "JobID" not in bad, "sacct: a field there is not is told before anything is printed", bad)
    job = sh("sbatch --parsable -G1 --begin=now+1 --wrap 'kill -9 $$'").strip()
    m.wait_state(int(job), "FAILED")
    rows = sh("sacct -n -P -o State,ExitCode -j " + job).split()
    ok(rows == ["FAILED|0:9"], "sacct: a signal is no exit code; begin in Slurm's seconds", rows)
    sh("srun -G1 --kill-on-bad-exit=1 sh -c 'exit 4'", code=4)
    ok(sh("srun -G1 -K echo hello") == "hello\n", "srun")


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
        steps(sh, m)
        checkpoint(sh, m)
        forward(sh, m)
        top(sh, m)
        top(sh, m, "seen-in-top")
    done()


main()
