# SPDX-License-Identifier: Apache-2.0
"""What the tests of muster-k8s share: a server, schedulers, pods, waiting."""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from apiserver import Api, Server

BUILD = os.environ.get('MUSTER_BUILD', 'build')
PROGRAM = os.path.join(BUILD, 'muster-k8s')
PODS = '/api/v1/pods'


def node(name, gpus=8, cpus='96', memory='512Gi', labels=None, taints=None, extra=None, product='H100'):
    have = {'cpu': cpus, 'memory': memory, 'pods': '110', **(extra or {})}
    if gpus:
        have['nvidia.com/gpu'] = str(gpus)
    return {'metadata': {'name': name, 'labels': {'kubernetes.io/hostname': name,
                                                  **({'nvidia.com/gpu.product': product} if gpus else {}),
                                                  **(labels or {})}},
            'spec': {'taints': taints} if taints else {},
            'status': {'capacity': dict(have), 'allocatable': dict(have),
                       'conditions': [{'type': 'Ready', 'status': 'True'}]}}


def pod(name, gpus=1, cpus='1', memory='1Gi', labels=None, notes=None, runs=None, scheduler='muster', extra=None,
        namespace='default', **spec):
    limits = {'cpu': cpus, 'memory': memory, **(extra or {})}
    if gpus:
        limits['nvidia.com/gpu'] = str(gpus)
    notes = dict(notes or {})
    if runs is not None:
        notes['test/runs'] = str(runs)
    return {'metadata': {'name': name, 'namespace': namespace, 'labels': labels or {}, 'annotations': notes},
            'spec': {'schedulerName': scheduler, 'containers': [{'name': 'main', 'image': 'x',
                                                                  'resources': {'limits': limits, 'requests': limits}}],
                     **spec}}


def group(name, least):
    return {'metadata': {'name': name}, 'spec': {'minMember': least}}


GROUPS = '/apis/scheduling.x-k8s.io/v1alpha1/podgroups'
GANG = 'scheduling.x-k8s.io/pod-group'


class Scheduler:
    def __init__(self, server, conf=None, args=(), lease=False, folder=None):
        self.folder = folder or tempfile.mkdtemp(prefix='muster-k8s-')
        words = [PROGRAM, '--server', server.url, '--listen', '127.0.0.1:0', *args]
        if conf is not None:
            path = os.path.join(self.folder, 'conf.yaml')
            with open(path, 'w') as out:
                out.write(conf)
            words += ['--config', path]
        if not lease:
            words.append('--no-lease')
        self.log = os.path.join(self.folder, 'log')
        with open(self.log, 'a') as log:
            self.process = subprocess.Popen(words, stderr=log)
        self.url = None

    def text(self):
        with open(self.log) as log:
            return log.read()

    def address(self):
        if not self.url:
            until(lambda: 'address=' in self.text() and self.text().endswith('\n'), 'the server listens')
            self.url = 'http://' + self.text().split('address=')[1].split()[0].strip('"')
        return self.url

    def get(self, path):
        with urllib.request.urlopen(self.address() + path, timeout=5) as reply:
            return reply.read().decode()

    def figure(self, name):
        for line in self.get('/metrics').splitlines():
            if line.startswith('muster_k8s_' + name + ' '):
                return int(line.split()[1])
        raise KeyError(name)

    def why(self, name, namespace='default'):
        return json.loads(self.get(f'/v1/why/{namespace}/{name}'))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(10) == 0, self.text()


class World:
    """A server with nodes and a scheduler."""

    def __init__(self, nodes, conf=None, args=(), start=True, **api):
        self.api = Api(**api)
        self.server = Server(self.api)
        for one in nodes:
            self.api.create('/api/v1/nodes', one)
        self.conf, self.args = conf, args
        self.scheduler = Scheduler(self.server, conf, args) if start else None

    def restart(self):
        self.scheduler.kill()
        self.scheduler = Scheduler(self.server, self.conf, self.args)

    def add(self, *pods):
        for one in pods:
            self.api.create(PODS, one, one['metadata']['namespace'])

    def get(self, name, namespace='default'):
        with self.api.lock:
            return self.api.objects.get((PODS, namespace, name))

    def node_of(self, name, namespace='default'):
        found = self.get(name, namespace)
        return found['spec'].get('nodeName') if found else None

    def bound(self, *names):
        return all(self.node_of(name) for name in names)

    def condition(self, name):
        found = self.get(name)
        for condition in (found or {}).get('status', {}).get('conditions', []):
            if condition['type'] == 'PodScheduled' and condition['status'] == 'False':
                return condition['message']
        return ''

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind and self.scheduler:
            sys.stderr.write(self.scheduler.text()[-6000:])
        code = self.scheduler.process.poll() if self.scheduler else None
        if self.scheduler:
            self.scheduler.kill()
        self.server.stop()
        assert kind or code is None, f'the scheduler ended by itself: {code}'


def until(check, what, span=30):
    ends = time.monotonic() + span
    while time.monotonic() < ends:
        try:
            if check():
                return
        except urllib.error.URLError:
            pass  # it does not answer yet, or not this
        time.sleep(0.01)
    raise AssertionError('never: ' + what)


def settles(check, what, span=0.4):
    """It is so, and stays so for a while."""
    ends = time.monotonic() + span
    while time.monotonic() < ends:
        assert check(), 'not any more: ' + what
        time.sleep(0.02)


def devices(api):
    """By node: how many pods hold each device. Fails where one does not say which it has."""
    held = {}
    with api.lock:
        for one in api.pods():
            if not one['spec'].get('nodeName') or one['status']['phase'] in ('Succeeded', 'Failed') or \
                    one['spec']['schedulerName'] != 'muster':
                continue
            limits = one['spec']['containers'][0]['resources']['limits']
            count = int(limits.get('nvidia.com/gpu', 0))
            told = [d for d in one['metadata']['annotations'].get('muster.io/gpus', '').split(',') if d]
            assert len(told) == count, f'{one["metadata"]["name"]}: {told} of {count}'
            for device in told:
                where = (one['spec']['nodeName'], device)
                held.setdefault(where, []).append(one['metadata']['name'])
    return held


def no_gpu_twice(api):
    for where, names in devices(api).items():
        assert len(names) == 1, f'{where} is held by {names}'
    assert not api.rejected, f'kubelets did not admit {api.rejected}'


def run(tests):
    """TAP; names on the command line choose."""
    chosen = [t for t in tests if not sys.argv[1:] or t.__name__ in sys.argv[1:]]
    failed = 0
    print(f'1..{len(chosen)}')
    for number, test in enumerate(chosen, 1):
        begin = time.monotonic()
        try:
            test()
            print(f'ok {number} - {test.__name__} # {time.monotonic() - begin:.1f} s', flush=True)
        except Exception as error:  # a test that fails says why and lets the others run
            failed += 1
            import traceback
            traceback.print_exc()
            print(f'not ok {number} - {test.__name__}: {error}', flush=True)
    sys.exit(failed > 0)
