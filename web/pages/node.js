// SPDX-License-Identifier: Apache-2.0
// node.js - one node: its GPUs, what they measure, who is on them, and taking parts of it out.
import { h } from '../js/dom.js';
import { badge, button, card, empty, failed, job_ref, loading, stat, table, time } from '../js/ui.js';
import { plain, shell_word } from '../js/text.js';
import { bytes, count } from '../js/format.js';
import { node_buttons } from '../js/act.js';
import { send } from '../js/api.js';

const at = ctx => '/nodes/' + encodeURIComponent(ctx.id);

export default {
  title: ctx => 'Node ' + plain(ctx.id, 80),
  needs: ctx => [{ path: at(ctx), kinds: ['node.', 'gpu.', 'job.'], gap: 1000, every: 5000 }, { path: '/jobs?node=' + encodeURIComponent(ctx.id) + '&limit=200', kinds: ['job.'], gap: 1500 }],
  command: ctx => 'muster node show ' + shell_word(ctx.id),
  json: ctx => at(ctx),
  view: ctx => {
    const data = ctx.data(at(ctx));
    if (!data.value) return data.error && data.error.status === 404 ? card('', empty('search', 'There is no node ' + plain(ctx.id, 60), h('a', { href: '/nodes' }, 'To the nodes there are'))) : data.error ? failed(data.error) : loading();
    const n = data.value, jobs = ctx.data('/jobs?node=' + encodeURIComponent(ctx.id) + '&limit=200').value, names = new Map(jobs ? jobs.items.map(j => [j.id, job_ref(j)]) : []);
    return [
      card('', { label: 'State' }, h('div', { class: 'row spread' }, h('div', { class: 'row' }, badge(n.state), h('span', null, plain(n.sku, 40)), n.fake ? h('span', { class: 'badge off' }, 'emulated') : null, n.reason ? h('span', { class: 'wait-text' }, plain(n.reason, 200)) : null), h('div', { class: 'row' }, node_buttons(ctx, n))),
        h('div', { class: 'stats' }, stat('GPUs in use', n.gpus_used + ' of ' + n.gpus), stat('CPUs', count(n.cpus)), stat('Memory', bytes(n.memory_bytes)), stat('Address', plain(n.address, 60)), stat('Agent', plain(n.version, 20), n.connected ? 'connected' : 'not connected', n.connected ? '' : 'bad'), stat('Heard', time(n.seen_time, ctx.now, true)), stat('Enforced', plain((n.fences || []).join(', '), 80) || 'nothing', 'limits the kernel keeps'))),
      card('GPUs', n.connected ? {} : { note: ['as they were when it was last heard, ', time(n.seen_time, ctx.now, true)] }, table([
        { label: '#', cell: g => g.index }, { label: 'State', cell: g => h('span', { class: 'gpu-state g-' + g.state }, g.state) },
        { label: 'Busy', cell: g => h('div', { class: 'row nowrap-row' }, h('meter', { min: 0, max: 100, value: g.util, 'aria-label': 'utilisation of GPU ' + g.index }), h('span', { class: 'small' }, g.util + ' %')) },
        { label: 'Memory', class: 'num', cell: g => bytes(g.memory_used_mib * 1048576) }, { label: 'Power', class: 'num wide-only', cell: g => g.power_watts + ' W' }, { label: 'Temp', class: 'num wide-only', cell: g => g.temperature_celsius + ' \u00b0C' },
        { label: 'Jobs', cell: g => (g.jobs || []).map((j, i) => [i ? ', ' : '', h('a', { href: '/jobs/' + j }, names.get(j) || j)]) },
        { label: 'Why', cell: g => h('span', { class: 'muted' }, plain(g.reason, 80)) },
        { label: '', class: 'num', cell: g => gpu_button(ctx, n, g) },
      ], n.gpu_list || [], { key: g => g.index, label: 'GPUs' })),
      card('Jobs here', { note: n.connected ? 'they would be hit if the node went away' : 'they are started elsewhere if it stays away' }, jobs && jobs.items.length ? table([{ label: 'Job', cell: j => h('a', { href: '/jobs/' + j.id }, job_ref(j) + ' ' + plain(j.name, 60)) }, { label: 'State', cell: j => badge(j.state) }, { label: 'User', cell: j => plain(j.user, 30) }, { label: 'GPUs', class: 'num', cell: j => j.gpus }, { label: 'Nodes', cell: j => plain(j.nodelist, 60) }], jobs.items, { key: j => j.id, label: 'Jobs here' }) : h('p', { class: 'muted' }, 'None.')),
      card('Labels', Object.keys(n.labels || {}).length ? h('dl', { class: 'why-rows' }, Object.entries(n.labels).map(([k, v]) => h('div', { class: 'why-row', key: k }, h('dt', null, plain(k, 60)), h('dd', null, plain(v, 200))))) : h('p', { class: 'muted' }, 'None. An agent gives them: ', h('code', null, 'labels: {rack: r1}'))),
    ];
  },
};

function gpu_button(ctx, node, gpu) {
  if (!ctx.may('admin')) return null;
  const path = '/nodes/' + encodeURIComponent(node.name) + '/gpus/' + gpu.index, name = node.name + ':' + gpu.index;
  const done = () => ctx.store.touch('/nodes');
  if (gpu.state === 'drained' && node.state !== 'drain' && node.state !== 'draining' || gpu.reason && gpu.state !== 'unhealthy')
    return button('Resume', async () => { await ctx.ask('Resume GPU ' + name, () => send('PATCH', path, { drain: false })); done(); }, { class: 'small', icon: 'play', title: 'Jobs are placed on it again' });
  if (gpu.state === 'drained') return null;
  return button('Drain', () => ctx.dialog({ kind: 'confirm', title: 'Drain GPU ' + plain(name, 80) + '?', text: 'Nothing new is placed on this GPU.', fields: [{ name: 'reason', label: 'Reason', required: true, placeholder: 'XID 79' }], words: 'muster node drain ' + shell_word(node.name) + ' --gpus ' + gpu.index + ' --reason TEXT', verb: 'Drain', danger: true,
    yes: async values => { await ctx.ask('Drain GPU ' + name, () => send('PATCH', path, { drain: true, reason: values.reason })); done(); } }), { class: 'small', icon: 'pause' });
}
