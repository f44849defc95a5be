#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""record.py - scripts for `muster cell replay`, recorded from the model.

    record.py FOLDER FIRST COUNT STEPS [hived]

writes FOLDER/seed-N.json and the cluster files it names, for COUNT seeds from FIRST on: random clusters, gangs of all
sizes, priorities, pins, leaf types, suggestions and phases, nodes that fail and return, changed configurations. The
answers are the model's (model.py); with `hived`, those of HiveD itself.
"""
import json
import random
import sys

from model import World
from model_cells import FREE


def config_draw(rng, again=None):
    """A random configuration; with `again`, the same machines and types with other grants, maybe a node fewer."""
    types = [('SWITCH', 'GPU', rng.choice([1, 2, 2, 4]), False), ('NODE', 'SWITCH', rng.choice([1, 2, 2, 3]), True),
             ('RACK', 'NODE', rng.choice([2, 2, 3, 4]), False)]
    deep = rng.random() < 0.3
    if deep:
        types.append(('ROW', 'RACK', 2, False))
    second = rng.choice([None, 'GPU', 'OLD'])
    if second:
        types += [('BOX', second, rng.choice([1, 2, 4]), True), ('SHELF', 'BOX', rng.choice([1, 2, 3]), False)]
    tops, serial = [], 0
    if again:
        types, tops = again['types'], [t for t in again['tops']]
        if len(tops) > 1 and rng.random() < 0.5:
            tops.pop(rng.randrange(len(tops)))
    else:
        number = {t[0]: t[2] for t in types}
        for kind, count in (('ROW' if deep else 'RACK', rng.randint(1, 2 if deep else 4)), ('SHELF', rng.randint(1, 2))):
            if kind in number:
                for _ in range(count):
                    size = {'ROW': number.get('ROW', 0) * number['RACK'], 'RACK': number['RACK'],
                            'SHELF': number.get('SHELF', 0)}[kind]
                    tops.append((kind, ['n%d' % (serial + i) for i in range(size)]))
                    serial += size
        if len(tops) > 2 and rng.random() < 0.3:
            rng.shuffle(tops)
    names = [n for _, nodes in tops for n in nodes]
    pins = again['pins'] if again else {}
    if not again and rng.random() < 0.4:
        pins = {rng.choice(names): 'PIN-A'}
    pins = {n: p for n, p in pins.items() if n in names}
    config = {'types': types, 'tops': tops, 'pins': pins, 'vcs': {}}
    for _ in range(200):
        config['vcs'] = {}
        left = list(pins.values())
        for v in range(rng.randint(1, 3)):
            grants = []
            for _ in range(rng.randint(1, 3)):
                chain = rng.choice([t for t, _ in tops])
                path = World({**config, 'vcs': {}}).path(chain)
                grants.append((chain, rng.choice(path[:rng.choice([1, 2, 3, 4, 5])]), rng.randint(1, 3)))
            mine = [left.pop()] if left and rng.random() < 0.7 else []
            config['vcs']['vc%d' % v] = (grants, mine)
        if fits(config):
            return config
    config['vcs'] = {'vc0': ([], [])}
    return config


def fits(config):
    world = World({**config, 'vcs': {}})
    for chain in world.chains:
        left = sum(t == chain for t, _ in config['tops'])
        for kind in world.path(chain):
            for grants, pins in config['vcs'].values():
                left -= sum(n for c, k, n in grants if c == chain and k == kind)
                left -= sum(world.pins[p].chain == chain and world.type_at(chain, world.pins[p].level) == kind for p in pins)
            if left < 0:
                return False
            left *= world.types[kind][2] if kind in world.types else 1
    return True


def config_text(config):
    out = ['physicalCluster:', '  cellTypes:']
    for name, child, number, node in config['types']:
        out.append('    %s: {childCellType: %s, childCellNumber: %d%s}' % (name, child, number,
                                                                        ', isNodeLevel: true' if node else ''))
    out.append('  physicalCells:')
    number = {t[0]: t for t in config['types']}

    def cell(kind, nodes):
        if number[kind][3]:
            node = nodes.pop(0)
            pin = config['pins'].get(node)
            return '{cellAddress: %s%s}' % (node, ', pinnedCellId: ' + pin if pin else '')
        return '{cellChildren: [%s]}' % ', '.join(cell(number[kind][1], nodes) for _ in range(number[kind][2]))
    for kind, nodes in config['tops']:
        out.append('  - ' + cell(kind, list(nodes)).replace('{', '{cellType: %s, ' % kind, 1))
    out.append('virtualClusters:')
    world = World({**config, 'vcs': {}})
    for vc, (grants, pins) in config['vcs'].items():
        out.append('  %s:' % vc)
        if grants:
            out.append('    virtualCells:')
        for chain, kind, count in grants:
            path = world.path(chain)
            out.append('    - {cellType: %s, cellNumber: %d}' % ('.'.join(path[:path.index(kind) + 1]), count))
        if pins:
            out.append('    pinnedCells: [%s]' % ', '.join('{pinnedCellId: %s}' % p for p in pins))
    return '\n'.join(out) + '\n'


class Recorder:
    def __init__(self, seed, steps, folder, literal):
        self.rng, self.seed, self.folder, self.files, self.literal = random.Random(seed), seed, folder, 0, literal
        self.steps, self.pods, self.jobs, self.order = [], {}, [], []
        self.config = config_draw(self.rng)
        self.world = World(self.config, literal)
        self.down, self.serial = set(), 0
        case = {'id': 'seed-%d' % seed, 'title': 'recorded from the model', 'cluster': self.write(self.config),
                'steps': self.steps}
        self.suggest = self.rng.random() < 0.4
        self.flaps = self.rng.choice([0, 0.02, 0.1])
        self.changes = self.rng.choice([0, 0, 0.01])
        while len(self.steps) < steps:
            self.step()
        script = {'format': 1, 'suite': 'model', 'cases': [case]}
        with open('%s/seed-%d.json' % (folder, seed), 'w') as f:
            json.dump(script, f, indent=None, separators=(',', ':'))

    def write(self, config):
        name = 'seed-%d-%d.yaml' % (self.seed, self.files)
        self.files += 1
        with open('%s/%s' % (self.folder, name), 'w') as f:
            f.write(config_text(config))
        return name

    def names(self):
        return [n for _, nodes in self.world.config['tops'] for n in nodes]

    def step(self):
        rng = self.rng
        x = rng.random()
        if x < self.flaps:
            node = rng.choice(self.names())
            self.down ^= {node}
            self.steps.append({'op': 'node', 'name': node, 'healthy': node not in self.down})
            self.world.node_set(node, node not in self.down)
        elif x < self.flaps + self.changes:
            self.reconfigure()
        elif x < 0.45 and self.jobs:
            self.ask(rng.choice(self.jobs))
        elif x < 0.62 and self.order:
            self.end(rng.choice(self.order))
        elif x < 0.66 and self.jobs:
            self.forget(rng.choice(self.jobs))
        elif x < 0.7:
            self.look()
        else:
            self.ask(self.draw())

    def draw(self):
        rng = self.rng
        self.serial += 1
        vc = rng.choice(list(self.world.config['vcs']) + (['nobody'] if rng.random() < 0.03 else []))
        members = [(rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 1, 2, 2, 3, 4, 8])) for _ in range(rng.choice([1, 1, 1, 2]))]
        job = {'group': 'g%d' % self.serial, 'vc': vc, 'members': members, 'priority': rng.choice([-1, -1, 0, 0, 1, 5, 1000]),
               'lazy': rng.random() < 0.2, 'ignore': not self.suggest or rng.random() < 0.5, 'pin': '', 'type': '',
               'live': {}, 'next': 0}
        if rng.random() < 0.1:
            job['pin'] = rng.choice(['PIN-A', 'PIN-A', 'PIN-Z'])
        if rng.random() < 0.3:
            job['type'] = rng.choice(['GPU', 'GPU', 'OLD', 'NONE'])
        self.jobs.append(job)
        if len(self.jobs) > 25:
            done = [j for j in self.jobs if not j['live']]
            if done:
                self.jobs.remove(done[0])
        return job

    def query(self, job, size, suggested):
        sizes = sorted(s for n, s in job['members'] for _ in range(n))
        return {'group': job['group'], 'vc': job['vc'], 'priority': job['priority'], 'lazy': job['lazy'],
                'ignore': job['ignore'], 'pin': job['pin'], 'type': job['type'], 'sizes': sizes, 'size': size,
                'suggested': suggested}

    def ask(self, job):
        rng = self.rng
        waiting = [p for p, how in job['live'].items() if how == 'asked']
        if waiting and rng.random() < 0.6:
            pod = rng.choice(waiting)
            size = self.pods[pod][1]
        else:
            pod, size = '%s-%d' % (job['group'], job['next']), rng.choice(job['members'])[1]
            job['next'] += 1
        phase = rng.choice(['Preempting', 'Preempting', 'Filtering'])
        names, told = self.names(), 'all'
        suggested = set(names)
        if self.suggest and rng.random() < 0.5:
            if rng.random() < 0.5:
                out = rng.choice(names)
                told, suggested = 'all-except:' + out, set(names) - {out}
            else:
                told = sorted(rng.sample(names, rng.randint(1, len(names))))
                suggested = set(told)
        commit = rng.random() < 0.9
        spec = {'virtualCluster': job['vc'], 'priority': job['priority'], 'leafCellNumber': size,
                'lazyPreemptionEnable': job['lazy'], 'ignoreK8sSuggestedNodes': job['ignore'],
                'affinityGroup': {'name': job['group'],
                                  'members': [{'podNumber': n, 'leafCellNumber': s} for n, s in job['members']]}}
        if job['pin']:
            spec['pinnedCellId'] = job['pin']
        if job['type']:
            spec['leafCellType'] = job['type']
        q = self.query(job, size, suggested)
        answer = self.world.decide(q, pod, phase)
        expect = {'result': answer[0]}
        if answer[0] == 'bind':
            expect['node'], expect['leafCells'] = answer[1], answer[2]
        elif answer[0] == 'preempt':
            expect['victims'] = sorted(p for pods in answer[1].values() for p in pods)
        step = {'op': 'schedule', 'pod': pod, 'spec': spec, 'phase': phase, 'expect': expect}
        if told != 'all':
            step['suggested'] = told
        if not commit:
            step['commit'] = False
        self.steps.append(step)
        if answer[0] != 'userError':
            job['live'][pod] = 'asked'
            self.pods[pod] = (job, size)
        if answer[0] == 'bind' and commit:
            g = self.world.groups.get(q['group'])
            plan = answer[3] or self.world.plan_of(g)
            self.world.commit(q, pod, answer[1], answer[2], plan)
            job['live'][pod] = 'placed'
            self.order.append(pod)
            self.pods[pod] = (job, size, answer[1], answer[2], plan)

    def end(self, pod):
        job = self.pods[pod][0]
        self.steps.append({'op': 'release', 'pod': pod})
        self.world.pod_gone(job['group'], pod)
        self.order.remove(pod)
        del job['live'][pod]

    def forget(self, job):
        asked = [p for p, how in job['live'].items() if how == 'asked']
        if asked:
            pod = self.rng.choice(asked)
            self.steps.append({'op': 'cancel', 'pod': pod})
            self.world.pod_cancel(job['group'], pod)
            del job['live'][pod]

    def look(self):
        rng, w = self.rng, self.world
        x = rng.random()
        if x < 0.5 and self.jobs:
            g = w.groups.get(rng.choice(self.jobs)['group'])
            if g:
                self.steps.append({'op': 'expectGroup', 'group': g['name'], 'state': g['state'],
                                   'lazyPreempted': g['lazied']})
        elif x < 0.8:
            node = rng.choice(self.names())
            seen = sorted({(leaf.state, leaf.prio) for c in w.chains for leaf in w.level_cells(c, 1) if leaf.node == node})
            self.steps.append({'op': 'expectLeafCells', 'node': node,
                               'allow': [{'state': s, 'priority': p} for s, p in seen]})
        else:
            vc = rng.choice(list(w.config['vcs']))
            which = rng.choice(['all', 'free'])
            for chain in w.chains:
                for level in range(1, w.height(chain) + 1):
                    cells = [r for r in w.roots.get(vc, []) if (r.chain, r.level, r.pin) == (chain, level, None)
                             and (which == 'all' or r.priority() == FREE)]
                    how = {'Bad' if r.peer and r.peer.is_bad() else 'Healthy' for r in cells}
                    if len(how) == 1:
                        self.steps.append({'op': 'expectVcCells', 'vc': vc, 'chain': chain, 'which': which,
                                           'cellType': w.type_at(chain, level), 'healthiness': how.pop()})

    def reconfigure(self):
        config = config_draw(self.rng, self.config)
        self.steps.append({'op': 'reconfigure', 'cluster': self.write(config)})
        self.config, self.world, self.down = config, World(config, self.literal), set()
        for pod in self.order:
            job, size, node, indices, plan = self.pods[pod]
            self.world.commit(self.query(job, size, None), pod, node, indices, plan)


def main():
    folder, first, count, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    for seed in range(first, first + count):
        Recorder(seed, steps, folder, 'hived' in sys.argv[5:])


if __name__ == '__main__':
    main()
