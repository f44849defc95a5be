// SPDX-License-Identifier: Apache-2.0
// nodes.js - nodes and their health; drain and resume.
import { h } from '../js/dom.js';
import { badge, button, card, empty, select, stat, table, time, with_data } from '../js/ui.js';
import { plain } from '../js/text.js';
import { count, plural } from '../js/format.js';
import { bar } from '../js/plot.js';
import { node_buttons } from '../js/act.js';
import { with_query } from '../js/route.js';

const BAD = new Set(['down', 'unknown', 'drain', 'draining', 'maint']);
const SHOWN = 200;

export default {
  title: () => 'Nodes',
  needs: () => [{ path: '/nodes?limit=10000', kinds: ['node.', 'gpu.', 'job.'], gap: 1500, every: 15000 }],
  command: () => 'muster nodes',
  json: () => '/nodes',
  view: ctx => with_data(ctx.data('/nodes?limit=10000'), v => {
    if (!v.items.length) return card('', empty('node', 'No nodes yet', 'A node joins when its agent starts: ', h('code', null, 'muster-agent join'), '.'));
    const q = ctx.query, set = change => ctx.go(with_query('/nodes', q, change), true), text = (q.find || '').toLowerCase();
    const states = [...new Set(v.items.map(n => n.state))].sort();
    const list = v.items.filter(n => (!q.state || n.state === q.state) && (!text || n.name.toLowerCase().includes(text)));
    list.sort((a, b) => BAD.has(b.state) - BAD.has(a.state) || a.name.localeCompare(b.name, 'en', { numeric: true }));
    const bad = v.items.filter(n => BAD.has(n.state)).length, silent = v.items.filter(n => !n.connected).length;
    const shown = q.all ? list : list.slice(0, SHOWN);
    return [
      card('', { label: 'In all' }, h('div', { class: 'stats' }, stat('Nodes', count(v.items.length)), stat('GPUs', count(v.items.reduce((a, n) => a + n.gpus, 0))), stat('Drained or down', count(bad), null, bad ? 'wait' : ''), stat('Silent', count(silent), null, silent ? 'bad' : ''), stat('Unhealthy GPUs', count(v.items.reduce((a, n) => a + n.gpus_unhealthy, 0))), stat('Used by others', count(v.items.reduce((a, n) => a + n.foreign, 0)), 'GPUs with processes muster did not start'))),
      h('div', { class: 'row filters' }, select(q.state || '', [['', 'All states'], ...states.map(s => [s, s])], x => set({ state: x }), 'State'), h('input', { type: 'search', value: q.find || '', placeholder: 'Name', 'aria-label': 'Name', onchange: e => set({ find: e.target.value.trim() }) })),
      card('', { label: 'Nodes' }, list.length ? [table([
        { label: 'Node', cell: n => h('a', { href: '/nodes/' + encodeURIComponent(n.name) }, plain(n.name, 60)) },
        { label: 'State', cell: n => badge(n.state) },
        { label: 'Type', cell: n => plain(n.sku, 24) },
        { label: 'GPUs', class: 'third', cell: n => h('div', { class: 'row nowrap-row' }, bar([{ name: 'used', value: n.gpus_used, color: 'var(--run)' }, { name: 'drained or unhealthy', value: n.gpus_down, color: 'var(--bad)', pattern: 'cross' }, { name: 'used by others', value: n.foreign, color: 'var(--muted)', pattern: 'dots' }, { name: 'free', value: n.gpus_free, color: 'var(--free)' }], n.gpus, { label: n.name }), h('span', { class: 'small nowrap' }, n.gpus_used + '/' + n.gpus)) },
        { label: 'Rack', class: 'wide-only nowrap', cell: n => plain((n.labels && n.labels.rack) || '', 30) },
        { label: 'Heard', class: 'wide-only', cell: n => (n.connected ? h('span', { class: 'ok-text' }, 'connected') : time(n.seen_time, ctx.now, true)) },
        { label: 'Why', cell: n => h('div', { class: 'clip muted' }, plain(n.reason, 120)) },
        { label: '', class: 'num', cell: n => node_buttons(ctx, n) },
      ], shown, { key: n => n.name, label: 'Nodes' }), list.length > shown.length ? h('p', { class: 'center' }, button('Show all ' + plural(list.length, 'node'), () => set({ all: '1' }), { class: 'small' })) : null] : empty('search', 'No node fits', '')),
    ];
  }),
};
