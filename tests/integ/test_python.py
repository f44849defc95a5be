#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python client (clients/python) against a real controller: jobs, output, events, sweeps, asyncio, functions as jobs, what
it finds in its environment, errors, and a controller that starts again while it waits; its types against the OpenAPI document;
its wheel."""
import asyncio
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

from cluster import Musterd, done, free_port, ok

CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients", "python")
sys.dont_write_bytecode = True
sys.path.insert(0, CLIENT)
import muster  # noqa: E402


def refused(kind, call):
    try:
        call()
    except kind as e:
        return e
    except Exception as e:  # the wrong one
        print("# %r" % e)
        return None
    return None


def jobs(c):
    folder = tempfile.mkdtemp()
    job = c.submit("echo out; echo err >&2; echo $WORD", gpus=1, name="first", env={"WORD": "it's"}, error=folder + "/err")
    end = job.wait(60, check=True)
    ok(end["state"] == "COMPLETED" and end["name"] == "first", "a job is submitted and waited for", end)
    ok(job.log() == "out\nit's\n" and job.log(stream="err") == "err\n" and job.log(tail=1) == "it's\n", "its output", job.log())
    ok(list(job.follow()) == ["out", "it's"], "its output by lines")
    shutil.rmtree(folder)
    ok(c.submit(["printf", "%s|", "a b", "$c"], gpus=0, per_node={"cpu": 1}).wait(60)["state"] == "COMPLETED", "a command as a list")
    job = c.submit("exit 3", gpus=1)
    e = refused(muster.JobFailed, lambda: job.wait(60, check=True))
    ok(e is not None and e.job["exit_code"] == 3 and "FAILED" in str(e), "a job that failed is an error where that is asked for", e)
    job = c.submit("for i in 1 2 3; do echo $i; sleep 0.2; done; printf end", gpus=1)
    ok(list(job.follow()) == ["1", "2", "3", "end"], "output is followed to its end")
    job = c.submit("sleep 600", gpus=1)
    ok(job.wait_started(60)["state"] == "RUNNING", "it is waited for until it runs")
    ok(isinstance(refused(muster.WaitTimeout, lambda: job.wait(0.5)), TimeoutError), "waiting has a limit")
    ok(job.id in [j["id"] for j in c.jobs(state="RUNNING")] and c.attach(job.id).state == "RUNNING", "it is listed")
    job.cancel()
    ok(job.wait(60)["state"] == "CANCELLED", "it is cancelled")
    job.cancel()  # of a job that is over: nothing
    job = c.submit("true", gpus=1, hold=True)
    ok(job.state == "PENDING" and c.job(job.id)["held"] and job.why()["code"] == "Held", "held", job.why())
    job.release()
    ok(job.wait(60)["state"] == "COMPLETED", "and released")
    marker = os.path.join(tempfile.mkdtemp(), "once")
    job = c.submit("echo a $MUSTER_ATTEMPT; test -e %s && exit 0; touch %s; sleep 1; exit 85" % (marker, marker), gpus=1)
    ok(list(job.follow()) == ["a 0", "a 1"], "output is followed from one attempt to the next")
    os.unlink(marker)
    os.rmdir(os.path.dirname(marker))
    ok(c.plan("true", gpus=2)["feasible"] and refused(muster.Infeasible, lambda: c.plan("true", gpus=64)), "a plan")


def errors(c, m):
    e = refused(muster.InvalidRequest, lambda: c.submit("true", gpu=1))
    ok(e is not None and "did you mean 'gpus'" in str(e), "an unknown key is refused by name", e)
    ok(refused(muster.NotFound, lambda: c.job(987654)), "there is no such job")
    ok(refused(muster.Infeasible, lambda: c.submit("true", gpus=64)), "more than there is")
    c.submit("true", gpus=1, hold=True).cancel()
    ended = c.submit("true", gpus=1)
    ended.wait(60)
    ok(refused(muster.Conflict, ended.suspend), "the wrong state")
    ok(refused(muster.ConfigError, lambda: muster.Client(url="ftp://x")), "an address that is none")
    e = refused(muster.Unreachable, lambda: muster.Client(url="http://127.0.0.1:1").call("POST", "/jobs", {}))
    ok(e is not None and "127.0.0.1:1" in str(e), "nobody is there", e)
    e = refused(muster.Unreachable, lambda: muster.Client(url="https://127.0.0.1:%d" % m.port).call("POST", "/jobs", {}))
    ok(e is not None and "is it http://" in str(e), "TLS to a port without", e)


def sweeps(c):
    sweep = c.sweep("echo $lr $seed; test $seed != 1", {"lr": [0.1, "it's"], "seed": range(3)}, gpus=1, parallel=3)
    ended = sweep.wait(90)
    ok(len(ended) == 6 and [e.params for e in ended[:2]] == [{"lr": 0.1, "seed": 0}, {"lr": 0.1, "seed": 1}], "a sweep", ended)
    ok([e.job.log() for e in ended] == ["%s %d\n" % (lr, s) for lr in ("0.1", "it's") for s in range(3)], "each has its values")
    ok([e.ok for e in ended] == [True, False, True] * 2 and ended[1].exit_code == 1, "and its end")
    ok(refused(muster.JobFailed, lambda: sweep.wait(60, check=True)), "one that failed is an error where that is asked for")
    ok(sweep.info()["states"] == {"COMPLETED": 4, "FAILED": 2}, "the array itself", sweep.info())
    array = c.submit_array("sleep 600", "0-4%2", gpus=1)
    array.cancel()
    ok({e.state for e in array.wait(60)} == {"CANCELLED"}, "an array is cancelled")
    ok(refused(muster.InvalidRequest, lambda: c.sweep("true", {"a": []})), "no values")
    ok(refused(muster.MusterError, lambda: c.submit_yaml("run: true\ngpuz: 1\n")), "a job file with a mistake")
    ok(c.submit_yaml("run: echo yaml\ngpus: 1\n").wait(60)["state"] == "COMPLETED", "a job file")


def events(c):
    first = c.submit("true", gpus=1)
    first.wait(60)
    since = min(e["id"] for e in first.events()) - 1
    seen = []
    for event in c.events(kinds=["job."], job=first.id, since=since):
        seen.append(event["kind"])
        if event["kind"] == "job.ended":
            break
    ok(seen[0] == "job.submitted" and "job.running" in seen, "events of a job, from the first", seen)


def asynchronous(url):
    async def all_of_it():
        async with muster.AsyncClient(url=url) as c:
            some = [await c.submit("echo %d; sleep 0.3" % i, gpus=1) for i in range(4)]
            ends = await asyncio.gather(*(job.wait(60) for job in some))
            ok([e["state"] for e in ends] == ["COMPLETED"] * 4, "asyncio: four jobs at once")
            ok(await some[2].log() == "2\n", "asyncio: output")
            job = await c.submit("echo a; sleep 0.3; echo b", gpus=1)
            ok([line async for line in job.follow()] == ["a", "b"], "asyncio: output is followed")
            sweep = await c.sweep("exit $x", {"x": [0, 4]}, gpus=1)
            ok([e.exit_code async for e in sweep.as_completed(60)] in ([0, 4], [4, 0]), "asyncio: a sweep")
            async for event in c.events(since=0, job=job.id):
                if event["kind"] == "job.ended":
                    break
            ok(True, "asyncio: events")
            try:
                await c.submit("true", gpuz=1)
                ok(False, "asyncio: a mistake")
            except muster.InvalidRequest as e:
                ok("gpuz" in str(e), "asyncio: a mistake", e)
            task = asyncio.ensure_future((await c.submit("true", gpus=1, hold=True)).wait())
            await asyncio.sleep(0.3)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            ok((await c.version())["api"] is not None, "asyncio: the client is of use after a task was cancelled")
            for left in await c.jobs(state="PENDING"):
                await c.cancel(left["id"])

    asyncio.run(asyncio.wait_for(all_of_it(), 150))


SCRIPT = '''
import concurrent.futures
import sys
sys.modules["cloudpickle"] = None  # as if it were not installed
import muster

def power(x, y=2):
    print("power", x)
    if x < 0:
        raise ValueError("negative")
    return x ** y

class Train:
    """Goes on with where it was."""
    def __call__(self, step):
        import os, time
        if os.environ["MUSTER_ATTEMPT"] != "0":
            return "from %d" % step
        print("begins", flush=True)
        time.sleep(600)
    def checkpoint(self, step):
        return muster.DelayedSubmission(self, step + 41)

def where():
    env = muster.JobEnvironment()
    torch = muster.TorchDistributedEnvironment().export()
    return env.num_nodes, env.num_tasks, env.global_rank, torch.world_size, env.gpus, env.notice(), env.checkpointed(step=1)

if __name__ == "__main__":
    with muster.Executor(sys.argv[1], gpus=1, time="10m") as ex:
        one = ex.submit(power, 3, y=3)
        print("one", one.result(60))
        print("map", list(ex.map(power, range(4))))
        print("array", [j.result(60) for j in ex.map_array(power, [1, 2], [5, 5])])
        with ex.batch():
            many = [ex.submit(power, x) for x in (5, -1)]
        print("done", len(concurrent.futures.wait(many, 60).done), many[0].job_id != many[1].job_id)
        try:
            many[1].result()
        except ValueError as e:
            print("raised", e, "power" in str(e.__cause__), many[1].stdout().strip())
        held = ex.submit(Train(), 1)
        muster.Client().run(muster.operations.job_wait(held.id, "started", 60))
        while "begins" not in held.stdout():
            pass
        muster.Client().act(held.id, "requeue")
        print("resumed", held.result(60))
        sleeper = ex.submit(__import__("time").sleep, 600)
        print("cancel", sleeper.cancel(), sleeper.cancelled())
        ex.update_parameters(tasks_per_node=2, gpus_per_node=2, timeout_min=5)
        print("tasks", ex.submit(where).results(60))
        try:
            ex.submit(lambda: 1)
            print("lambda ran")
        except muster.MusterError as e:
            print("lambda", "cloudpickle" in str(e))
'''


def functions(url, python):
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "script.py")
        with open(script, "w", encoding="utf-8") as f:
            f.write(SCRIPT)
        env = dict(os.environ, MUSTER_URL=url, PYTHONPATH=CLIENT, PYTHONDONTWRITEBYTECODE="1")
        a = subprocess.run(["timeout", "120", python, script, os.path.join(folder, "jobs")], env=env, capture_output=True, text=True,
                           cwd=folder)
        said = dict(line.split(" ", 1) for line in a.stdout.splitlines())
        for what, want, name in (("one", "27", "a function is a job"), ("map", "[0, 1, 4, 9]", "Executor.map"),
                                 ("array", "[1, 32]", "map_array"), ("done", "2 True", "batch, concurrent.futures.wait"),
                                 ("raised", "negative True power -1", "what it raised, with its traceback and output"),
                                 ("resumed", "from 42", "it goes on from its checkpoint"), ("cancel", "True True", "it is cancelled"),
                                 ("tasks", "[(1, 2, 0, 2, 2, None, True), (1, 2, 1, 2, 2, None, True)]", "two tasks know their ranks"),
                                 ("lambda", "True", "a lambda is refused in words")):
            ok(said.get(what) == want, "executor: " + name, (said.get(what), a.stderr[-1500:]))


def restarts():
    with tempfile.TemporaryDirectory() as state:
        m = Musterd(fake="1x2:H100", state=state)
        m.command[m.command.index("127.0.0.1:0")] = "127.0.0.1:%d" % free_port()
        with m:
            c = muster.Client(url="http://127.0.0.1:%d" % m.port)
            m.wait_nodes(1)
            job = c.submit("echo a; sleep 4; echo b", gpus=1, retries=2)
            job.wait_started(60)
            lines, ended = [], []
            threads = [threading.Thread(target=lambda: lines.extend(job.follow())),
                       threading.Thread(target=lambda: ended.append(job.wait(120)))]
            for t in threads:
                t.start()
            time.sleep(0.5)
            m.stop()
            m.start()
            for t in threads:
                t.join(120)
            ok(len(ended) == 1 and lines[-1:] == ["b"], "a controller that starts again: waited for and followed all the same", (ended, lines))


def finding():
    read = muster.contexts.contexts_read
    want = {"current": "lab", "contexts": {"lab": {"url": "https://c:7717", "token": "t:1", "ca": "/a b.pem"}, "o p": {"url": "unix:/x"}}}
    ok(read('current: "lab"\ncontexts:\n  "lab": {"url":"https://c:7717","token":"t:1","ca":"/a b.pem"}\n  "o p": {"url":"unix:/x"}\n') == want,
       "the file of contexts as the command line writes it")
    ok(read("# mine\ncurrent: lab  # this one\ncontexts:\n  lab:\n    url: https://c:7717\n    token: 't:1'\n    ca: /a b.pem\n  o p: {url: unix:/x}\n") == want,
       "and as people write it", read("current: lab\ncontexts:\n  lab:\n    url: https://c:7717\n"))
    ok(refused(muster.ConfigError, lambda: read("contexts:\n  - a\n")), "a file that is none")
    with tempfile.TemporaryDirectory() as home:
        os.makedirs(os.path.join(home, ".cache", "muster-dev"), 0o700)
        os.chmod(os.path.join(home, ".cache", "muster-dev"), 0o700)
        name = os.path.join(home, ".cache", "muster-dev", "54321")
        with open(name, "w", encoding="utf-8") as f:
            f.write("secret\n")
        before = dict(os.environ)
        os.environ.update(HOME=home, MUSTER_CONFIG=os.path.join(home, "none"))
        for key in ("MUSTER_TOKEN", "MUSTER_CONTEXT", "MUSTER_URL", "XDG_RUNTIME_DIR"):
            os.environ.pop(key, None)
        os.chmod(name, 0o600)
        ok(muster.context_find("http://127.0.0.1:54321").token == "secret", "the token of --dev is found")
        ok(muster.context_find("http://10.0.0.1:54321").token == "", "and told to nobody else")
        os.chmod(name, 0o644)
        ok(muster.context_find("http://127.0.0.1:54321").token == "", "a file that others can read is not believed")
        os.environ["MUSTER_TOKEN"] = "mine"
        ok(muster.context_find("http://127.0.0.1:54321").token == "mine", "MUSTER_TOKEN goes before it")
        os.environ.clear()
        os.environ.update(before)


def made():
    a = subprocess.run([sys.executable, os.path.join(CLIENT, "generate_types.py"), "--check"], capture_output=True, text=True)
    ok(a.returncode == 0, "types.py follows api/openapi.json", a.stderr)
    with tempfile.TemporaryDirectory() as folder:
        name = subprocess.run([sys.executable, os.path.join(CLIENT, "build_wheel.py"), folder], capture_output=True, text=True).stdout.strip()
        with zipfile.ZipFile(os.path.join(folder, name)) as z:
            z.extractall(os.path.join(folder, "site"))
            names = z.namelist()
        ok("muster/py.typed" in names and any(n.endswith("/RECORD") for n in names), "the wheel", names)
        a = subprocess.run([sys.executable, "-B", "-S", "-c", "import muster; print(muster.__file__)"], capture_output=True, text=True,
                           cwd="/", env={"PYTHONPATH": os.path.join(folder, "site")})
        ok(a.stdout.startswith(folder), "can be imported from where it is installed, with the standard library alone", a.stderr)


def example(url):
    a = subprocess.run([sys.executable, "-B", os.path.join(CLIENT, "examples", "sweep.py")], capture_output=True, text=True, timeout=120,
                       env=dict(os.environ, MUSTER_URL=url, PYTHONPATH=CLIENT))
    ok("best: lr=0.03 seed=0" in a.stdout and a.stdout.count("loss=") == 6, "the example", a.stdout + a.stderr)


def main():
    made()
    finding()
    with Musterd(fake="2x4:H100") as m:
        url = "http://127.0.0.1:%d" % m.port
        m.wait_nodes(2)
        with muster.Client(url=url) as c:
            jobs(c)
            errors(c, m)
            sweeps(c)
            events(c)
            asynchronous(url)
            functions(url, os.environ.get("MUSTER_PYTHON", sys.executable))
            example(url)
            ok(not [n for n in c.nodes() if n["gpus_used"]] and concurrent.futures, "no GPU is held at the end")
    restarts()
    done()


main()
