# SPDX-License-Identifier: Apache-2.0
"""A real agent with emulated GPUs and real processes, against a scripted controller. TAP.

usage: test_agent.py MUSTER_AGENT [NAME...]
"""
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller import Agent, Controller  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
tests = []


def test(*flags, **options):
    def add(function):
        tests.append((function, flags, options))
        return function
    return add


def gone(pid, timeout=30):
    end = time.time() + timeout
    while time.time() < end:
        try:
            with open('/proc/%d/stat' % pid) as file:
                if file.read().rsplit(')', 1)[1].split()[0] == 'Z':
                    return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def wait_for(test_it, timeout=30, what='something'):
    end = time.time() + timeout
    while time.time() < end:
        value = test_it()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError('timed out: ' + what)


def content(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ''


def shepherds(agent, job=''):
    """pids of the shepherds of this agent, or of one of its jobs"""
    place = os.path.realpath(agent.state + '/tasks') + '/%s' % (job and '%d.' % job)
    found = []
    for name in os.listdir('/proc'):
        if name.isdigit():
            try:
                with open('/proc/%s/comm' % name) as file:
                    if file.read().strip() == 'muster-task' and \
                            any(os.path.realpath('/proc/%s/fd/%s' % (name, fd)).startswith(place)
                                for fd in os.listdir('/proc/%s/fd' % name)):
                        found.append(int(name))
            except OSError:
                pass
    return found


@test()
def a_job_runs_and_ends(c, a, d):
    hello = c.connected() and c.hellos[0]
    assert hello['node'] == 'n1' and hello['v'] == 1 and len(hello['inventory']['gpus']) == 8, hello
    assert hello['inventory']['sku'] == 'H100' and hello['inventory']['fake'] is True
    c.launch(1, 'echo out; echo err >&2; exit 3')
    c.report(1, 'running')
    end = c.report(1, 'exited')
    assert (end['exit'], end['signal'], end['cause']) == (3, 0, 'exit'), end
    assert c.log(1, 1) == 'out\nerr\n', c.log(2, 1)
    c.order('clean', 1)
    wait_for(lambda: not os.listdir(a.state + '/tasks'), what='the directory to go')
    assert c.log(3, 1) == 'out\nerr\n'  # output outlives the task


@test()
def it_is_told_how_it_ended(c, a, d):
    c.connected()
    c.launch(1, 'kill -SEGV $$')
    end = c.report(1, 'exited')
    assert (end['signal'], end['cause'], end['exit']) == (11, 'signal', 139), end
    c.launch(2, args=['/does/not/exist'])
    end = c.report(2, 'exited')
    assert (end['exit'], end['cause']) == (127, 'exit') and 'exist' in end['words'], end
    c.launch(3, 'true', spec={'dir': '/no/such/place'})
    end = c.report(3, 'refused')
    assert end['blame'] == 'user' and '/no/such/place' in end['cause'], end
    c.launch(4, 'exit 85')
    assert c.report(4, 'exited')['exit'] == 85
    c.launch(5, 'true', gpus=[8])
    assert c.report(5, 'refused')['blame'] == 'system'
    c.launch(6, 'true', uid=None)
    assert 'no user' in c.report(6, 'refused')['cause']
    c.launch(7, 'true', spec={'nonsense': 1})
    assert 'nonsense' in c.report(7, 'refused')['cause']


@test()
def nothing_of_a_task_survives_it(c, a, d):
    c.connected()
    ours = '1000.%07d' % os.getpid()  # another run of this test may be going on beside us
    c.launch(1, 'setsid sleep %s & echo $! > %s/pid; nohup sh -c "sleep %s & wait" & echo ok' % (ours, d, ours))
    assert c.report(1, 'exited')['exit'] == 0
    assert gone(int(content(d + '/pid'))), 'a process in a session of its own survived'
    out = subprocess.run(['pgrep', '-f', 'sleep ' + ours], capture_output=True)
    assert not out.stdout, out.stdout


@test()
def a_gang_waits_at_its_gate(c, a, d):
    c.connected()
    c.launch(1, 'touch %s/ran' % d, go=False)
    c.report(1, 'ready')
    time.sleep(0.2)
    assert not os.path.exists(d + '/ran'), 'it ran before the gate was opened'
    c.launch(1, 'touch %s/ran' % d, go=False)  # again: the report is repeated, nothing else happens
    c.wait('the report repeated', lambda: sum(r.get('state') == 'ready' for r in c.reports) == 2)
    c.order('go', 1)
    assert c.report(1, 'exited')['exit'] == 0
    assert os.path.exists(d + '/ran')
    c.launch(2, 'touch %s/never' % d, go=False)
    c.report(2, 'ready')
    c.order('stop', 2, kind='cancel', grace_ms=1000)
    assert c.report(2, 'exited')['cause'] == 'cancel'
    assert not os.path.exists(d + '/never')


@test()
def a_stop_gives_notice_and_grace(c, a, d):
    c.connected()
    # The shell has no trap: its program answers, and its exit code counts.
    program = 'import os,signal,sys,time\n' \
              'def save(*a):\n  open("%s/notice","w").write(open(os.environ["MUSTER_NOTICE_FILE"]).read()); sys.exit(85)\n' \
              'signal.signal(signal.SIGTERM, save)\nopen("%s/up","w")\nwhile True: time.sleep(1)\n' % (d, d)
    with open(d + '/p.py', 'w') as file:
        file.write(program)
    c.launch(1, 'python3 %s/p.py' % d)
    wait_for(lambda: os.path.exists(d + '/up'), what='the program to be up')
    c.order('stop', 1, kind='preempt', by='job 9', grace_ms=5000)
    c.report(1, 'stopping')
    end = c.report(1, 'exited')
    assert (end['exit'], end['cause']) == (85, 'preempt'), end
    notice = json.loads(content(d + '/notice'))
    assert notice['kind'] == 'preempt' and notice['by'] == 'job 9' and notice['grace_seconds'] == 5, notice
    # One with a trap of its own is told itself.
    c.launch(2, 'trap "echo saved; exit 7" TERM; echo up > %s/up2; while :; do sleep 0.05; done' % d)
    wait_for(lambda: content(d + '/up2'), what='the shell')
    c.order('stop', 2, kind='timeout', grace_ms=5000)
    end = c.report(2, 'exited')
    assert (end['exit'], end['cause']) == (7, 'timeout'), end
    # One that will not listen is killed.
    c.launch(3, 'trap "" TERM; echo up > %s/up3; while :; do sleep 0.05; done' % d)
    wait_for(lambda: content(d + '/up3'), what='the deaf shell')
    began = time.time()
    c.order('stop', 3, kind='cancel', grace_ms=300)
    end = c.report(3, 'exited')
    assert end['signal'] == 9 and end['cause'] == 'cancel' and 0.25 < time.time() - began, end
    # A script goes no further than the command that was told.
    c.launch(4, 'sleep 1000; touch %s/second; sleep 1000; touch %s/third' % (d, d))
    c.report(4, 'running')
    time.sleep(0.2)
    c.order('stop', 4, kind='cancel', grace_ms=60000)
    assert c.report(4, 'exited')['cause'] == 'cancel'
    assert not os.path.exists(d + '/third')


@test()
def a_command_saves_the_job(c, a, d):
    c.connected()
    spec = {'checkpoint': {'cmd': 'echo saved $MUSTER_JOB_ID >> %s/order' % d}}
    c.launch(1, 'trap "echo told >> %s/order; exit 85" TERM; echo up > %s/up; while :; do sleep 0.02; done' % (d, d), spec=spec)
    wait_for(lambda: content(d + '/up'), what='the shell')
    c.order('stop', 1, kind='preempt', grace_ms=5000)
    end = c.report(1, 'exited')
    assert (end['exit'], end['cause']) == (85, 'preempt'), end
    assert content(d + '/order') == 'saved 1\ntold\n', content(d + '/order')


@test()
def a_time_limit_is_kept_without_the_agent(c, a, d):
    c.connected()
    c.launch(1, 'trap "echo early >> %s/sig" USR1; trap "exit 9" TERM; echo up > %s/up; while :; do sleep 0.02; done' % (d, d),
             end=int((time.time() + 5) * 1e6), spec={'signal': 'USR1@1s', 'grace': '20s'})
    wait_for(lambda: content(d + '/up'), what='the shell')
    a.kill()
    wait_for(lambda: os.path.exists(a.state + '/tasks/1.0.0/exit.json'), what='the end')
    a.start()
    end = c.report(1, 'exited')
    assert (end['exit'], end['cause']) == (9, 'timeout'), end
    assert content(d + '/sig') == 'early\n'


@test()
def gpus_are_never_shared_by_a_dying_task(c, a, d):
    c.connected()
    c.launch(1, 'trap "" TERM; echo up > %s/up; while :; do sleep 0.02; done' % d, gpus=[0, 1])
    wait_for(lambda: content(d + '/up'), what='the shell')
    c.order('stop', 1, kind='preempt', grace_ms=400)
    c.launch(2, 'touch %s/second' % d, gpus=[1, 2])
    c.launch(3, 'touch %s/third' % d, gpus=[3])
    c.report(3, 'exited')  # others do not wait
    assert not os.path.exists(d + '/second')
    c.report(1, 'exited')
    c.report(2, 'exited')
    order = [(r['job'], r['state']) for r in c.reports]
    assert order.index((1, 'exited')) < order.index((2, 'running')), order
    # Halves of a GPU go together; three do not.
    half = {'gpus': '0.5'}
    for job in (4, 5, 6):
        c.launch(job, 'sleep 0.6', gpus=[7], spec=half)
    c.report(6, 'exited')
    order = [(r['job'], r['state']) for r in c.reports]
    assert order.index((5, 'running')) < min(order.index((4, 'exited')), order.index((5, 'exited')))
    assert order.index((6, 'running')) > min(order.index((4, 'exited')), order.index((5, 'exited'))), order


@test()
def a_guest_waits_for_nobody(c, a, d):
    c.connected()
    c.launch(1, 'sleep 1000', use=True)
    c.report(1, 'running')
    c.launch(2, 'echo $MUSTER_GPU_ROLE $MUSTER_GPU_MEMORY $CUDA_VISIBLE_DEVICES; sleep 1000', guest=True,
             **{'class': 'opportunistic', 'memory_mib': 1024, 'percent': 10})
    c.report(2, 'running')  # on the same GPU
    numbers = iter(range(1, 1000))
    wait_for(lambda: 'opportunistic 1073741824' in c.log(next(numbers), 2), what='its role')
    # A program without the runtime cannot be held back; nothing happens to it.
    c.order('limit', 2, memory_mib=512, percent=0)
    c.order('limit', 2, memory_mib=-1, percent=1000)
    time.sleep(0.3)
    c.launch(3, 'echo $MUSTER_GPU_ROLE')  # an owner still waits for the owner, and not for the guest
    time.sleep(0.3)
    assert not any(r.get('job') == 3 and r.get('state') == 'running' for r in c.reports)
    c.order('stop', 1, kind='cancel', grace_ms=100)
    c.report(1, 'exited')
    assert c.report(3, 'exited')['exit'] == 0
    c.order('stop', 2, kind='cancel', grace_ms=100)
    c.report(2, 'exited')


def cpu_of(pid):
    """Seconds of a processor it has used."""
    with open('/proc/%d/stat' % pid) as file:
        words = file.read().rsplit(')', 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf('SC_CLK_TCK')


@test()
def the_use_of_gpus_is_told(c, a, d):
    c.connected()
    c.launch(1, 'echo $$ > %s/pid; while :; do :; done' % d, use=True)
    c.report(1, 'running')
    wait_for(lambda: content(d + '/pid').strip(), what='the job')
    began, used = time.time(), cpu_of(int(content(d + '/pid')))
    c.wait('its use', lambda: any(r.get('job') == 1 and 'measure' in r for r in c.reports), timeout=40)
    # What it had of a processor in that time, as the kernel counts; the machine may be busy with other things.
    share = 1e4 * (cpu_of(int(content(d + '/pid'))) - used) / (time.time() - began)
    told = [r['measure'] for r in c.reports if 'measure' in r][0]
    assert 0.4 * share < told['values'][0] <= min(10000, 2.5 * share) and len(told['values']) == 3, (told, share)
    c.order('stop', 1, kind='cancel', grace_ms=100)
    c.report(1, 'exited')


@test()
def an_agent_that_died_finds_its_tasks(c, a, d):
    c.keep = lambda hello: [{k: t[k] for k in ('job', 'attempt', 'rank')} for t in hello['tasks']]
    c.connected()
    c.launch(1, 'sleep 0.7; echo done; exit 4')
    c.launch(2, 'sleep 1000', gpus=[1])
    c.launch(3, 'sleep 1000', gpus=[2], go=False)
    c.launch(4, 'echo waits', gpus=[1])  # waits for 2
    c.report(2, 'running'), c.report(3, 'ready')
    a.kill()
    time.sleep(0.9)  # 1 ends while nobody is there
    a.start()
    c.connected(2)
    end = c.report(1, 'exited')
    assert (end['exit'], end['cause']) == (4, 'exit'), end
    states = {t['job']: t['state'] for t in c.hellos[-1]['tasks']}
    assert set(states) == {1, 2, 3, 4}, states
    c.order('go', 3)
    c.report(3, 'running')
    assert c.log(5, 1) == 'done\n'
    c.order('stop', 2, kind='cancel', grace_ms=1000)
    c.report(2, 'exited')
    c.report(4, 'exited')
    c.order('stop', 3, kind='cancel', grace_ms=0)
    c.report(3, 'exited')


@test()
def a_shepherd_that_dies_takes_its_job_along(c, a, d):
    c.connected()
    c.launch(1, 'sleep 1000 & echo $! > %s/child; echo $$ > %s/leader; wait' % (d, d))
    wait_for(lambda: content(d + '/leader').strip(), what='the job')
    pids = [int(content(d + '/child')), int(content(d + '/leader'))]
    found = shepherds(a, 1)
    assert len(found) == 1, found
    os.kill(found[0], signal.SIGKILL)
    end = c.report(1, 'exited')
    assert end['cause'] == 'lost', end
    assert all(gone(pid, 1) for pid in pids)
    # While no agent is there: the next one finds it out.
    c.launch(2, 'sleep 1000 & echo $! > %s/child2; wait' % d)
    wait_for(lambda: content(d + '/child2').strip(), what='the job')
    a.kill()
    os.kill(shepherds(a, 2)[0], signal.SIGKILL)
    a.start()
    assert c.report(2, 'exited')['cause'] == 'lost'
    assert gone(int(content(d + '/child2')), 1)
    # At its gate.
    c.launch(3, 'touch %s/never' % d, go=False)
    c.report(3, 'ready')
    os.kill(shepherds(a, 3)[0], signal.SIGKILL)
    assert c.report(3, 'exited')['cause'] == 'lost'
    assert not os.path.exists(d + '/never')


@test()
def a_job_that_is_killed_is_just_that(c, a, d):
    c.connected()
    c.launch(1, 'echo $$ > %s/pid; while :; do sleep 0.05; done' % d)
    wait_for(lambda: content(d + '/pid').strip(), what='the job')
    os.kill(int(content(d + '/pid')), signal.SIGKILL)
    end = c.report(1, 'exited')
    assert (end['signal'], end['cause']) == (9, 'signal'), end


@test(behind=3600)
def a_wrong_clock_ends_no_job_early(c, a, d):
    c.connected()
    c.launch(1, 'sleep 1000', end=c.now() + 1500000)
    began = time.time()
    c.report(1, 'running')
    assert c.report(1, 'exited')['cause'] == 'timeout'
    assert 1 < time.time() - began, time.time() - began


@test(behind=-3600)
def nor_late(c, a, d):
    c.connected()
    c.launch(1, 'sleep 1000', end=c.now() + 1500000)
    assert c.report(1, 'exited')['cause'] == 'timeout'
    assert all('at' in beat for beat in c.beats), c.beats


@test(lease_ms=3000)
def a_lease_that_ran_out_fences(c, a, d):
    c.connected()
    c.launch(1, 'echo $$ > %s/pid; sleep 1000' % d)
    wait_for(lambda: content(d + '/pid').strip(), what='the job')
    time.sleep(4)
    assert not gone(int(content(d + '/pid')), 0.1), 'beats did not renew the lease'
    with c.lock:
        c.echo = False
    began = time.time()
    end = c.report(1, 'exited')
    assert end['cause'] == 'fence' and 0.2 < time.time() - began, (end, time.time() - began)
    # Without an agent the shepherd keeps it.
    with c.lock:
        c.echo = True
        heard = len(c.beats)
    wait_for(lambda: len(c.beats) > heard + 2, what='beats that were answered')
    c.launch(2, 'echo $$ > %s/pid2; sleep 1000' % d, gpus=[1])
    wait_for(lambda: content(d + '/pid2').strip(), what='the job')
    a.kill()
    assert gone(int(content(d + '/pid2'))), 'the job outlived its lease'
    a.start()
    assert c.report(2, 'exited')['cause'] == 'fence'


@test()
def reports_are_said_again_until_they_are_taken(c, a, d):
    c.ack, c.acked_seq = False, 0
    c.connected()
    for job in range(1, 6):
        c.launch(job, 'exit %d' % job, gpus=[job])
    for job in range(1, 6):
        c.report(job, 'exited')
    last = max(c.seen[c.agent])
    a.kill()
    with c.lock:
        c.reports.clear()
        c.seen[c.agent].clear()  # a controller that lost what it had not written
    a.start()
    c.connected(2)
    for job in range(1, 6):
        assert c.report(job, 'exited')['exit'] == job
    assert max(c.seen[c.agent]) == last, 'more was said than had happened'
    c.send(t='ack', seq=last)
    c.acked_seq = last
    c.cut()
    c.connected(3)
    c.launch(9, 'true')
    c.report(9, 'exited')


@test()
def links_break_and_heal(c, a, d):
    c.keep = lambda hello: [{k: t[k] for k in ('job', 'attempt', 'rank')} for t in hello['tasks']]
    c.connected()
    for i in range(1, 8):
        c.launch(i, 'sleep 0.0%d; exit %d' % (i, i), gpus=[i])
        c.cut()
        c.connected(i + 1)
        c.launch(i, 'sleep 0.0%d; exit %d' % (i, i), gpus=[i])
        c.report(i, 'exited')
    ends = [r for r in c.reports if r.get('state') == 'running']
    starts = {}
    for r in ends:
        starts.setdefault(r['job'], set()).add(r['started'])
    assert all(len(s) == 1 for s in starts.values()), starts


@test()
def keep_decides_what_lives(c, a, d):
    c.connected()
    c.launch(1, 'echo $$ > %s/pid; sleep 1000' % d)
    wait_for(lambda: content(d + '/pid').strip(), what='the job')
    c.keep = [{'job': 7, 'attempt': 1, 'rank': 0}]
    c.cut()
    c.connected(2)
    assert c.report(7, 'exited', attempt=1)['cause'] == 'lost'
    assert gone(int(content(d + '/pid')))
    wait_for(lambda: not os.listdir(a.state + '/tasks'), what='the directory to go')
    assert not any(r.get('job') == 1 and r['state'] == 'exited' for r in c.reports)


@test('--log-max', '1000')
def output_has_an_end(c, a, d):
    c.connected()
    c.launch(1, 'yes 0123456789 | head -c 5000000', spec={'output': d + '/%x-%j-%n.txt', 'name': 'loud'})
    c.report(1, 'exited')
    text = c.log(1, 1)
    assert text.startswith('0123456789\n') and 'output cut here: the limit is 1000 bytes' in text, text[-200:]
    assert '4999000 bytes were dropped' in text and len(text) < 1200, len(text)
    assert os.path.getsize(d + '/loud-1-0.txt') == 5000000
    # An attempt appends, with a line that says so.
    c.launch(1, 'echo second', attempt=1, spec={'output': d + '/loud-1-0.txt'})
    c.report(1, 'exited', attempt=1)
    tail = content(d + '/loud-1-0.txt')[-200:]
    assert '[muster: attempt 1 of job 1 begins ' in tail and tail.endswith('second\n'), tail
    assert c.log(2, 1, attempt=1) == 'second\n'
    # Errors in a file of their own.
    c.launch(2, 'echo o; echo e >&2', spec={'output': d + '/o', 'error': d + '/e.%t.%N'})
    c.report(2, 'exited')
    assert content(d + '/o') == 'o\n' and content(d + '/e.0.n1') == 'e\n'
    assert c.log(3, 2) == 'o\n' and c.log(4, 2, stream='err') == 'e\n'
    c.launch(3, 'true', spec={'output': '/no/such/dir/x'})
    assert c.report(3, 'refused')['blame'] == 'user'


@test()
def output_is_followed(c, a, d):
    c.connected()
    c.launch(1, 'for i in 1 2 3; do echo $i; sleep 0.15; done')
    c.send(t='ask', id=1, do='log', job=1, attempt=0, rank=0, follow=True)
    c.wait('the first line', lambda: c.text(1).startswith(b'1\n'))
    assert not any(r.get('job') == 1 and r['state'] == 'exited' for r in c.reports)
    c.wait('the end', lambda: c.answers.get(1) and c.answers[1][-1].get('end'))
    assert c.text(1) == b'1\n2\n3\n' and not c.answers[1][-1].get('more')
    assert c.log(2, 1, offset=2, limit=2) == '2\n'
    assert c.log(3, 1, offset=-2) == '3\n'
    assert c.ask(4, 'log', job=99, attempt=0, rank=0)[0]['code'] == 'NotFound'


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
def suspend_and_resume(c, a, d):
    c.connected()
    c.launch(1, 'i=0; while :; do i=$((i+1)); echo $i > %s/n; sleep 0.01; done' % d)
    wait_for(lambda: content(d + '/n').strip(), what='the job')
    c.order('suspend', 1)
    c.report(1, 'suspended')
    time.sleep(0.05)
    before = content(d + '/n')
    time.sleep(0.15)
    assert content(d + '/n') == before, 'it went on'
    c.launch(2, 'sleep 0.3')  # its GPU is free meanwhile
    c.report(2, 'running')
    c.order('resume', 1)  # and is waited for
    c.report(2, 'exited')
    c.wait('running again', lambda: sum(r.get('job') == 1 and r['state'] == 'running' for r in c.reports) == 2)
    wait_for(lambda: content(d + '/n') != before, what='it to go on')
    order = [(r['job'], r['state']) for r in c.reports]
    assert order.index((2, 'exited')) < len(order) - 1 - order[::-1].index((1, 'running'))
    c.order('suspend', 1)
    c.wait('suspended again', lambda: sum(r.get('state') == 'suspended' for r in c.reports) == 2)
    c.order('stop', 1, kind='cancel', grace_ms=3000)
    end = c.report(1, 'exited')
    assert end['cause'] == 'cancel', end


@test()
def checkpoints_are_told(c, a, d):
    c.connected()
    c.launch(1, 'python3 -c \'import os,socket; s=socket.socket(socket.AF_UNIX); s.connect(os.environ["MUSTER_SOCKET"]); '
                's.sendall(b"ckpt step=1200 path=/ckpt/1200\\n")\'; sleep 0.1')
    got = c.wait('a checkpoint', lambda: [r for r in c.reports if r.get('ckpt')])
    assert got[0]['ckpt']['step'] == 1200 and got[0]['ckpt']['path'] == '/ckpt/1200', got
    c.report(1, 'exited')


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
            'SLURM_GPUS_ON_NODE': '2', 'SLURM_ARRAY_TASK_ID': '3', 'SLURM_RESTART_COUNT': '2'}
    wrong = {k: env.get(k) for k in want if env.get(k) != want[k]}
    assert not wrong, wrong
    assert not {'RANK', 'LOCAL_RANK', 'WORLD_SIZE'} & set(env), 'set both ways'
    assert content(d + '/hosts') == '127.0.0.1 slots=2\n10.0.0.2 slots=2\n'
    assert content(d + '/tmp').strip() == env['MUSTER_TMPDIR']
    wait_for(lambda: not os.path.lexists(env['MUSTER_TMPDIR']), what='its temporary directory to go')
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


@test()
def a_failed_task_takes_its_neighbours(c, a, d):
    c.connected()
    c.launch(1, 'if [ $RANK = 1 ]; then exit 5; fi; echo $$ > %s/pid; sleep 1000' % d, gpus=[0, 1],
             spec={'launch': 'task'})
    end = c.report(1, 'exited')
    assert end['cause'] == 'exit' and end['exit'] == 5, end


@test()
def emulated_tasks_need_no_process(c, a, d):
    c.keep = lambda hello: [{k: t[k] for k in ('job', 'attempt', 'rank')} for t in hello['tasks']]
    c.connected()
    c.launch(1, spec={'emulate': {'run': '300ms', 'exit': 3}})
    c.launch(2, spec={'emulate': {'run': '5s'}}, gpus=[1])
    c.report(2, 'running')
    assert not shepherds(a)
    end = c.report(1, 'exited')
    assert (end['exit'], end['cause']) == (3, 'exit'), end
    a.kill()
    time.sleep(5)  # it goes on meanwhile: it is over as soon as somebody looks
    a.start()
    began = time.time()
    assert c.report(2, 'exited')['exit'] == 0
    assert time.time() - began < 4.9
    c.launch(3, spec={'emulate': {'run': '1000s'}})
    c.report(3, 'running')
    c.order('stop', 3, kind='preempt', grace_ms=1000)
    assert c.report(3, 'exited')['cause'] == 'preempt'


@test()
def a_gpu_falls_ill_and_recovers(c, a, d):
    c.connected()
    with open(a.state + '/gpu-health', 'w') as file:
        file.write('3 XID 79\n')
    got = c.wait('the illness', lambda: [r for r in c.reports if 'gpu' in r])
    assert got[0]['gpu'] == {'index': 3, 'ok': False, 'reason': 'XID 79', 'foreign': False}, got
    a.kill()
    os.unlink(a.state + '/gpu-health')
    a.start()
    got = c.wait('the recovery', lambda: [r for r in c.reports if 'gpu' in r and r['gpu']['ok']])
    assert got[0]['gpu']['index'] == 3, got


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
    c.launch(4, 'echo up > /data/up; sleep 4321', spec=spec)
    wait_for(lambda: content(d + '/up'), what='the container')
    c.report(4, 'running')
    c.ask(5, 'exec', job=4, attempt=0, rank=0, argv=['sh', '-c', 'ls /; echo $MORE'], env={'MORE': 'x'})
    assert b'bin\n' in c.text(5, 'out') and b'home' not in c.text(5) and b'x\n' in c.text(5), c.answers[5]
    c.launch(5, 'true', uid=65534, gid=65534, gpus=[1], spec=dict(spec, mounts=['/root/.ssh:/data'], image='/'))
    assert 'cannot be reached' in c.report(5, 'refused')['cause']
    c.order('stop', 4, kind='cancel', grace_ms=0)
    c.report(4, 'exited')
    assert not subprocess.run(['pgrep', '-f', 'sleep 4321'], capture_output=True).stdout
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


if os.getuid() == 0:
    tests.append((containers, (), {}))
    tests.append((as_user, (), {}))
    tests.append((private_tmp, ('--private-tmp', 'on'), {}))


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
    if subprocess.run(['unshare', '-m', 'sh', '-c', 'umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup'],
                      capture_output=True).returncode == 0:
        tests.append((containers_where_cgroups_are_v2_alone, (), {'wrap': PURE}))
    else:
        print('# SKIP containers where cgroups are v2 alone: no such mount can be made here')


def remains(controller):
    """What a failed test left: processes with the mark of its agent."""
    for name in os.listdir('/proc'):
        if name.isdigit():
            try:
                with open('/proc/%s/environ' % name, 'rb') as file:
                    data = file.read()
                if any(('n1.' + agent).encode() in data for agent in controller.seen):
                    os.kill(int(name), signal.SIGKILL)
            except OSError:
                pass


def run(function, flags, options):
    base = tempfile.mkdtemp(prefix='muster-agent-test')
    d = base + '/work'
    os.mkdir(d)
    options = dict(options)
    program, wrap = PROGRAM, options.pop('wrap', None)
    if wrap:
        os.environ['MUSTER_AGENT_REAL'] = PROGRAM
        program = base + '/agent'
        with open(program, 'w') as f:
            f.write(wrap)
        os.chmod(program, 0o755)
    controller = Controller(**options)
    agent = Agent(program, controller, base + '/state', *flags)
    try:
        function(controller, agent, d)
        assert not controller.faults, controller.faults
        code = agent.kill(signal.SIGTERM)
        assert code == 0, 'the agent ended with %d' % code
    finally:
        if agent.process.poll() is None:
            agent.kill()
        for pid in shepherds(agent):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        remains(controller)
        controller.close()
        time.sleep(0.05)
        shutil.rmtree(base, ignore_errors=True)


def main():
    chosen = [t for t in tests if len(sys.argv) < 3 or t[0].__name__ in sys.argv[2:]]
    failed = 0
    print('1..%d' % len(chosen), flush=True)
    for number, (function, flags, options) in enumerate(chosen, 1):
        began = time.time()
        try:
            run(function, flags, options)
            print('ok %d - %s (%.1f s)' % (number, function.__name__, time.time() - began), flush=True)
        except Exception:
            failed += 1
            print('not ok %d - %s' % (number, function.__name__))
            print('\n'.join('# ' + line for line in traceback.format_exc().splitlines()), flush=True)
    return failed > 0


sys.exit(main())
