#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""muster-k8s against a small API server: what it binds, where, and what it says of what it does not bind."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import GANG, GROUPS, PODS, World, group, no_gpu_twice, node, pod, run, settles, until


def one_pod_is_bound_and_others_are_left_alone():
    with World([node('n0')]) as world:
        world.add(pod('a', 2), pod('foreign', 1, scheduler='default-scheduler'))
        until(lambda: world.bound('a'), 'a is bound')
        assert world.get('a')['metadata']['annotations']['muster.io/gpus'].count(',') == 1
        settles(lambda: not world.node_of('foreign'), 'a pod of another scheduler is not touched')


def a_gang_is_bound_whole_or_not_at_all():
    with World([node('n0'), node('n1')]) as world:
        world.api.create(GROUPS, group('g', 3), 'default')
        members = [pod(f'g{i}', 8, labels={GANG: 'g'}) for i in range(3)]
        world.add(pod('small', 1), *members[:2])
        until(lambda: world.bound('small'), 'small is bound')
        until(lambda: 'GangIncomplete' in world.condition('g0'), 'g0 is told that its gang is incomplete')
        assert '2 of 3 pods' in world.condition('g0'), world.condition('g0')
        world.add(members[2])
        until(lambda: '[Infeasible]' in world.condition('g2'), 'three whole nodes are more than there are')
        settles(lambda: not any(world.node_of(f'g{i}') for i in range(3)), 'nobody of the gang is bound')
        world.api.create('/api/v1/nodes', node('n2'))
        until(lambda: 'InsufficientGpus' in world.condition('g2') or 'Fragmented' in world.condition('g2'),
              'the gang waits for small')
        world.api.end('small')
        until(lambda: world.bound('g0', 'g1', 'g2'), 'the gang is bound')
        assert len({world.node_of(f'g{i}') for i in range(3)}) == 3
        no_gpu_twice(world.api)


def every_mark_of_a_gang_is_read():
    volcano = '/apis/scheduling.volcano.sh/v1beta1/podgroups'
    native = '/apis/scheduling.k8s.io/v1alpha2/podgroups'
    hived = json.dumps({'virtualCluster': 'default', 'leafCellNumber': 1, 'affinityGroup': {
        'name': 'h', 'members': [{'podNumber': 2, 'leafCellNumber': 1}]}})
    owner = [{'kind': 'Job', 'name': 'j', 'controller': True, 'apiVersion': 'batch/v1', 'uid': 'u'}]
    with World([node('n0'), node('n1')]) as world:
        world.api.create(GROUPS, group('x', 2), 'default')
        world.api.create(volcano, group('v', 2), 'default')
        world.api.create(native, {'metadata': {'name': 'n'}, 'spec': {'schedulingPolicy': {'gang': {'minCount': 2}}}},
                         'default')
        world.api.create('/apis/batch/v1/jobs', {'metadata': {'name': 'j'}, 'spec': {'parallelism': 2}}, 'default')
        world.api.create('/apis/jobset.x-k8s.io/v1alpha2/jobsets', {'metadata': {'name': 's'}, 'spec': {
            'replicatedJobs': [{'replicas': 2, 'template': {'spec': {'parallelism': 1}}}]}}, 'default')

        def members(which):
            made = []
            for i in range(2):
                if which == 'cosched':
                    made.append(pod(f'x{i}', labels={GANG: 'x'}))
                elif which == 'volcano':
                    made.append(pod(f'v{i}', notes={'scheduling.k8s.io/group-name': 'v'}))
                elif which == 'native':
                    made.append(pod(f'n{i}', schedulingGroup={'podGroupName': 'n'}))
                elif which == 'kueue':
                    made.append(pod(f'k{i}', labels={'kueue.x-k8s.io/pod-group-name': 'k'},
                                    notes={'kueue.x-k8s.io/pod-group-total-count': '2'}))
                elif which == 'hived':
                    made.append(pod(f'h{i}', gpus=0, notes={'hivedscheduler.microsoft.com/pod-scheduling-spec': hived}))
                elif which == 'jobset':
                    made.append(pod(f's{i}', labels={'jobset.sigs.k8s.io/jobset-name': 's'}))
                else:
                    made.append(pod(f'j{i}', notes={'batch.kubernetes.io/job-completion-index': str(i)}))
                    made[-1]['metadata']['ownerReferences'] = owner
            return made

        for which in ('cosched', 'volcano', 'native', 'kueue', 'hived', 'jobset', 'job'):
            first, second = members(which)
            names = [first['metadata']['name'], second['metadata']['name']]
            world.add(first)
            until(lambda: 'GangIncomplete' in world.condition(names[0]), f'{which}: one of two waits')
            assert not world.node_of(names[0])
            world.add(second)
            until(lambda: world.bound(*names), f'{which}: both are bound')
        note = world.get('h0')['metadata']['annotations']
        assert note['hivedscheduler.microsoft.com/pod-leaf-cell-isolation'] == note['muster.io/gpus']


def unequal_pods_share_a_gang():
    """A launcher without GPUs goes along with its workers; pods of 4 and 2 GPUs fill nodes together."""
    with World([node('n0'), node('n1')]) as world:
        world.api.create(GROUPS, group('mpi', 3), 'default')
        world.api.create(GROUPS, group('mix', 3), 'default')
        world.add(pod('launcher', 0, cpus='2', labels={GANG: 'mpi'}), pod('w0', 4, labels={GANG: 'mpi'}),
                  pod('w1', 4, labels={GANG: 'mpi'}))
        until(lambda: world.bound('launcher', 'w0', 'w1'), 'launcher and workers are bound')
        world.add(pod('m0', 4, labels={GANG: 'mix'}), pod('m1', 2, labels={GANG: 'mix'}),
                  pod('m2', 2, labels={GANG: 'mix'}))
        until(lambda: world.bound('m0', 'm1', 'm2'), 'pods of 4, 2 and 2 are bound')
        settles(lambda: no_gpu_twice(world.api) is None, 'no GPU is given twice')


def pods_of_two_share_nodes():
    with World([node('n0'), node('n1')]) as world:
        world.api.create(GROUPS, group('g', 8), 'default')
        world.add(*[pod(f'g{i}', 2, labels={GANG: 'g'}) for i in range(8)])
        until(lambda: world.bound(*[f'g{i}' for i in range(8)]), 'eight pods of two fill two nodes')
        no_gpu_twice(world.api)


def constraints_on_nodes_are_honoured():
    taint = [{'key': 'dedicated', 'value': 'vip', 'effect': 'NoSchedule'}]
    tolerate = [{'key': 'dedicated', 'operator': 'Equal', 'value': 'vip', 'effect': 'NoSchedule'}]
    zone_b = {'nodeAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': {'nodeSelectorTerms': [
        {'matchExpressions': [{'key': 'zone', 'operator': 'In', 'values': ['b']}]}]}}}
    with World([node('vip', taints=taint), node('a', labels={'zone': 'a'}), node('b', labels={'zone': 'b'})]) as world:
        world.add(pod('picks', 1, nodeSelector={'zone': 'a'}), pod('affine', 1, affinity=zone_b),
                  pod('tolerant', 8, tolerations=tolerate, nodeSelector={'kubernetes.io/hostname': 'vip'}),
                  pod('nowhere', 1, nodeSelector={'zone': 'c'}), pod('plain0', 7), pod('plain1', 7), pod('plain2', 7),
                  pod('lonely', 1, affinity={'podAntiAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': [
                      {'topologyKey': 'zone'}]}}))
        until(lambda: world.bound('picks', 'affine', 'tolerant', 'plain0', 'plain1'), 'those that can are bound')
        assert (world.node_of('picks'), world.node_of('affine'), world.node_of('tolerant')) == ('a', 'b', 'vip')
        assert {world.node_of('plain0'), world.node_of('plain1')} == {'a', 'b'}
        until(lambda: 'InsufficientGpus' in world.condition('plain2') or 'Fragmented' in world.condition('plain2'),
              'plain2 waits: the taint keeps it away')
        until(lambda: 'podAntiAffinity is not supported' in world.condition('lonely'), 'lonely is refused')
        until(lambda: '3 have another nodeSelector' in world.condition('nowhere') or
              '2 have another nodeSelector' in world.condition('nowhere'), 'nowhere is told about its selector')
        world.api.end('affine')
        world.api.patch('/api/v1/nodes', None, 'b', 'application/merge-patch+json', {'metadata': {'labels': {'zone': 'c'}}})
        until(lambda: world.node_of('nowhere') == 'b', 'a label that changes lets it in')


def cpus_memory_and_others_are_counted():
    with World([node('n0', cpus='16', extra={'rdma/hca': '2'}), node('n1', cpus='16', extra={'rdma/hca': '1'})]) as world:
        world.add(pod('system', 0, cpus='8', scheduler='default-scheduler'))
        world.api.bind('default', 'system', {'metadata': {}, 'target': {'kind': 'Node', 'name': 'n0'}})
        world.add(pod('wide', 1, cpus='12'))
        until(lambda: world.node_of('wide') == 'n1', 'only n1 has 12 CPUs left')
        world.add(pod('wide2', 1, cpus='12'))
        until(lambda: 'InsufficientCpuMem' in world.condition('wide2') or 'Infeasible' in world.condition('wide2'),
              'wide2 lacks CPUs')
        world.add(*[pod(f'r{i}', 1, extra={'rdma/hca': '1'}) for i in range(4)])
        until(lambda: sum(bool(world.node_of(f'r{i}')) for i in range(4)) == 3, 'three of four have an adapter')
        settles(lambda: sum(bool(world.node_of(f'r{i}')) for i in range(4)) == 3, 'and no more')
        world.api.end('system')
        until(lambda: world.node_of('wide2') == 'n0', 'what another pod frees is used')
        no_gpu_twice(world.api)


def gpus_of_foreign_pods_are_left_alone():
    with World([node('n0')]) as world:
        world.add(pod('theirs', 6, scheduler='default-scheduler'))
        world.api.bind('default', 'theirs', {'metadata': {}, 'target': {'kind': 'Node', 'name': 'n0'}})
        world.add(pod('a', 2), pod('b', 1))
        until(lambda: world.bound('a') != world.bound('b') or world.bound('a', 'b'), 'one is bound')
        settles(lambda: sum(2 if n == 'a' else 1 for n in 'ab' if world.node_of(n)) <= 2, 'no more than two GPUs')
        world.api.end('theirs')
        until(lambda: world.bound('a', 'b'), 'both are bound')
        assert not world.api.rejected, world.api.rejected


VCS = """
policy: fifo-skip
vcs:
  prod: {quota: {H100: 8}}
  test: {quota: {H100: 8}}
namespaces: {default: test}
"""


def virtual_clusters_get_back_what_they_are_owed():
    """Borrowed GPUs are taken back by eviction; a budget holds that up, and is named."""
    with World([node('n0'), node('n1')], VCS) as world:
        world.api.create('/api/v1/namespaces', {'metadata': {'name': 'prod'}})
        world.add(*[pod(f't{i}', 8, labels={'app': 't'}) for i in range(2)])
        until(lambda: all(world.get(f't{i}')['status']['phase'] == 'Running' for i in range(2)), 'test borrows a node')
        world.api.create('/apis/policy/v1/poddisruptionbudgets', {
            'metadata': {'name': 'pdb'}, 'spec': {'minAvailable': 2, 'selector': {'matchLabels': {'app': 't'}}}}, 'default')
        world.add(pod('p', 8, namespace='prod'))
        until(lambda: 429 in [c for m, path, c in world.api.requests if path.endswith('/eviction')], 'the budget forbids')
        assert world.bound('t0', 't1') and not world.node_of('p', 'prod')
        until(lambda: 'PodDisruptionBudget' in world.scheduler.why('p', 'prod').get('message', ''), 'it is named')
        world.api.delete('/apis/policy/v1/poddisruptionbudgets', 'default', 'pdb')
        until(lambda: world.node_of('p', 'prod'), 'prod has what it is owed')
        assert sum(world.get(f't{i}') is not None for i in range(2)) == 1
        assert not [r for r in world.api.requests if r[0] == 'DELETE']
        world.add(pod('nobody', 1, labels={'muster.io/vc': 'dev'}))
        until(lambda: '[NoSuchVc]' in world.condition('nobody'), 'a virtual cluster that is not there')
        no_gpu_twice(world.api)


def opportunistic_pods_leave_first():
    with World([node('n0')], VCS.replace('8}}\nname', '0}}\nname')) as world:
        world.api.create('/api/v1/namespaces', {'metadata': {'name': 'prod'}})
        world.add(pod('guest', 8, labels={'muster.io/class': 'opportunistic'}))
        until(lambda: world.bound('guest'), 'the guest runs on what is idle')
        world.add(pod('p', 4, namespace='prod'))
        until(lambda: world.node_of('p', 'prod'), 'the guest has left')
        assert world.get('guest') is None


def priorities_order_the_queue():
    classes = '/apis/scheduling.k8s.io/v1/priorityclasses'
    with World([node('n0', 1)]) as world:
        world.api.create(classes, {'metadata': {'name': 'low'}, 'value': 10})
        world.api.create(classes, {'metadata': {'name': 'high'}, 'value': 100000})
        world.add(pod('first', 1))
        until(lambda: world.bound('first'), 'first runs')
        world.add(pod('low', 1, priorityClassName='low'), pod('high', 1, priorityClassName='high'))
        until(lambda: world.condition('low') and world.condition('high'), 'both wait, and are told')
        world.api.end('first')
        until(lambda: world.bound('high'), 'high goes first')
        assert not world.node_of('low')


def a_binding_that_fails_undoes_the_gang():
    """The third pod of a gang is bound by somebody else: the two that were bound are deleted."""
    with World([node('n0'), node('n1'), node('n2')], start=False) as world:
        world.api.create(GROUPS, group('g', 3), 'default')
        stolen = []

        def fault(method, path):
            if method == 'POST' and path.endswith('/g2/binding') and not stolen:
                stolen.append(path)
                world.api.bind('default', 'g2', {'metadata': {}, 'target': {'kind': 'Node', 'name': 'elsewhere'}})

        world.api.fault = fault
        world.add(*[pod(f'g{i}', 8, labels={GANG: 'g'}) for i in range(3)])
        from harness import Scheduler
        world.scheduler = Scheduler(world.server)
        until(lambda: stolen, 'g2 is stolen')
        until(lambda: world.get('g0') is None and world.get('g1') is None, 'the half gang is undone')
        assert world.get('g2') is None or not world.node_of('g2') or world.node_of('g2') == 'elsewhere'


def lost_answers_are_found_out():
    """Bindings that were made, and whose answers were lost, are neither made again nor undone."""
    with World([node('n0'), node('n1')], start=False) as world:
        world.api.create(GROUPS, group('g', 4), 'default')
        lost = []

        def fault(method, path):
            if method == 'POST' and path.endswith('/binding') and len(lost) < 6:
                lost.append(path)
                return ['lost', 'before', 'refused'][len(lost) % 3]
            return None

        world.api.fault = fault
        from harness import Scheduler
        world.scheduler = Scheduler(world.server)
        world.add(*[pod(f'g{i}', 4, labels={GANG: 'g'}) for i in range(4)])
        until(lambda: all(world.get(f'g{i}') and world.get(f'g{i}')['status']['phase'] == 'Running' for i in range(4)),
              'the gang runs')
        assert len(lost) == 6
        no_gpu_twice(world.api)


def a_restart_finds_everything():
    with World([node('n0'), node('n1')]) as world:
        world.api.create(GROUPS, group('g', 2), 'default')
        world.add(pod('g0', 4, labels={GANG: 'g'}), pod('g1', 4, labels={GANG: 'g'}), pod('a', 2), pod('late', 8))
        until(lambda: world.bound('g0', 'g1', 'a'), 'they run')
        held = {name: world.get(name)['metadata']['annotations']['muster.io/gpus'] for name in ('g0', 'g1', 'a')}
        world.restart()
        until(lambda: world.scheduler.figure('leading') == 1 and world.scheduler.figure('gangs_running') == 2, 'restored')
        world.add(pod('b', 2))
        until(lambda: world.bound('b'), 'b is bound by the new one')
        assert held == {name: world.get(name)['metadata']['annotations']['muster.io/gpus'] for name in held}
        no_gpu_twice(world.api)
        if not world.node_of('late'):
            for name in ('g0', 'g1', 'a', 'b'):
                world.api.end(name)
        until(lambda: world.bound('late'), 'late is bound when the others have ended')


def a_gang_caught_half_bound_is_completed():
    """The scheduler dies after the first binding of a gang; the next one completes it, by the plan of the first."""
    with World([node('n0'), node('n1'), node('n2')], start=False) as world:
        from harness import Scheduler
        world.api.create(GROUPS, group('g', 3), 'default')
        world.api.fault = lambda method, path: 'before' if path.endswith(('/g1/binding', '/g2/binding')) else None
        world.scheduler = Scheduler(world.server)
        world.add(*[pod(f'g{i}', 8, labels={GANG: 'g'}) for i in range(3)])
        until(lambda: world.bound('g0'), 'the first is bound')
        plan = json.loads(world.get('g0')['metadata']['annotations']['muster.io/gang-plan'])
        world.scheduler.kill()
        world.api.fault = None
        world.api.create('/apis/scheduling.k8s.io/v1/priorityclasses', {'metadata': {'name': 'high'}, 'value': 1000})
        world.add(pod('rival', 8, priorityClassName='high'))
        world.scheduler = Scheduler(world.server)
        until(lambda: world.bound('g1', 'g2'), 'the rest is bound')
        settles(lambda: not world.node_of('rival'), 'somebody who would go first does not come between')
        assert {row[0]: row[2] for row in plan} == {name: world.node_of(name) for name in ('g1', 'g2')}
        no_gpu_twice(world.api)


def a_pod_in_place_of_another_gets_its_gpus():
    with World([node('n0')]) as world:
        world.api.create(GROUPS, group('g', 2), 'default')
        world.add(pod('g0', 4, labels={GANG: 'g'}), pod('g1', 4, labels={GANG: 'g'}))
        until(lambda: all(world.get(n)['status']['phase'] == 'Running' for n in ('g0', 'g1')), 'they run')
        had = world.get('g1')['metadata']['annotations']['muster.io/gpus']
        world.api.end('g1', phase='Failed')
        world.api.delete(PODS, 'default', 'g1')
        world.add(pod('g1-again', 4, labels={GANG: 'g'}))
        until(lambda: world.bound('g1-again'), 'the new one is bound')
        assert world.get('g1-again')['metadata']['annotations']['muster.io/gpus'] == had


def nodes_come_go_and_are_cordoned():
    with World([node('n0')]) as world:
        world.add(pod('a', 8))
        until(lambda: world.bound('a'), 'a runs')
        world.add(pod('b', 8))
        until(lambda: world.condition('b'), 'b waits')
        world.api.create('/api/v1/nodes', node('n1'))
        until(lambda: world.node_of('b') == 'n1', 'a new node is used')
        seen = world.scheduler.figure('cluster_rebuilds_total')
        world.api.patch('/api/v1/nodes', None, 'n0', 'application/merge-patch+json', {'spec': {'unschedulable': True}})
        until(lambda: world.scheduler.figure('cluster_rebuilds_total') > seen, 'the scheduler knows')
        world.api.end('a')
        world.add(pod('c', 1))
        until(lambda: world.condition('c'), 'c waits: n0 is cordoned')
        # The watch of pods may be ahead of that of nodes: b, collected at once, would leave room for c on a node that is gone.
        world.api.collects = False
        world.api.delete('/api/v1/nodes', None, 'n1')
        world.api.patch('/api/v1/nodes', None, 'n0', 'application/merge-patch+json', {'spec': {'unschedulable': None}})
        until(lambda: world.node_of('c') == 'n0', 'c runs on n0')
        world.api.collects = True
        until(lambda: world.get('b') is None, 'the pod of the node that is gone is collected')


def watches_that_break_lose_nothing():
    with World([node(f'n{i}') for i in range(4)], args=['--watch-seconds', '1']) as world:
        for i in range(12):
            world.add(pod(f'p{i}', 2))
            if i % 3 == 0:
                world.api.cut()
            if i % 4 == 1:
                world.api.compact()
        until(lambda: world.bound(*[f'p{i}' for i in range(12)]), 'all are bound')
        world.api.away = True
        world.api.cut()
        world.add(pod('while-away', 2))
        world.api.delete(PODS, 'default', 'p0')
        world.api.compact()
        world.api.away = False
        until(lambda: world.bound('while-away'), 'what came while the server was away is bound')
        no_gpu_twice(world.api)


def one_leads_and_another_takes_over():
    from harness import Scheduler
    with World([node('n0')], start=False) as world:
        one = Scheduler(world.server, lease=True, args=['--lease-duration', '5', '--identity', 'one'])
        until(lambda: one.figure('leading') == 1, 'one leads')
        two = Scheduler(world.server, lease=True, args=['--lease-duration', '5', '--identity', 'two'])
        world.add(pod('a', 4))
        until(lambda: world.bound('a'), 'a is bound')
        until(lambda: two.get('/readyz') == 'ok\n', 'two is ready')
        assert two.figure('leading') == 0
        one.kill()
        world.add(pod('b', 4))
        until(lambda: world.bound('b'), 'two takes over')
        assert two.figure('leading') == 1
        lease = world.api.find('/apis/coordination.k8s.io/v1/leases', 'kube-system', 'muster-k8s')
        assert (lease['spec']['holderIdentity'], lease['spec']['leaseTransitions']) == ('two', 1)
        three = Scheduler(world.server, lease=True, args=['--lease-duration', '5', '--identity', 'three'])
        two.stop()  # gives the lease back: nobody has to wait for its end
        until(lambda: three.figure('leading') == 1, 'three leads')
        three.kill()
        no_gpu_twice(world.api)


def reasons_are_told_and_can_be_asked_for():
    with World([node('n0', 4)]) as world:
        world.add(pod('runs', 3, activeDeadlineSeconds=3600))
        until(lambda: world.bound('runs'), 'it runs')
        world.add(pod('waits', 4))
        until(lambda: '[InsufficientGpus]' in world.condition('waits'), 'the condition says why')
        until(lambda: [o for o in world.api.objects.values() if o.get('reason') == 'InsufficientGpus'], 'an event too')
        why = world.scheduler.why('waits')
        assert (why['state'], why['reason']) == ('queued', 'InsufficientGpus'), why
        assert 'asks for 4 GPUs, 1 are free' in why['message'], why
        assert 'come free by' in why['message'], why
        assert [p['name'] for p in json.loads(world.scheduler.get('/v1/queue'))] == ['waits']
        import subprocess
        from harness import PROGRAM
        said = subprocess.run([PROGRAM, 'why', 'default/waits', '--url', world.scheduler.address()],
                              capture_output=True, text=True, timeout=10)
        assert said.returncode == 0 and 'InsufficientGpus' in said.stdout, said


def tls_and_tokens_are_used():
    """Over TLS with an authority of its own; a token that is replaced; a server that nobody vouches for is refused."""
    import subprocess
    import tempfile
    from apiserver import Api, Server
    from harness import Scheduler
    folder = tempfile.mkdtemp(prefix='muster-k8s-')
    for name in ('good', 'bad'):
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
                        '-keyout', f'{folder}/{name}.key', '-out', f'{folder}/{name}.pem', '-days', '2', '-subj',
                        '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'], check=True, capture_output=True)
    with open(f'{folder}/token', 'w') as out:
        out.write('secret\n')
    api = Api(token='secret')
    server = Server(api, tls=(f'{folder}/good.pem', f'{folder}/good.key'))
    api.create('/api/v1/nodes', node('n0'))
    api.create(PODS, pod('a', 1), 'default')
    wrong = Scheduler(server, args=['--ca', f'{folder}/bad.pem', '--token', f'{folder}/token'])
    right = Scheduler(server, args=['--ca', f'{folder}/good.pem', '--token', f'{folder}/token'])
    until(lambda: api.find(PODS, 'default', 'a')['spec'].get('nodeName'), 'a is bound')
    assert wrong.figure('nodes') == 0
    wrong.kill()
    right.kill()
    server.stop()


def configurations_are_checked():
    import subprocess
    import tempfile
    from harness import PROGRAM
    bad = {'polcy: fifo': 'no such key', 'policy: best': "no policy 'best'", 'labels: {rak: x}': 'expected rack',
           'gpu_resources: []': 'gpu_resources', 'vcs: {a: {}}\ncluster: x': 'cluster: '}
    for text, expected in bad.items():
        with tempfile.NamedTemporaryFile('w', suffix='.yaml') as out:
            out.write(text + '\n')
            out.flush()
            said = subprocess.run([PROGRAM, '--config', out.name, '--check'], capture_output=True, text=True, timeout=10)
            assert said.returncode == 1 and expected in said.stderr, (text, said)


if __name__ == '__main__':
    run([one_pod_is_bound_and_others_are_left_alone, a_gang_is_bound_whole_or_not_at_all, every_mark_of_a_gang_is_read,
         unequal_pods_share_a_gang, pods_of_two_share_nodes, constraints_on_nodes_are_honoured,
         cpus_memory_and_others_are_counted, gpus_of_foreign_pods_are_left_alone,
         virtual_clusters_get_back_what_they_are_owed, opportunistic_pods_leave_first, priorities_order_the_queue,
         a_binding_that_fails_undoes_the_gang, lost_answers_are_found_out, a_restart_finds_everything,
         a_gang_caught_half_bound_is_completed, a_pod_in_place_of_another_gets_its_gpus, nodes_come_go_and_are_cordoned,
         watches_that_break_lose_nothing, one_leads_and_another_takes_over, reasons_are_told_and_can_be_asked_for,
         tls_and_tokens_are_used, configurations_are_checked])
