// SPDX-License-Identifier: Apache-2.0
// queue.js - who waits, in which order, why, until when, and who is before them. Ten thousand rows, of which those in
// sight are asked for and drawn.
import { h } from '../js/dom.js';
import { button, empty, failed, gpus_of, job_name, job_ref, loading, priority, select, time, vc_mark } from '../js/ui.js';
import { plain, shell_word } from '../js/text.js';
import { count, instant, plural, span, when } from '../js/format.js';
import { with_query } from '../js/route.js';
import { reason_words } from '../js/why.js';
import { action_buttons } from '../js/act.js';

const PAGE = 100;
const FIELDS = 'id,name,user,vc,priority_class,state,array,gpus,gpu_share,gpu_type,nodes,submit_time,limit_seconds,reason,eta,held';
const FILTERS = ['vc', 'user', 'name', 'find', 'reason'];

const base = q => '/queue?limit=' + PAGE + '&fields=' + FIELDS + FILTERS.filter(k => q[k]).map(k => '&' + k + '=' + encodeURIComponent(q[k])).join('');
const page_path = (q, n) => base(q) + '&cursor=' + n * PAGE;
const row_height = () => (matchMedia('(max-width: 720px)').matches ? 68 : 46);

function shown_pages(s) {
  const height = row_height(), top = Math.floor((s.top || 0) / height), many = Math.ceil((s.tall || 900) / height);
  const from = Math.max(0, top - 10), to = top + many + 10;
  return { from, to, pages: Array.from({ length: Math.floor(to / PAGE) - Math.floor(from / PAGE) + 1 }, (_, i) => Math.floor(from / PAGE) + i) };
}

export default {
  title: () => 'Queue',
  needs: ctx => [
    ...shown_pages(ctx.state).pages.map(n => ({ path: page_path(ctx.query, n), kinds: ['job.'], gap: 1500, every: 15000 })),
    { path: '/overview', kinds: ['job.'], gap: 3000 },
  ],
  command: ({ query }) => 'muster queue -A --state PD' + (query.vc ? ' -p ' + shell_word(query.vc) : '') + (query.user ? ' -u ' + shell_word(query.user) : '') + (query.name ? ' --name ' + shell_word(query.name) : '') + (query.find ? ' --find ' + shell_word(query.find) : ''),
  json: ({ query }) => base(query).replace(/&fields=[^&]*/, ''),
  view: ctx => {
    const first = ctx.data(page_path(ctx.query, 0)), any = shown_pages(ctx.state).pages.map(n => ctx.data(page_path(ctx.query, n))).find(d => d.value) || first;
    const filtered = FILTERS.some(k => ctx.query[k]);
    return [
      filters(ctx, filtered, any.value),
      any.error && !any.value ? failed(any.error) : !any.value ? loading() : any.value.total === 0
        ? h('section', { class: 'card' }, filtered ? empty('search', 'Nobody waits that fits these filters', button('Show all', () => ctx.go('/queue'))) : empty('check', 'Nobody waits', 'Every job that can run does. ', h('a', { href: '/jobs' }, 'Jobs that run or are over'), '.'))
        : list(ctx, any.value.total),
    ];
  },
};

function filters(ctx, filtered, value) {
  const q = ctx.query, o = ctx.data('/overview').value, set = change => {
    ctx.state.top = 0;
    const box = document.querySelector('.queue-scroll');
    if (box) box.scrollTop = 0;
    ctx.go(with_query('/queue', q, change), true);
  };
  const reasons = o ? o.waiting_by_reason.map(r => r.code).sort() : [];
  if (q.reason && !reasons.includes(q.reason)) reasons.push(q.reason);
  return h('div', { class: 'row filters' },
    value ? h('strong', { 'aria-live': 'polite' }, plural(value.total, 'job') + (filtered ? ' of these filters' : ' waiting')) : null,
    select(q.vc || '', [['', 'All virtual clusters'], ...(o ? o.vcs.map(v => [v.name, plain(v.name, 40)]) : [])], v => set({ vc: v }), 'Virtual cluster'),
    select(q.reason || '', [['', 'All reasons'], ...reasons.map(r => [r, reason_words(r).short])], v => set({ reason: v }), 'Reason'),
    h('input', { type: 'search', value: q.user || '', placeholder: 'User', 'aria-label': 'User', size: 10, maxlength: 60, onchange: e => set({ user: e.target.value.trim() }) }),
    h('input', { type: 'search', value: q.find || '', placeholder: 'Part of the name', 'aria-label': 'Part of the name', size: 14, maxlength: 120, onchange: e => set({ find: e.target.value.trim() }) }),
    ctx.who.user && q.user !== ctx.who.user ? button('Mine', () => set({ user: ctx.who.user }), { class: 'small' }) : null,
    filtered ? button('Clear', () => ctx.go('/queue'), { class: 'small quiet', icon: 'cross' }) : null);
}

/** Rows that are in sight, between two spacers. */
function list(ctx, total) {
  const s = ctx.state, height = row_height(), { from, to } = shown_pages(s), last = Math.min(total, to), rows = [];
  for (let i = from; i < last; i++) {
    const page = ctx.data(page_path(ctx.query, Math.floor(i / PAGE))).value, job = page && page.items[i % PAGE];
    rows.push(job ? row(ctx, job) : h('div', { class: 'q-row muted', key: 'x' + i, style: { height: height + 'px' } }, h('span', null, '\u2026')));
  }
  return h('section', { class: 'card flush' },
    h('div', { class: 'q-row q-head', 'aria-hidden': 'true' }, ['#', 'Job', 'User', 'GPUs', 'Waiting', 'Why', 'Starts', ''].map((t, i) => h('span', { key: i, class: 'q-' + i }, t))),
    h('div', { class: 'queue-scroll', role: 'list', tabindex: '0', 'aria-label': 'Waiting jobs in order',
      mount: el => { s.tall = el.clientHeight; el.scrollTop = s.top || 0; new ResizeObserver(() => { s.tall = el.clientHeight; }).observe(el); },
      onscroll: e => {
        const was = shown_pages(s).pages.join();
        s.top = e.currentTarget.scrollTop;
        s.tall = e.currentTarget.clientHeight;
        if (shown_pages(s).pages.join() !== was) ctx.app.needs();
        ctx.redraw();
      } },
      h('div', { class: 'spacer', key: 'top', style: { height: from * height + 'px' } }), rows, h('div', { class: 'spacer', key: 'bottom', style: { height: Math.max(0, total - last) * height + 'px' } })));
}

function row(ctx, job) {
  const words = job.reason ? reason_words(job.reason.code) : { short: '', long: '' }, waited = (ctx.now - instant(job.submit_time)) / 1000;
  return h('div', { class: 'q-row', role: 'listitem', key: job.id, style: { height: row_height() + 'px' } },
    h('span', { class: 'q-0' }, h('b', null, count(job.position))),
    h('span', { class: 'q-1' }, h('a', { href: '/jobs/' + job.id }, job_ref(job), ' ', h('span', { class: 'q-name' }, job_name(job)))),
    h('span', { class: 'q-2' }, plain(job.user, 24), h('span', { class: 'sub' }, vc_mark(job.vc), priority(job.priority_class))),
    h('span', { class: 'q-3' }, gpus_of(job), job.nodes > 1 ? h('span', { class: 'sub muted' }, 'on ' + job.nodes + ' nodes') : null),
    h('span', { class: 'q-4', title: 'since ' + job.submit_time }, span(waited)),
    h('span', { class: 'q-5', title: job.reason ? plain(job.reason.message, 300) : '' }, h('b', null, words.short), h('span', { class: 'sub muted' }, job.reason ? figures_first(plain(job.reason.message, 160)) : '')),
    h('span', { class: 'q-6' }, eta(ctx, job), h('span', { class: 'sub muted' }, job.position > 1 ? count(job.position - 1) + ' ahead, ' + plural(job.gpus_ahead, 'GPU') : 'next')),
    h('span', { class: 'q-7' }, action_buttons(ctx, job, true)));
}

/** "too few (needs 8, free 2)" as "needs 8, free 2: too few": what differs from row to row is seen first. */
function figures_first(message) {
  const m = /^(.*) \((needs [^)]*)\)$/.exec(message);
  return m ? m[2] + ': ' + m[1] : message;
}

function eta(ctx, job) {
  if (!job.eta || !job.eta.at) return h('span', { class: 'muted' }, 'not known');
  const low = job.eta.low, high = job.eta.high;
  return h('span', { title: plain(job.eta.basis, 200) }, '~', time(job.eta.at, ctx.now), low && high && when(instant(low), ctx.now) !== when(instant(high), ctx.now) ? h('span', { class: 'muted small q-span' }, ' (', time(low, ctx.now), ' \u2013 ', time(high, ctx.now), ')') : null);
}
