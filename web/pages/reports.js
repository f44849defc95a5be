// SPDX-License-Identifier: Apache-2.0
// reports.js - GPU-hours by whoever used them, and how well: what a bill, a talk or a meeting needs.
import { h } from '../js/dom.js';
import { button, card, download, empty, segments, table, with_data } from '../js/ui.js';
import { plain } from '../js/text.js';
import { count, percent, span } from '../js/format.js';
import { bar } from '../js/plot.js';
import { fetch_raw } from '../js/api.js';
import { vc_colors } from '../js/color.js';
import { with_query } from '../js/route.js';

const KINDS = [['users', 'Users'], ['vcs', 'Virtual clusters'], ['accounts', 'Accounts'], ['skus', 'GPU types'], ['nodes', 'Nodes'], ['jobs', 'Job names']];
const SPANS = { '24h': 86400, '7d': 604800, '30d': 2592000, '90d': 7776000, '365d': 31536000 };

function window_of(ctx) {
  const q = ctx.query, day = text => /^\d{4}-\d\d-\d\d$/.test(text || '') ? new Date(text + 'T00:00:00') : null;
  const to = day(q.to) ? new Date(day(q.to).getTime() + 86400e3) : new Date(Math.ceil(ctx.now / 3600e3) * 3600e3);
  const from = day(q.from) || new Date(to.getTime() - (SPANS[q.span] || 604800) * 1000);
  return { from, to };
}
const kind_of = ctx => (KINDS.some(k => k[0] === ctx.query.by) ? ctx.query.by : 'users');
const path = ctx => {
  const w = window_of(ctx);
  return '/reports/' + kind_of(ctx) + '?from=' + w.from.toISOString() + '&to=' + w.to.toISOString();
};
const day = date => new Date(date.getTime() - date.getTimezoneOffset() * 60e3).toISOString().slice(0, 10);

export default {
  title: () => 'Reports',
  needs: ctx => [{ path: path(ctx), kinds: ['job.completed', 'job.failed', 'job.cancelled'], gap: 5000, every: 60000 }],
  command: ctx => {
    const w = window_of(ctx), kind = kind_of(ctx);
    return 'muster report ' + kind + ' -S ' + w.from.toISOString().slice(0, 19) + 'Z -E ' + w.to.toISOString().slice(0, 19) + 'Z';
  },
  json: ctx => path(ctx),
  view: ctx => {
    const kind = kind_of(ctx), w = window_of(ctx), set = change => { ctx.go(with_query('/reports', ctx.query, change), true); };
    return [
      card('', { label: 'What to add up' }, h('div', { class: 'row spread' },
        segments(kind, KINDS, v => set({ by: v === 'users' ? '' : v }), 'By'),
        h('div', { class: 'row' }, segments(ctx.query.from || ctx.query.to ? '' : ctx.query.span || '7d', Object.keys(SPANS).map(k => [k, k]), v => set({ span: v === '7d' ? '' : v, from: '', to: '' }), 'Span of time'),
          h('input', { type: 'date', value: day(w.from), 'aria-label': 'From', onchange: e => set({ from: e.target.value, to: ctx.query.to || day(new Date(w.to.getTime() - 1)) }) }), h('span', { class: 'muted' }, 'to'), h('input', { type: 'date', value: day(new Date(w.to.getTime() - 1)), 'aria-label': 'To', onchange: e => set({ to: e.target.value, from: ctx.query.from || day(w.from) }) })))),
      card('GPU-hours by ' + KINDS.find(k => k[0] === kind)[1].toLowerCase(), { actions: button('CSV', async () => {
        try {
          download('muster-' + kind + '-' + day(w.from) + '.csv', await (await fetch_raw(path(ctx) + '&format=csv', { headers: { Accept: 'text/csv' } })).text(), 'text/csv');
        } catch (error) {
          ctx.toast(error.message, 'bad');
        }
      }, { icon: 'down', class: 'small', title: 'The same as a file for a spreadsheet' }) }, with_data(ctx.data(path(ctx)), v => rows(ctx, v.items, kind))),
    ];
  },
};

const href = (kind, key) => kind === 'users' ? '/jobs?user=' + encodeURIComponent(key) : kind === 'vcs' ? '/vcs/' + encodeURIComponent(key) : kind === 'nodes' ? '/nodes/' + encodeURIComponent(key) : kind === 'jobs' ? '/jobs?name=' + encodeURIComponent(key) : null;

function rows(ctx, items, kind) {
  if (!items.length) return empty('report', 'Nothing ran in this window', 'Choose a longer one.');
  const list = [...items].sort((a, b) => b.gpu_seconds - a.gpu_seconds), most = Math.max(1e-9, list[0].gpu_seconds), sum = key => list.reduce((a, b) => a + (b[key] || 0), 0);
  const all = { key: 'all', jobs: sum('jobs'), failed: sum('failed'), gpu_seconds: sum('gpu_seconds'), lost_gpu_seconds: sum('lost_gpu_seconds'), preemptions: sum('preemptions'), mean_wait_seconds: list.reduce((a, b) => a + b.mean_wait_seconds * b.jobs, 0) / Math.max(1, sum('jobs')), total: true };
  const label = r => (r.total ? h('b', null, 'In all') : href(kind, r.key) ? h('a', { href: href(kind, r.key) }, plain(r.key, 80) || '\u2013') : plain(r.key, 80) || '\u2013');
  return table([
    { label: KINDS.find(k => k[0] === kind)[1], cell: label },
    { label: 'GPU-hours', class: 'num', cell: r => h('b', null, count(r.gpu_seconds / 3600)) },
    { label: '', class: 'wide', cell: r => (r.total ? '' : h('div', { class: 'row nowrap-row' }, bar([{ name: 'GPU-hours', value: r.gpu_seconds, color: kind === 'vcs' ? vc_colors.of(r.key).fill : 'var(--run)' }], most, { label: r.key }), h('span', { class: 'small' }, percent(r.gpu_seconds / Math.max(1e-9, all.gpu_seconds))))) },
    { label: 'Jobs', class: 'num', cell: r => count(r.jobs) },
    { label: 'Not completed', class: 'num', cell: r => count(r.failed) },
    { label: 'Preempted', class: 'num', cell: r => count(r.preemptions) },
    { label: 'Lost GPU-hours', class: 'num', title: 'Work since the last checkpoint when a job was stopped', cell: r => count((r.lost_gpu_seconds || 0) / 3600) },
    { label: 'Mean wait', class: 'num', cell: r => span(r.mean_wait_seconds) },
  ], [...list.slice(0, 500), all], { key: r => (r.total ? '\u0000all' : r.key), label: 'Report', row_class: r => (r.total ? 'total' : '') });
}
