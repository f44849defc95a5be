// SPDX-License-Identifier: Apache-2.0
// whatif.js - what the cluster's own history, or a trace, would have been under other policies or with other hardware.
import { h } from '../js/dom.js';
import { button, card, copy, download, empty, failed, field, loading, segments, select, table, time, with_data } from '../js/ui.js';
import { command, plain, shell_word } from '../js/text.js';
import { count, percent, plural, span } from '../js/format.js';
import { bar, plot } from '../js/plot.js';
import { fetch_raw, send } from '../js/api.js';
import { policy_colors } from '../js/color.js';
import { icon } from '../js/icon.js';


const SPANS = { '24h': 86400, '7d': 604800, '30d': 2592000, '90d': 7776000, all: 0 };
const USUAL = ['present', 'fifo', 'backfill-easy', 'srsf', 'las', 'yarn-cs'];
const TRACE_MAX = 16 << 20;

export default {
  title: ctx => (ctx.id ? 'What-if ' + plain(ctx.id, 20) : 'What-if'),
  needs: ctx => [{ path: '/scheduler', gap: 30000 }, { path: '/gpus', gap: 30000 }, ...(ctx.id ? [{ path: '/sim/' + ctx.id, gap: 400, every: ctx.state.over ? 60000 : 400 }] : [{ path: '/sim', gap: 2000, every: 5000 }])],
  command: ctx => {
    const sim = ctx.id && ctx.data('/sim/' + ctx.id).value;
    if (sim) return 'muster whatif -P ' + shell_word(sim.policies.map(label_of).join(',')) + (sim.source === 'trace' ? ' -t trace.csv' : sim.since ? ' -S ' + sim.since.slice(0, 10) : '');
    return asked(ctx);
  },
  json: ctx => (ctx.id ? '/sim/' + ctx.id : '/sim'),
  view: ctx => (ctx.id ? result(ctx) : setup(ctx)),
};

const label_of = p => (typeof p === 'string' ? p : p.label || p.policy || '');

/** The form as a command. */
function asked(ctx) {
  const f = ctx.state.form;
  if (!f) return 'muster whatif -P ' + USUAL.join(',');
  return command('muster whatif', '-P ' + shell_word(f.policies.join(',')), f.source === 'trace' ? '-t ' + shell_word(f.name || 'trace.csv') : f.span === 'all' ? '' : '-S ' + f.span,
    Number(f.add) > 0 ? '--add ' + shell_word(f.add + 'x' + (f.add_gpus || 8) + ':' + (f.add_sku || 'H100')) : '', f.remove.trim() ? '--remove ' + shell_word(f.remove.trim().replace(/[\s,]+/g, ',')) : '', ...f.set.split(',').map(s => s.trim()).filter(Boolean).map(s => '-s ' + shell_word(s)));
}

/* Asking. */

function setup(ctx) {
  const s = ctx.state;
  if (!s.form) s.form = { source: 'history', span: '30d', policies: [...USUAL], add: '', add_gpus: '8', add_sku: '', remove: '', set: '' };
  const f = s.form, scheduler = ctx.data('/scheduler').value, gpus = ctx.data('/gpus').value;
  const put = (key, value) => {
    f[key] = value;
    ctx.redraw();
  };
  const input = (key, more) => h('input', { value: f[key], oninput: e => put(key, e.target.value), autocomplete: 'off', ...more });
  const known = scheduler ? scheduler.policies : [];
  const toggle = name => put('policies', f.policies.includes(name) ? f.policies.filter(p => p !== name) : [...f.policies, name]);
  return [
    h('p', { class: 'muted' }, 'Replays what really happened under other policies, or with more or fewer nodes, in the simulator beside the live work. Nothing of the cluster is touched.'),
    h('div', { class: 'grid' },
      h('div', { class: 'c8' }, card('What to try', h('div', { class: 'whatif-form' },
        h('div', { class: 'row' }, h('span', { class: 'field-label' }, 'Jobs of'), segments(f.source, [['history', 'this cluster'], ['trace', 'a trace file']], v => put('source', v), 'Jobs of'),
          f.source === 'history' ? segments(f.span, Object.keys(SPANS).map(k => [k, k === 'all' ? 'all kept' : 'last ' + k]), v => put('span', v), 'Span of history')
            : h('span', { class: 'row' }, h('input', { type: 'file', accept: '.csv,.txt,text/csv', 'aria-label': 'Trace file', onchange: e => read(ctx, e.target.files[0]) }), f.name ? h('span', { class: 'muted small' }, plain(f.name, 60)) : null)),
        h('fieldset', { class: 'plainset' }, h('legend', { class: 'field-label' }, 'Policies to compare'), h('div', { class: 'policies' },
          [{ name: 'present', summary: 'what the cluster does now' + (scheduler ? ' (' + scheduler.policy + ')' : '') }, ...known].map(p => h('label', { key: p.name }, h('input', { type: 'checkbox', checked: f.policies.includes(p.name), onchange: () => toggle(p.name) }), h('b', null, p.name), h('span', { class: 'muted small' }, plain(p.summary, 140)))))),
        h('details', { open: !!(f.add || f.remove || f.set) }, h('summary', null, 'Other hardware or settings'), h('div', { class: 'form-row three' }, field('Add nodes', input('add', { inputmode: 'numeric', placeholder: '0' })), field('with GPUs each', input('add_gpus', { inputmode: 'numeric' })), field('of type', select(f.add_sku, [['', 'as there are'], ...(gpus ? gpus.items.map(g => [g.sku, g.sku]) : [])], v => put('add_sku', v), 'GPU type'))),
          h('div', { class: 'form-row' }, field('Take away nodes', input('remove', { placeholder: 'gpu07, gpu08' })), field('Settings of all policies', input('set', { placeholder: 'hold=off, queues=3600s' })))),
        s.error ? failed(s.error) : null,
        h('div', { class: 'row end-row' }, h('span', { class: 'muted small' }, plural(f.policies.length, 'policy', 'policies')), button('Compare', () => run(ctx), { class: 'primary', icon: 'whatif', disabled: s.busy || !f.policies.length || (f.source === 'trace' && !f.trace) }))))),
      h('div', { class: 'c4 stack' }, card('Earlier ones', with_data(ctx.data('/sim'), v => v.items.length ? table([{ label: '', cell: r => h('a', { href: '/whatif/' + r.id }, 'What-if ' + r.id) }, { label: 'State', cell: r => r.state }, { label: 'Jobs', class: 'num', cell: r => count(r.jobs) }, { label: 'When', cell: r => time(r.created_time, ctx.now, true) }], [...v.items].sort((a, b) => b.id - a.id), { key: r => r.id, label: 'Earlier ones' }) : h('p', { class: 'muted' }, 'None since the controller started.'))),
        card('How it is counted', h('p', { class: 'small muted' }, 'Every job comes when it came and takes as long as it took. A policy that stops jobs pays for it as the simulator models it. The figures are those of ', h('code', null, 'muster sim compare'), ' on the exported history; the commands are given with the result.')))),
  ];
}

async function read(ctx, file) {
  const f = ctx.state.form;
  if (!file) return;
  if (file.size > TRACE_MAX) return ctx.toast('That file has ' + count(Math.round(file.size / 1048576)) + ' MiB; at most 16 can be sent', 'bad');
  f.trace = await file.text();
  f.name = file.name;
  ctx.redraw();
}

async function run(ctx) {
  const s = ctx.state, f = s.form, body = { policies: f.policies };
  if (f.source === 'trace') body.trace = f.trace;
  else if (SPANS[f.span]) body.since = new Date(ctx.now - SPANS[f.span] * 1000).toISOString();
  if (Number(f.add) > 0) {
    const gpus = ctx.data('/gpus').value;
    body.add_nodes = [{ count: Number(f.add), gpus: Number(f.add_gpus) || 8, sku: f.add_sku || (gpus && gpus.items[0] ? gpus.items[0].sku : undefined) }];
  }
  if (f.remove.trim()) body.remove_nodes = f.remove.split(/[\s,]+/).filter(Boolean);
  const set = Object.fromEntries(f.set.split(',').map(p => p.split('=').map(x => x.trim())).filter(p => p.length === 2 && p[0]));
  if (Object.keys(set).length) body.set = set;
  s.busy = true;
  s.error = null;
  ctx.redraw();
  try {
    const sim = await send('POST', '/sim', body);
    ctx.go('/whatif/' + sim.id);
  } catch (error) {
    s.error = error;
  }
  s.busy = false;
  ctx.redraw();
}

/* The answer. */

const METRICS = [
  { key: 'avg_queue_seconds', label: 'Mean wait', format: span, low: true }, { key: 'p50_queue_seconds', label: 'Half wait at most', format: span, low: true }, { key: 'p95_queue_seconds', label: '95 % wait at most', format: span, low: true },
  { key: 'avg_jct_seconds', label: 'Mean completion', format: span, low: true }, { key: 'p95_jct_seconds', label: '95 % completed within', format: span, low: true }, { key: 'makespan_seconds', label: 'All done after', format: span, low: true },
  { key: 'gpu_utilization_ratio', label: 'GPUs in use', format: percent, low: false }, { key: 'fairness_ratio', label: 'Fairness', format: n => (n === null ? '\u2013' : n.toFixed(2)), low: false, title: 'Jain\u2019s index over slowdowns: 1 = all are slowed alike' },
  { key: 'preemptions', label: 'Preemptions', format: count, low: true }, { key: 'lost_gpu_seconds', label: 'GPU-hours lost', format: n => count((n || 0) / 3600), low: true }, { key: 'finished', label: 'Finished', format: count, low: false },
];
const FIGURES = ['avg_queue_seconds', 'p95_queue_seconds', 'avg_jct_seconds', 'gpu_utilization_ratio', 'preemptions', 'fairness_ratio'];

function result(ctx) {
  const data = ctx.data('/sim/' + ctx.id);
  if (!data.value) return data.error && data.error.status === 404 ? card('', empty('whatif', 'What-if ' + plain(ctx.id, 20) + ' is not kept any more', h('a', { href: '/whatif' }, 'Ask again'))) : data.error ? failed(data.error) : loading();
  const sim = data.value, over = sim.state === 'done' || sim.state === 'failed';
  if (over !== !!ctx.state.over) {
    ctx.state.over = over;
    ctx.app.needs();
  }
  const runs = sim.items || [];
  runs.forEach(r => policy_colors.of(name_of(r)));
  return [
    h('div', { class: 'row spread' }, h('a', { href: '/whatif' }, '\u2190 try something else'), h('span', { class: 'row muted small' }, plural(sim.jobs, 'job') + ' of ' + (sim.source === 'trace' ? 'the trace' : 'this cluster\u2019s history'), sim.since ? h('span', null, 'since ', time(sim.since, ctx.now)) : null, h('span', null, 'asked ', time(sim.created_time, ctx.now, true), ' by ' + plain(sim.user, 30)))),
    sim.state === 'failed' ? h('div', { class: 'problem', role: 'alert' }, icon('warn'), h('div', null, h('strong', null, plain(sim.error, 400)))) : null,
    over ? null : card('', { label: 'Progress' }, h('p', { role: 'status' }, sim.state === 'waiting' ? 'Waiting for an earlier comparison\u2026' : 'Replaying ' + plain((sim.progress && sim.progress.step) || '', 60) + '\u2026'), h('progress', { max: Math.max(1, (sim.progress && sim.progress.total) || 1), value: (sim.progress && sim.progress.done) || 0, 'aria-label': 'Progress' })),
    runs.length ? [verdict(runs), h('div', { class: 'grid' },
      FIGURES.map(key => h('div', { class: 'c4', key }, metric_card(runs, METRICS.find(m => m.key === key)))),
      h('div', { class: 'c12' }, compare(runs)),
      h('div', { class: 'c6' }, card('How long jobs waited', { note: 'share of jobs that waited at most so long' }, cdf(runs, 'queue_seconds_by_percentile', 'Waiting'))),
      h('div', { class: 'c6' }, card('How long jobs took, wait and all', { note: 'share of jobs completed within' }, cdf(runs, 'jct_seconds_by_percentile', 'Completion'))),
      h('div', { class: 'c6' }, card('GPUs in use', over_time(runs, 0, 'GPUs in use'))),
      h('div', { class: 'c6' }, card('Jobs waiting', over_time(runs, 2, 'Jobs waiting'))),
      h('div', { class: 'c12' }, by_size(runs)))] : null,
    notes_of(sim).length ? card('Notes', h('ul', null, notes_of(sim).map((n, i) => h('li', { key: i, class: 'muted' }, plain(n, 300))))) : null,
    sim.commands && sim.commands.length && over ? again(ctx, sim) : null,
  ];
}

const name_of = r => r.label || r.policy;
const best_of = (runs, m) => {
  const values = runs.map(r => r[m.key]).filter(v => v !== null && v !== undefined);
  return values.length && values.some(v => v !== values[0]) ? (m.low ? Math.min(...values) : Math.max(...values)) : null;
};

/** The most telling difference, in a sentence. */
function verdict(runs) {
  const base = runs.find(r => name_of(r) === 'present') || runs[0];
  if (runs.length < 2) return h('p', { class: 'hero-main' }, h('b', null, name_of(base)), ': a job waits ', h('b', null, span(base.avg_queue_seconds)), ' on the mean.');
  const best = [...runs].sort((a, b) => a.avg_queue_seconds - b.avg_queue_seconds)[0], fair = [...runs].sort((a, b) => (b.fairness_ratio || 0) - (a.fairness_ratio || 0))[0];
  const same = base.avg_queue_seconds <= best.avg_queue_seconds * 1.02 + 1;
  const change = 1 - best.avg_queue_seconds / Math.max(1e-9, base.avg_queue_seconds);
  return h('p', { class: 'hero-main' }, same ? ['No policy of these would have made jobs wait less than ', h('b', null, name_of(base)), ': ', h('b', null, span(base.avg_queue_seconds)), ' on the mean.']
    : ['Under ', h('b', null, name_of(best)), ' jobs would have waited ', h('b', null, span(best.avg_queue_seconds)), ' on the mean instead of ', h('b', null, span(base.avg_queue_seconds)), ' (', h('b', { class: 'ok-text' }, '\u2212' + percent(change)), ')', best.preemptions ? [', at the price of ', h('b', null, plural(best.preemptions, 'preemption'))] : ', without a preemption', '. '],
    fair.fairness_ratio !== null && fair.fairness_ratio !== undefined && !same ? [' The fairest is ', h('b', null, name_of(fair)), ' (' + fair.fairness_ratio.toFixed(2) + ').'] : null);
}

function metric_card(runs, m) {
  const values = runs.map(r => r[m.key] || 0).sort((a, b) => b - a), best = best_of(runs, m);
  // One that is far off would flatten all others: its bar ends in stripes instead.
  const far = values.length > 2 && values[0] > values[1] * 4 && values[1] > 0, most = Math.max(1e-9, far ? values[1] * 1.5 : values[0]);
  return card(m.label, { note: m.low ? 'less is better' : 'more is better' }, h('div', { class: 'metric-bars', title: m.title }, runs.map(r => {
    const { fill, pattern } = policy_colors.of(name_of(r));
    return h('div', { class: 'metric-bar', key: name_of(r) }, h('span', null, plain(name_of(r), 40)), bar(far && r[m.key] === values[0] ? [{ name: m.label, value: most * 0.85, color: fill, pattern }, { name: 'off the scale', value: most * 0.15, color: fill, pattern: 'stripe' }] : [{ name: m.label, value: r[m.key] || 0, color: fill, pattern }], most, { label: name_of(r) + ' ' + m.format(r[m.key]) }), h('span', { class: r[m.key] === best ? 'best' : '' }, m.format(r[m.key])));
  })));
}

const compare = runs => card('Side by side', { note: 'the best of each is marked' }, table([{ label: '', cell: m => h('span', { title: m.title }, m.label) }, ...runs.map(r => ({ label: h('span', null, h('span', { class: 'swatch ' + policy_colors.of(name_of(r)).pattern, style: { '--c': policy_colors.of(name_of(r)).fill } }), ' ' + plain(name_of(r), 30)), class: 'num', cell: m => {
  const value = r[m.key], base = runs.find(x => name_of(x) === 'present'), best = best_of(runs, m);
  const change = base && base !== r && base[m.key] ? (value - base[m.key]) / base[m.key] : null;
  return [h('span', { class: value === best ? 'best' : '' }, m.format(value), value === best ? h('span', { class: 'sr' }, ' best') : null), change !== null && Math.abs(change) >= 0.01 && isFinite(change) ? h('span', { class: 'small ' + (change < 0 === m.low ? 'ok-text' : 'bad-text') }, ' ' + (change >= 2 ? '\u00d7' + count(Math.round((change + 1) * 10) / 10) : (change > 0 ? '+' : '\u2212') + percent(Math.abs(change)))) : null];
} }))], METRICS, { key: m => m.key, label: 'Side by side', class: 'side-by-side' }));

function cdf(runs, key, label) {
  const series = runs.filter(r => r[key]).map(r => ({ name: plain(name_of(r), 30), color: policy_colors.of(name_of(r)).fill, dash: !!policy_colors.of(name_of(r)).pattern, points: r[key].map((x, p) => [Math.max(1, x), p]) }));
  return plot(series, { label, log: 1, height: 220, y_max: 100, format: y => Math.round(y) + '%', x_format: span });
}

function over_time(runs, column, label) {
  const series = runs.filter(r => r.series).map(r => ({ name: plain(name_of(r), 30), color: policy_colors.of(name_of(r)).fill, dash: !!policy_colors.of(name_of(r)).pattern, points: r.series.gpus_used_total_jobs_waiting.map((v, i) => [r.series.start_seconds + i * r.series.step_seconds, v[column]]) }));
  return plot(series, { label, height: 200, step: true, x_format: span, spans: true });
}

function by_size(runs) {
  const sizes = runs[0].by_size ? (Array.isArray(runs[0].by_size) ? runs[0].by_size.map(s => s.size || s.gpus) : Object.keys(runs[0].by_size)) : [];
  const of = (r, size) => (Array.isArray(r.by_size) ? r.by_size.find(s => (s.size || s.gpus) === size) : r.by_size[size]) || {};
  if (!sizes.length) return null;
  return card('Mean wait by size of job', table([{ label: 'GPUs', cell: s => s }, { label: 'Jobs', class: 'num', cell: s => count(of(runs[0], s).jobs) }, ...runs.map(r => ({ label: plain(name_of(r), 30), class: 'num', cell: s => span(of(r, s).avg_queue_seconds) }))], sizes, { key: s => s, label: 'Mean wait by size' }));
}

function again(ctx, sim) {
  const save = name => async () => {
    try {
      download(name, await (await fetch_raw('/sim/' + sim.id + '/' + name, { headers: { Accept: '*/*' } })).text(), 'text/plain');
    } catch (error) {
      ctx.toast(error.message, 'bad');
    }
  };
  return card('The same in a terminal', { actions: [button('trace.csv', save('trace.csv'), { class: 'small', icon: 'down' }), button('cluster.yaml', save('cluster.yaml'), { class: 'small', icon: 'down' }), button('Copy', async () => ctx.toast((await copy(sim.commands.join('\n'))) ? 'Copied' : 'The browser does not let copy'), { class: 'small', icon: 'copy' })] }, h('pre', { class: 'say', tabindex: '0' }, sim.commands.join('\n')));
}


const notes_of = sim => [].concat(sim.notes || []).filter(Boolean);
