# SPDX-License-Identifier: Apache-2.0
"""What an agent does with tasks: they start, save, leave, are looked after, and their ends are told. TAP.

usage: test_tasks.py MUSTER_AGENT [NAME...]
"""
import json
import os
import subprocess
import sys
import time

from harness import content, gone, main, test, wait_for


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
    # One that goes on elsewhere is told whether it will be as large as it was.
    for job, more, kind in ((5, {}, 'preempt'), (6, {'resize': True}, 'resize')):
        os.remove(d + '/up')
        c.launch(job, 'python3 %s/p.py' % d)
        wait_for(lambda: os.path.exists(d + '/up'), what='the program to be up')
        c.order('stop', job, kind='migrate', grace_ms=5000, **more)
        assert c.report(job, 'exited')['cause'] == 'migrate'
        assert json.loads(content(d + '/notice'))['kind'] == kind
    # One with a trap of its own is told itself.
    c.launch(2, 'trap "echo saved; exit 7" TERM; echo up > %s/up2; while :; do sleep 0.05; done' % d)
    wait_for(lambda: content(d + '/up2'), what='the shell')
    c.order('stop', 2, kind='timeout', grace_ms=5000)
    end = c.report(2, 'exited')
    assert (end['exit'], end['cause']) == (7, 'timeout'), end
    # What a trap starts is how it saves itself: it is told once, and left alone until the grace is over.
    c.launch(7, 'trap "echo told >> %s/told7; sleep 1 && echo whole >> %s/saved7; exit 85" TERM; echo up > %s/up7; '
             'while :; do sleep 0.05; done' % (d, d, d))
    wait_for(lambda: content(d + '/up7'), what='the shell that saves')
    c.order('stop', 7, kind='preempt', grace_ms=20000)
    end = c.report(7, 'exited')
    assert end['exit'] == 85, end
    assert (content(d + '/told7'), content(d + '/saved7')) == ('told\n', 'whole\n'), (content(d + '/told7'), content(d + '/saved7'))
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
    # Nobody reads it: to open it would last for ever, where no order reaches.
    os.mkfifo(d + '/pipe')
    c.launch(4, 'true', spec={'output': d + '/pipe'})
    refused = c.report(4, 'refused')
    assert refused['blame'] == 'user' and 'neither a file nor a device' in refused['cause'], refused
    with open(os.open(d + '/pipe', os.O_RDONLY | os.O_NONBLOCK)):
        c.launch(5, 'true', spec={'output': d + '/pipe'})
        assert 'neither a file nor a device' in c.report(5, 'refused')['cause']
    c.launch(6, 'true', spec={'output': '/dev/null'})
    assert c.report(6, 'exited')['exit'] == 0


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
def suspend_and_resume(c, a, d):
    c.connected()
    c.launch(1, 'i=0; while :; do i=$((i+1)); echo $i > %s/n; sleep 0.01; done' % d)
    wait_for(lambda: content(d + '/n').strip(), what='the job')
    c.order('suspend', 1)
    c.report(1, 'suspended')
    notice = os.path.realpath(a.state + '/tasks/1.0.0/job/notice.json')
    assert json.loads(content(notice))['kind'] == 'suspend'
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
    assert not os.path.exists(notice)
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
def a_failed_task_takes_its_neighbours(c, a, d):
    c.connected()
    c.launch(1, 'if [ $RANK = 1 ]; then exit 5; fi; echo $$ > %s/pid; sleep 1000' % d, gpus=[0, 1],
             spec={'launch': 'task'})
    end = c.report(1, 'exited')
    assert end['cause'] == 'exit' and end['exit'] == 5, end


sys.exit(main())
