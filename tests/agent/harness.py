# SPDX-License-Identifier: Apache-2.0
"""Real agents with emulated GPUs and real processes, against a scripted controller: what the tests of them share."""
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import left  # noqa: E402
from controller import Agent, Controller

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


def below(agent, name):
    """pids of programs of this name that have the agent's state open, or stand below it"""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open('/proc/%s/comm' % pid) as file:
                if file.read().strip() != name:
                    continue
            with open('/proc/%s/stat' % pid) as file:
                parent = int(file.read().rsplit(')', 1)[1].split()[1])
            if parent == agent.process.pid or any(os.path.realpath('/proc/%s/fd/%s' % (pid, fd)).startswith(os.path.realpath(agent.state))
                                                  for fd in os.listdir('/proc/%s/fd' % pid)):
                found.append(int(pid))
        except OSError:
            pass
    return found


def watchdogs(agent):
    return below(agent, 'muster-watchdog')


def forkers(agent):
    """The process that forks shepherds, and the one that is ready for the next task."""
    first = below(agent, 'muster-forker')
    return first + [int(pid) for one in first for pid in content('/proc/%d/task/%d/children' % (one, one)).split()
                    if content('/proc/%s/comm' % pid).strip() == 'muster-forker']


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
    fake = options.pop('fake', '8:H100')
    controller = Controller(**options)
    agent = Agent(program, controller, base + '/state', *flags, fake=fake)
    try:
        function(controller, agent, d)
        assert not controller.faults, controller.faults
        code = agent.kill(signal.SIGTERM)
        assert code == 0, 'the agent ended with %d' % code
    finally:
        if agent.process.poll() is None:
            agent.kill()
        for pid in shepherds(agent) + watchdogs(agent):
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
    print('1..%d' % (len(chosen) + 1), flush=True)
    for number, (function, flags, options) in enumerate(chosen, 1):
        began = time.time()
        try:
            run(function, flags, options)
            print('ok %d - %s (%.1f s)' % (number, function.__name__, time.time() - began), flush=True)
        except Exception:
            failed += 1
            print('not ok %d - %s' % (number, function.__name__))
            print('\n'.join('# ' + line for line in traceback.format_exc().splitlines()), flush=True)
    remains_at_end = left.check()
    print('%s %d - nothing of it is left on the machine' % ('not ok' if remains_at_end else 'ok', len(chosen) + 1))
    print('\n'.join('# ' + line for line in remains_at_end), flush=True)
    return failed > 0 or len(remains_at_end) > 0
