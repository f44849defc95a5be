#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cells.py - draws the pictures of docs/cells.md: cells-*.svg, beside this file.

Colours follow the reader's light or dark mode, and nothing is told by colour alone: devices carry a letter.
"""
import os

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 11px }
.dim { fill: #59636e }
.title { font-weight: 600 }
.rack { fill: #f6f8fa; stroke: #818b98 }
.node { fill: #ffffff; stroke: #818b98 }
.switch { fill: none; stroke: #b7bfc8 }
.gpu { fill: #ffffff; stroke: #59636e }
.a { fill: #b6d4fe; stroke: #0b4a9e }
.b { fill: #ffd8a8; stroke: #8a4b08 }
.g { fill: #d3d9e0; stroke: #59636e; stroke-dasharray: 3 2 }
.x { fill: #ffc9c9; stroke: #a40e26 }
.virtual { fill: none; stroke-dasharray: 5 3 }
.mark { fill: none; stroke-width: 2.5 }
.mark-a { stroke: #0b4a9e }
.mark-b { stroke: #8a4b08 }
.arrow { fill: none; stroke: #59636e; stroke-width: 1.5; marker-end: url(#tip) }
.tip { fill: #59636e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.dim { fill: #9198a1 }
.rack { fill: #151b23; stroke: #656c76 }
.node { fill: #0d1117; stroke: #656c76 }
.switch { stroke: #3d444d }
.gpu { fill: #0d1117; stroke: #9198a1 }
.a { fill: #123d73; stroke: #79b8ff }
.b { fill: #6b3d08; stroke: #ffb757 }
.g { fill: #30363d; stroke: #9198a1 }
.x { fill: #67181b; stroke: #ff8182 }
.virtual { fill: none }
.mark-a { stroke: #79b8ff }
.mark-b { stroke: #ffb757 }
.arrow { stroke: #9198a1 }
.tip { fill: #9198a1 }
}
"""
GPU, GAP = 22, 4
SWITCH_W, SWITCH_H = 2 * GPU + 3 * GAP, GPU + 2 * GAP
NODE_W, NODE_H = 2 * SWITCH_W + 3 * GAP, SWITCH_H + 2 * GAP + 16
RACK_W, RACK_H = 2 * NODE_W + 3 * GAP, NODE_H + 2 * GAP + 18


class Picture:
    def __init__(self, width, height, words):
        self.out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">'
                    % (width, height, width, height), '<title>%s</title>' % words, '<style>%s</style>' % STYLE,
                    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
                    'orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>']

    def box(self, x, y, w, h, kind, r=3):
        self.out.append('<rect class="%s" x="%g" y="%g" width="%g" height="%g" rx="%g"/>' % (kind, x, y, w, h, r))

    def text(self, x, y, words, kind='', anchor='start'):
        self.out.append('<text class="%s" x="%g" y="%g" text-anchor="%s">%s</text>' % (kind, x, y, anchor, words))

    def arrow(self, x1, y1, x2, y2):
        self.out.append('<path class="arrow" d="M%g %gL%g %g"/>' % (x1, y1, x2, y2))

    def gpus(self, x, y, letters):
        """Two devices of a switch; a letter each: who has it. '.' is idle, lower case is bound but idle."""
        for i, c in enumerate(letters):
            at = x + GAP + i * (GPU + GAP)
            kind = {'A': 'a', 'B': 'b', 'g': 'g', 'X': 'x'}.get(c, '')
            self.box(at, y + GAP, GPU, GPU, 'gpu ' + kind, 2)
            if kind:
                self.text(at + GPU / 2, y + GAP + 15, {'g': 'o', 'X': '!'}.get(c, c.lower()), 'small', 'middle')

    def node(self, x, y, name, letters, virtual=''):
        self.box(x, y, NODE_W, NODE_H, 'node ' + virtual)
        self.text(x + 6, y + 13, name, 'small dim')
        for i in range(2):
            at = x + GAP + i * (SWITCH_W + GAP)
            self.box(at, y + 16, SWITCH_W, SWITCH_H, 'switch ' + virtual, 2)
            self.gpus(at, y + 16, letters[2 * i:2 * i + 2])

    def rack(self, x, y, name, first, letters, virtual=''):
        self.box(x, y, RACK_W, RACK_H, 'rack ' + virtual)
        self.text(x + 6, y + 14, name, 'small dim')
        for i in range(2):
            label = 'n%d' % (first + i) if first is not None else 'node'
            self.node(x + GAP + i * (NODE_W + GAP), y + 18 + GAP, label, letters[4 * i:4 * i + 4], virtual)

    def mark(self, x, y, w, h, who):
        self.box(x - 2, y - 2, w + 4, h + 4, 'mark mark-' + who, 5)

    def save(self, name):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
        with open(path, 'w') as f:
            f.write('\n'.join(self.out) + '\n</svg>\n')


def two_racks(p, x, y, letters):
    p.rack(x, y, 'rack 0', 0, letters[:8])
    p.rack(x + RACK_W + 16, y, 'rack 1', 2, letters[8:])


def quota():
    p = Picture(2 * RACK_W + 56, 2 * RACK_H + 110, 'A quota in GPUs against cells')
    p.text(16, 22, 'Quota: a and b own 8 GPUs each. b has started eight small jobs.', 'title')
    two_racks(p, 16, 32, 'B.B.B.B.B.B.B.B.')
    p.text(16, RACK_H + 52, 'a uses none of its 8 GPUs, and cannot start a job that needs a whole node.', 'small dim')
    y = RACK_H + 76
    p.text(16, y, 'Cells: a owns a RACK, b owns two NODEs.', 'title')
    two_racks(p, 16, y + 10, 'BBBBBBBB........')
    p.mark(16 + RACK_W + 16, y + 10, RACK_W, RACK_H, 'a')
    p.text(16, y + RACK_H + 28, 'The same eight jobs lie in two nodes; a rack is there, whole, whenever a asks.', 'small dim')
    p.save('cells-quota.svg')


def tree():
    p = Picture(2 * RACK_W + 164, RACK_H + 60, 'Racks hold nodes, nodes hold switches, switches hold GPUs')
    two_racks(p, 16, 16, '.' * 16)
    x = 2 * RACK_W + 44
    for i, (level, kind) in enumerate((('4', 'RACK'), ('3', 'NODE'), ('2', 'SWITCH'), ('1', 'GPU'))):
        p.text(x, 34 + 18 * i, 'level %s' % level, 'small dim')
        p.text(x + 48, 34 + 18 * i, kind, 'small')
    p.text(16, RACK_H + 40, 'A box inside a box is a child; all RACKs together are the chain RACK.', 'small dim')
    p.save('cells-tree.svg')


def grants():
    w = RACK_W + NODE_W + 2 * SWITCH_W + 110
    p = Picture(w, RACK_H + 70, 'What the virtual clusters are granted: imaginary cells')
    p.text(16, 22, 'virtual cluster a', 'title')
    p.rack(16, 32, 'a/0  RACK', None, '.' * 8, 'virtual')
    x = RACK_W + 48
    p.text(x, 22, 'virtual cluster b', 'title')
    p.node(x, 32, 'b/0  NODE', '....', 'virtual')
    for i in range(2):
        at = x + NODE_W + 16 + i * (SWITCH_W + 16)
        p.text(at, 45, 'b/%d' % (i + 1), 'small dim')
        p.box(at, 48, SWITCH_W, SWITCH_H, 'switch virtual', 2)
        p.gpus(at, 48, '..')
    p.text(x + NODE_W + 16, 48 + SWITCH_H + 16, 'SWITCH, SWITCH', 'small dim')
    p.text(16, RACK_H + 54, 'Nobody says which hardware. Each virtual cluster plans as if it were alone.', 'small dim')
    p.save('cells-grants.svg')


def binding():
    p = Picture(2 * RACK_W + 56, 3 * RACK_H + 200, 'Binding splits the smallest free cell, and no more')
    y = 32
    p.text(16, y - 10, '1  Nothing runs.  Free: rack 0, rack 1', 'title')
    two_racks(p, 16, y, '.' * 16)
    y += RACK_H + 60
    p.text(16, y - 28, '2  b starts a job of two GPUs: b/1 is bound to a switch.', 'title')
    p.text(16, y - 10, 'Free: rack 1 | n1 | the other switch of n0', 'small dim')
    two_racks(p, 16, y, 'BB' + '.' * 14)
    p.mark(16 + 2 * GAP, y + 18 + GAP + 16, SWITCH_W, SWITCH_H, 'b')
    p.text(20 + SWITCH_W, y + RACK_H - 4, '', 'small')
    y += RACK_H + 60
    p.text(16, y - 28, '3  a starts a gang of two pods with four GPUs each: a/0 is bound to rack 1.', 'title')
    p.text(16, y - 10, 'Rack 0 was broken up first, so rack 1 is still whole.  Free: n1 | the other switch of n0', 'small dim')
    two_racks(p, 16, y, 'BB' + '.' * 6 + 'A' * 8)
    p.mark(16 + 2 * GAP, y + 18 + GAP + 16, SWITCH_W, SWITCH_H, 'b')
    p.mark(16 + RACK_W + 16, y, RACK_W, RACK_H, 'a')
    p.text(16, y + RACK_H + 20, 'When both end, cells are merged again, and it looks like 1.', 'small dim')
    p.save('cells-binding.svg')


def guests():
    p = Picture(2 * RACK_W + 56, 2 * RACK_H + 130, 'Opportunistic gangs use what is idle and go when its owner comes')
    y = 32
    p.text(16, y - 10, 'An opportunistic gang (o) runs on idle GPUs, in whoever\'s share they are.', 'title')
    two_racks(p, 16, y, 'BB..gggg....gggg')
    y += RACK_H + 56
    p.text(16, y - 28, 'a starts its gang: it needs rack 1, and the opportunistic one goes, all of it.', 'title')
    p.text(16, y - 10, 'What is free stays free: an opportunistic gang splits and binds nothing.', 'small dim')
    two_racks(p, 16, y, 'BB......' + 'A' * 8)
    p.mark(16 + RACK_W + 16, y, RACK_W, RACK_H, 'a')
    p.save('cells-guests.svg')


def doomed():
    p = Picture(2 * RACK_W + 56, RACK_H + 110, 'Broken hardware, shown to the virtual cluster that would get it')
    p.text(16, 22, 'n1 is broken (!). a uses rack 1; b has a job on n0 and is owed one more NODE.', 'title')
    p.text(16, 40, 'No healthy node is left for it: that cell of b is doomed.', 'small dim')
    two_racks(p, 16, 50, 'BBBBXXXX' + 'A' * 8)
    p.mark(16 + RACK_W + 16, 50, RACK_W, RACK_H, 'a')
    p.mark(16 + GAP + NODE_W + GAP, 50 + 18 + GAP, NODE_W, NODE_H, 'b')
    p.text(16, RACK_H + 72, 'It is bound to n1 and shown as Bad, so that b does not plan with it and its users see why.', 'small dim')
    p.text(16, RACK_H + 90, 'When n1 returns, or a gives its rack back, it is an ordinary cell again.', 'small dim')
    p.save('cells-doomed.svg')


for picture in (quota, tree, grants, binding, guests, doomed):
    picture()
