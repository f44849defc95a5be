# SPDX-License-Identifier: Apache-2.0
"""What a task is inside of: its environment, its user, folders of its own, containers, groups of processes. TAP.

usage: test_inside.py MUSTER_AGENT [NAME...]
"""
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

from harness import content, gone, main, shepherds, test, tests, wait_for


@test()
def commands_run_inside(c, a, d):
    c.connected()
    c.launch(1, 'echo up > %s/up; sleep 1000' % d, spec={'env': {'COLOUR': 'red'}})
    c.report(1, 'running')  # it may be at work before that is told, and until then nobody is let in
    c.ask(1, 'exec', job=1, attempt=0, rank=0, argv=['sh', '-c', 'echo $COLOUR $MUSTER_JOB_ID $MORE; cat; echo e >&2; exit 6'],
          env={'MORE': 'x'}, done=False)
    import base64
    c.send(t='ask', id=1, do='input', data=base64.b64encode(b'hello\n').decode(), eof=True)
    c.wait('the end', lambda: any('exit' in x for x in c.answers.get(1, [])))
    assert c.text(1, 'out') == b'red 1 x\nhello\n' and c.text(1, 'err') == b'e\n', c.answers[1]
    assert c.answers[1][-1]['exit'] == 6
    c.ask(2, 'exec', job=1, attempt=0, rank=0, argv=['sh', '-c', 'tty && stty size'], tty=True, rows=33, cols=77)
    assert b'/dev/pts/' in c.text(2) and b'33 77' in c.text(2), c.text(2)
    # In the task's group, so it ends with it.
    c.ask(3, 'exec', job=1, attempt=0, rank=0, argv=['sh', '-c', 'echo $$; exec sleep 1000'], done=False)
    c.wait('its pid', lambda: b'\n' in c.text(3))
    pid = int(c.text(3))
    stat = c.ask(4, 'stat', job=1, attempt=0, rank=0)[0]
    assert stat['state'] == 'running' and stat['pids'] >= 2, stat
    c.order('stop', 1, kind='cancel', grace_ms=0)
    c.report(1, 'exited')
    assert gone(pid)
    c.wait('its end', lambda: any('exit' in x for x in c.answers.get(3, [])))
    assert c.ask(5, 'exec', job=1, attempt=0, rank=0, argv=['true'])[0]['code'] == 'Conflict'


@test()
def the_environment_is_whole(c, a, d):
    c.connected()
    place = [{'node': 'n1', 'address': '127.0.0.1', 'gpus': [2, 5]}, {'node': 'n2', 'address': '10.0.0.2', 'gpus': [0, 1]}]
    c.launch(41, 'env -0 > %s/env; cat $MUSTER_HOSTFILE > %s/hosts; ls -d $MUSTER_TMPDIR > %s/tmp' % (d, d, d), place=place,
             attempt=2, array={'id': 40, 'index': 3}, end=int((time.time() + 900) * 1e6),
             spec={'name': 'bert', 'launch': 'node', 'compat': 'slurm', 'env': {'A': 'b c'}, 'nodes': 2,
                   'checkpoint': {'dir': '/ckpt'}})
    c.report(41, 'exited', attempt=2, exit=0)
    env = dict(line.split('=', 1) for line in content(d + '/env').split('\0') if line)
    want = {'MUSTER_JOB_ID': '41', 'MUSTER_JOB_NAME': 'bert', 'MUSTER_ARRAY_ID': '40', 'MUSTER_ARRAY_INDEX': '3',
            'MUSTER_ATTEMPT': '2', 'MUSTER_VC': 'default', 'MUSTER_USER': 'root', 'MUSTER_CLUSTER': 'test',
            'MUSTER_PRIORITY': 'normal', 'MUSTER_NNODES': '2', 'MUSTER_NODE_RANK': '0', 'MUSTER_NODELIST': 'n[1-2]',
            'MUSTER_HOSTS': 'n1,n2', 'MUSTER_NTASKS': '2', 'MUSTER_GPUS': '4', 'MUSTER_GPUS_PER_NODE': '2',
            'MUSTER_GPU_SKU': 'H100', 'MUSTER_RESUME': '1', 'MUSTER_CKPT_DIR': '/ckpt', 'CUDA_VISIBLE_DEVICES': '2,5',
            'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '29500', 'NODE_RANK': '0', 'PET_NNODES': '2',
            'PET_NPROC_PER_NODE': '2', 'PET_NODE_RANK': '0', 'PET_MASTER_ADDR': '127.0.0.1', 'PET_MASTER_PORT': '29500',
            'PET_RDZV_ID': '41.2', 'PET_RDZV_ENDPOINT': '127.0.0.1:29500', 'PET_RDZV_BACKEND': 'static',
            'JAX_COORDINATOR_ADDRESS': '127.0.0.1:29500', 'JAX_NUM_PROCESSES': '2', 'JAX_PROCESS_ID': '0', 'A': 'b c',
            'SLURM_JOB_ID': '41', 'SLURM_PROCID': '0', 'SLURM_NNODES': '2', 'SLURM_JOB_NODELIST': 'n[1-2]',
            'SLURM_JOBID': '41', 'SLURM_NODELIST': 'n[1-2]', 'SLURMD_NODENAME': 'n1', 'SLURM_JOB_PARTITION': 'default',
            'SLURM_JOB_USER': 'root', 'SLURM_CLUSTER_NAME': 'test', 'SLURM_GPUS_ON_NODE': '2', 'SLURM_ARRAY_TASK_ID': '3', 'SLURM_RESTART_COUNT': '2'}
    wrong = {k: env.get(k) for k in want if env.get(k) != want[k]}
    assert not wrong, wrong
    assert not {'RANK', 'LOCAL_RANK', 'WORLD_SIZE'} & set(env), 'set both ways'
    assert content(d + '/hosts') == '127.0.0.1 slots=2\n10.0.0.2 slots=2\n'
    assert content(d + '/tmp').strip() == env['MUSTER_TMPDIR']
    wait_for(lambda: not os.path.lexists(env['MUSTER_TMPDIR']), what='its temporary directory to go')
    # An address of IPv6 has colons of its own.
    c.launch(43, 'echo $MASTER_ADDR $PET_RDZV_ENDPOINT $JAX_COORDINATOR_ADDRESS > %s/six' % d,
             place=[{'node': 'n1', 'address': 'fd00::7', 'gpus': [0]}])
    c.report(43, 'exited', exit=0)
    assert content(d + '/six') == 'fd00::7 [fd00::7]:29500 [fd00::7]:29500\n', content(d + '/six')
    # One process a task: everything is set.
    c.launch(42, 'echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE ${PET_NNODES-none} > %s/t.$RANK' % d, place=place,
             spec={'launch': 'task', 'nodes': 2})
    c.report(42, 'exited', exit=0)
    assert content(d + '/t.0') == '0 0 4 2 none\n' and content(d + '/t.1') == '1 1 4 2 none\n'
    # Once: other nodes only hold their place.
    place = [{'node': 'n9', 'address': '10.0.0.9', 'gpus': [0]}, {'node': 'n1', 'address': '127.0.0.1', 'gpus': [0]}]
    c.launch(43, 'touch %s/held' % d, place=place, rank=1, spec={'launch': 'once'})
    c.report(43, 'running')
    time.sleep(0.2)
    assert not os.path.exists(d + '/held')
    c.order('stop', 43, kind='cancel', grace_ms=60000)
    assert c.report(43, 'exited')['exit'] == 0


def running(command):
    """Processes with that in their command."""
    return subprocess.run(['pgrep', '-f', command], capture_output=True, text=True).stdout.split()


@test('--cgroup', 'none')
def without_groups_it_is_done_by_hand(c, a, d):
    hello = c.connected() and c.hellos[0]
    assert hello['inventory']['fences'] == [] and 'turned off' in hello['inventory']['unfenced'], hello['inventory']
    c.launch(1, 'setsid sleep 1000 & echo $! > %s/pid; sleep 0.1' % d)
    c.report(1, 'exited')
    assert gone(int(content(d + '/pid')))
    c.launch(2, 'setsid sleep 1000 & echo $! > %s/pid2; echo x > %s/up; while :; do sleep 0.05; done' % (d, d))
    wait_for(lambda: content(d + '/up'), what='the job')
    c.order('suspend', 2)
    c.report(2, 'suspended')
    c.order('resume', 2)
    c.wait('running again', lambda: sum(r.get('job') == 2 and r['state'] == 'running' for r in c.reports) == 2)
    stat = c.ask(1, 'stat', job=2, attempt=0, rank=0)[0]
    assert stat['pids'] >= 1 and stat['memory'] > 0, stat
    os.kill(shepherds(a, 2)[0], signal.SIGKILL)
    assert c.report(2, 'exited')['cause'] == 'lost'
    assert gone(int(content(d + '/pid2')), 1)
    # A command that was run inside ends with the task.
    c.launch(3, 'sleep 1000')
    c.report(3, 'running')
    c.ask(2, 'exec', job=3, attempt=0, rank=0, argv=['sh', '-c', 'echo $$; exec sleep 1000'], done=False)
    c.wait('its pid', lambda: b'\n' in c.text(2))
    c.order('stop', 3, kind='cancel', grace_ms=0)
    c.report(3, 'exited')
    assert gone(int(c.text(2)), 1)
    # So does one in the place of a task that failed.
    c.launch(4, 'exit 9', spec={'keep_on_fail': '1h'})
    c.report(4, 'kept', exit=9, cause='exit')
    c.ask(3, 'exec', job=4, attempt=0, rank=0, argv=['sh', '-c', 'echo $$; exec sleep 1000'], done=False)
    c.wait('its pid', lambda: b'\n' in c.text(3))
    c.order('stop', 4, kind='cancel', grace_ms=60000)
    c.report(4, 'exited', exit=9, cause='exit')
    assert gone(int(c.text(3)), 1)


def as_user(c, a, d):
    """Only root can become others."""
    os.chmod(d, 0o777)
    os.chmod(os.path.dirname(d), 0o755)
    c.connected()
    c.launch(1, 'id -u > %s/uid; id -G >> %s/uid; touch $MUSTER_TMPDIR/x; cat $MUSTER_HOSTFILE > /dev/null && echo ok >> %s/uid'
             % (d, d, d), uid=65534, gid=65534, user='nobody', spec={'output': d + '/out', 'dir': d})
    end = c.report(1, 'exited')
    assert content(d + '/uid') == '65534\n65534\nok\n', content(d + '/uid')
    assert end['exit'] == 0 and os.stat(d + '/out').st_uid == 65534, end
    # A file it may not write is not written by us either.
    open(d + '/locked', 'w').close()
    os.chmod(d + '/locked', 0o600)
    c.launch(2, 'true', uid=65534, gid=65534, spec={'output': d + '/locked'})
    assert c.report(2, 'refused')['blame'] == 'user'
    c.ask(1, 'exec', job=1, attempt=0, rank=0, argv=['id', '-u'])
    c.launch(3, 'sleep 1000', uid=65534, gid=65534, user='nobody', spec={'dir': '/'})
    c.report(3, 'running')
    c.ask(2, 'exec', job=3, attempt=0, rank=0, argv=['id', '-u'])
    assert c.text(2, 'out') == b'65534\n', c.answers[2]
    # Its streams are its own: they can be opened by their names.
    words = 'echo out >/dev/stdout && echo err >/dev/stderr && cat </dev/stdin'
    c.launch(5, words, uid=65534, gid=65534, user='nobody', gpus=[1], spec={'dir': '/', 'output': d + '/named'})
    end = c.report(5, 'exited')
    assert end['exit'] == 0 and content(d + '/named') == 'out\nerr\n', (end, content(d + '/named'))
    for number, tty in ((11, False), (12, True)):
        c.ask(number, 'exec', job=3, attempt=0, rank=0, tty=tty, argv=['sh', '-c', 'echo out >/dev/stdout && echo err >/dev/stderr'])
        assert c.answers[number][-1]['exit'] == 0 and b'out' in c.text(number), c.answers[number]
    c.launch(4, 'exit 9', uid=65534, gid=65534, user='nobody', gpus=[1], spec={'dir': '/', 'keep_on_fail': '1h'})
    c.report(4, 'kept')
    c.ask(3, 'exec', job=4, attempt=0, rank=0, argv=['id', '-u'])
    assert c.text(3, 'out') == b'65534\n', c.answers[3]
    shepherd = shepherds(a, 4)[0]
    held = content('/proc/%d/task/%d/children' % (shepherd, shepherd)).split()
    assert held and all(os.stat('/proc/' + pid).st_uid == 65534 for pid in held), held


def private_tmp(c, a, d):
    c.connected()
    c.launch(1, 'echo secret > /tmp/muster-test-private; ls /tmp > %s/ls; pwd > %s/pwd; until [ -e %s/go ]; do sleep 0.05; done' % (d, d, d),
             spec={'dir': d})
    c.report(1, 'running')
    wait_for(lambda: content(d + '/pwd'), what='the job')
    assert not os.path.exists('/tmp/muster-test-private'), 'it is visible outside'
    c.ask(1, 'exec', job=1, attempt=0, rank=0, argv=['cat', '/tmp/muster-test-private'])
    assert c.text(1, 'out') == b'secret\n', c.answers[1]
    open(d + '/go', 'w').close()
    c.report(1, 'exited')
    assert content(d + '/pwd').strip() == d
    c.launch(2, 'echo kept > /tmp/muster-test-private; sleep 1000 & exit 9', spec={'dir': d, 'keep_on_fail': '1h'})
    c.report(2, 'kept')
    a.kill()
    a.start()
    c.connected(2)
    for ask in range(2, 102):  # its shepherd has not told a new agent at once where it is
        c.ask(ask, 'exec', job=2, attempt=0, rank=0, argv=['sh', '-c', 'cat /tmp/muster-test-private; pwd'])
        said = c.text(ask, 'out')
        if said or 'not running' not in str(c.answers[ask]):
            break
        time.sleep(0.1)
    assert said == b'kept\n%s\n' % d.encode(), c.answers[ask]
    c.order('suspend', 2)  # others are to have its GPUs
    c.report(2, 'exited', exit=9, cause='exit')
    # The command that saves it is inside as well.
    c.launch(3, 'echo work > /tmp/muster-test-private; echo x > %s/up; until [ -s %s/saved ]; do sleep 0.05; done' % (d, d),
             spec={'dir': d, 'checkpoint': {'cmd': 'cat /tmp/muster-test-private > %s/saved' % d}})
    wait_for(lambda: content(d + '/up'), what='the job')
    c.report(3, 'running')
    c.order('stop', 3, kind='preempt', grace_ms=20000)
    c.report(3, 'exited')
    assert content(d + '/saved') == 'work\n', content(d + '/saved')


def containers(c, a, d):
    c.connected()
    runtimes = c.hellos[0]['inventory']['runtimes']
    if 'podman' not in runtimes:
        c.launch(1, 'true', spec={'image': 'docker.io/library/none'})
        end = c.report(1, 'refused')
        assert end['blame'] == 'user' and 'podman' in end['cause'] and 'n1' in end['cause'], end
        if shutil.which('podman') and shutil.which('crun'):
            assert 'cgroup v2 alone' in end['cause'], end
    c.launch(11, 'true', spec={'image': '/x', 'runtime': 'enroot'})
    end = c.report(11, 'refused')
    assert end['blame'] == 'user' and 'enroot' in end['cause'] and 'runc' in end['cause'], end
    c.launch(2, 'true', spec={'image': '/x', 'runtime': 'podman' if 'podman' not in runtimes else 'runc'})
    assert c.report(2, 'refused')['blame'] == 'user'
    if 'runc' not in runtimes or not os.path.exists('/bin/busybox'):
        print('# SKIP the rest: runc or a static busybox is not there')
        return
    root = d + '/root'
    for name in ('bin', 'proc', 'dev', 'sys', 'tmp'):
        os.makedirs(root + '/' + name)
    shutil.copy('/bin/busybox', root + '/bin/busybox')
    for name in ('sh', 'ls', 'cat', 'sleep'):
        os.symlink('busybox', root + '/bin/' + name)
    spec = {'image': root, 'env': {'PATH': '/bin'}, 'mounts': ['%s:/data' % d]}
    c.launch(3, 'ls /; cat $MUSTER_HOSTFILE > /data/hosts; exit 4', spec=spec)
    end = c.report(3, 'exited')
    assert end['exit'] == 4, (end, c.log(1, 3))
    assert 'bin\n' in c.log(2, 3) and 'home' not in c.log(3, 3) and content(d + '/hosts')
    ours = 'sleep %d' % (1000000000 + os.getpid())  # containers of another run of this test may be here beside us
    c.launch(4, 'echo up > /data/up; ' + ours, spec=spec)
    wait_for(lambda: content(d + '/up'), what='the container')
    c.report(4, 'running')
    wait_for(lambda: running(ours), what='what it runs')
    c.ask(5, 'exec', job=4, attempt=0, rank=0, argv=['sh', '-c', 'ls /; echo $MORE'], env={'MORE': 'x'})
    assert b'bin\n' in c.text(5, 'out') and b'home' not in c.text(5) and b'x\n' in c.text(5), c.answers[5]
    os.makedirs(d + '/closed/in', mode=0o700)
    os.chmod(d + '/closed', 0o700)
    c.launch(5, 'true', uid=65534, gid=65534, gpus=[1], spec=dict(spec, mounts=[d + '/closed/in:/data'], image='/'))
    assert 'cannot be reached' in c.report(5, 'refused')['cause']
    c.order('stop', 4, kind='cancel', grace_ms=0)
    c.report(4, 'exited')
    assert not running(ours), running(ours)
    # The place of one that failed is in its container too: what it left in its image and directory is there.
    c.launch(6, 'echo here > $MUSTER_TMPDIR/left; echo here > /made; exit 9', spec=dict(spec, keep_on_fail='1h'))
    c.report(6, 'kept', exit=9)
    c.ask(6, 'exec', job=6, attempt=0, rank=0, argv=['sh', '-c', 'ls /; cat $MUSTER_TMPDIR/left /made'])
    assert b'bin\n' in c.text(6, 'out') and b'home' not in c.text(6) and b'here\nhere\n' in c.text(6), c.answers[6]
    c.order('stop', 6, kind='release', grace_ms=0)
    c.report(6, 'exited', exit=9, cause='exit')
    swapped_links(c, d, root)


def as_its_user(c, d, box, spec):
    """Nothing that a container of another user asks of the node is done with root's rights."""
    who = dict(uid=65534, gid=65534, gpus=[1])
    c.launch(120, 'echo $MORE $LD_PRELOAD; cat $MUSTER_HOSTFILE; echo x > $MUSTER_TMPDIR/t && cat $MUSTER_TMPDIR/t',
             spec=dict(spec, env={'PATH': '/bin', 'MORE': 'more', 'LD_PRELOAD': '/nowhere/own.so'}), **who)
    assert c.report(120, 'exited')['exit'] == 0, c.log(3000, 120)
    assert c.log(3001, 120) == 'more /nowhere/own.so\n127.0.0.1 slots=1\nx\n', c.log(3001, 120)  # no word of the runtime's own loader
    # Its output file is written as its user: not where only root can, and where it can as its own.
    c.launch(121, 'echo in', spec=dict(spec, output=box + '/kept/out'), **who)
    end = c.wait('job 121', lambda: next((r for r in c.reports if r.get('job') == 121 and r.get('state') in ('exited', 'refused')), None))
    assert not os.path.exists(box + '/kept/out'), end
    c.launch(122, 'echo in', spec=dict(spec, output=box + '/out'), **who)
    assert c.report(122, 'exited')['exit'] == 0 and content(box + '/out') == 'in\n' and os.stat(box + '/out').st_uid == 65534
    # The command that saves it runs inside, as its user.
    os.makedirs(box + '/save')
    os.chown(box + '/save', 65534, 65534)
    c.launch(123, 'echo up > /save/up; until [ -s /save/more ]; do sleep 0.1; done',
             spec=dict(spec, mounts=['%s/save:/save' % box], checkpoint={'cmd': 'ls / > /save/ls; echo $MORE > /save/more'},
                       env={'PATH': '/bin', 'MORE': 'more', 'LD_PRELOAD': '/nowhere/own.so'}), **who)
    wait_for(lambda: content(box + '/save/up'), 40, what='the container')
    c.report(123, 'running')
    c.ask(3002, 'exec', job=123, attempt=0, rank=0, argv=['sh', '-c', 'echo $MORE > /save/exec'])
    c.order('stop', 123, kind='preempt', grace_ms=60000)  # it ends by itself when it is saved, however long that takes
    c.report(123, 'exited', timeout=60)
    assert os.stat(box + '/save/ls').st_uid == 65534 and 'home' not in content(box + '/save/ls'), content(box + '/save/ls')
    assert content(box + '/save/more') == 'more\n' and content(box + '/save/exec') == 'more\n'
    assert os.stat(box + '/save/exec').st_uid == 65534 and b'own.so' not in c.text(3002), c.text(3002)


def swapped_links(c, d, root):
    """A user who swaps a folder for a link while the container starts never sees what only root can reach."""
    box = d + '/box'
    for name, text, mode in (('mine', 'mine', 0o755), ('kept', 'secret', 0o700)):
        os.makedirs(box + '/' + name + '/in')
        with open(box + '/' + name + '/in/f', 'w') as f:
            f.write(text + '\n')
        os.chmod(box + '/' + name, mode)
    os.chmod(box, 0o777)
    os.chmod(d, 0o755)
    os.chmod(os.path.dirname(d), 0o755)
    os.symlink('mine', box + '/link')
    over = threading.Event()

    def swap():
        for i in itertools.count():
            if over.is_set():
                return
            os.symlink(('kept', 'mine')[i % 2], box + '/new')
            os.rename(box + '/new', box + '/link')
            time.sleep(0.0005 * (i % 3))

    spec = {'image': root, 'env': {'PATH': '/bin'}, 'dir': '/', 'mounts': ['%s/link/in:/data' % box]}
    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = []
    try:
        for job in range(100, 116):
            c.launch(job, 'cat /data/f', uid=65534, gid=65534, gpus=[1], spec=spec)
            end = c.wait('job %d' % job, lambda: next((r for r in c.reports if r.get('job') == job and
                                                       r.get('state') in ('exited', 'refused')), None))
            seen.append(c.log(1000 + job, job).strip() if end['state'] == 'exited' else end['cause'])
    finally:
        over.set()
        swapper.join()
    assert all(s == 'mine' or s.startswith("mount '") for s in seen), seen
    os.unlink(box + '/link')
    os.symlink('mine', box + '/link')
    c.launch(116, 'cat /data/f', uid=65534, gid=65534, gpus=[1], spec=spec)
    assert c.report(116, 'exited')['exit'] == 0 and c.log(2000, 116) == 'mine\n', c.log(2001, 116)
    as_its_user(c, d, box, dict(spec, mounts=['%s/mine/in:/data' % box]))
    # A file is as good as a folder.
    c.launch(117, 'cat /one', uid=65534, gid=65534, gpus=[1], spec=dict(spec, mounts=['%s/mine/in/f:/one' % box]))
    assert c.report(117, 'exited')['exit'] == 0 and c.log(2002, 117) == 'mine\n', c.log(2003, 117)


SPARED = '''#!/bin/sh
echo -900 2>/dev/null >/proc/self/oom_score_adj || echo 300 >/proc/self/oom_score_adj
exec "$MUSTER_AGENT_REAL" "$@"
'''


def jobs_are_not_spared_when_memory_runs_out(c, a, d):
    """The unit keeps the agent from the kernel's choice (where this test may not do that, it does the opposite); what
    it starts for users is like any other program."""
    c.connected()
    own = content('/proc/%d/oom_score_adj' % a.process.pid).strip()
    assert own in ('-900', '300'), own
    os.chmod(d, 0o777)
    os.chmod(os.path.dirname(d), 0o755)
    for job, who in ((1, {}), (2, {'uid': 65534, 'gid': 65534, 'user': 'nobody'})):
        c.launch(job, 'cat /proc/self/oom_score_adj > %s/%d.part; mv %s/%d.part %s/%d; sleep 1000' % (d, job, d, job, d, job),
                 spec={'dir': d}, place=[{'node': 'n1', 'address': '127.0.0.1', 'gpus': [job]}], **who)
        c.report(job, 'running')
        assert wait_for(lambda: content('%s/%d' % (d, job)), what='the job') == '0\n', content('%s/%d' % (d, job))
        c.ask(job, 'exec', job=job, attempt=0, rank=0, argv=['cat', '/proc/self/oom_score_adj'])
        assert c.text(job, 'out') == b'0\n', c.answers[job]
    keepers = {content('/proc/%d/oom_score_adj' % pid).strip() for pid in shepherds(a)}
    assert keepers == {own}, keepers


PURE = '''#!/bin/sh
exec unshare -m sh -c 'mount --make-rprivate / && umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec "$0" "$@"' "$MUSTER_AGENT_REAL" "$@"
'''


def containers_where_cgroups_are_v2_alone(c, a, d):
    """As on a node without the old hierarchies, in a mount namespace of the agent's: its groups, and runc in them."""
    c.connected()
    with open('/proc/%d/mounts' % a.process.pid) as f:
        kinds = [line.split()[2] for line in f if line.split()[1].startswith('/sys/fs/cgroup')]
    assert kinds == ['cgroup2'], kinds
    if shutil.which('podman') and shutil.which('crun'):
        assert 'podman' in c.hellos[0]['inventory']['runtimes'], c.hellos[0]
    containers(c, a, d)


if os.getuid() == 0:
    tests.append((containers, (), {}))
    tests.append((as_user, (), {}))
    tests.append((jobs_are_not_spared_when_memory_runs_out, (), {'wrap': SPARED}))
    tests.append((private_tmp, ('--private-tmp', 'on'), {}))
    if subprocess.run(['unshare', '-m', 'sh', '-c', 'umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup'],
                      capture_output=True).returncode == 0:
        tests.append((containers_where_cgroups_are_v2_alone, (), {'wrap': PURE}))
    else:
        print('# SKIP containers where cgroups are v2 alone: no such mount can be made here')


sys.exit(main())
