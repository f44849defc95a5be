# SPDX-License-Identifier: Apache-2.0
"""An ordinary user against the agent of a node with the defaults of a real one: what the tests in this folder share."""
import os
import signal
import socket
import stat
import subprocess
import sys
import time

os.environ['TMPDIR'] = '/var/tmp'  # the state of a real node is not below /tmp
RACER = os.path.abspath(sys.argv.pop(2))

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'agent'))
from harness import content, gone, main, test, tests, wait_for  # noqa: E402
import harness  # noqa: E402
import left  # noqa: E402

if os.getuid() != 0:
    print('1..0 # SKIP only root runs the jobs of others')
    sys.exit(0)

ROUNDS = int(os.environ.get('HOSTILE_ROUNDS', '40'))
ATTACKER, VICTIM = 64123, 64124  # nobody's on Debian; each job of one looks like that of any user
WHO = dict(uid=ATTACKER, gid=ATTACKER, user='attacker')


def config(name, **keys):
    path = os.path.join(left.ROOT, name + '.yaml')
    with open(path, 'w') as f:
        f.write('emulated_gpus: 8:H100\n' + ''.join('%s: %s\n' % pair for pair in keys.items()))
    return ('--config', path)


NODE = config('node')
TRUSTING = config('trusting', no_new_privs='false')  # as on a login node: what namespaces alone must hold


def attack(*flags, **options):
    return test(*(flags or NODE), fake=None, **options)


def as_user(function, uid=ATTACKER):
    """The result of the function, called by a process that is the user."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(write, str(function() or '').encode())
            status = 0
        except OSError as problem:
            os.write(write, ('failed: %s' % problem).encode())
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, 'rb') as f:
        text = f.read().decode(errors='replace')
    os.waitpid(pid, 0)
    return text


def users_folder(path, uid=ATTACKER, mode=0o755):
    os.makedirs(path)
    os.chmod(path, mode)
    os.chown(path, uid, uid)
    return path


def secret_file(path, text='secret\n', uid=0, mode=0o600):
    with open(path, 'w') as f:
        f.write(text)
    os.chmod(path, mode)
    os.chown(path, uid, uid)
    return path


def opened(d):
    """Users may come to the folder of the test, as to a home or a shared file system."""
    os.chmod(os.path.dirname(d), 0o755)
    os.chmod(d, 0o755)
    return users_folder(d + '/mine')


def task_dir(a, job, attempt=0):
    return '%s/tasks/%d.%d.0' % (a.state, job, attempt)


class Race:
    """The racer, as the attacker, beside what the test does."""

    def __init__(self, folder, name, *kinds, swaps=1):
        self.least = swaps
        self.process = subprocess.Popen([RACER, folder, name, '0'] + list(kinds), stdout=subprocess.PIPE, user=ATTACKER,
                                        group=ATTACKER, extra_groups=[])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        swaps = int(self.process.communicate()[0] or 0)
        self.least and print('#   %d swaps' % swaps)
        assert swaps >= self.least or sys.exc_info()[0], 'the racer did not race'
