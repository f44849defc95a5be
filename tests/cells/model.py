#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""model.py - the cell scheduler written to be obviously right, and scripts recorded from it.

    model.py FOLDER FIRST COUNT STEPS

writes FOLDER/seed-N.json and the cluster files it names, for COUNT seeds from FIRST on: random clusters, gangs of all
sizes, priorities, pins, leaf types, suggestions and phases, nodes that fail and return, changed configurations. The
answers are those of the model below, which knows no index, no bit set and no incremental anything: plain lists, sorted
again for every request. `muster cell replay` must give the same, step by step.

Where an order is free, it is that of the file: free cells, virtual clusters, chains, leaf types.
"""
import json
import random
import sys

FREE, OPP = -2, -1


class Cell:
    def __init__(self, world, chain, level, parent):
        self.chain, self.level, self.parent, self.children = chain, level, parent, []
        self.prio, self.peer, self.used = FREE, None, {}
        if parent:
            parent.children.append(self)

    def leaves(self):
        return [self] if self.level == 1 else [x for c in self.children for x in c.leaves()]

    def count(self, least, most=10**9):
        return sum(n for p, n in self.used.items() if least <= p <= most)

    def up(self):
        c = self
        while c:
            yield c
            c = c.parent

    def change(self, prio, by):
        for c in self.up():
            c.used[prio] = c.used.get(prio, 0) + by

    def priority(self):
        return max((p for p, n in self.used.items() if n), default=FREE)

    def root(self):
        return list(self.up())[-1]


class Physical(Cell):
    def __init__(self, world, chain, level, parent):
        super().__init__(world, chain, level, parent)
        self.pinned, self.state, self.user, self.reserver, self.bad, self.node = False, 'Free', None, None, False, None
        self.serial = world.serial = world.serial + 1

    def nodes(self):
        return sorted({x.node for x in self.leaves()})

    def is_bad(self):
        return any(x.bad for x in self.leaves())


class Virtual(Cell):
    def __init__(self, world, chain, level, parent, vc, pin):
        super().__init__(world, chain, level, parent)
        self.vc, self.pin, self.doomed = vc, pin, False


class Refused(Exception):
    pass


class World:
    """A configuration: types = [(name, child, number, is_node)], tops = [(type, [node names])], vcs = {name: (grants,
    pins)} with grants [(chain, type, count)], pins {id: (node name)}."""

    def __init__(self, config):
        self.config, self.serial = config, 0
        self.types = {t[0]: t for t in config['types']}
        self.groups, self.chains, self.pins = {}, [], {}
        self.cells, self.views, self.roots = {}, {}, {}
        for top, nodes in config['tops']:
            if top not in self.chains:
                self.chains.append(top)
            self.physical_make(top, top, None, list(nodes), 0)
        self.free = {c: {l: [] for l in range(1, self.height(c) + 1)} for c in self.chains}
        for c in self.chains:
            for cell in self.level_cells(c, self.height(c)):
                self.free[c][cell.level].append(cell)
        self.vc_free = {}
        for vc, (grants, pins) in config['vcs'].items():
            for chain, kind, count in grants:
                for _ in range(count):
                    self.virtual_make(chain, kind, None, vc, None)
                key = (vc, chain, self.level_of(chain, kind))
                self.vc_free[key] = self.vc_free.get(key, 0) + count
            for pin in pins:
                cell = self.pins[pin]
                v = self.virtual_make(cell.chain, self.type_at(cell.chain, cell.level), None, vc, pin)
                self.bind(cell, v)
                self.pool_take(cell)
                cell.pinned = True
        for chain in self.chains:
            self.views[None, chain] = list(self.level_cells(chain, self.node_level(chain)))
        for vc in config['vcs']:
            for chain in self.chains:
                roots = [r for r in self.roots.get(vc, []) if r.chain == chain and r.pin is None]
                if roots:
                    self.views[vc, chain] = self.view_of(roots, chain)
            for r in self.roots.get(vc, []):
                if r.pin:
                    self.views[vc, '=' + r.pin] = self.view_of([r], r.chain)

    # shapes

    def path(self, chain):
        out, name = [], chain
        while name in self.types:
            out.append(name)
            name = self.types[name][1]
        return out + [name]

    def height(self, chain):
        return len(self.path(chain))

    def type_at(self, chain, level):
        return self.path(chain)[self.height(chain) - level]

    def level_of(self, chain, kind):
        return self.height(chain) - self.path(chain).index(kind) if kind in self.path(chain) else None

    def node_level(self, chain):
        return next(self.level_of(chain, t) for t in self.path(chain) if self.types[t][3])

    def leaf_type(self, chain):
        return self.path(chain)[-1]

    def fanout(self, chain, level):
        return self.types[self.type_at(chain, level)][2]

    def physical_make(self, chain, kind, parent, nodes, index, node=None):
        level = self.level_of(chain, kind)
        cell = Physical(self, chain, level, parent)
        self.cells.setdefault((chain, level), []).append(cell)
        if kind in self.types and self.types[kind][3]:
            node, index = nodes.pop(0), 0
            if node in self.config['pins']:
                self.pins[self.config['pins'][node]] = cell
        cell.node, cell.index = node, index
        if level > 1:
            for i in range(self.fanout(chain, level)):
                self.physical_make(chain, self.types[kind][1], cell, nodes, index * self.fanout(chain, level) + i, node)

    def virtual_make(self, chain, kind, parent, vc, pin):
        level = self.level_of(chain, kind)
        cell = Virtual(self, chain, level, parent, vc, pin)
        if parent is None:
            self.roots.setdefault(vc, []).append(cell)
        if level > 1:
            for _ in range(self.fanout(chain, level)):
                self.virtual_make(chain, self.types[kind][1], cell, vc, pin)
        return cell

    def level_cells(self, chain, level):
        return self.cells.get((chain, level), [])

    def view_of(self, roots, chain):
        """All node-level cells, then what is smaller and has nothing of the view above it."""
        def at(cell, level):
            if cell.level == level:
                return [cell]
            return [x for c in cell.children for x in at(c, level)] if cell.level > level else []
        out = [x for r in roots for x in at(r, self.node_level(chain))]
        for level in range(self.node_level(chain) - 1, 0, -1):
            out += [r for r in roots if r.level == level]
        return out

    # the pool

    def free_ancestor(self, cell):
        return next((c for c in cell.up() if c in self.free[c.chain][c.level]), None)

    def pool_put(self, cell):
        cells = self.free[cell.chain][cell.level]
        cells.append(cell)
        cells.sort(key=lambda c: c.serial)

    def pool_take(self, cell):
        top = self.free_ancestor(cell)
        self.free[top.chain][top.level].remove(top)
        while cell is not top:
            for c in cell.parent.children:
                if c is not cell:
                    self.pool_put(c)
            cell = cell.parent

    def pool_give(self, cell):
        while cell.parent and all(c is cell or c in self.free[c.chain][c.level] for c in cell.parent.children):
            for c in cell.parent.children:
                if c is not cell:
                    self.free[c.chain][c.level].remove(c)
            cell = cell.parent
        self.pool_put(cell)

    def all_vc_free(self, chain):
        return {l: sum(n for (v, c, k), n in self.vc_free.items() if c == chain and k == l)
                for l in range(1, self.height(chain) + 1)}

    def safe(self, chain):
        spare, owed = 0, self.all_vc_free(chain)
        for level in range(self.height(chain), 0, -1):
            if level < self.height(chain):
                spare *= self.fanout(chain, level + 1)
            spare += len(self.free[chain][level]) - owed[level]
            if spare < 0:
                return False
        return True

    def bind(self, p, v):
        assert p.peer is None and v.peer is None and p.level == v.level
        p.peer, v.peer = v, p

    def unbind(self, p):
        p.peer.peer = None
        p.peer = None

    def unbind_all(self, p):
        for c in p.children:
            self.unbind_all(c)
        if p.peer:
            self.unbind(p)

    # devices change hands

    def take(self, leaf, vleaf, prio):
        assert leaf.prio == FREE
        if vleaf is None:
            leaf.prio = OPP
            leaf.change(OPP, 1)
            return True
        leaf.prio = vleaf.prio = prio
        leaf.change(prio, 1)
        vleaf.change(prio, 1)
        root = vleaf.root()
        new = root.peer is None
        for p, v in zip(leaf.up(), vleaf.up()):
            if v.peer is None:
                self.bind(p, v)
        if root.doomed:
            root.doomed = False
        elif new:
            self.vc_free[root.vc, root.chain, root.level] -= 1
            self.pool_take(root.peer)
            return self.safe(root.chain)
        return True

    def release(self, leaf):
        vleaf, prio = leaf.peer, leaf.prio
        leaf.prio = FREE
        leaf.change(prio, -1)
        if prio == OPP:
            return
        vleaf.prio = FREE
        vleaf.change(prio, -1)
        for v in list(vleaf.up()):
            if v.priority() != FREE:
                return
            if v.parent is None:
                if not v.pin:
                    p = v.peer
                    self.unbind_all(p)
                    self.vc_free[v.vc, v.chain, v.level] += 1
                    self.pool_give(p)
            elif not v.peer.is_bad():
                self.unbind(v.peer)

    # placing

    def pick(self, view, prio, sizes, opp, suggested):
        """One sweep over the nodes, then devices inside each."""
        def good(n):
            p = n if opp else n.peer
            return (p is None or not p.is_bad(), suggested is None or p is None or p.node in suggested)

        def key(n):
            healthy, wanted = good(n)
            if opp:
                return (not healthy, not wanted, -n.count(OPP, OPP), n.count(0))
            return (not healthy, not wanted, -n.count(OPP))

        def sweep(nodes, p):
            out, at, taken = [], 0, 0
            while at < len(nodes):
                n = nodes[at]
                if len(n.leaves()) - n.count(p) - taken >= sizes[len(out)]:
                    if not all(good(n)):
                        return None
                    taken += sizes[len(out)]
                    out.append(n)
                    if len(out) == len(sizes):
                        return out
                else:
                    at, taken = at + 1, 0
            return None

        view.sort(key=key)
        p = OPP
        nodes = sweep(view, p)
        if nodes is None and opp:
            nodes = sweep(sorted((n for n in view if all(good(n))), key=lambda n: len(n.leaves()) - n.count(OPP)), p)
        if nodes is None and prio > OPP:
            p = prio
            nodes = sweep(view, p)
        if nodes is None:
            return None
        out, have = [], {}
        for n, size in zip(nodes, sizes):
            if id(n) not in have:
                have[id(n)] = [x for x in n.leaves() if x.prio == FREE] + [x for x in n.leaves() if FREE < x.prio < p]
            got = self.leaves_pick(n, have[id(n)], size)
            have[id(n)] = [x for x in have[id(n)] if x not in got]
            out.append(got)
        return out

    def leaves_pick(self, node, have, size):
        """The lowest level at which a cell holds enough; there the one whose candidates come first."""
        for level in range(1, node.level + 1):
            best = None
            cells = {}
            for i, x in enumerate(have):
                above = next(c for c in x.up() if c.level == level)
                cells.setdefault(id(above), []).append(i)
            for at in cells.values():
                if len(at) >= size and (best is None or at[:size] < best):
                    best = at[:size]
            if best is not None:
                return [have[i] for i in best]
        raise AssertionError

    # binding

    def usable(self, cells, taken, suggested, need=1):
        out = [c for c in cells
               if c.peer is None and c not in taken and not (len(c.nodes()) == 1 and c.is_bad())
               and (suggested is None or any(n in suggested for n in c.nodes()))]
        return sorted(out, key=lambda c: c.count(OPP, OPP)) if len(out) >= need else []

    def match(self, wanted, cells, taken, suggested):
        """Each vertex a cell of its own, with backtracking; {virtual leaf: physical leaf}, {vertex: cell} or None."""
        if not wanted:
            return {}, []
        usable = self.usable(cells, taken, suggested, len(wanted))
        vertex, rest = wanted[0], wanted[1:]
        for c in usable:
            if vertex[0].level == 1:
                below = {vertex[0]: c}, []
            else:
                below = self.match(vertex[1], c.children, [], suggested)
            if below is None:
                continue
            after = self.match(rest, cells, taken + [c], suggested)
            if after is not None:
                return {**below[0], **after[0]}, [c] + after[1]
        return None

    def buddy(self, vertex, free, level, suggested):
        if level == vertex[0].level:
            got = self.match([vertex], free[level], [], suggested)
            if got:
                free[level] = [c for c in free[level] if c is not got[1][0]]
            return got
        for c in self.usable(free[level], [], suggested):
            free[level - 1] = list(c.children)
            got = self.buddy(vertex, free, level - 1, suggested)
            if got:
                free[level] = [x for x in free[level] if x is not c]
                return got
            free[level - 1] = []
        return None

    def relaxed(self, vertex, free, owed, chain, suggested):
        w, top = vertex[0].level, self.height(chain)
        spare = {top + 1: 0}
        for l in range(top, w, -1):
            spare[l] = len(free[l]) - owed[l] + (spare[l + 1] * self.fanout(chain, l + 1) if l < top else 0)
        for l in range(w + 1, top + 1):
            number = max(0, min([len(free[l])] + [spare[k] for k in range(w + 1, l + 1)]))  # safe at every level
            cells = free[l][:number]
            for _ in range(l - w):
                cells = [x for c in cells for x in c.children]
            got = self.match([vertex], cells + free[w], [], suggested)
            if got:
                c = got[1][0]
                path = list(c.up())
                holder = next((x for x in path if x.level > w and x in free[x.level]), None)
                if holder is None:
                    free[w] = [x for x in free[w] if x is not c]
                else:
                    free[holder.level] = [x for x in free[holder.level] if x is not holder]
                    for x in path[:path.index(holder)]:
                        free[x.level] = sorted(free[x.level] + [y for y in x.parent.children if y is not x],
                                               key=lambda y: y.serial)
                return got
        return None

    def map(self, chain, picked, suggested):
        """Physical leaves for virtual ones, or None."""
        out, vertices, preassigned, groups = {}, {}, [], []
        for leaf in (x for pod in picked for x in pod):
            if leaf.peer:
                out[leaf] = leaf.peer
                continue
            below = None
            for v in leaf.up():
                if v.peer:
                    group = next((g for g in groups if g[0] is v), None)
                    if group is None:
                        groups.append((v, [below]))
                    else:
                        group[1].append(below)
                    break
                if v in vertices:
                    vertices[v][1].append(below)
                    break
                vertices[v] = (v, [below] if below else [])
                below = vertices[v]
                if v.parent is None:
                    preassigned.append(below)
        free = {l: list(c) for l, c in self.free[chain].items()}
        owed = self.all_vc_free(chain)
        for vertex in preassigned:
            w = vertex[0].level
            start = next((l for l in range(w, self.height(chain) + 1) if free[l]), None)
            got = self.buddy(vertex, free, start, suggested) if start else None
            if got is None:
                got = self.relaxed(vertex, free, owed, chain, suggested)
            if got is None:
                return None
            owed[w] -= 1
            out.update(got[0])
        for parent, wanted in groups:
            got = self.match(wanted, parent.peer.children, [], suggested)
            if got is None:
                return None
            out.update(got[0])
        return [[out[x] for x in pod] for pod in picked]

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

    def place_new(self, q):
        if q['vc'] not in self.config['vcs']:
            raise Refused
        pins = self.config['vcs'][q['vc']][1]
        if q['pin']:
            if q['pin'] not in pins or q['priority'] < 0:
                raise Refused
            chain = self.pins[q['pin']].chain
            got = self.chain_try(q, chain, self.views[q['vc'], '=' + q['pin']])
            return got and (chain,) + got
        kinds = []
        for c in self.chains:
            if self.leaf_type(c) not in kinds:
                kinds.append(self.leaf_type(c))
        if q['type'] and q['type'] not in kinds:
            raise Refused
        owned = False
        for kind in kinds:
            for chain in self.chains:
                view = self.views.get((q['vc'] if q['priority'] >= 0 else None, chain))
                if self.leaf_type(chain) != kind or (q['type'] and q['type'] != kind) or view is None:
                    continue
                owned = True
                got = self.chain_try(q, chain, view)
                if got:
                    return (chain,) + got
        if q['type'] and not owned:
            raise Refused
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
            if bad or (not g['ignore'] and q['suggested'] is not None and not nodes <= q['suggested']):
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
            for c in self.free[chain][l]:
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


# ---- recording


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
    def __init__(self, seed, steps, folder):
        self.rng, self.seed, self.folder, self.files = random.Random(seed), seed, folder, 0
        self.steps, self.pods, self.jobs, self.order = [], {}, [], []
        self.config = config_draw(self.rng)
        self.world = World(self.config)
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
        self.config, self.world, self.down = config, World(config), set()
        for pod in self.order:
            job, size, node, indices, plan = self.pods[pod]
            self.world.commit(self.query(job, size, None), pod, node, indices, plan)


def main():
    folder, first, count, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    for seed in range(first, first + count):
        Recorder(seed, steps, folder)


if __name__ == '__main__':
    main()
