// SPDX-License-Identifier: Apache-2.0
// overview.js - who uses what, who waits, and why: first in a sentence, then in figures.
import { h } from '../js/dom.js';
import { badge, card, empty, gpus_of, job_name, job_ref, segments, table, time, vc_mark, with_data } from '../js/ui.js';
import { plain } from '../js/text.js';
import { count, instant, percent, plural, span } from '../js/format.js';
import { bar, plot, spark } from '../js/plot.js';
import { PALETTE, vc_colors } from '../js/color.js';
import { with_query } from '../js/route.js';
import { reason_words } from '../js/why.js';
import { icon } from '../js/icon.js';

const MINE = 5;
const mine = ctx => '/jobs?all=1&eta=1&merge=arrays&sort=-submit_time&limit=' + MINE + '&fields=id,name,state,array,gpus,gpu_share,gpu_type,submit_time,start_time,end_time,reason,eta,nodelist,end_text&user=' + encodeURIComponent(ctx.who.user);
const SPANS = { '1h': 1, '6h': 6, '24h': 24, '7d': 168 };
const hours = ctx => SPANS[ctx.query.span] || 1;
// The beginning moves in steps, so that it is the same question for a while, and stays within what is kept finely.
const usage = ctx => '/usage?from=' + new Date(Math.ceil(Date.now() / 300e3) * 300e3 - hours(ctx) * 3600e3).toISOString();

export default {
  title: () => 'Overview',
  needs: ctx => [
    { path: '/overview', kinds: ['job.', 'node.', 'gpu.'], gap: 1000, every: 10000 },
    ...(ctx.who.user ? [{ path: mine(ctx), kinds: ['job.'], gap: 1000 }] : []),
    { path: usage(ctx), gap: 5000, every: 15000 },
  ],
  command: () => 'muster gpus',
  json: () => '/overview',
  view: ctx => with_data(ctx.data('/overview'), o => (o.gpus.length ? page(ctx, o) : first_steps())),
};

/** A cluster without a node. */
const first_steps = () => card('', empty('node', 'This cluster has no nodes yet',
  'A node joins when its agent starts. Make a token for it here, and start the agent there:'),
  h('pre', { class: 'say' }, 'muster token new --join\nmuster-agent join https://CONTROLLER:7717 TOKEN'),
  h('p', { class: 'muted' }, 'To try muster without any GPU: ', h('code', null, 'musterd --dev --fake 4x8:H100'), '.'));

const sum = (list, key) => list.reduce((a, b) => a + (b[key] || 0), 0);

function page(ctx, o) {
  return [
    sentence(ctx, o),
    alerts(ctx, o),
    h('div', { class: 'grid' },
      h('div', { class: 'c12 skus' }, o.gpus.map(g => sku_card(ctx, g))),
      my_jobs(ctx, o),
      h('div', { class: 'c7 stack' }, vcs_card(o), over_time(ctx)),
      h('div', { class: 'c5 stack' }, reasons_card(o), waits_card(o)),
      h('div', { class: 'c12 feed-col' }, feed(ctx))),
  ];
}

/* Reasons that end when GPUs are free. */
const FOR_GPUS = new Set(['InsufficientGpus', 'Fragmented', 'NodesUnhealthy', 'ReservedForJob', 'Priority', 'TopologyUnsatisfied', 'InsufficientCpuMem', 'VcLimit', 'BorrowLimit', 'Preempting', 'Scheduling']);

/** The state of the cluster in words. */
function sentence(ctx, o) {
  const total = sum(o.gpus, 'total'), used = sum(o.gpus, 'used'), drained = sum(o.gpus, 'drained'), ill = sum(o.gpus, 'unhealthy'), free = sum(o.gpus, 'free');
  const waiting = sum(o.waiting_by_reason, 'jobs'), want = sum(o.waiting_by_reason, 'gpus');
  const top = [...o.waiting_by_reason].sort((a, b) => b.jobs - a.jobs)[0];
  const running = o.jobs.RUNNING || 0, for_gpus = sum(o.waiting_by_reason.filter(r => FOR_GPUS.has(r.code)), 'jobs');
  return h('section', { class: 'hero', 'aria-label': 'In a sentence' },
    h('p', { class: 'hero-main' }, total && used >= total ? 'Full: ' : null, h('b', null, count(used)), ' of ', h('b', null, count(total)), ' GPUs are in use by ', h('b', null, plural(running, 'job')), '. ',
      waiting ? [h('a', { href: '/queue' }, h('b', null, plural(waiting, 'job'))), waiting === 1 ? ' waits' : ' wait', for_gpus ? [', ', for_gpus === waiting ? 'all' : h('b', null, count(for_gpus)), ' of them for GPUs (', h('b', null, count(want)), ' asked for)'] : null, top ? [', mostly because ', h('b', null, reason_words(top.code).because)] : null, '.'] : 'No job waits.',
      o.paused ? h('span', { class: 'bad-text' }, ' The scheduler is paused.') : null),
    h('p', { class: 'muted' }, free ? plural(free, 'GPU') + (free === 1 ? ' is free' : ' are free') : 'No GPU is free', '; the largest gang that could start now: ', o.gpus.map((g, i) => [i ? ', ' : '', h('b', { class: 'nowrap' }, count(g.biggest_gang) + ' ' + g.sku)]), drained ? [' \u00b7 ', h('a', { href: '/nodes' }, count(drained) + ' drained')] : null, ill ? [' \u00b7 ', h('a', { href: '/nodes' }, count(ill) + ' unhealthy')] : null, '.'));
}

function sku_card(ctx, g) {
  const series = ctx.data(usage(ctx)).value, line = series && series.items.find(s => s.sku === g.sku);
  return card(plain(g.sku, 30), { key: g.sku, note: plural(g.total, 'GPU') },
    bar([{ name: 'used', value: g.used, color: 'var(--run)' }, { name: 'down', value: g.down, color: 'var(--bad)', pattern: 'cross' }, { name: 'used by others', value: g.foreign, color: 'var(--muted)', pattern: 'dots' }, { name: 'free', value: g.free, color: 'var(--free)' }], g.total, { class: 'tall', label: g.sku }),
    h('dl', { class: 'figures' },
      figure('used', count(g.used), percent(g.total ? g.used / g.total : 0)), figure('free', count(g.free)),
      figure('usable as one gang', count(g.biggest_gang), 'on one node ' + count(g.biggest_node)), figure('drained', count(g.drained), null, g.drained ? 'bad-text' : ''), figure('unhealthy', count(g.unhealthy), null, g.unhealthy ? 'bad-text' : '')),
    line && line.series.length > 1 ? h('div', { class: 'sku-spark', title: 'GPUs in use over the last ' + (ctx.query.span || '1h') }, spark(line.series.map(p => p.used || 0), 'var(--run)', g.total)) : null);
}

const figure = (name, value, note, kind) => h('div', null, h('dt', null, name), h('dd', { class: kind }, value, note ? h('span', { class: 'muted small' }, ' ' + note) : null));

function alerts(ctx, o) {
  const list = o.alerts || [];
  if (!list.length) return null;
  return h('section', { class: 'alerts', 'aria-label': 'Alerts' }, list.slice(0, 6).map((a, i) => h('div', { key: i, class: 'alert ' + (a.severity || '') }, icon(a.severity === 'info' ? 'bell' : 'warn'),
    h('div', null, h('strong', null, plain(a.text, 300)), a.hint ? h('span', { class: 'muted' }, ' \u2013 ' + plain(a.hint, 200)) : null),
    h('span', { class: 'row' }, a.node ? h('a', { href: '/nodes/' + encodeURIComponent(a.node) }, plain(a.node, 40)) : null, a.job ? h('a', { href: '/jobs/' + a.job }, 'job ' + a.job) : null, a.since ? h('span', { class: 'muted small' }, 'since ', time(a.since, ctx.now)) : null))),
    list.length > 6 ? h('p', { class: 'muted small' }, 'and ' + (list.length - 6) + ' more: ', h('a', { href: '/nodes' }, 'nodes'), ', or ', h('code', null, 'GET /api/v1/alerts')) : null);
}

function my_jobs(ctx, o) {
  if (!ctx.who.user) return null;
  const data = ctx.data(mine(ctx));
  const items = data.value ? data.value.items : [];
  if (data.value && !items.length && !ctx.may('user')) return null;
  return h('div', { class: 'c12', key: 'mine' }, card('My jobs', { note: o.my_jobs ? count(o.my_jobs.RUNNING || 0) + ' running, ' + count(o.my_jobs.PENDING || 0) + ' waiting' : '', actions: [h('a', { href: '/jobs?user=' + encodeURIComponent(ctx.who.user) }, 'all of mine'), ctx.may('user') ? h('a', { class: 'button small', href: '/submit' }, icon('plus'), 'Submit') : null] },
    with_data(data, () => items.length ? table([
      { label: 'Job', cell: j => h('a', { href: j.array ? '/arrays/' + j.array.id : '/jobs/' + j.id }, j.array ? 'array ' + j.array.id : job_ref(j)) },
      { label: 'Name', cell: j => h('span', { class: 'clip' }, job_name(j)) },
      { label: 'State', cell: j => badge(j.state) },
      { label: 'GPUs', class: 'num', cell: j => gpus_of(j) },
      { label: 'Since', class: 'wide-only', cell: j => time(j.state === 'PENDING' ? j.submit_time : j.end_time || j.start_time || j.submit_time, ctx.now, true) },
      { label: '', class: 'wide', cell: j => j.state === 'PENDING' ? h('span', { class: 'muted' }, j.reason ? reason_words(j.reason.code).short : '', j.eta && j.eta.at ? [', starts ~', time(j.eta.at, ctx.now)] : '') : h('span', { class: 'muted' }, j.nodelist ? plain(j.nodelist, 40) : plain(j.end_text, 60)) },
    ], items, { key: j => j.id, label: 'My jobs' }) : h('p', { class: 'muted' }, 'You have no jobs here. ', h('a', { href: '/submit' }, 'Submit one'), ', or in a terminal: ', h('code', null, 'muster run -G 1 -- nvidia-smi')))));
}

function vcs_card(o) {
  const most = Math.max(1, ...o.vcs.map(v => Math.max(total_of(v.guarantee), total_of(v.used) + total_of(v.opportunistic))));
  return card('Virtual clusters', { note: 'used against what they are guaranteed', actions: h('a', { href: '/vcs' }, 'over time') },
    o.vcs.length ? h('div', { class: 'vc-bars' }, o.vcs.map(v => {
      const owed = total_of(v.guarantee), used = total_of(v.used), guest = total_of(v.opportunistic), borrowed = Math.max(v.borrowed || 0, 0);
      const { fill } = vc_colors.of(v.name);
      return h('a', { class: 'vc-bar', href: '/vcs/' + encodeURIComponent(v.name), key: v.name },
        h('span', { class: 'vc-bar-name' }, vc_mark(v.name), h('span', { class: 'muted small' }, v.pending_jobs ? plural(v.pending_jobs, 'job') + ' waiting' : '')),
        bar([{ name: 'inside the guarantee', value: Math.max(0, used - borrowed), color: fill }, { name: 'borrowed', value: borrowed, color: fill, pattern: 'stripe' }, { name: 'opportunistic', value: guest, color: fill, pattern: 'dots' }], most, { label: v.name, marks: owed ? [{ at: owed, name: 'guarantee' }] : [] }),
        h('span', { class: 'vc-bar-words small' }, h('b', null, count(used)), ' used of ', count(owed), ' guaranteed', guest ? [' \u00b7 ', h('b', null, count(guest)), ' opportunistic'] : null, borrowed ? [' \u00b7 ', h('b', null, count(borrowed)), ' borrowed'] : null, v.lent ? [' \u00b7 ', h('b', null, count(v.lent)), ' lent out'] : null));
    })) : h('p', { class: 'muted' }, 'There are none.'),
    h('p', { class: 'legend' }, h('span', null, h('span', { class: 'swatch', style: { '--c': 'var(--off)' } }), 'inside'), h('span', null, h('span', { class: 'swatch stripe', style: { '--c': 'var(--off)' } }), 'borrowed'), h('span', null, h('span', { class: 'mark-key' }), 'guarantee')));
}

const total_of = by => Object.values(by || {}).reduce((a, b) => a + b, 0);

function reasons_card(o) {
  const list = [...o.waiting_by_reason].sort((a, b) => b.gpus - a.gpus), most = Math.max(1, ...list.map(r => r.gpus));
  return card('Why jobs wait', { actions: h('a', { href: '/queue' }, 'the queue') }, list.length ? h('ul', { class: 'reasons' }, list.map(r => h('li', { key: r.code },
    h('a', { href: '/queue?reason=' + encodeURIComponent(r.code) }, h('span', null, h('b', null, reason_words(r.code).short), ' ', h('span', { class: 'muted small' }, r.code)), h('span', { class: 'muted small' }, reason_words(r.code).long)),
    bar([{ name: 'GPUs asked for', value: r.gpus, color: 'var(--amber)' }], most, { label: r.code }),
    h('span', { class: 'small' }, plural(r.jobs, 'job') + ', ' + plural(r.gpus, 'GPU') + ', longest ' + span(r.oldest_seconds))))) : empty('check', 'Nobody waits', 'Every job that can run does.'));
}

function waits_card(o) {
  const waiting = new Map((o.waiting_by_size || []).map(w => [w.size, w]));
  return card('Waiting time by size', { note: 'of jobs that started lately' }, table([
    { label: 'GPUs', cell: w => w.size }, { label: 'Started', class: 'num', cell: w => count(w.jobs) },
    { label: 'Half within', class: 'num', cell: w => span(w.p50_seconds) }, { label: '95 % within', class: 'num', cell: w => span(w.p95_seconds) },
    { label: 'Waiting now', class: 'num', cell: w => { const x = waiting.get(w.size); return x && x.jobs ? count(x.jobs) + ' (' + span(x.oldest_seconds) + ')' : '\u2013'; } },
  ], o.wait_by_size || [], { key: w => w.size, label: 'Waiting time by size' }));
}

function over_time(ctx) {
  const data = ctx.data(usage(ctx));
  const kinds = segments(ctx.state.what || 'use', [['use', 'in use'], ['gang', 'largest gang']], v => { ctx.state.what = v; ctx.redraw(); }, 'What to show');
  return card('GPUs over time', { actions: [kinds, segments(ctx.query.span || '1h', Object.keys(SPANS).map(k => [k, k]), v => ctx.go(with_query('/', ctx.query, { span: v === '1h' ? '' : v }), true), 'Span of time')] }, with_data(data, u => {
    const at = new Map();
    for (const sku of u.items)
      for (const p of sku.series) {
        const x = instant(p.time), s = at.get(x) || { used: 0, busy: 0, free: 0, down: 0 };
        for (const key in s) s[key] += p[key] || 0;
        at.set(x, s);
      }
    const points = [...at.entries()].sort((a, b) => a[0] - b[0]);
    if (points.length < 2) return h('p', { class: 'muted' }, 'The first minutes are being recorded.');
    const pick = key => points.map(([x, s]) => [x, s[key]]);
    if (ctx.state.what === 'gang')
      return plot(u.items.map((sku, i) => ({ name: plain(sku.sku, 20) + ': largest gang', color: PALETTE[i % PALETTE.length], points: sku.series.map(p => [instant(p.time), p.largest_gang]) })), { time: true, step: true, label: 'Largest gang that could start', y_label: 'GPUs', height: 200 });
    return plot([{ name: 'in use', color: 'var(--run)', points: pick('used') }, { name: 'free', color: 'var(--free)', points: pick('free') }, { name: 'unhealthy or drained', color: 'var(--bad)', points: pick('down') }, { name: 'really busy', color: 'var(--text)', points: pick('busy'), line: true, dash: true }],
      { stacked: true, time: true, label: 'GPUs over time', y_label: 'GPUs', height: 200 });
  }));
}

function feed(ctx) {
  const list = ctx.app.events.slice(0, 12);
  return card('Happening now', { note: ctx.app.live === 'live' ? 'as it happens' : '' }, list.length ? h('ul', { class: 'feed' }, list.map(e => h('li', { key: e.id }, time(e.time, ctx.now), h('span', { class: 'kind' }, plain(e.kind, 40)), e.job ? h('a', { href: '/jobs/' + e.job }, 'job ' + e.job) : null, e.node ? h('a', { href: '/nodes/' + encodeURIComponent(e.node) }, plain(e.node, 40)) : null, h('span', { class: 'muted clip' }, detail(e))))) : h('p', { class: 'muted' }, 'Nothing since you opened this page.'));
}

const detail = e => (e.detail && typeof e.detail === 'object' ? plain(Object.entries(e.detail).filter(([, v]) => v !== null && typeof v !== 'object').map(([k, v]) => k + ' ' + v).join(', '), 160) : '');
