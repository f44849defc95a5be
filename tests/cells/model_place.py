# SPDX-License-Identifier: Apache-2.0
"""model_place.py - where a gang goes, in the model (model.py): nodes, devices, and physical cells for virtual ones."""
from model_cells import FREE, OPP, Books


class Placing(Books):
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
        if nodes is None and opp and not self.literal:
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
                self.list_drop(free[level], got[1][0])
            return got
        for c in self.usable(free[level], [], suggested):
            free[level - 1] = list(c.children)
            got = self.buddy(vertex, free, level - 1, suggested)
            if got:
                self.list_drop(free[level], c)
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
                self.lists_take(free, got[1][0])
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
