// SPDX-License-Identifier: Apache-2.0
// vcs.js - virtual clusters: what they are guaranteed, use, borrow and lend, now and over time.
import { h } from '../js/dom.js';
import { card, empty, segments, stat, table, vc_mark, with_data } from '../js/ui.js';
import { plain, shell_word } from '../js/text.js';
import { count, instant, percent, plural } from '../js/format.js';
import { bar, plot } from '../js/plot.js';
import { vc_colors } from '../js/color.js';
import { with_query } from '../js/route.js';

const SPANS = { '1h': 3600, '6h': 21600, '24h': 86400, '7d': 604800, '30d': 2592000 };
const usage = (ctx, name) => '/vcs/' + encodeURIComponent(name) + '/usage?from=' + new Date(Math.ceil(ctx.now / 300e3) * 300e3 - (SPANS[ctx.query.span] || 3600) * 1000).toISOString();
const total = by => Object.values(by || {}).reduce((a, b) => a + b, 0);

export default {
  title: ctx => (ctx.id ? 'Virtual cluster ' + plain(ctx.id, 60) : 'Virtual clusters'),
  needs: ctx => {
    const vcs = ctx.data('/vcs').value, names = ctx.id ? [ctx.id] : vcs ? vcs.items.slice(0, 24).map(v => v.name) : [];
    return [{ path: '/vcs', kinds: ['job.'], gap: 1000 }, ...names.map(name => ({ path: usage(ctx, name), gap: 5000, every: 10000 }))];
  },
  command: ctx => (ctx.id ? 'muster vc ' + shell_word(ctx.id) : 'muster vc'),
  json: ctx => (ctx.id ? '/vcs/' + encodeURIComponent(ctx.id) + '/usage' : '/vcs'),
  view: ctx => with_data(ctx.data('/vcs'), value => {
    if (ctx.state.known !== value.items.length + ctx.id) {
      ctx.state.known = value.items.length + ctx.id;
      ctx.app.needs();
    }
    const list = ctx.id ? value.items.filter(v => v.name === ctx.id) : value.items;
    if (!list.length) return card('', empty('vcs', ctx.id ? 'There is no virtual cluster ' + plain(ctx.id, 60) : 'There are no virtual clusters', h('a', { href: '/vcs' }, 'All there are')));
    return [
      h('div', { class: 'row spread' }, ctx.id ? h('a', { href: '/vcs' }, '\u2190 all virtual clusters') : h('span', { class: 'muted' }, 'What each is guaranteed, what it uses, and what it borrows or lends.'), segments(ctx.query.span || '1h', Object.keys(SPANS).map(k => [k, k]), v => { ctx.go(with_query(location.pathname, ctx.query, { span: v === '1h' ? '' : v }), true); ctx.app.needs(); }, 'Span of time')),
      ctx.id ? one(ctx, list[0]) : [summary(list), h('div', { class: 'grid' }, list.slice(0, 24).map(v => h('div', { class: 'c6', key: v.name }, small(ctx, v))))],
    ];
  }),
};

const summary = list => card('Now', table([
  { label: 'Virtual cluster', cell: v => h('a', { href: '/vcs/' + encodeURIComponent(v.name) }, vc_mark(v.name)) },
  { label: 'Policy', cell: v => plain(v.policy, 40) },
  { label: 'Guaranteed', class: 'num', cell: v => count(total(v.guarantee)) },
  { label: 'Used', class: 'num', cell: v => count(total(v.used) + total(v.opportunistic)) },
  { label: 'Borrowed', class: 'num', cell: v => count(v.borrowed) },
  { label: 'Lent', class: 'num', cell: v => count(v.lent) },
  { label: 'Waiting', class: 'num', cell: v => (v.pending_jobs ? count(v.pending_jobs) + ' (' + count(v.pending_gpus) + ' GPUs)' : '\u2013') },
  { label: 'Of its guarantee', class: 'wide', cell: v => h('div', { class: 'row nowrap-row' }, bar([{ name: 'used', value: Math.min(2, v.share), color: vc_colors.of(v.name).fill }], 2, { label: v.name, marks: total(v.guarantee) ? [{ at: 1, name: 'guarantee' }] : [] }), h('span', { class: 'small' }, total(v.guarantee) ? percent(v.share) : '\u2013')) },
  { label: 'Kept', title: 'A guarantee is broken when a virtual cluster has work that fits it and does not get it', cell: v => (kept(v) ? h('span', { class: 'ok-text' }, 'yes') : h('span', { class: 'bad-text' }, 'waiting below it')) },
], list, { key: v => v.name, label: 'Virtual clusters now' }));

/** Below its guarantee while work waits: worth a look (it may be the shape of the work). */
const kept = v => !(v.pending_jobs && total(v.used) < total(v.guarantee));

function series_of(value, color) {
  const pick = key => value.series.map(p => [instant(p.time), p[key] === null ? null : p[key]]);
  return [
    { name: 'inside the guarantee', color, points: value.series.map(p => [instant(p.time), Math.max(0, (p.used || 0) - (p.borrowed || 0))]) },
    { name: 'borrowed', color: 'color-mix(in srgb, ' + color + ' 45%, var(--surface))', pattern: 'stripe', points: pick('borrowed') },
    { name: 'opportunistic', color: 'color-mix(in srgb, ' + color + ' 22%, var(--surface))', pattern: 'dots', points: pick('opportunistic') },
    { name: 'guarantee', color: 'var(--text)', points: pick('guaranteed'), line: true },
    { name: 'lent', color: 'var(--wait)', points: pick('lent'), line: true, dash: true },
  ];
}

const graph = (ctx, v, height, more) => with_data(ctx.data(usage(ctx, v.name)), value => value.series.length > 1
  ? plot([...series_of(value, vc_colors.of(v.name).fill), ...(more ? [{ name: 'waiting', color: 'var(--bad)', points: value.series.map(p => [instant(p.time), p.pending_gpus]), line: true, dash: true }] : [])], { stacked: true, time: true, step: true, label: 'GPUs of ' + plain(v.name, 40) + ' over time', y_label: 'GPUs', height })
  : h('p', { class: 'muted' }, 'The first minutes are being recorded.'));

const small = (ctx, v) => card(h('a', { href: '/vcs/' + encodeURIComponent(v.name) }, plain(v.name, 40)), { label: v.name, note: count(total(v.used)) + ' of ' + count(total(v.guarantee)) + ' used' + (v.borrowed ? ', ' + count(v.borrowed) + ' borrowed' : '') + (v.lent ? ', ' + count(v.lent) + ' lent' : '') }, graph(ctx, v, 150));

function one(ctx, v) {
  const data = ctx.data(usage(ctx, v.name)).value, skus = Object.keys(v.guarantee);
  return [
    card('', { label: 'Now' }, h('div', { class: 'stats' }, stat('Guaranteed', count(total(v.guarantee)), skus.filter(s => v.guarantee[s]).map(s => count(v.guarantee[s]) + ' ' + s).join(', ') || 'nothing'), stat('Used', count(total(v.used)), skus.filter(s => v.used[s]).map(s => count(v.used[s]) + ' ' + s).join(', ')), stat('Borrowed', count(v.borrowed), v.borrow_max === null ? 'as much as is idle' : 'at most ' + count(v.borrow_max)), stat('Lent', count(v.lent), 'of its guarantee, to others'), stat('Waiting', count(v.pending_jobs), plural(v.pending_gpus, 'GPU'), v.pending_jobs ? 'wait' : ''), stat('Policy', plain(v.policy, 30), v.user_max ? 'one user: at most ' + count(v.user_max) : null))),
    card('Over time', graph(ctx, v, 260, true)),
    card('Who uses it', { actions: [h('a', { href: '/queue?vc=' + encodeURIComponent(v.name) }, 'its queue'), h('a', { href: '/jobs?vc=' + encodeURIComponent(v.name) }, 'its jobs')] }, data && data.items.length ? table([{ label: 'User', cell: u => plain(u.user, 40) }, { label: 'GPUs', class: 'num', cell: u => count(u.gpus) }, { label: 'Running', class: 'num', cell: u => count(u.running_jobs) }, { label: 'Waiting', class: 'num', cell: u => count(u.pending_jobs) }, { label: '', class: 'wide', cell: u => bar([{ name: 'GPUs', value: u.gpus, color: vc_colors.of(v.name).fill }], Math.max(1, ...data.items.map(x => x.gpus)), { label: u.user }) }], [...data.items].sort((a, b) => b.gpus - a.gpus), { key: u => u.user, label: 'Users' }) : h('p', { class: 'muted' }, 'Nobody right now.')),
  ];
}
