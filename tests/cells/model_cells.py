# SPDX-License-Identifier: Apache-2.0
"""model_cells.py - the books of the model (model.py): cells, who is bound to what, which are free."""

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


class Books:
    """A configuration: types = [(name, child, number, is_node)], tops = [(type, [node names])], vcs = {name: (grants,
    pins)} with grants [(chain, type, count)], pins {id: (node name)}."""

    def __init__(self, config, literal=False):
        self.config, self.serial, self.literal = config, 0, literal
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

    def list_put(self, cells, cell):
        cells.append(cell)
        if not self.literal:
            cells.sort(key=lambda c: c.serial)

    def list_drop(self, cells, cell):
        if self.literal:
            cells[cells.index(cell)] = cells[-1]
            cells.pop()
        else:
            cells.remove(cell)

    def lists_take(self, free, cell):
        """Takes a cell out of free lists; what holds it is split."""
        while cell not in free[cell.level]:
            for c in cell.parent.children:
                self.list_put(free[c.level], c)
            self.list_drop(free[cell.level], cell)
            cell = cell.parent
        self.list_drop(free[cell.level], cell)

    def pool_take(self, cell):
        self.lists_take(self.free[cell.chain], cell)

    def pool_give(self, cell):
        free = self.free[cell.chain]
        while cell.parent and all(c is cell or c in free[c.level] for c in cell.parent.children):
            for c in cell.parent.children:
                if c is not cell:
                    self.list_drop(free[c.level], c)
            cell = cell.parent
        self.list_put(free[cell.level], cell)

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
