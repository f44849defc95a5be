# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around an agent: deaths, links, clocks, leases, sick GPUs; and what goes on without it. TAP.

usage: test_faults.py MUSTER_AGENT [NAME...]
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from harness import content, forkers, gone, main, shepherds, test, wait_for, watchdogs


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
def a_journal_that_is_damaged(c, a, d):
    c.ack, c.acked_seq = False, 0
    c.connected()
    for job in (1, 2, 3):
        c.launch(job, 'exit %d' % job, gpus=[job])
        c.report(job, 'exited')
    last = max(c.seen[c.agent])
    a.kill()
    with open(a.state + '/journal', 'r+b') as f:
        text = f.read()
        lines = [at for at in range(len(text)) if text[at:at + 1] == b'\n']
        at = lines[0] + 30  # in the first report
        f.seek(at)
        f.write(bytes([text[at] ^ 2]))
    c.acked_seq = last
    c.ack = True
    a.start()
    c.connected(2)
    c.launch(9, 'exit 9', gpus=[1])
    end = c.report(9, 'exited')  # under a number that was not used before, else a controller leaves it out
    assert end['exit'] == 9 and end['seq'] > last, (end, last)
    assert os.path.exists(a.state + '/journal.damaged')


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
def a_number_given_again(c, a, d):
    """A restored controller gives the number of a job that it has never heard of to another one."""
    c.connected()

    def old(name):  # that a shell runs is not yet that it has said so
        wait_for(lambda: content('%s/%s' % (d, name)) == 'old\n', what=name)

    stays = 'echo %s >> {0}/{1}; trap "sleep 0.5; exit 1" TERM; while :; do sleep 0.05; done'
    # What is told to go is still going when the next of its number comes.
    c.launch(1, stays.format(d, 'one') % 'old', born=100)
    c.report(1, 'running')
    old('one')
    c.order('clean', 1)
    c.launch(1, 'echo new >> %s/one' % d, born=200)
    assert c.report(1, 'exited')['exit'] == 0
    assert content(d + '/one') == 'old\nnew\n', content(d + '/one')
    assert [r['state'] for r in c.reports if r.get('job') == 1].count('running') == 2, c.reports
    # It comes before anybody has spoken of the old one.
    c.launch(2, stays.format(d, 'two') % 'old', born=100)
    c.report(2, 'running')
    old('two')
    c.launch(2, 'echo new >> %s/two' % d, born=200)
    assert c.report(2, 'exited')['exit'] == 0
    assert content(d + '/two') == 'old\nnew\n', content(d + '/two')
    # A launch that is repeated is of the same job, and nothing happens.
    c.launch(3, 'echo once >> %s/three; sleep 0.5' % d, born=100)
    c.report(3, 'running')
    c.launch(3, 'echo once >> %s/three; sleep 0.5' % d, born=100)
    c.report(3, 'exited')
    assert content(d + '/three') == 'once\n', content(d + '/three')
    # One that is told to stop before the old one is gone has not begun.
    c.launch(4, stays.format(d, 'four') % 'old', born=100, spec={'grace': '5s'})
    c.report(4, 'running')
    old('four')
    c.launch(4, 'echo never >> %s/four' % d, born=200)
    c.order('stop', 4, kind='cancel', grace_ms=0)
    assert c.report(4, 'exited')['cause'] == 'cancel'
    time.sleep(1)
    assert content(d + '/four') == 'old\n', content(d + '/four')
    # With a new connection the old one is not taken for the new, whose launch follows; nor is it told as if it were.
    c.launch(5, stays.format(d, 'five') % 'old', born=100)
    c.report(5, 'running')
    old('five')
    c.keep = [{'job': 5, 'attempt': 0, 'rank': 0, 'fresh': True, 'born': 200}]
    c.cut()
    c.connected(2)
    c.launch(5, 'echo new >> %s/five' % d, born=200)
    assert c.report(5, 'exited')['exit'] == 0
    assert content(d + '/five') == 'old\nnew\n', content(d + '/five')
    c.launch(6, stays.format(d, 'six') % 'old', born=100)
    c.report(6, 'running')
    old('six')
    c.keep = [{'job': 6, 'attempt': 0, 'rank': 0, 'fresh': False, 'born': 200}]
    c.cut()
    c.connected(3)
    assert c.report(6, 'exited')['cause'] == 'lost'


@test()
def a_number_given_again_whose_record_is_not_read(c, a, d):
    """Whose a task was is known also where the rest of its order makes no sense; and where all is lost, it is nobody's."""
    c.connected()
    stays = 'echo old >> {0}/{1}; echo $$ > {0}/{1}.pid; while :; do sleep 0.05; done'
    # Refused for what it says: the refusal is not the next one's.
    c.launch(1, 'true', born=100, spec={'grace': 'nonsense'})
    c.report(1, 'refused')
    c.launch(1, 'echo new >> %s/one' % d, born=200)
    assert c.report(1, 'exited')['exit'] == 0
    # Written by an agent whose orders this one does not read; and damaged altogether.
    c.launch(2, stays.format(d, 'two'), born=100, gpus=[0])
    c.launch(3, stays.format(d, 'three'), born=100, gpus=[1])
    pids = [int(wait_for(lambda: content('%s/%s.pid' % (d, name)).strip(), what=name)) for name in ('two', 'three')]
    a.kill()
    with open(a.state + '/tasks/2.0.0/plan.json') as file:
        plan = json.load(file)
    del plan['order']['place']
    with open(a.state + '/tasks/2.0.0/plan.json', 'w') as file:
        json.dump(plan, file)
    with open(a.state + '/tasks/3.0.0/plan.json', 'w') as file:
        file.write('{"order":')
    c.keep = [{'job': n, 'attempt': 0, 'rank': 0, 'fresh': True, 'born': 200} for n in (2, 3)]
    a.start()
    c.connected(2)
    c.launch(2, 'echo new >> %s/two' % d, born=200, gpus=[0])
    c.launch(3, 'echo new >> %s/three' % d, born=200, gpus=[1])
    for job, name, pid in ((2, 'two', pids[0]), (3, 'three', pids[1])):
        assert c.report(job, 'exited')['exit'] == 0, name
        assert content('%s/%s' % (d, name)) == 'old\nnew\n', content('%s/%s' % (d, name))
        assert gone(pid), name


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


@test()
def emulated_tasks_need_no_process(c, a, d):
    c.keep = lambda hello: [{k: t[k] for k in ('job', 'attempt', 'rank')} for t in hello['tasks']]
    c.connected()
    c.launch(1, spec={'emulate': {'run': '300ms', 'exit': 3}})
    c.launch(2, spec={'emulate': {'run': '5s'}}, gpus=[1])
    started = c.report(2, 'running')['started']
    assert not shepherds(a)
    end = c.report(1, 'exited')
    assert (end['exit'], end['cause']) == (3, 'exit'), end
    a.kill()
    time.sleep(5)  # it goes on meanwhile: it is over as soon as somebody looks
    a.start()
    end = c.report(2, 'exited')
    # Not by the clock: a busy machine takes its time to start an agent. One that had begun anew would have started later.
    assert (end['exit'], end['started']) == (0, started), (end, started)
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


def stopped(pids, number=signal.SIGSTOP):
    for pid in pids:
        os.kill(pid, number)


@test(lease_ms=3000, hold=True)
def tasks_outlive_the_controller(c, a, d):
    """Told to hold, they go on although nobody answers, and through restarts of the agent; a lease told later counts."""
    c.connected()
    assert c.hellos[0]['lease_ms'] == 1, c.hellos[0]  # nothing runs
    c.launch(1, 'echo $$ > %s/pid; sleep 1000' % d)
    wait_for(lambda: content(d + '/pid').strip(), what='the job')
    with c.lock:
        c.echo = False
    c.cut()
    c.connected(2)
    assert c.hellos[1]['lease_ms'] == 0, c.hellos[1]
    time.sleep(4)
    a.kill()
    a.start()
    c.connected(3)
    c.wait('beats', lambda: len(c.hellos) >= 3 and c.beats and c.beats[-1].get('lease_ms') == 0)
    assert not gone(int(content(d + '/pid')), 0.1), 'the job ended with its controller'
    # Now there is to be one: also for shepherds that were started without.
    c.hold = False
    c.cut()
    c.connected(4)
    assert c.hellos[3]['lease_ms'] == 0, c.hellos[3]
    c.wait('a beat that knows it', lambda: c.beats[-1].get('lease_ms') == 3000)
    assert c.report(1, 'exited')['cause'] == 'fence'


@test(lease_ms=3600000)
def a_shorter_lease_counts_at_once(c, a, d):
    """What was told before is not in force any more, nor what an agent of another boot has left behind."""
    c.connected()
    c.launch(1, 'echo $$ > %s/pid; sleep 1000' % d)
    wait_for(lambda: content(d + '/pid').strip(), what='the job')
    c.lease_ms, c.echo = 2000, False
    c.cut()
    c.connected(2)
    assert 3000000 < c.hellos[1]['lease_ms'] <= 3600000, c.hellos[1]
    assert c.report(1, 'exited')['cause'] == 'fence'


@test(lease_ms=3000)
def a_stopped_shepherd_keeps_no_lease_waiting(c, a, d):
    """Nobody but the agent is left to end it: the controller starts it elsewhere soon."""
    c.connected()
    c.launch(1, 'echo $$ > %s/pid; sleep 1000' % d)
    wait_for(lambda: content(d + '/pid').strip(), what='the job')
    pid = int(content(d + '/pid'))
    stopped(shepherds(a))
    with c.lock:
        c.echo = False
    assert gone(pid), 'the job outlived its lease'
    assert c.report(1, 'exited')['cause'] == 'fence'


@test(lease_ms=4000)
def nor_do_agent_and_shepherd_together(c, a, d):
    """Both are stopped: the watchdog ends it. What both were about to do when they go on again is not done."""
    c.connected()
    c.launch(1, 'echo $$ > %s/pid; sleep 1000' % d)
    wait_for(lambda: content(d + '/pid').strip(), what='the job')
    pid = int(content(d + '/pid'))
    wait_for(lambda: watchdogs(a), what='the watchdog')
    old = watchdogs(a)[0]
    os.kill(old, signal.SIGKILL)
    wait_for(lambda: set(watchdogs(a)) - {old}, what='another watchdog')  # `old` is listed until it has died
    stopped(shepherds(a))
    a.process.send_signal(signal.SIGSTOP)
    c.launch(2, 'echo $$ > %s/pid2; sleep 1000' % d, gpus=[1])  # arrives, and is not read
    assert gone(pid), 'the job outlived its lease'
    time.sleep(1)
    c.keep = []
    a.process.send_signal(signal.SIGCONT)
    assert c.report(1, 'exited')['cause'] in ('lost', 'fence')
    c.report(2, 'refused')
    assert not content(d + '/pid2'), 'a launch from before the end of the lease began after it'
    wait_for(lambda: not watchdogs(a), what='the end of the watchdog')


@test()
def a_stopped_shepherd_is_no_shelter(c, a, d):
    """Cancelled, at its time limit, stopped: it ends, with the cause it was told."""
    c.connected()
    for job in (1, 2, 3):
        end = int((time.time() + 3) * 1e6) if job == 3 else 0
        c.launch(job, 'echo $$ > %s/pid%d; sleep 1000' % (d, job), gpus=[job], end=end, spec={'grace': '1s'})
        wait_for(lambda: content('%s/pid%d' % (d, job)).strip(), what='the job')
    pids = [int(content('%s/pid%d' % (d, job))) for job in (1, 2, 3)]
    stopped(shepherds(a))
    c.order('stop', 1, kind='cancel', grace_ms=500)
    c.order('stop', 2, kind='preempt', grace_ms=0)
    for job, cause in ((1, 'cancel'), (2, 'preempt'), (3, 'timeout')):
        end = c.report(job, 'exited', timeout=60)
        assert (end['cause'], end['signal']) == (cause, 9), end
    assert all(gone(pid, 0.1) for pid in pids)
    c.launch(4, 'echo up', gpus=[1])
    assert c.report(4, 'exited')['exit'] == 0


@test()
def an_agent_that_was_stopped_keeps_its_tasks(c, a, d):
    """Its shepherd had more to say than a socket holds, and has hung up."""
    c.connected()
    c.launch(1, """echo $$ > %s/pid; python3 -c '
import os, socket
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["MUSTER_SOCKET"])
while not os.path.exists("%s/stopped"): pass
for i in range(3000): s.sendall(b"ckpt step=%%d path=/%%s\\n" %% (i, b"x" * 300))
open("%s/said", "w").close()'; sleep 1000""" % (d, d, d))
    wait_for(lambda: content(d + '/pid'), what='the job')
    c.report(1, 'running')
    a.process.send_signal(signal.SIGSTOP)
    open(d + '/stopped', 'w').close()
    wait_for(lambda: os.path.exists(d + '/said'), what='the job, which is not held up')
    a.process.send_signal(signal.SIGCONT)
    c.wait('the last checkpoint', lambda: [r for r in c.reports if (r.get('ckpt') or {}).get('step') == 2999])
    assert not gone(int(content(d + '/pid')), 0.5), 'the job was killed'
    c.order('stop', 1, kind='cancel', grace_ms=0)
    assert c.report(1, 'exited')['cause'] == 'cancel'


@test()
def a_clock_that_is_set_ends_no_job_early(c, a, d):
    """By an hour, either way, while the job runs: its time is what it was told it has."""
    shift = os.environ.get('CLOCK_SHIFT_LIBRARY')
    c.connected()
    if not shift:
        return
    # A copy alone: the shepherds are then of the agent's program, which takes the library.
    a.kill()
    shutil.copy(a.command[0], d + '/muster-agent')
    a.command[0] = d + '/muster-agent'
    os.environ.update(LD_PRELOAD=shift, CLOCK_SHIFT=d + '/shift')
    try:
        with open(d + '/shift', 'w') as f:
            f.write('0')
        a.start()
    finally:
        del os.environ['LD_PRELOAD'], os.environ['CLOCK_SHIFT']
    c.connected(2)
    for job, seconds in ((1, 60), (2, 4)):
        c.launch(job, 'echo $$ > %s/pid%d; sleep 1000' % (d, job), gpus=[job], end=int((time.time() + seconds) * 1e6), spec={'grace': '1s'})
        wait_for(lambda: content('%s/pid%d' % (d, job)).strip(), what='the job')
    with open(d + '/shift', 'w') as f:
        f.write('3600')
    c.order('signal', 1, signal=0)  # its shepherd looks at its clocks
    assert not gone(int(content(d + '/pid1')), 1.5), 'a clock that was set forward ended it'
    with open(d + '/shift', 'w') as f:
        f.write('-3600')
    assert c.report(2, 'exited')['cause'] == 'timeout', 'a clock that was set back keeps it'
    assert not gone(int(content(d + '/pid1')), 0.1)
    c.order('stop', 1, kind='cancel', grace_ms=0)
    c.report(1, 'exited')


class Frozen:
    """A file system that can be made not to answer, as a server of files that hangs: whoever writes waits in the kernel."""

    def __init__(self, folder):
        self.image, self.path, self.frozen = folder + '/image', folder + '/disk', False
        with open(self.image, 'wb') as f:
            f.truncate(16 << 20)
        os.mkdir(self.path)

    def __enter__(self):
        for command in (['mkfs.ext4', '-q', self.image], ['mount', '-o', 'loop', self.image, self.path]):
            if subprocess.run(command, capture_output=True).returncode != 0:
                return None  # not where containers may not mount
        return self

    def __exit__(self, *unused):
        if self.frozen:
            self.freeze(False)
        for _ in range(200):
            if subprocess.run(['umount', self.path], capture_output=True).returncode == 0 or not os.path.ismount(self.path):
                return
            time.sleep(0.05)

    def freeze(self, frozen=True):
        subprocess.run(['fsfreeze', '-f' if frozen else '-u', self.path], check=True)
        self.frozen = frozen


@test()
def output_on_a_file_system_that_hangs(c, a, d):
    """What runs can be ended, what is to start is given up, others do not notice; and nothing begins when it answers again."""
    with open(d + '/agent.yaml', 'w') as f:
        f.write('start_limit: 3s\n')
    c.connected()
    a.kill()
    a.command += ['--config', d + '/agent.yaml']
    a.start()
    c.connected(2)
    with Frozen(d) as disk:
        if not disk:
            return
        c.launch(1, 'echo $$ > %s/pid; while :; do echo line; sleep 0.01; done' % d, gpus=[1], spec={'output': disk.path + '/out'})
        wait_for(lambda: content(disk.path + '/out'), what='output')
        pid = int(content(d + '/pid'))
        # One that writes there itself cannot be killed: it keeps its GPU, and is told.
        c.launch(5, 'while :; do echo line >> %s/own; done' % disk.path, gpus=[5])
        wait_for(lambda: content(disk.path + '/own'), what='its file')
        disk.freeze()
        time.sleep(0.5)
        c.order('stop', 5, kind='cancel', grace_ms=0)
        c.launch(6, 'echo up', gpus=[5])
        c.launch(2, 'echo $$ > %s/pid2; sleep 1000' % d, gpus=[2], spec={'output': disk.path + '/other'})
        c.launch(3, 'echo up', gpus=[3])
        assert c.report(3, 'exited')['exit'] == 0
        c.order('suspend', 1)
        c.report(1, 'suspended')
        c.order('resume', 1)
        c.report(1, 'running')
        end = c.report(2, 'refused')
        assert end['blame'] == 'system' and 'answer' in end['cause'], end
        c.order('stop', 1, kind='cancel', grace_ms=500)
        assert c.report(1, 'exited', timeout=60)['cause'] == 'cancel'
        assert gone(pid, 0.1)
        c.launch(4, 'echo up', gpus=[1])
        assert c.report(4, 'exited')['exit'] == 0
        stuck = c.wait('that it cannot be killed', lambda: c.beats[-1].get('stuck'))
        assert [(one['job'], one['seconds'] >= 10) for one in stuck] == [(5, True)], stuck
        assert not [r for r in c.reports if r.get('job') == 6], 'its GPU was given to another'
        disk.freeze(False)
        assert c.report(5, 'exited')['cause'] == 'cancel'
        assert c.report(6, 'exited')['exit'] == 0
        wait_for(lambda: not shepherds(a), what='the end of those that hung')
        assert not content(d + '/pid2'), 'it began after it was given up'


@test()
def the_state_is_where_its_file_says(c, a, d):
    """Not in the usual place, where another agent may be: here it cannot be, and that is said."""
    c.connected()  # that of the test itself is up before it is ended
    with open(d + '/agent.yaml', 'w') as f:
        f.write('state: %s/agent.yaml/below\n' % d)
    said = subprocess.run([a.command[0], '--url', 'http://127.0.0.1:1', '--node', 'x', '--fake', '1:H100', '--config', d + '/agent.yaml'],
                          stderr=subprocess.PIPE, timeout=60)
    assert said.returncode != 0 and b'agent.yaml/below' in said.stderr, said


@test()
def what_does_not_come_up_is_given_up(c, a, d):
    """The process that forks is stopped: it is replaced, and what it was to start never begins."""
    c.connected()
    a.kill()
    with open(d + '/agent.yaml', 'w') as f:
        f.write('start_limit: 3s\n')
    a.command += ['--config', d + '/agent.yaml']
    a.start()
    c.connected(2)
    c.launch(1, 'echo up', gpus=[1])
    assert c.report(1, 'exited')['exit'] == 0
    frozen = forkers(a)
    assert len(frozen) == 2, frozen
    stopped(frozen)
    c.launch(2, 'echo $$ > %s/pid2; sleep 1000' % d, gpus=[2])
    c.launch(3, 'echo $$ > %s/pid3; sleep 1000' % d, gpus=[3])
    for job in (2, 3):
        end = c.report(job, 'refused')
        assert end['blame'] == 'system' and 'does not answer' in end['cause'], end
    wait_for(lambda: set(forkers(a)) - set(frozen), what='another forker')
    c.launch(4, 'echo up', gpus=[4])
    assert c.report(4, 'exited')['exit'] == 0
    # What was to be forked then is read when the process goes on, and not begun.
    for pid in frozen:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
        assert gone(pid), 'the former forker goes on'
    assert not content(d + '/pid2') and not content(d + '/pid3'), 'it began after it was given up'


sys.exit(main())
