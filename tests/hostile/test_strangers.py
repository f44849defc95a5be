# SPDX-License-Identifier: Apache-2.0
"""What an ordinary user tries against the agent of a node, with the defaults of a real one: root, private /tmp, no new
privileges; only the GPUs are emulated, by the agent's configuration. TAP.

usage: test_strangers.py MUSTER_AGENT RACER [NAME...]

Each test is an attack. It passes when the attack gains nothing. Two users take part: the attacker and a victim. What
is the attacker's is done by processes that have become the attacker. HOSTILE_ROUNDS is how often each race is run (an
order to the agent each, while the racer swaps names all the time).
"""
import os
import signal
import socket
import stat
import subprocess
import sys
import time

from attacker import (ATTACKER, NODE, RACER, ROUNDS, TRUSTING, VICTIM, WHO, Race, as_user, attack, config, content, gone, harness, left, main,
                      opened, secret_file, task_dir, tests, users_folder, wait_for)

# Issue by issue: what has been a way to root.

@attack()
def a_kept_place_does_not_make_its_mounts_again(c, a, d):
    """The keeper was started with mounts made anew, by paths that the job had meanwhile changed."""
    mine = opened(d)
    victim = d + '/victim'
    os.mkdir(victim, 0o700)
    secret_file(victim + '/file')
    c.connected()
    c.launch(1, 'cd ${MUSTER_TMPDIR%%/tmp}; rm -rf tmp; ln -s %s tmp; ls -ld tmp >%s/out; exit 1' % (victim, mine),
             spec={'keep_on_fail': '1h', 'dir': mine}, **WHO)
    c.report(1, 'kept')
    assert victim in content(mine + '/out'), 'the job did not even put the link there: ' + content(mine + '/out')
    mode = stat.S_IMODE(os.stat(victim).st_mode)
    assert mode == 0o700, 'root changed the mode of its own folder to %o' % mode
    c.ask(1, 'exec', job=1, attempt=0, rank=0, argv=['cat', '/tmp/file'])
    assert b'secret' not in c.text(1), c.text(1)


def plant_in_the_old_folder(c, a, mine, job, name, target):
    """A task of the user ends; who had its temporary folder open puts a link in it afterwards."""
    c.launch(job, 'echo $$ >%s/pid; until [ -e %s/end ]; do sleep 0.05; done' % (mine, mine), spec={'dir': mine}, **WHO)
    c.report(job, 'running')
    pid = wait_for(lambda: content(mine + '/pid').strip(), what='the job')
    held = os.open('/proc/%s/root/tmp' % pid, os.O_RDONLY)  # its user can open it too: it is the user's
    open(mine + '/end', 'w').close()
    c.report(job, 'exited')
    c.order('clean', job)
    time.sleep(0.3)
    said = as_user(lambda: os.symlink(target, name, dir_fd=held))
    os.close(held)
    os.unlink(mine + '/end')
    os.unlink(mine + '/pid')
    return said


@attack()
def a_temporary_folder_is_emptied_before_it_is_used_again(c, a, d):
    """Links in a folder left for the next task made root mount where the user said: over /etc/pam.d."""
    mine = opened(d)
    home = '/tmp/hostile-%d' % os.getpid()
    users_folder(home)
    try:
        users_folder(home + '/x')
        users_folder(home + '/x/pam.d')
        secret_file(home + '/x/pam.d/planted', uid=ATTACKER, mode=0o644)
        c.connected()
        plant_in_the_old_folder(c, a, mine, 16, os.path.basename(home), '/etc/..' + home)
        plant_in_the_old_folder(c, a, mine, 32, 'x', '/etc')
        for folder in ('tmp', 'private'):  # what a process on the node itself reaches by name
            place = '%s/%s/.spare-%d-0' % (a.state, folder, ATTACKER)
            as_user(lambda: [os.makedirs(place + '/' + os.path.basename(home), exist_ok=True),
                             os.symlink('/etc', place + '/' + os.path.basename(home) + '/x')] and '')
        c.launch(48, 'ls /etc/pam.d >%s/out 2>&1' % mine, spec={'dir': home + '/x/pam.d'}, **WHO)
        c.wait('job 48', lambda: any(r.get('job') == 48 and r['state'] in ('exited', 'refused') for r in c.reports))
        assert 'planted' not in content(mine + '/out'), 'the job has mounted its own folder over /etc/pam.d'
    finally:
        subprocess.run(['rm', '-rf', home])


def su_works(c, mine, number, job):
    c.ask(number, 'exec', job=job, attempt=0, rank=0, argv=['sh', '-c', 'su root -c "id -u" </dev/null'])
    return c.text(number, 'out').strip() == b'0'


ENTER = '''exec unshare -Urm sh -c '
mount --bind %(mine)s/pam /etc/pam.d && echo up >%(mine)s/up; exec sleep 1000'
'''


def permissive(mine):
    users_folder(mine + '/pam')
    for name in ('su', 'su-l', 'other'):
        with open(mine + '/pam/' + name, 'w') as f:
            f.write(''.join('%s sufficient pam_permit.so\n' % part for part in ('auth', 'account', 'session', 'password')))


def own_namespaces(c, a, d):
    """A job with user and mount namespaces of its own, in which it decides who may become root."""
    if subprocess.run(['unshare', '-Urm', 'true'], user=ATTACKER, group=ATTACKER, extra_groups=[]).returncode != 0:
        print('# SKIP users may not make namespaces here')
        return
    mine = opened(d)
    permissive(mine)
    c.connected()
    saver = 'su root -c "id -u" </dev/null >%s/saved 2>&1; cat /etc/pam.d/su >>%s/saved' % (mine, mine)
    c.launch(1, ENTER % {'mine': mine}, spec={'dir': mine, 'checkpoint': {'cmd': saver}}, **WHO)
    c.report(1, 'running')
    wait_for(lambda: content(mine + '/up'), what='the namespaces of the job')
    assert not su_works(c, mine, 1, 1), 'exec: uid 0 of the host'
    c.ask(2, 'exec', job=1, attempt=0, rank=0, argv=['sh', '-c', 'id -u; cat /etc/pam.d/su'])
    assert c.text(2, 'out').startswith(b'%d\n' % ATTACKER), c.answers[2]
    assert b'sufficient pam_permit' not in c.text(2), 'exec saw the mounts that the job made, without its user namespace'
    c.order('stop', 1, kind='preempt', grace_ms=5000)
    c.report(1, 'exited')
    said = content(mine + '/saved')
    assert said and not said.startswith('0\n') and 'sufficient pam_permit' not in said, said


@attack(*NODE)
def namespaces_of_a_job_are_not_entered(c, a, d):
    own_namespaces(c, a, d)


@attack(*TRUSTING)
def nor_where_privileges_can_be_gained(c, a, d):
    own_namespaces(c, a, d)


@attack(*NODE)
def set_user_id_programs_do_not_count(c, a, d):
    mine = opened(d)
    c.connected()
    c.launch(1, 'grep NoNewPrivs /proc/self/status >%s/out; until [ -e %s/go ]; do sleep 0.05; done' % (mine, mine),
             spec={'dir': mine, 'keep_on_fail': '1h'}, **WHO)
    c.report(1, 'running')
    assert wait_for(lambda: content(mine + '/out'), what='the job').split() == ['NoNewPrivs:', '1']
    c.ask(1, 'exec', job=1, attempt=0, rank=0, argv=['grep', 'NoNewPrivs', '/proc/self/status'])
    assert c.text(1).split() == [b'NoNewPrivs:', b'1'], c.answers[1]


@attack(*TRUSTING)
def unless_the_administrator_says_so(c, a, d):
    mine = opened(d)
    c.connected()
    c.launch(1, 'grep NoNewPrivs /proc/self/status >%s/out' % mine, spec={'dir': mine}, **WHO)
    c.report(1, 'exited')
    assert content(mine + '/out').split() == ['NoNewPrivs:', '0'], content(mine + '/out')


@attack()
def a_notice_changes_no_other_file(c, a, d):
    """Root changed the mode of whatever the name led to after the file was written."""
    mine = opened(d)
    victim = secret_file(d + '/shadow')
    c.connected()
    c.launch(1, 'sleep 1000', spec={'dir': mine}, **WHO)
    c.report(1, 'running')
    job = task_dir(a, 1) + '/job'
    for i, (name, kind) in enumerate([('notice.json', 'strike:'), ('.notice.json.new', 'link:')]):
        race_notices(c, job, name, [kind + victim], victim, 2 * i * ROUNDS)


def race_notices(c, job, name, kinds, victim, first):
    with Race(job, name, *kinds):
        for i in range(2 * ROUNDS):
            told = len(c.reports)
            c.order('suspend' if i % 2 == 0 else 'resume', 1)
            c.wait('order %d' % i, lambda: len(c.reports) > told)
            mode = stat.S_IMODE(os.stat(victim).st_mode)
            assert mode == 0o600, 'after %d orders everybody can read a file of root: %o' % (i, mode)
    assert content(victim) == 'secret\n'


def place_of(a):
    try:
        return os.path.dirname(os.readlink(a.state + '/tasks'))
    except OSError:
        return a.state


@attack()
def a_folder_in_memory_is_not_taken_from_others(c, a, d):
    """After a start of the machine, where /run is no tmpfs, a user has made the folder that the agent looks for."""
    mine = opened(d)
    c.connected()
    a.kill()
    wait_for(lambda: gone(a.process.pid), what='the agent')
    place = '/dev/shm/muster-h%d' % os.getpid()
    users_folder(place)
    old = place_of(a)
    try:
        if os.path.islink(a.state + '/tasks'):
            subprocess.run(['rm', '-rf', old])
            os.unlink(a.state + '/tasks')
        else:
            os.rmdir(a.state + '/tasks')
        os.symlink(place + '/tasks', a.state + '/tasks')
        a.start()
        c.connected(2)
        c.launch(1, 'sleep 1000', spec={'dir': mine}, **WHO)
        c.report(1, 'running')
        assert not os.path.exists(place + '/tasks'), 'tasks are in a folder of the user'
        folder = os.path.realpath(task_dir(a, 1))
        while folder != '/':
            st = os.stat(folder)
            assert st.st_uid == 0 and (not st.st_mode & 0o022 or st.st_mode & stat.S_ISVTX), folder
            folder = os.path.dirname(folder)
        c.order('stop', 1, kind='cancel', grace_ms=0)
        c.report(1, 'exited')
    finally:
        subprocess.run(['rm', '-rf', place])


@attack()
def a_working_directory_below_tmp_is_opened_as_its_user(c, a, d):
    """Root followed a link of the user's, past a home that is closed to the user."""
    mine = opened(d)
    home = users_folder(d + '/home', VICTIM, 0o700)
    users_folder(home + '/open', VICTIM, 0o755)
    secret_file(home + '/open/letter', 'love\n', VICTIM, 0o644)
    place = users_folder('/tmp/hostile-%d' % os.getpid())
    try:
        as_user(lambda: os.symlink(home, place + '/link'))
        c.connected()
        c.launch(1, 'cat letter >%s/out 2>&1; ls -la >>%s/out' % (mine, mine), spec={'dir': place + '/link/open'}, **WHO)
        c.wait('job 1', lambda: any(r.get('job') == 1 and r['state'] in ('exited', 'refused') for r in c.reports))
        assert 'love' not in content(mine + '/out'), 'the job has read in a closed home'
        # A folder of its own is carried over, as before.
        users_folder(place + '/own')
        secret_file(place + '/own/file', 'own\n', ATTACKER)
        c.launch(2, 'cat file >%s/own; ls /tmp/.. >/dev/null' % mine, spec={'dir': place + '/own'}, **WHO)
        assert c.report(2, 'exited')['exit'] == 0 and content(mine + '/own') == 'own\n'
    finally:
        subprocess.run(['rm', '-rf', place])


@attack()
def a_private_tmp_is_private(c, a, d):
    """Files in the /tmp of a job, with the mode everybody has them with, and a folder opened to all by the job."""
    mine = opened(d)
    c.connected()
    c.launch(1, 'echo mine >/tmp/f; chmod 644 /tmp/f; stat -c %%a /tmp >%s/mode; chmod 1777 /tmp; echo up >%s/up; sleep 1000' % (mine, mine),
             spec={'dir': mine}, **WHO)
    c.report(1, 'running')
    wait_for(lambda: content(mine + '/up'), what='the job')
    assert content(mine + '/mode').strip() == '700', content(mine + '/mode')
    found = as_user(lambda: [root for folder in ('tmp', 'private', 'tasks')
                             for root, _, files in os.walk(a.state + '/' + folder) if 'f' in files] or '', VICTIM)
    assert not found, 'another user has walked to ' + found
    for path in ('tmp/1.0.0/f', 'private/1.0.0/f', 'tasks/1.0.0/job/tmp/f'):
        said = as_user(lambda: open(a.state + '/' + path).read(), VICTIM)
        assert 'mine' not in said, '%s is open to another user' % path
    # What another job of another user finds in its own.
    c.launch(2, 'ls -A /tmp >%s/other 2>&1; cat %s/private/1.0.0/f' % (d + '/theirs', a.state), uid=VICTIM, gid=VICTIM,
             user='victim', gpus=[1], spec={'dir': users_folder(d + '/theirs', VICTIM)})
    c.report(2, 'exited')
    assert 'mine' not in c.log(1, 2) and content(d + '/theirs/other') == '', (c.log(2, 2), content(d + '/theirs/other'))


# Others of the same kind.

@attack()
def output_is_written_with_the_rights_of_its_user(c, a, d):
    mine = opened(d)
    victim = secret_file(d + '/victim')
    os.mkfifo(mine + '/fifo', 0o666)
    os.chown(mine + '/fifo', ATTACKER, ATTACKER)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(mine + '/socket')
    os.chmod(mine + '/socket', 0o666)
    as_user(lambda: os.symlink(victim, mine + '/link'))
    as_user(lambda: os.symlink('/proc/self/fd/0', mine + '/magic'))
    c.connected()
    job = 0
    sleeper = subprocess.Popen(['sleep', '1000'], user=ATTACKER, group=ATTACKER, extra_groups=[])
    kernel = '/proc/%d/oom_score_adj' % sleeper.pid
    try:
        for name in ('link', 'fifo', 'socket', 'magic', '../victim'):
            job += 1
            c.launch(job, 'echo gained', spec={'output': mine + '/' + name, 'dir': mine}, **WHO)
            assert c.report(job, 'refused')['blame'] == 'user', name
        for path in (kernel, '/proc/sys/kernel/core_pattern', '/proc/self/mem', '/sys/kernel/uevent_helper'):
            job += 1
            c.launch(job, 'echo -900', spec={'output': path, 'dir': mine}, **WHO)
            assert c.report(job, 'refused')['blame'] == 'user', path
        assert content(kernel).strip() != '-900', 'root wrote what its user may not'
    finally:
        sleeper.kill()
        sleeper.wait()
    assert content(victim) == 'secret\n'
    with Race(mine, 'swapped', 'link:' + victim, 'file', 'fifo', 'dir', 'link:/proc/self/fd/3', 'none'):
        for _ in range(ROUNDS):
            job += 1
            c.launch(job, 'echo gained', spec={'output': mine + '/swapped', 'dir': mine}, **WHO)
            c.wait('job %d' % job, lambda: any(r.get('job') == job and r['state'] in ('exited', 'refused') for r in c.reports))
            assert content(victim) == 'secret\n', 'output went into a file of root'


def rights_of_writer(path):
    """Effective user and capabilities of the process that has this file open for a job, and is not of the job."""
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if content('/proc/%s/comm' % pid).strip() != 'muster-output':
                continue
            if path in [os.readlink('/proc/%s/fd/%s' % (pid, fd)) for fd in os.listdir('/proc/%s/fd' % pid)]:
                status = dict(line.split(':', 1) for line in content('/proc/%s/status' % pid).splitlines())
                return int(status['Uid'].split()[0]), int(status['Uid'].split()[1]), int(status['CapEff'], 16)
        except OSError:
            pass  # it has gone meanwhile
    return None


@attack(*NODE)
def output_does_not_go_beyond_a_quota(c, a, d):
    """Root may write beyond a quota and into the room that is kept for root: who writes for a user has no such rights, and
    still is no process that the user could end."""
    mine = opened(d)
    c.connected()
    for job, spec in ((1, {'output': mine + '/out'}), (2, {'output': mine + '/2', 'error': mine + '/error'})):
        c.launch(job, 'echo one; echo two >&2; until [ -e %s/end ]; do sleep 0.05; done; echo three; echo four >&2' % mine,
                 spec=dict(spec, dir=mine), gpus=[job], **WHO)
        c.report(job, 'running')
    for name in ('out', '2', 'error'):
        rights = wait_for(lambda: rights_of_writer('%s/%s' % (mine, name)), what='who writes ' + name)
        assert rights == (0, ATTACKER, 0), 'real and effective user, capabilities: %d %d %x' % rights
    open(mine + '/end', 'w').close()
    c.report(1, 'exited')
    c.report(2, 'exited')
    assert content(mine + '/out') == 'one\ntwo\nthree\nfour\n', content(mine + '/out')
    assert content(mine + '/2') == 'one\nthree\n' and content(mine + '/error') == 'two\nfour\n', 'two files of one job'


@attack()
def nothing_of_others_is_removed_with_a_job(c, a, d):
    """A folder of somebody else's, moved into the job's, is not emptied by root when the job ends."""
    mine = opened(d)
    shared = users_folder(a.state + '/shared', VICTIM, 0o777)  # on the same file system, as a project's folder may be
    c.connected()
    os.chmod(a.state, 0o755)
    outer = users_folder(a.state + '/outer', ATTACKER)
    for place in ('tmp', 'job'):
        moved = users_folder(outer + '/moved', VICTIM, 0o777)
        users_folder(moved + '/theirs', VICTIM, 0o755)
        secret_file(moved + '/theirs/work', 'months\n', VICTIM, 0o644)
        job = 1 if place == 'tmp' else 2
        c.launch(job, 'echo up >%s/up%d; until [ -e %s/go%d ]; do sleep 0.05; done' % (mine, job, mine, job), spec={'dir': mine}, **WHO)
        c.report(job, 'running')
        wait_for(lambda: content(mine + '/up%d' % job), what='the job')
        pid = int(c.report(job, 'running').get('pid') or 0)
        target = '%s/%s/%d.0.0' % (a.state, 'private' if os.path.isdir(a.state + '/private') else 'tmp', job)
        if place == 'job':
            target = task_dir(a, job) + '/job'
        # The user could do this where both are on one file system; the test does it for the user wherever that can be.
        try:
            os.rename(moved, target + '/moved')
        except OSError:
            print('#   %s is on another file system' % place)
            subprocess.run(['rm', '-rf', moved])
            open(mine + '/go%d' % job, 'w').close()
            c.report(job, 'exited')
            continue
        open(mine + '/go%d' % job, 'w').close()
        c.report(job, 'exited')
        c.order('clean', job)
        time.sleep(0.5)
        left_over = subprocess.run(['find', a.state + '/private', a.state + '/tmp', '-name', 'work'], capture_output=True, text=True).stdout
        assert left_over, 'root removed what another user owned'
        assert pid >= 0
    subprocess.run(['rm', '-rf', shared, outer])


@attack()
def what_is_planted_in_a_job_folder_gains_nothing(c, a, d):
    """Files of every kind under the names that root uses there, while it stops, keeps and removes the job."""
    mine = opened(d)
    victim = d + '/victim'
    os.mkdir(victim, 0o700)
    secret = secret_file(victim + '/file')
    before = os.stat(secret)
    c.connected()
    job = 0
    for name in ('notice.json', '.notice.json.new', 'socket', 'tmp', 'script', 'hosts'):
        for make in ('ln -s %s %s' % (victim, name), 'ln -s %s %s' % (secret, name), 'mkfifo %s' % name, 'mkdir -p %s/a' % name):
            job += 1
            c.launch(job, 'cd ${MUSTER_SOCKET%%/socket}; rm -rf %s; %s; echo up >%s/up%d; sleep 1000' % (name, make, mine, job),
                     spec={'dir': mine}, **WHO)
            c.report(job, 'running')
            wait_for(lambda: content(mine + '/up%d' % job), what='job %d' % job)
            c.order('stop', job, kind='preempt', grace_ms=100)
            c.report(job, 'exited')
            c.order('clean', job)
    wait_for(lambda: not os.listdir(a.state + '/tasks'), what='the folders of the tasks')
    after = os.stat(secret)
    assert (after.st_mode, after.st_uid, after.st_mtime, after.st_nlink) == (before.st_mode, before.st_uid, before.st_mtime, 1)
    assert stat.S_IMODE(os.stat(victim).st_mode) == 0o700 and content(secret) == 'secret\n'


@attack()
def a_socket_of_a_job_is_given_before_its_user_comes_in(c, a, d):
    """While the folder of a job is filled, another process of the same user swaps names in it."""
    mine = opened(d)
    c.connected()
    place = users_folder(os.path.realpath(place_of(a)) + '/users')  # on the file system of the tasks' folders
    for job in range(1, ROUNDS + 1):
        hard = secret_file(place + '/hard%d' % job)  # a file of root in a folder of the user's, who can move but not read it
        with Race(task_dir(a, job) + '/job', 'socket', 'move:' + hard, swaps=0):
            c.launch(job, 'true', spec={'dir': mine}, **WHO)
            c.wait('job %d' % job, lambda: any(r.get('job') == job and r['state'] in ('exited', 'refused') for r in c.reports))
        owners = [os.stat(path).st_uid for path in (hard, task_dir(a, job) + '/job/socket') if os.path.isfile(path)]
        assert owners in ([], [0]), 'a file of root was given to the user'
        c.order('clean', job)
    subprocess.run(['rm', '-rf', place])


@attack()
def folders_of_the_state_are_closed(c, a, d):
    """Plans, output of others, journal: what any user of the node can open below the state directory."""
    mine = opened(d)
    c.connected()
    c.launch(1, 'echo printed; echo $TOKEN; echo up >%s/up; sleep 1000' % mine, spec={'dir': mine, 'env': {'TOKEN': 'hush'}}, **WHO)
    c.report(1, 'running')
    wait_for(lambda: content(mine + '/up'), what='the job')

    def walk():
        found = []
        for root, folders, files in os.walk(a.state, followlinks=True):
            for name in files:
                try:
                    with open(os.path.join(root, name), 'rb') as f:
                        f.read(1)
                    found.append(os.path.join(root, name))
                except OSError:
                    pass
        return found or ''

    assert not as_user(walk, VICTIM), 'another user reads ' + as_user(walk, VICTIM)
    for name in ('logs/1.0.0.out', 'tasks/1.0.0/plan.json', 'journal', 'lease', 'lock'):
        for uid in (ATTACKER, VICTIM):
            said = as_user(lambda: open(a.state + '/' + name).read(), uid)
            assert 'ermission' in said or 'No such' in said, (name, uid, said)


CONTAINER = '''id -u
unshare -U true && echo gained
exec unshare -U sh -c 'echo gained; sleep 1000'
'''


@attack()
def a_container_makes_no_user_namespace(c, a, d):
    """Who enters it later, as root first, would enter what the user has made."""
    c.connected()
    if 'runc' not in c.hellos[0]['inventory']['runtimes'] or not os.path.exists('/bin/busybox'):
        print('# SKIP runc or a static busybox is not there')
        return
    opened(d)
    root = d + '/root'
    for name in ('bin', 'proc', 'dev', 'sys', 'tmp'):
        os.makedirs(root + '/' + name)
    subprocess.run(['cp', '/bin/busybox', root + '/bin/busybox'], check=True)
    for name in ('sh', 'id', 'unshare', 'sleep', 'true', 'grep'):
        os.symlink('busybox', root + '/bin/' + name)
    spec = {'image': root, 'env': {'PATH': '/bin'}, 'dir': '/'}
    c.launch(1, CONTAINER, spec=spec, **WHO)
    c.wait('job 1', lambda: any(r.get('job') == 1 and r['state'] == 'exited' for r in c.reports) or 'gained' in c.log(2, 1))
    said = c.log(3, 1)
    assert '%d\n' % ATTACKER in said and 'gained' not in said, said
    c.launch(2, 'echo up; sleep 1000', gpus=[1], spec=spec, **WHO)
    c.report(2, 'running')
    wait_for(lambda: 'up' in c.log(4, 2), what='the container')
    c.ask(5, 'exec', job=2, attempt=0, rank=0, argv=['sh', '-c', 'id -u; unshare -U id -u; grep NoNewPrivs /proc/self/status'])
    assert c.text(5, 'out').split() == [b'%d' % ATTACKER, b'NoNewPrivs:', b'1'], c.answers[5]


if __name__ == '__main__':
    sys.exit(main())
