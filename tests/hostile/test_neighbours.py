# SPDX-License-Identifier: Apache-2.0
"""What jobs of two users find of each other and of the agent, beyond files: descriptors, keys, ports, signals. TAP.

usage: test_neighbours.py MUSTER_AGENT RACER [NAME...]
"""
import ctypes
import os
import socket
import subprocess
import time

from attacker import ATTACKER, VICTIM, WHO, attack, main, opened, wait_for

PYTHON = '/usr/bin/python3'  # one that other users reach
THEIRS = dict(uid=VICTIM, gid=VICTIM, user='victim')

# As a service of systemd has one: a session keyring, which the agent hands down.
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall(250, 1, None)

KEYS = '''
import ctypes, sys
call = ctypes.CDLL(None, use_errno=True).syscall
name = sys.argv[2].encode()
if sys.argv[1] == "add":  # into the session's keyring: what Kerberos does with its tickets
    key = call(248, b"user", name, b"ticket-of-another", 17, -3)
    call(250, 5, key, 0x3f3f3f3f)
    print("added" if key > 0 else "errno %d" % ctypes.get_errno())
else:
    key = call(250, 10, -3, b"user", name, 0)
    text = ctypes.create_string_buffer(100)
    n = call(250, 11, key, text, 100) if key > 0 else -1
    print(text.raw[:n].decode() if n > 0 else "nothing")
'''

ELSEWHERE = '''
import socket, sys, time
s = socket.socket()
s.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND: an address of another machine
s.bind((sys.argv[1], int(sys.argv[2])))
s.listen(5)
print("up", flush=True)
time.sleep(1000)
'''

IMPOSTOR = '''
import socket, sys, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen(5)
print("up", flush=True)
s.settimeout(1)
end, heard = time.time() + 6, b""
while time.time() < end and not heard:
    try:
        one = s.accept()[0]
        one.settimeout(1)
        heard = one.recv(100)
    except OSError:
        pass
print("nothing" if not heard else heard, flush=True)
'''


def script(mine, name, text):
    with open(mine + '/' + name, 'w') as f:
        f.write(text)
    os.chmod(mine + '/' + name, 0o644)
    return mine + '/' + name


@attack()
def a_job_inherits_nothing(c, a, d):
    """Descriptors of the agent, its forker and shepherd; and of the command that enters."""
    mine = opened(d)
    c.connected()
    c.launch(1, 'ls -l /proc/self/fd; until [ -e %s/end ]; do sleep 0.1; done' % mine, spec={'dir': mine}, **WHO)
    c.report(1, 'running')
    wait_for(lambda: '2 ->' in c.log(1, 1), what='the listing')
    c.ask(2, 'exec', job=1, attempt=0, rank=0, argv=['ls', '-l', '/proc/self/fd'])
    for said in (c.log(3, 1), c.text(2).decode()):
        rows = [row.split(' -> ') for row in said.splitlines() if ' -> ' in row]
        odd = [row for row in rows if row[0].split()[-1] not in ('0', '1', '2', '9') and '/proc/' not in row[1]]
        assert rows and not odd, said
        assert not any(a.state in row[1] or 'anon_inode' in row[1] for row in rows), said
    open(mine + '/end', 'w').close()


@attack()
def keys_of_another_user_are_not_found(c, a, d):
    """All jobs of a node had the session keyring of its agent: what one user puts there, Kerberos tickets too, others read."""
    mine = opened(d)
    if not os.path.exists('/proc/keys'):
        print('# SKIP a kernel without keys')
        return
    program = script(mine, 'keys.py', KEYS)
    c.connected()
    for job, who, words in ((1, THEIRS, 'add'), (2, WHO, 'look'), (3, THEIRS, 'look')):
        c.launch(job, '%s %s %s mt-%d' % (PYTHON, program, words, os.getpid()), spec={'dir': '/'}, **who)
        c.report(job, 'exited')
    assert 'added' in c.log(1, 1), c.log(1, 1)
    assert 'ticket' not in c.log(2, 2), 'another user reads it'
    assert 'ticket' not in c.log(3, 3), 'and another job of the same user'
    c.launch(4, 'until [ -e %s/end ]; do sleep 0.1; done' % mine, spec={'dir': mine}, **WHO)
    c.report(4, 'running')
    c.ask(5, 'exec', job=4, attempt=0, rank=0, argv=[PYTHON, program, 'add', 'mt-exec'])
    c.ask(6, 'exec', job=4, attempt=0, rank=0, argv=[PYTHON, program, 'look', 'mt-exec'])
    assert b'ticket' not in c.text(6), 'commands that enter have none in common'
    open(mine + '/end', 'w').close()


@attack()
def the_agent_connects_to_no_other_machine(c, a, d):
    """A socket may be bound to an address of another machine, or be in a network of the job's own; the agent, root, connected
    there: past rules that let only root out, such as those for the metadata of a cloud."""
    mine = opened(d)
    program = script(mine, 'elsewhere.py', ELSEWHERE)
    c.connected()
    c.launch(1, '%s %s 192.0.2.7 18321' % (PYTHON, program), spec={'dir': mine}, **WHO)
    wait_for(lambda: 'up' in c.log(1, 1), what='a socket of an address elsewhere')
    c.ask(2, 'forward', job=1, attempt=0, rank=0, port=18321, done=False)
    c.wait('an answer', lambda: c.answers.get(2))
    said = str(c.answers[2])
    assert 'listens on port' in said, 'it was tried: ' + said
    served = socket.create_server(('127.0.0.1', 0))  # somebody else's, on the node itself
    port = served.getsockname()[1]
    served.settimeout(2)
    c.launch(3, 'unshare -Urn sh -c "ip link set lo up; exec %s %s 127.0.0.1 %d"' % (PYTHON, program, port), spec={'dir': mine}, gpus=(1,), **WHO)
    wait_for(lambda: 'up' in c.log(4, 3) or any(r.get('job') == 3 and r['state'] == 'exited' for r in c.reports), what='job 3')
    if 'up' not in c.log(5, 3):
        print('# SKIP no networks of users here: ' + c.log(6, 3).strip()[-200:])
        return
    c.ask(7, 'forward', job=3, attempt=0, rank=0, port=port, done=False)
    c.wait('an answer', lambda: c.answers.get(7))
    try:
        served.accept()
    except OSError:
        return
    raise AssertionError('the agent has connected to a service that is not of the job')


WRITER = '''
import os, sys
out = os.open("/proc/%s/fd/1" % sys.argv[1], os.O_WRONLY)
print("open", flush=True)
while True:
    os.write(out, b"x" * 65536)
'''


@attack()
def output_that_never_ends_keeps_no_gpu(c, a, d):
    """A process outside of the job opens its output, as its user may, and writes on when the job is over."""
    mine = opened(d)
    program = script(mine, 'writer.py', WRITER)
    c.connected()
    c.launch(1, 'echo $$ >%s/pid; exec sleep 1000' % mine, spec={'dir': mine}, **WHO)
    c.report(1, 'running')
    pid = wait_for(lambda: open(mine + '/pid').read().strip() if os.path.exists(mine + '/pid') else '', what='the job')
    writers = [subprocess.Popen([PYTHON, program, pid], user=ATTACKER, group=ATTACKER, extra_groups=[], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL)
               for _ in range(4)]
    try:
        assert all(writer.stdout.readline() == b'open\n' for writer in writers), 'its output was not even opened'
        c.order('stop', 1, kind='cancel', grace_ms=500)
        c.report(1, 'exited', timeout=30)
    finally:
        for writer in writers:
            writer.kill()


@attack()
def a_file_system_that_never_answers_holds_up_no_order(c, a, d):
    """A user may mount one (FUSE) and name a folder of it; the job does not begin, and ends when it is told to."""
    mine = opened(d)
    if not os.path.exists('/dev/fuse'):
        print('# SKIP a kernel without FUSE')
        return
    os.mkdir(mine + '/slow')
    os.chown(mine + '/slow', ATTACKER, ATTACKER)
    fuse = os.open('/dev/fuse', os.O_RDWR)  # as fusermount does for its user
    how = 'fd=%d,rootmode=40000,user_id=%d,group_id=%d' % (fuse, ATTACKER, ATTACKER)
    if LIBC.mount(b'slow', (mine + '/slow').encode(), b'fuse', 6, how.encode()) != 0:
        print('# SKIP no FUSE: errno %d' % ctypes.get_errno())
        os.close(fuse)
        return
    try:
        c.connected()
        for job, spec in ((1, {'dir': mine + '/slow'}), (2, {'dir': mine, 'output': mine + '/slow/out'}), (3, {'dir': mine + '/slow/below'})):
            c.launch(job, 'echo ran', spec=spec, gpus=(job,), **WHO)
        c.launch(4, 'echo ran', spec={'dir': mine}, gpus=(4,), **THEIRS)
        c.report(4, 'exited')  # the agent goes on
        for job in (1, 2, 3):
            c.order('stop', job, kind='cancel', grace_ms=500)
        for job in (1, 2, 3):
            c.wait('job %d to end' % job, lambda: any(r.get('job') == job and r['state'] in ('exited', 'refused') for r in c.reports), timeout=60)  # 30 s at a start
    finally:
        os.close(fuse)
        LIBC.umount2((mine + '/slow').encode(), 2)


@attack()
def a_job_has_no_group_that_its_user_has_not_here(c, a, d):
    """Whoever is in some group where the job is submitted gets its number; on a node that may be the group of the disks."""
    mine = opened(d)
    c.connected()
    for job, gid in enumerate((0, 6, 42, 999)):
        c.launch(job + 1, 'id', spec={'dir': mine}, gpus=(job,), **dict(WHO, gid=gid))
        c.report(job + 1, 'refused')
        assert 'groups' in [r for r in c.reports if r.get('job') == job + 1][-1]['cause']
    for job, uid in enumerate((1, 33, 999)):
        c.launch(job + 11, 'id', spec={'dir': mine}, gpus=(job,), uid=uid, gid=uid, user='daemon')
        c.report(job + 11, 'refused')
    nobody = dict(uid=65534, gid=65534, user='nobody')
    c.launch(21, 'id', spec={'dir': mine}, **nobody)
    c.report(21, 'exited')


@attack()
def another_users_controller_gives_no_orders(c, a, d):
    """Without certificates whoever takes the port of a controller that has gone would be it, and the agent is root."""
    mine = opened(d)
    program = script(mine, 'impostor.py', IMPOSTOR)
    c.connected()
    c.listener.shutdown(socket.SHUT_RDWR)  # its thread waits in it
    c.listener.close()
    c.cut()
    port = c.url.rsplit(':', 1)[1]
    impostor = None
    try:
        for _ in range(200):  # until the port is free
            impostor = subprocess.Popen([PYTHON, program, port], user=ATTACKER, group=ATTACKER, extra_groups=[], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
            if impostor.stdout.readline() == b'up\n':
                break
            impostor.wait()
            time.sleep(0.05)
        said = impostor.stdout.readline()
        assert said == b'nothing\n', 'the agent came to it: %s' % said
    finally:
        impostor.kill()


def image(d):
    root = d + '/root'
    for name in ('bin', 'proc', 'dev', 'sys', 'tmp'):
        os.makedirs(root + '/' + name)
    subprocess.run(['cp', '/bin/busybox', root + '/bin/busybox'], check=True)
    for name in ('sh', 'id', 'sleep', 'env'):
        os.symlink('busybox', root + '/bin/' + name)
    return root


@attack()
def a_runtime_of_root_hears_nothing_of_a_job(c, a, d):
    """What is set for a command in a container is for that command: runc is root's, and a loader obeys LD_PRELOAD and the like."""
    c.connected()
    mine = opened(d)
    if 'runc' not in c.hellos[0]['inventory']['runtimes'] or not os.path.exists('/bin/busybox'):
        print('# SKIP runc or a static busybox is not there')
        return
    evil = {'LD_DEBUG': 'libs', 'LD_DEBUG_OUTPUT': mine + '/by', 'MINE': 'kept'}
    c.launch(1, 'env; sleep 1000', spec={'image': image(d), 'env': dict(evil, PATH='/bin'), 'dir': '/'}, **WHO)
    c.report(1, 'running')
    wait_for(lambda: 'MINE=kept' in c.log(1, 1), what='the job')
    c.ask(2, 'exec', job=1, attempt=0, rank=0, argv=['env'], env=evil)
    assert b'MINE=kept' in c.text(2), c.text(2)
    for number, words in enumerate((['--user', '0', 'id'], ['--cap', 'CAP_SYS_ADMIN', 'id'], ['-u', '0:0', 'id', '-u'])):
        c.ask(3 + number, 'exec', job=1, attempt=0, rank=0, argv=words)
        assert b'uid=' not in c.text(3 + number) and c.text(3 + number) != b'0\n', 'its flags are taken from the command: %s' % c.text(3 + number)
    written = [name for name in os.listdir(mine) if name.startswith('by') and os.stat(mine + '/' + name).st_uid == 0]
    assert not written, 'the loader of root has written %s' % written


@attack()
def an_image_is_no_flag_of_its_runtime(c, a, d):
    """podman would take a name with a dash for one."""
    c.connected()
    opened(d)
    for job, name in enumerate(('--privileged', '-v/:/host', '--runtime=/tmp/mine')):
        c.launch(job + 1, 'id', spec={'image': name, 'dir': '/'}, **WHO)
        c.report(job + 1, 'refused')
        said = [r for r in c.reports if r.get('job') == job + 1][-1]['cause']
        assert 'dash' in said, said


if __name__ == '__main__':
    main()
