// SPDX-License-Identifier: Apache-2.0
// job.js - one job: its life, why it waits or what became of it, where it is, what its GPUs do, what it says.
import { h } from '../js/dom.js';
import { badge, button, card, copy, empty, failed, gpus_of, job_name, job_ref, loading, priority, segments, stat, table, time, vc_mark, with_data } from '../js/ui.js';
import { plain } from '../js/text.js';
import { bytes, count, exact, instant, percent, span, when } from '../js/format.js';
import { action_buttons, change_button, governs, OVER } from '../js/act.js';
import { why_view } from '../js/why.js';
import { log_view } from '../js/logs.js';
import { plot } from '../js/plot.js';
import { job_color } from '../js/color.js';
import { yaml_of } from '../js/spec.js';

const at = ctx => '/jobs/' + ctx.id;

export default {
  title: ctx => {
    const job = ctx.data(at(ctx)).value;
    return 'Job ' + (job ? job_ref(job) + (job.name ? ' \u00b7 ' + plain(job.name, 80) : '') : ctx.id);
  },
  needs: ctx => {
    if (missing(ctx)) return [{ path: '/arrays/' + ctx.id }];
    const me = { kinds: ['job.'], job: Number(ctx.id), gap: 400 }, first = { path: at(ctx), ...me, every: 10000 };
    // The rest when it is known to be a job, and which: the number may be an array's.
    return !ctx.data(at(ctx)).value ? [first] : [first, { path: at(ctx) + '/why', ...me, gap: 1000, every: 15000 }, { path: at(ctx) + '/attempts', ...me }, { path: at(ctx) + '/events', ...me },
      { path: at(ctx) + '/metrics', gap: 5000, every: 5000 }, { path: '/alerts', kinds: ['node.'], gap: 5000, every: 15000 }];
  },
  command: ctx => 'muster show ' + ctx.id,
  json: ctx => '/jobs/' + ctx.id,
  view: ctx => {
    const data = ctx.data(at(ctx));
    if (data.value && data.value.id !== Number(ctx.id)) return elsewhere(ctx, '/jobs/' + data.value.id); // an element by its index
    if (!data.value) {
      if (missing(ctx)) {
        const array = ctx.data('/arrays/' + ctx.id);
        if (!array.error && !array.value) ctx.app.needs();
        if (array.value) return elsewhere(ctx, '/arrays/' + ctx.id);
        if (!array.error) return loading();
      }
      if (data.error && data.error.status === 404) return card('', empty('search', 'There is no job ' + ctx.id, 'It may be long over: ', h('code', null, 'muster history'), '. ', h('a', { href: '/jobs' }, 'To the jobs there are'), '.'));
      return data.error ? failed(data.error) : loading();
    }
    if (!ctx.data(at(ctx) + '/why').wanted) ctx.app.needs();
    return page(ctx, data.value);
  },
};

/** There is no such job: the number may be that of an array. */
function missing(ctx) {
  const { value, error } = ctx.data(at(ctx));
  return !value && error && error.status === 404 && /^\d+$/.test(ctx.id);
}

/** The same under the address it has. */
function elsewhere(ctx, href) {
  queueMicrotask(() => ctx.app.route.id === ctx.id && ctx.go(href, true));
  return loading();
}

function page(ctx, job) {
  const over = OVER.has(job.state);
  return [
    h('section', { class: 'card job-head' },
      h('div', { class: 'row spread' },
        h('div', { class: 'row' }, badge(job.state), h('span', null, plain(job.user, 40)), vc_mark(job.vc), priority(job.priority_class), job.array ? h('a', { href: '/arrays/' + job.array.id }, 'array ' + job.array.id + ', element ' + job.array.index) : null),
        h('div', { class: 'row' }, change_button(ctx, job), action_buttons(ctx, job), governs(ctx.who, job) && job.state === 'RUNNING' ? button('Shell', async () => ctx.toast((await copy('muster attach ' + job.id)) ? 'Copied: muster attach ' + job.id : 'In a terminal: muster attach ' + job.id), { icon: 'code', title: 'Copies the command that opens a shell inside the job' }) : null)),
      h('div', { class: 'stats' },
        stat('GPUs', gpus_of(job), job.nodes ? 'on ' + job.nodes + (job.nodes === 1 ? ' node' : ' nodes') : null),
        stat(job.state === 'PENDING' ? 'Waiting' : 'Ran', span(job.state === 'PENDING' ? (ctx.now - instant(job.eligible_time || job.submit_time)) / 1000 : over ? job.elapsed_seconds : (ctx.now - instant(job.start_time)) / 1000), job.limit_seconds ? 'limit ' + span(job.limit_seconds) : 'no limit'),
        job.state === 'PENDING' ? stat('Starts', job.eta && job.eta.at ? ['~', time(job.eta.at, ctx.now)] : 'not known', job.eta && job.eta.low && job.eta.low !== job.eta.high ? ['between ', time(job.eta.low, ctx.now), ' and ', time(job.eta.high, ctx.now)] : null)
          : over ? stat('Ended', time(job.end_time, ctx.now), null, job.state === 'COMPLETED' ? 'ok' : 'bad') : stat('Must end by', job.limit_seconds ? time(instant(job.start_time) + job.limit_seconds * 1000, ctx.now) : '\u2013', null),
        stat('GPU-hours', count(job.gpu_seconds / 3600), null),
        stat('Attempts', job.start_time || job.attempt ? String(job.attempt + 1) : '0', [job.preemptions ? count(job.preemptions) + ' sent away' : '', job.failures ? count(job.failures) + ' failed' : ''].filter(Boolean).join(', ') || null),
        over && job.exit_code !== null ? stat('Exit code', String(job.exit_code), job.signal ? 'signal ' + job.signal : null, job.exit_code === 0 ? 'ok' : 'bad') : null)),
    h('div', { class: 'grid' },
      h('div', { class: 'c12' }, card('Life', with_data(ctx.data(at(ctx) + '/attempts'), v => lanes(ctx, job, v.items)))),
      h('div', { class: 'c6', key: 'why' }, card(over ? 'How it ended' : job.state === 'PENDING' ? 'Why it waits' : 'What it was given', { actions: h('code', { class: 'small muted' }, 'muster why ' + job.id) }, with_data(ctx.data(at(ctx) + '/why'), w => why_view(ctx, w, job)))),
      h('div', { class: 'c6', key: 'place' }, card('Placement', { actions: job.placement.length && !over ? h('a', { href: '/topology?job=' + job.id }, 'on the map') : null }, placement(ctx, job)), verdict(ctx, job)),
      h('div', { class: 'c12', key: 'use' }, utilisation(ctx, job)),
      h('div', { class: 'c12', key: 'log' }, card('Output', output(ctx, job))),
      h('div', { class: 'c6', key: 'events' }, card('Events', with_data(ctx.data(at(ctx) + '/events'), v => events(ctx, v.items)))),
      h('div', { class: 'c6', key: 'spec' }, card('Job file', { actions: job.spec ? [button('Copy', async () => ctx.toast((await copy(yaml_of(job.spec))) ? 'Copied the job file' : 'The browser does not let copy'), { class: 'small', icon: 'copy' }), ctx.may('user') ? button('Submit one like it', () => { ctx.app.states.set('submit/', { text: yaml_of(job.spec) }); ctx.go('/submit'); }, { class: 'small', icon: 'submit' }) : null] : null },
        job.spec ? h('pre', { class: 'json', tabindex: '0' }, yaml_of(job.spec).slice(0, 20000)) : h('p', { class: 'muted' }, 'Only its owner and administrators see what it runs.')))),
  ];
}

/** One lane an attempt: waiting, starting, running, ended. */
function lanes(ctx, job, attempts) {
  const submit = instant(job.submit_time), ends = attempts.map(a => instant(a.end_time)).filter(Boolean);
  const planned = job.eta && job.eta.at && job.state === 'PENDING' ? instant(job.eta.at) : 0;
  const limit = job.limit_seconds && !OVER.has(job.state) ? ((planned || instant(job.start_time) || ctx.now) + job.limit_seconds * 1000) : 0;
  const end = Math.max(submit + 1000, OVER.has(job.state) ? Math.max(instant(job.end_time) || 0, ...ends) : Math.max(ctx.now, planned, Math.min(limit, ctx.now + (ctx.now - submit) * 3)));
  const X = t => ((Math.min(Math.max(t, submit), end) - submit) / (end - submit)) * 100;
  const part = (kind, from, to, words) => to > from ? h('span', { key: kind + from, class: 'life ' + kind, title: words + ' ' + span((to - from) / 1000) + ' (' + when(from, ctx.now) + ' \u2013 ' + when(to, ctx.now) + ')', style: { left: X(from) + '%', width: Math.max(0.4, X(to) - X(from)) + '%' } }, h('span', null, words)) : null;
  let waiting = instant(job.eligible_time) && attempts.length === 0 ? submit : submit;
  const rows = attempts.map(a => {
    const placed = instant(a.placed_time) || instant(a.start_time), start = instant(a.start_time), stop = instant(a.end_time) || ctx.now;
    const out = h('div', { class: 'lane', key: a.number }, h('span', { class: 'lane-name' }, 'attempt ' + a.number), h('span', { class: 'lane-bar' },
      part('wait', waiting, placed, 'waiting'), part('start', placed, start || stop, 'starting'), start ? part(a.state === 'SUSPENDED' ? 'hold' : 'run', start, stop, a.end_time ? 'ran' : a.state.toLowerCase()) : null,
      a.end_time ? h('span', { class: 'life-end', style: { left: X(stop) + '%' }, title: a.state }, '') : null, now_line(X, ctx, job)),
      h('span', { class: 'lane-state' }, badge(a.state), a.stop_kind && a.end_time && a.state !== 'COMPLETED' ? h('span', { class: 'muted small' }, ' ' + plain(a.stop_kind, 30), a.stop_by ? [' by ', h('a', { href: '/jobs/' + a.stop_by }, 'job ' + a.stop_by)] : null) : null));
    waiting = stop;
    return out;
  });
  if (job.state === 'PENDING') rows.push(h('div', { class: 'lane', key: 'next' }, h('span', { class: 'lane-name' }, 'attempt ' + attempts.length), h('span', { class: 'lane-bar' }, part('wait', waiting, ctx.now, 'waiting'), planned > ctx.now ? part('expect', ctx.now, planned, 'expected to wait') : null, planned ? part('plan-run', planned, end, 'planned') : null, now_line(X, ctx, job)), h('span', { class: 'lane-state' }, badge('PENDING'))));
  if (job.last_checkpoint_time) rows.push(h('p', { class: 'muted small', key: 'ck' }, 'Last checkpoint ', time(job.last_checkpoint_time, ctx.now, true)));
  return h('div', { class: 'lanes' }, rows, h('div', { class: 'lane-axis small muted' }, h('span', null, 'submitted ', time(submit, ctx.now)), h('span', null, OVER.has(job.state) ? ['ended ', time(end, ctx.now)] : time(end, ctx.now))));
}

const now_line = (X, ctx, job) => (OVER.has(job.state) ? null : h('span', { class: 'now', style: { left: X(ctx.now) + '%' }, title: 'now' }));

function placement(ctx, job) {
  if (!job.placement.length) return h('p', { class: 'muted' }, job.state === 'PENDING' ? 'It is on no GPU yet.' : 'It is on no GPU any more.');
  return h('div', { class: 'place-list' }, job.placement.slice(0, 64).map((p, rank) => h('div', { key: rank, class: 'place' }, h('a', { href: '/nodes/' + encodeURIComponent(p.node) }, plain(p.node, 40)), h('span', { class: 'chips' }, p.gpus.map(g => h('span', { class: 'chip', key: g, style: { '--c': job_color(job.id) } }, g))), h('span', { class: 'muted small' }, 'rank ' + rank), silent(ctx, job, p.node))), job.placement.length > 64 ? h('p', { class: 'muted' }, 'and ' + (job.placement.length - 64) + ' more nodes') : null);
}

/** What is told of a node that nobody hears. */
function silent(ctx, job, node) {
  const alerts = ctx.data('/alerts').value, found = alerts && !OVER.has(job.state) && alerts.items.find(a => a.kind === 'NodeSilent' && a.node === node);
  return found ? h('span', { class: 'bad-text small' }, 'silent since ', time(found.since, ctx.now), ': what is shown of it is as it was then') : null;
}

/** What its GPUs were used for, in a sentence. */
function verdict(ctx, job) {
  const data = ctx.data(at(ctx) + '/metrics').value, over = OVER.has(job.state);
  if (!data || !data.items.length || (over ? job.elapsed_seconds * 1000 : ctx.now - instant(job.start_time)) < 30e3) return null;
  const means = data.items.map(m => (m.series.length ? m.series.reduce((a, p) => a + p.util, 0) / m.series.length : m.util || 0));
  const mean = means.reduce((a, b) => a + b, 0) / means.length, low = means.filter(u => u < mean * 0.6).length;
  const words = mean < 5 ? ['bad', over ? 'Its GPUs were idle.' : 'Its GPUs have been idle. Others could use them: is it stuck, or waiting for data?'] : mean < 40 ? ['wait', 'Its GPUs ' + (over ? 'were' : 'are') + ' lightly used. More data workers or larger batches may help.'] : ['ok', 'Its GPUs ' + (over ? 'were' : 'are') + ' well used.'];
  return h('p', { class: 'verdict ' + words[0] + '-text' }, h('b', null, percent(mean / 100)), ' mean utilisation. ', words[1], low && mean >= 5 ? ' ' + count(low) + (low === 1 ? ' GPU lags' : ' GPUs lag') + ' behind the others.' : '');
}

function utilisation(ctx, job) {
  const s = ctx.state, kind = s.metric || 'util';
  const kinds = [['util', 'Utilisation'], ['memory_used_mib', 'Memory'], ['power_watts', 'Power']];
  return card('GPUs of each rank', { actions: segments(kind, kinds, v => { s.metric = v; ctx.redraw(); }, 'What to show') }, with_data(ctx.data(at(ctx) + '/metrics'), v => {
    if (!v.items.length) return h('p', { class: 'muted' }, job.start_time ? 'Nothing was measured.' : 'It has not run yet.');
    const ranks = new Map();
    for (const m of v.items) {
      if (!ranks.has(m.rank)) ranks.set(m.rank, []);
      ranks.get(m.rank).push(m);
    }
    const many = ranks.size > 12, format = kind === 'util' ? x => Math.round(x) + '%' : kind === 'power_watts' ? x => Math.round(x) + ' W' : x => bytes(x * 1048576);
    const series = [...ranks.entries()].slice(0, 12).map(([rank, list]) => {
      const at_time = new Map();
      for (const m of list) for (const p of m.series) {
        const x = Math.round(instant(p.time) / 1000) * 1000, sum = at_time.get(x) || [0, 0];
        at_time.set(x, [sum[0] + p[kind], sum[1] + 1]);
      }
      return { name: 'rank ' + rank + ' (' + plain(list[0].node, 24) + ')', color: job_color(rank * 5 + 3), points: [...at_time.entries()].sort((a, b) => a[0] - b[0]).map(([x, [sum, n]]) => [x, sum / n]) };
    });
    return [series.some(x => x.points.length > 1) ? plot(series, { time: true, label: 'Mean of the GPUs of each rank', format, y_max: kind === 'util' ? 100 : undefined, height: 170 }) : null,
      many ? h('p', { class: 'muted small' }, 'The first 12 of ' + ranks.size + ' ranks.') : null,
      h('div', { class: 'gpu-now' }, v.items.slice(0, 64).map(m => h('div', { key: m.rank + '/' + m.gpu, class: 'gpu-cell' }, h('span', { class: 'small muted' }, 'r' + m.rank + ' \u00b7 ' + plain(m.node, 20) + ':' + m.gpu), h('meter', { min: 0, max: kind === 'util' ? 100 : Math.max(1, ...v.items.map(x => x[kind] || 0)), value: m[kind] || 0, 'aria-label': 'rank ' + m.rank + ' GPU ' + m.gpu }), h('b', null, m[kind] === null ? '\u2013' : format(m[kind])))))];
  }));
}

function output(ctx, job) {
  if (!job.spec) return h('p', { class: 'muted' }, 'Only its owner and administrators see its output.');
  if (job.attempt === 0 && !job.start_time) return h('p', { class: 'muted' }, 'It has not run yet.');
  const s = ctx.state.log || (ctx.state.log = {}), attempts = ctx.data(at(ctx) + '/attempts').value;
  if (!attempts) return loading();
  if (!attempts.items.length) return h('p', { class: 'muted' }, 'It has not run yet.');
  const last = attempts.items[attempts.items.length - 1];
  const ranks = job.spec.launch === 'node' || job.spec.launch === 'task' ? last.tasks.length : 1;
  return log_view(ctx, s, { job: job.id, ranks, attempts: attempts.items.length, attempt: last.number });
}

const events = (ctx, items) => items.length ? table([{ label: 'When', class: 'nowrap', cell: e => h('time', { datetime: e.time, title: exact(instant(e.time)) }, exact(instant(e.time)).slice(5, 19)) }, { label: 'What', cell: e => plain(e.kind.replace(/^job\./, ''), 40) }, { label: '', cell: e => h('span', { class: 'muted' }, e.detail ? plain(Object.entries(e.detail).filter(([, v]) => v !== null).map(([k, v]) => k.replace(/_/g, ' ') + ' ' + (typeof v === 'number' ? count(v) : v)).join(', '), 200) : '') }], [...items].reverse().slice(0, 100), { key: e => e.id, label: 'Events' }) : h('p', { class: 'muted' }, 'None that are still kept.');
