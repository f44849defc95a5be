# SPDX-License-Identifier: Apache-2.0
"""model.py - the cell scheduler written to be obviously right: no index, no bit set, no incremental anything, but plain
lists that are sorted again for every request. record.py draws scripts and writes down what it answers; `muster cell
replay` must give the same, step by step.

Where an order is free, it is that of the file: free cells, virtual clusters, chains, leaf types. As HiveD itself
(`literal`), free cells are listed as they came back: new ones at the end, the last one in the place of one that goes;
opportunistic gangs have no second sweep; and a gang with a claim is taken to care for suggestions.
"""
from model_cells import FREE, OPP
from model_place import Placing


class Refused(Exception):
    pass


class World(Placing):
    # deciding

    def chain_try(self, q, chain, view):
        opp = q['priority'] < 0
        suggested = None if q['ignore'] else q['suggested']
        picked = self.pick(view, q['priority'], q['sizes'], opp, suggested)
        if picked is None:
            return None
        if opp:
            return [[None] * len(p) for p in picked], picked
        lazy = []
        for leaf in (x for pod in picked for x in pod):
            p = leaf.peer
            if p and p.state == 'Used' and p.user['lazy'] and p.user['virtual']:
                g = p.user
                lazy.append((g, self.lazy_preempt(g)))
        mapped = self.map(chain, picked, suggested)
        if mapped is None:
            for g, was in reversed(lazy):
                self.lazy_undo(g, was)
            return None
        return picked, mapped

    def refuse(self, q):
        """Mistakes of the user, before anything changes."""
        if q['vc'] not in self.config['vcs']:
            raise Refused
        if q['pin']:
            if q['pin'] not in self.config['vcs'][q['vc']][1] or q['priority'] < 0:
                raise Refused
            return
        if q['type'] and not any(self.leaf_type(c) == q['type'] and
                                 (q['priority'] < 0 or (q['vc'], c) in self.views) for c in self.chains):
            raise Refused

    def place_new(self, q):
        self.refuse(q)
        if q['pin']:
            chain = self.pins[q['pin']].chain
            got = self.chain_try(q, chain, self.views[q['vc'], '=' + q['pin']])
            return got and (chain,) + got
        kinds = []
        for c in self.chains:
            if self.leaf_type(c) not in kinds:
                kinds.append(self.leaf_type(c))
        for kind in kinds:
            for chain in self.chains:
                view = self.views.get((q['vc'] if q['priority'] >= 0 else None, chain))
                if self.leaf_type(chain) != kind or (q['type'] and q['type'] != kind) or view is None:
                    continue
                got = self.chain_try(q, chain, view)
                if got:
                    return (chain,) + got
        return None

    def victims(self, mapped):
        pods, preemptors = {}, []
        for leaf in (x for pod in mapped for x in pod):
            if leaf.state in ('Used', 'Reserving'):
                for slot in leaf.user['slots']:
                    if slot['pod'] is not None:
                        pods.setdefault(slot['node'], set()).add(slot['pod'])
            if leaf.reserver and leaf.reserver not in preemptors:
                preemptors.append(leaf.reserver)
        return pods, preemptors

    def decide(self, q, pod, phase):
        """('bind', slot number, group or plan), ('wait',), ('preempt', {node: pods}), ('userError',)"""
        try:
            answer = self.decide_inner(q, pod, phase)
        except Refused:
            answer = ('userError',)
        self.settle()
        return answer

    def decide_inner(self, q, pod, phase):
        g = self.groups.get(q['group'])
        if g and g['state'] == 'Preempting' and phase == 'Preempting':
            nodes = {x.node for s in g['slots'] for x in s['leaves']}
            bad = any(x.bad for s in g['slots'] for x in s['leaves'])
            if bad or ((self.literal or not g['ignore']) and q['suggested'] is not None and not nodes <= q['suggested']):
                self.refuse(q)
                self.cancel_preempt(g)
                self.settle()
                g = None
        if g:
            slot = next((s for s in g['slots'] if s['pod'] is None and s['size'] == q['size']), None)
            if slot is None:
                raise Refused
            if g['state'] == 'BeingPreempted':
                return ('wait',)
            if g['state'] == 'Preempting':
                pods, _ = self.victims([s['leaves'] for s in g['slots']])
                g['asking'].add(pod)
                if pods:
                    return ('preempt', pods)
            return ('bind', slot['node'], slot['indices'], None)
        got = self.place_new(q)
        if got is None:
            return ('wait',)
        chain, picked, mapped = got
        pods, preemptors = self.victims(mapped)
        if phase == 'Preempting':
            for other in preemptors:
                self.cancel_preempt(other)
            if pods:
                self.preempt_start(q, chain, picked, mapped, pod)
        if pods:
            return ('preempt', pods)
        first = next(i for i, p in enumerate(mapped) if len(p) == q['size'])
        plan = {'chain': chain, 'pods': [
            {'node': m[0].node, 'indices': [x.index for x in m],
             'types': ['' if v is None else self.type_at(chain, v.root().level) for v in p]}
            for p, m in zip(picked, mapped)]}
        return ('bind', mapped[first][0].node, [x.index for x in mapped[first]], plan)

    # gangs

    def slots_make(self, sizes_nodes):
        return [{'size': size, 'node': node, 'indices': indices, 'leaves': [], 'vleaves': [], 'pod': None}
                for size, node, indices in sizes_nodes]

    def group_make(self, q, slots):
        g = {'name': q['group'], 'vc': q['vc'], 'priority': q['priority'], 'lazy': q['lazy'], 'ignore': q['ignore'],
             'state': 'Allocated', 'virtual': q['priority'] >= 0, 'lazied': False, 'slots': slots, 'asking': set(),
             'plan': None}
        self.groups[q['group']] = g
        return g

    def pairs(self, g):
        return [(s, i) for s in g['slots'] for i in range(len(s['leaves']))]

    def commit(self, q, pod, node, indices, plan):
        g = self.groups.get(q['group'])
        if g is None:
            g = self.adopt(q, plan)
        elif g['state'] == 'Preempting':
            for s in g['slots']:
                for leaf in s['leaves']:
                    leaf.state, leaf.user, leaf.reserver = 'Used', g, None
            g['state'], g['asking'] = 'Allocated', set()
        slot = next(s for s in g['slots'] if s['pod'] is None and s['node'] == node and indices[0] in s['indices'])
        slot['pod'] = pod
        self.settle()

    def plan_of(self, g):
        if g['plan'] and g['virtual']:
            return g['plan']
        if g['plan']:  # opportunistic by now, and says so
            return {'chain': g['plan']['chain'], 'pods': [{**p, 'types': [''] * len(p['types'])} for p in g['plan']['pods']]}
        return {'chain': g['slots'][0]['leaves'][0].chain, 'pods': [
            {'node': s['node'], 'indices': s['indices'],
             'types': ['' if v is None or not g['virtual'] else self.type_at(v.chain, v.root().level)
                       for v in s['vleaves']]} for s in g['slots']]}

    def adopt(self, q, plan):
        g = self.group_make(q, self.slots_make([(len(p['indices']), p['node'], p['indices']) for p in plan['pods']]))
        g['plan'] = plan
        lazy = False
        if any(t == '' for p in plan['pods'] for t in p['types']):
            g['virtual'] = False
        for slot, p in zip(g['slots'], plan['pods']):
            for index, kind in zip(p['indices'], p['types']):
                leaf = self.leaf_find(plan['chain'], p['node'], index)
                if leaf is None or leaf.user is not None:
                    continue
                if leaf.state == 'Reserved':
                    self.cancel_preempt(leaf.reserver)
                vleaf = None
                if g['virtual'] and not lazy:
                    vleaf = self.vleaf_find(q, leaf, kind)
                    lazy = vleaf is None
                lazy = not self.take(leaf, vleaf, q['priority']) or lazy
                leaf.state, leaf.user = 'Used', g
                slot['leaves'].append(leaf)
                slot['vleaves'].append(vleaf)
        if lazy:
            self.lazy_preempt(g)
        return g

    def leaf_find(self, chain, node, index):
        for c in [chain] + self.chains:
            for leaf in self.level_cells(c, 1):
                if leaf.node == node and leaf.index == index:
                    return leaf
        return None

    def vleaf_find(self, q, leaf, kind):
        level = self.level_of(leaf.chain, kind)
        if level is None or q['vc'] not in self.config['vcs']:
            return None
        p = leaf
        while p.peer is None and p.level < level:
            p = p.parent
        v = p.peer
        if v is None:
            if q['pin'] or self.free_ancestor(p) is None:
                return None
            roots = [r for r in self.roots.get(q['vc'], []) if r.chain == p.chain and r.level == level and not r.pin]
            v = next((r for r in roots if r.peer is None), None)
            if v is None:
                low = [r for r in roots if r.priority() < q['priority']]
                if not low:
                    return None
                v = min(low, key=lambda r: r.priority())
                if v.doomed:
                    self.undoom(v)
                while v.peer:
                    x = next(x for x in v.leaves() if x.prio >= 0)
                    self.lazy_preempt(x.peer.user)
        root = v.root()
        if root.vc != q['vc'] or (root.pin or None) != (q['pin'] or None):
            return None
        while v.level > 1:
            v = next((c for c in v.children if c.peer is None), None)
            if v is None:
                return None
        return v if v.priority() == FREE and (v.peer is None or v.peer is leaf) else None

    def lazy_preempt(self, g):
        was = []
        for s, i in self.pairs(g):
            leaf = s['leaves'][i]
            if s['vleaves'][i] is None or leaf.state != 'Used' or leaf.prio < 0:
                continue
            was.append((leaf, s['vleaves'][i]))
            self.release(leaf)
            self.take(leaf, None, OPP)
        g['virtual'], g['lazied'] = False, True
        return was

    def lazy_undo(self, g, was):
        for leaf, vleaf in was:
            self.release(leaf)
            self.take(leaf, vleaf, g['priority'])
        g['virtual'], g['lazied'] = True, False

    def preempt_start(self, q, chain, picked, mapped, pod):
        g = self.group_make(q, self.slots_make([(len(m), m[0].node, [x.index for x in m]) for m in mapped]))
        g['state'] = 'Preempting'
        g['asking'].add(pod)
        for s, p, m in zip(g['slots'], picked, mapped):
            for vleaf, leaf in zip(p, m):
                s['leaves'].append(leaf)
                s['vleaves'].append(vleaf)
                used = leaf.state == 'Used'
                if used:
                    leaf.user['state'] = 'BeingPreempted'
                    self.release(leaf)
                self.take(leaf, vleaf, q['priority'])
                leaf.state, leaf.reserver = 'Reserving' if used else 'Reserved', g

    def cancel_preempt(self, g):
        for s, i in self.pairs(g):
            leaf = s['leaves'][i]
            self.release(leaf)
            leaf.reserver = None
            if leaf.state == 'Reserving':
                leaf.state = 'Used'
                victim = leaf.user
                vleaf = next(v for t, k in self.pairs(victim) for v in [t['vleaves'][k]] if t['leaves'][k] is leaf)
                self.take(leaf, vleaf if victim['virtual'] else None, victim['priority'])
            else:
                leaf.state = 'Free'
        for s, i in self.pairs(g):
            victim = s['leaves'][i].user
            if victim and not any(t['leaves'][k].state == 'Reserving' for t, k in self.pairs(victim)):
                victim['state'] = 'Allocated'
        del self.groups[g['name']]

    def pod_gone(self, group, pod):
        g = self.groups[group]
        next(s for s in g['slots'] if s['pod'] == pod)['pod'] = None
        if any(s['pod'] is not None for s in g['slots']):
            return
        for s, i in self.pairs(g):
            leaf = s['leaves'][i]
            leaf.user = None
            if leaf.state == 'Reserving':
                leaf.state = 'Reserved'
            else:
                self.release(leaf)
                leaf.state = 'Free'
        del self.groups[group]
        self.settle()

    def pod_cancel(self, group, pod):
        g = self.groups.get(group)
        if g and g['state'] == 'Preempting' and pod in g['asking']:
            g['asking'].discard(pod)
            if not g['asking']:
                self.cancel_preempt(g)
                self.settle()

    # broken hardware

    def node_set(self, node, healthy):
        for chain in self.chains:
            for leaf in self.level_cells(chain, 1):
                if leaf.node == node:
                    leaf.bad = not healthy
        if healthy:
            for chain in self.chains:
                for level in range(1, self.height(chain)):
                    for c in self.level_cells(chain, level):
                        v = c.peer
                        if v and not c.is_bad() and v.parent is not None and v.priority() == FREE and node in c.nodes():
                            self.unbind_all(c)
        self.settle()

    def left(self, chain, level):
        """Cells of the level in and below the free lists."""
        def below(c):
            return [c] if c.level == level else [x for k in c.children for x in below(k)]
        return [x for l, cells in self.free[chain].items() if l >= level for c in cells for x in below(c)]

    def undoom(self, v):
        p = v.peer
        self.unbind_all(p)
        v.doomed, self.changed = False, True
        self.vc_free[v.vc, v.chain, v.level] += 1
        self.pool_give(p)

    def bad_free_first(self, chain, level):
        owed, spare = self.all_vc_free(chain), {self.height(chain) + 1: 0}
        for l in range(self.height(chain), level, -1):
            spare[l] = len(self.free[chain][l]) - owed[l]
            spare[l] += spare[l + 1] * self.fanout(chain, l + 1) if l < self.height(chain) else 0
        for l in range(level, self.height(chain) + 1):
            if l > level and spare[l] <= 0:
                return None
            for c in sorted(self.free[chain][l], key=lambda c: c.serial):
                if c.is_bad():
                    while c.level > level:
                        c = next(k for k in c.children if k.is_bad())
                    return c
        return None

    def settle(self):
        """The damage is shown: broken parts of bound cells are bound; what cannot be had healthy is doomed."""
        self.show()
        for chain in self.chains:
            for _ in range(self.height(chain) + 1):  # one level may give back what another missed
                self.changed = False
                self.settle_chain(chain)
                if not self.changed:
                    break
        self.show()

    def settle_chain(self, chain):
        for level in range(self.height(chain), 0, -1):
            vcs = list(self.config['vcs'])

            def healthy():
                return sum(not c.is_bad() for c in self.left(chain, level))

            def roots(vc):
                return [r for r in self.roots.get(vc, []) if (r.chain, r.level) == (chain, level) and not r.pin]
            for vc in vcs:
                for r in roots(vc):
                    if r.doomed and not r.peer.is_bad():
                        self.undoom(r)
            for vc in vcs:
                while any(r.doomed for r in roots(vc)) and self.vc_free[vc, chain, level] < healthy():
                    self.undoom(next(r for r in roots(vc) if r.doomed))
            for vc in vcs:
                while self.vc_free.get((vc, chain, level), 0) > max(0, healthy()):
                    p, v = self.bad_free_first(chain, level), next((r for r in roots(vc) if r.peer is None), None)
                    if p is None or v is None:
                        break
                    self.vc_free[vc, chain, level] -= 1
                    v.doomed = self.changed = True
                    self.pool_take(p)
                    self.bind(p, v)

    def show(self):
        def below(p):
            for c in p.children:
                if c.is_bad():
                    if c.peer is None:
                        self.bind(c, next(v for v in p.peer.children if v.peer is None))
                    below(c)
        for chain in self.chains:
            for level in range(self.height(chain), 1, -1):
                for c in self.level_cells(chain, level):
                    if c.peer and c.peer.parent is None and c.is_bad():
                        below(c)
