# SPDX-License-Identifier: Apache-2.0
"""test_gpu.py AGENT JOB FAKE_DIR - jobs that share GPUs run under the GPU runtime by themselves: a real agent on a GPU that NVML tells of, a
real node side, programs on the fake driver. JOB is tests/fakecuda/job.c. Prints TAP."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from harness import PROGRAM, content, main, test, wait_for

JOB, FAKE = os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
BUILD = os.path.dirname(PROGRAM)
MUSTER, LIBRARY = BUILD + '/muster', BUILD + '/libmuster_gpu.so'
cards = tempfile.mkdtemp(prefix='cards', dir='/var/tmp')  # tasks have a /tmp of their own
os.chmod(cards, 0o777)
open(cards + '/nvml', 'w').close()
os.environ.update(LD_LIBRARY_PATH=FAKE, FAKE_NVML_FILE=cards + '/nvml', FAKE_CUDA_DIR=cards, FAKE_CUDA_MEMORY='256', MUSTER_GPU_CONTEXT='0',
                  MUSTER_GPU_CLAIM_SECONDS='60')
# A task gets nothing of the agent's own variables.
ENV = {name: os.environ[name] for name in ('LD_LIBRARY_PATH', 'FAKE_CUDA_DIR', 'FAKE_CUDA_MEMORY', 'MUSTER_GPU_CONTEXT')}


def place(agent):
    return os.path.dirname(os.path.realpath(agent.state + '/tasks')) + '/gpu'


def gpu(agent, *words):
    env = dict(os.environ, MUSTER_GPU_SOCKET=place(agent) + '/gpu.sock', MUSTER_GPU_RUN_DIR=place(agent) + '/run')
    return subprocess.run([MUSTER, 'gpu'] + list(words), env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60).stdout.decode()


def listed(agent, job):
    """What the node side says of the program of a job; None."""
    try:
        return next((p for p in json.loads(gpu(agent, 'ls', '--json'))['items'] if p.get('job') == str(job)), None)
    except ValueError:
        return None


def steps(agent, job):
    p = listed(agent, job)
    return p['steps'] if p else 0


def moves(agent, job):
    wait_for(lambda: steps(agent, job) > 0, what='a step of job %d' % job)
    before = steps(agent, job)
    wait_for(lambda: steps(agent, job) > before, what='the next step of job %d' % job)


def node_side(agent):
    """Its pid; 0: there is none."""
    want = ('MUSTER_GPU_SOCKET=%s/gpu.sock' % place(agent)).encode()
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open('/proc/%s/cmdline' % name, 'rb') as f:
                words = f.read().split(b'\0')
            with open('/proc/%s/environ' % name, 'rb') as f:
                variables = f.read().split(b'\0')
        except OSError:
            continue
        if words[1:3] == [b'gpu', b'agent'] and want in variables:
            return int(name)
    return 0


def over(c, agent, *jobs):
    for job in jobs:
        c.order('stop', job, kind='cancel', grace_ms=0)
        c.report(job, 'exited')
    pid = node_side(agent)
    if pid:
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not node_side(agent), what='the end of the node side')


RUN = 'exec %s 32 1000000 4' % JOB


@test('--private-tmp', 'off', fake=None)
def it_is_there_by_itself(c, a, d):
    c.connected()
    assert c.hellos[0]['inventory']['gpus'], c.hellos[0]
    c.launch(1, RUN, runtime=True, spec={'env': ENV})
    moves(a, 1)
    p = listed(a, 1)
    assert p['role'] == 'guaranteed', p
    # Suspended it leaves its GPU, and comes back with all it had: the job checks every word in each step.
    c.order('suspend', 1)
    c.report(1, 'suspended')
    assert listed(a, 1)['state'] == 'released', listed(a, 1)
    # Neither is an end of the agent one of the node side.
    pid = node_side(a)
    a.kill()
    a.start()
    c.connected(2)
    time.sleep(0.5)
    assert node_side(a) == pid and listed(a, 1)['state'] == 'released'
    c.order('resume', 1)
    moves(a, 1)
    # One that died is started again, and knows the program.
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: node_side(a) not in (0, pid), what='another node side')
    moves(a, 1)
    over(c, a, 1)


@test('--private-tmp', 'off', fake=None)
def its_steps_are_told(c, a, d):
    c.connected()
    c.launch(1, RUN, runtime=True, spec={'env': dict(ENV, JOB_GAP_US='20000')})
    moves(a, 1)
    rows = lambda: [r for f in c.progress for r in f if r[0] == 1]
    wait_for(lambda: any(r[6] > 0 for r in rows()), what='a rate of mini-batches')
    row = rows()[-1]
    assert row[4] == 2 and 0 < row[5] <= steps(a, 1), row  # of the runtime
    # It has a rate that its count bears out, within what a loaded machine does.
    assert 0 < row[6] <= 60 * 1000000, row
    over(c, a, 1)


@test('--private-tmp', 'off', fake=None)
def a_guest_is_held_back(c, a, d):
    c.connected()
    c.launch(1, RUN, runtime=True, spec={'env': dict(ENV, JOB_GAP_US='5000')})
    moves(a, 1)
    c.launch(2, RUN, runtime=True, guest=True, memory_mib=64, percent=50, spec={'env': ENV}, **{'class': 'opportunistic'})
    moves(a, 2)
    p = listed(a, 2)
    assert p['role'] == 'opportunistic' and p['cap_bytes'] == 64 << 20, p
    wait_for(lambda: listed(a, 2)['gate'] in ('harvest', 'closed'), what='a gate before the guest')
    c.order('limit', 2, memory_mib=16, percent=0)
    wait_for(lambda: listed(a, 2)['state'] == 'paused', what='a pause')
    moves(a, 1)
    c.order('limit', 2, memory_mib=16, percent=100)
    wait_for(lambda: listed(a, 2)['cap_bytes'] == 16 << 20, what='a lower limit')
    moves(a, 2)
    over(c, a, 1, 2)


@test('--private-tmp', 'off', fake=None)
def only_who_shares_has_it(c, a, d):
    c.connected()
    c.launch(1, 'echo "${LD_PRELOAD-none} $MUSTER_GPU_ROLE" > %s/one' % d)
    c.report(1, 'exited')
    assert content(d + '/one') == 'none guaranteed\n', content(d + '/one')
    assert not node_side(a)
    c.launch(2, 'echo "$LD_PRELOAD $PYTHONPATH $TF_FORCE_GPU_ALLOW_GROWTH $XLA_PYTHON_CLIENT_PREALLOCATE" > %s/two' % d, runtime=True,
             spec={'env': {'LD_PRELOAD': '/lib/x86_64-linux-gnu/libm.so.6', 'PYTHONPATH': '/mine', 'XLA_PYTHON_CLIENT_PREALLOCATE': 'true'}})
    c.report(2, 'exited')
    words = content(d + '/two').split()
    assert words[0] == LIBRARY + ':/lib/x86_64-linux-gnu/libm.so.6', words
    assert words[1].endswith('python:/mine') or words[1] == '/mine', words
    assert words[2:] == ['true', 'true'], words
    c.launch(3, 'echo "${LD_PRELOAD-none}" > %s/three' % d, runtime=True, gpus=[])
    c.report(3, 'exited')
    assert content(d + '/three') == 'none\n', content(d + '/three')
    over(c, a)


@test('--private-tmp', 'off', fake=None)
def a_part_of_a_gpu(c, a, d):
    """A quarter is a quarter of the memory and of the time, for each of two; all of it when nobody is beside it is not: it asked for a part."""
    c.connected()
    for job in (1, 2):
        c.launch(job, RUN, runtime=True, spec={'env': ENV, 'gpus': 0.25})
    for job in (1, 2):
        moves(a, job)
        p = listed(a, job)
        assert p['role'] == '-' and p['cap_bytes'] == 64 << 20 and p['share_permille'] == 250, p
    c.launch(3, 'exec %s 80 1000000 4' % JOB, runtime=True, spec={'env': ENV, 'gpus': 0.25})
    assert c.report(3, 'exited')['exit'] != 0, 'more than its part'
    over(c, a, 1, 2)


@test('--private-tmp', 'off', '--gpu-runtime', 'all', fake=None)
def or_everybody(c, a, d):
    c.connected()
    c.launch(1, RUN, spec={'env': ENV})
    moves(a, 1)
    over(c, a, 1)


@test('--private-tmp', 'off', '--gpu-runtime', 'off', fake=None)
def or_nobody(c, a, d):
    c.connected()
    c.launch(1, 'echo "${LD_PRELOAD-none}" > %s/one' % d, runtime=True)
    c.report(1, 'exited')
    assert content(d + '/one') == 'none\n', content(d + '/one')
    assert not node_side(a)


settings = tempfile.mkdtemp(prefix='settings')
with open(settings + '/off.yaml', 'w') as f:
    f.write('gpu_runtime: off\n')
with open(settings + '/bad.yaml', 'w') as f:
    f.write('private_tmp: false\ngpu_runtime: some\n')


@test('--config', settings + '/off.yaml', '--private-tmp', 'off', fake=None)
def or_as_its_file_says(c, a, d):
    or_nobody(c, a, d)
    bad = subprocess.run([PROGRAM, '--config', settings + '/bad.yaml'], stderr=subprocess.PIPE, timeout=60)
    assert bad.returncode == 2 and b'bad.yaml:2:14: gpu_runtime: expected shared, all or off' in bad.stderr, bad
    bad = subprocess.run([PROGRAM, '--gpu-runtime', 'some'], stderr=subprocess.PIPE, timeout=60)
    assert bad.returncode == 2 and b'--gpu-runtime: expected shared, all or off' in bad.stderr, bad


def users_meet(c, a, d):
    """Two users on one GPU, each in a /tmp of its own, under the one node side, which is root's."""
    os.chmod(os.path.dirname(d), 0o755)
    c.connected()
    c.launch(1, RUN, runtime=True, uid=65534, gid=65534, user='nobody', spec={'dir': '/', 'env': dict(ENV, JOB_GAP_US='5000')})
    c.launch(2, RUN, runtime=True, guest=True, uid=65533, gid=65533, user='other', spec={'dir': '/', 'env': ENV}, **{'class': 'opportunistic'})
    moves(a, 1)
    moves(a, 2)
    wait_for(lambda: listed(a, 2)['gate'] in ('harvest', 'closed'), what='a gate before the guest')
    env = dict(os.environ, MUSTER_GPU_SOCKET=place(a) + '/gpu.sock', MUSTER_GPU_RUN_DIR='/nowhere')
    said = subprocess.run(['setpriv', '--reuid', '65533', '--clear-groups', MUSTER, 'gpu', 'set', str(listed(a, 2)['pid']), 'share=1'], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
    assert 'ok' not in said, said
    c.order('suspend', 2)
    c.report(2, 'suspended')
    assert listed(a, 2)['state'] == 'released', listed(a, 2)
    c.order('resume', 2)
    moves(a, 2)
    over(c, a, 1, 2)


def inside_a_container(c, a, d):
    c.connected()
    if 'runc' not in c.hellos[0]['inventory']['runtimes']:
        print('# SKIP inside a container: runc is not there')
        return
    root = d + '/root'
    mounts = []
    for name in ('proc', 'dev', 'sys', 'tmp', 'etc', 'run'):
        os.makedirs(root + '/' + name)
    for name in ('usr', 'bin', 'lib', 'lib64'):
        if os.path.islink('/' + name):
            os.symlink(os.readlink('/' + name), root + '/' + name)
        elif os.path.isdir('/' + name):
            os.makedirs(root + '/' + name)
            mounts.append('/%s:/%s:ro' % (name, name))
    for folder in (os.path.dirname(JOB), FAKE, cards):
        os.makedirs(root + folder, exist_ok=True)
        if folder + ':' + folder not in mounts:
            mounts.append('%s:%s' % (folder, folder))
    c.launch(1, RUN, runtime=True, spec={'image': root, 'env': ENV, 'mounts': mounts})
    wait_for(lambda: steps(a, 1) > 0 or any(r.get('state') in ('exited', 'refused') for r in c.reports), what='a step in a container')
    assert steps(a, 1) > 0, (c.reports, c.log(1, 1))
    assert listed(a, 1)['pid'] != 1, 'its number is that of the machine, not of the container'
    c.order('limit', 1, memory_mib=0, percent=0)
    wait_for(lambda: listed(a, 1)['state'] == 'paused', what='a pause')
    c.order('limit', 1, memory_mib=0, percent=100)
    moves(a, 1)
    over(c, a, 1)


if os.getuid() == 0:
    if shutil.which('setpriv') and os.system('setpriv --reuid 65534 --clear-groups %s >/dev/null 2>&1' % (MUSTER + ' gpu --help')) == 0:
        test(*(['--private-tmp', 'off'] if BUILD.startswith('/tmp/') else []), fake=None)(users_meet)
    else:
        print('# SKIP users_meet: the build cannot be reached by others')
    test('--private-tmp', 'off', fake=None)(inside_a_container)

del sys.argv[2:4]
status = main()
shutil.rmtree(cards, ignore_errors=True)
sys.exit(status)
