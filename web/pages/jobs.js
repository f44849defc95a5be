// SPDX-License-Identifier: Apache-2.0
// jobs.js - jobs that live, and those that are over: found by user, virtual cluster, state and name.
import { h } from '../js/dom.js';
import { badge, button, card, empty, gpus_of, job_name, job_ref, priority, select, table, time, vc_mark, with_data } from '../js/ui.js';
import { plain, shell_word } from '../js/text.js';
import { count, span } from '../js/format.js';
import { with_query } from '../js/route.js';
import { reason_words } from '../js/why.js';

const FILTERS = ['user', 'vc', 'find', 'name', 'state'];
const STATES = ['PENDING', 'RUNNING', 'SUSPENDED', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT', 'PREEMPTED', 'NODE_FAIL', 'OUT_OF_MEMORY'];
const limit = q => Math.min(2000, Number(q.limit) || 100);
const path = q => '/jobs?all=1&eta=1&merge=arrays&sort=-submit_time&limit=' + limit(q) + FILTERS.filter(k => q[k]).map(k => '&' + k + '=' + encodeURIComponent(q[k])).join('');

export default {
  title: () => 'Jobs',
  needs: ctx => [{ path: path(ctx.query), kinds: ['job.'], gap: 1000 }, { path: '/vcs', gap: 10000 }],
  // The history is not looked through by a part of the name.
  command: ({ query }) => (['COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT'].includes(query.state) && !query.find ? 'muster history -A' : 'muster queue -A') + FILTERS.filter(k => query[k]).map(k => ' --' + k + ' ' + shell_word(query[k])).join(''),
  json: ({ query }) => path(query),
  view: ctx => {
    const q = ctx.query, set = change => ctx.go(with_query('/jobs', q, change), true), vcs = ctx.data('/vcs').value, filtered = FILTERS.some(k => q[k]);
    return [
      h('div', { class: 'row filters' },
        select(q.state || '', [['', 'All states'], ...STATES.map(x => [x, x])], v => set({ state: v }), 'State'),
        select(q.vc || '', [['', 'All virtual clusters'], ...(vcs ? vcs.items.map(v => [v.name, plain(v.name, 40)]) : [])], v => set({ vc: v }), 'Virtual cluster'),
        h('input', { type: 'search', value: q.user || '', placeholder: 'User', 'aria-label': 'User', size: 10, maxlength: 60, onchange: e => set({ user: e.target.value.trim() }) }),
        h('input', { type: 'search', value: q.find || q.name || '', placeholder: 'Part of the name', 'aria-label': 'Part of the name', size: 14, maxlength: 120, onchange: e => set({ find: e.target.value.trim(), name: '' }) }),
        ctx.who.user && q.user !== ctx.who.user ? button('Mine', () => set({ user: ctx.who.user }), { class: 'small' }) : null,
        filtered ? button('Clear', () => ctx.go('/jobs'), { class: 'small quiet', icon: 'cross' }) : null),
      card('', { label: 'Jobs' }, with_data(ctx.data(path(q)), v => v.items.length ? [rows(ctx, v.items), v.next ? h('p', { class: 'center' }, button('Show more', () => set({ limit: limit(q) * 2 }), { class: 'small' })) : null]
        : empty('jobs', filtered ? 'No job fits these filters' : 'No jobs yet', filtered ? '' : ['The first one: ', h('code', null, 'muster run -G 1 -- nvidia-smi')]))),
    ];
  },
};

/** Elements of an array that a row stands for; 0: one job. */
const several = j => (j.array && j.array.count) || 0;
const page_of = j => (several(j) ? '/arrays/' + j.array.id : '/jobs/' + j.id);

/** Jobs as a table. */
export const rows = (ctx, items) => table([
  { label: 'Job', cell: j => h('a', { href: page_of(j) }, several(j) ? 'array ' + j.array.id : job_ref(j), several(j) ? h('span', { class: 'muted small' }, ' ' + count(several(j)) + ' elements') : null) },
  { label: 'Name', cell: j => h('div', { class: 'clip name' }, h('a', { href: page_of(j), title: plain(j.name, 300) }, job_name(j))) },
  { label: 'State', cell: j => badge(j.state) },
  { label: 'User', cell: j => plain(j.user, 24) },
  { label: 'VC', cell: j => vc_mark(j.vc) },
  { label: 'Priority', class: 'roomy', cell: j => priority(j.priority_class) },
  { label: 'GPUs', class: 'num', cell: j => gpus_of(j) },
  { label: 'Submitted', class: 'num roomy', cell: j => time(j.submit_time, ctx.now) },
  { label: 'Ran', class: 'num', cell: j => (j.start_time ? span(j.elapsed_seconds) : '\u2013') },
  { label: 'GPU-hours', class: 'num roomy', cell: j => count(j.gpu_seconds / 3600) },
  { label: 'Where or why', cell: j => h('div', { class: 'clip muted' }, j.state === 'PENDING' ? [j.reason ? reason_words(j.reason.code).short : '', j.eta && j.eta.at ? [', ~', time(j.eta.at, ctx.now)] : ''] : [j.kept_until ? [reason_words('KeptOnFail').short, ' until ', time(j.kept_until, ctx.now), ' '] : '', j.nodelist ? plain(j.nodelist, 60) : ''], j.end_text ? ' ' + plain(j.end_text, 80) : '') },
], items, { key: j => j.id, label: 'Jobs' });
