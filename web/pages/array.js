// SPDX-License-Identifier: Apache-2.0
// array.js - one array: how far it is, and its elements.
import { h } from '../js/dom.js';
import { badge, button, card, empty, failed, loading, select, stat, time, with_data } from '../js/ui.js';
import { plain } from '../js/text.js';
import { count, percent, plural, span } from '../js/format.js';
import { bar } from '../js/plot.js';
import { with_query } from '../js/route.js';
import { send } from '../js/api.js';
import { governs, OVER } from '../js/act.js';
import { rows } from './jobs.js';

const at = ctx => '/arrays/' + ctx.id;
const limit = q => Math.min(10000, Number(q.limit) || 100);
const elements = ctx => '/jobs?all=1&eta=1&sort=id&array=' + ctx.id + '&limit=' + limit(ctx.query) + (ctx.query.state ? '&state=' + encodeURIComponent(ctx.query.state) : '');
const COLORS = { COMPLETED: 'var(--ok)', RUNNING: 'var(--run)', PENDING: 'var(--free)', CANCELLED: 'var(--off)' };

export default {
  title: ctx => {
    const a = ctx.data(at(ctx)).value;
    return 'Array ' + ctx.id + (a && a.name ? ' \u00b7 ' + plain(a.name, 80) : '');
  },
  needs: ctx => [{ path: at(ctx), kinds: ['job.'], gap: 1000, every: 15000 }, { path: elements(ctx), kinds: ['job.'], gap: 1000, every: 15000 }],
  command: ctx => 'muster show ' + ctx.id,
  json: at,
  view: ctx => {
    const data = ctx.data(at(ctx));
    if (!data.value) return data.error && data.error.status === 404 ? card('', empty('search', 'There is no array ' + ctx.id, h('a', { href: '/jobs' }, 'To the jobs there are'), '.')) : data.error ? failed(data.error) : loading();
    const set = change => ctx.go(with_query('/arrays/' + ctx.id, ctx.query, change), true);
    return [head(ctx, data.value), list(ctx, data.value, set)];
  },
};

function head(ctx, a) {
  const found = ctx.data(elements(ctx)).value, first = found && found.items[0], states = Object.entries(a.states);
  const over = states.reduce((sum, [state, n]) => sum + (OVER.has(state) ? n : 0), 0), bad = over - (a.states.COMPLETED || 0) - (a.states.CANCELLED || 0);
  const left = a.size - over;
  return h('section', { class: 'card job-head', 'aria-label': 'The array' },
    h('div', { class: 'row spread' }, h('div', { class: 'row' }, states.map(([state, n]) => h('span', { key: state, class: 'row tight' }, badge(state), h('b', null, count(n))))),
      first && left && governs(ctx.who, first) ? button('Cancel', () => ctx.dialog({ kind: 'confirm', title: 'Cancel array ' + a.id + '?', text: plural(left, 'element') + ' that run or wait end. Those that are over stay as they are.', words: 'muster cancel ' + a.id, verb: 'Cancel', danger: true,
        yes: async () => { await ctx.ask('Cancel array ' + a.id, () => send('DELETE', '/arrays/' + a.id)); ctx.store.touch('/jobs'); ctx.store.touch('/arrays'); } }), { icon: 'stop', class: 'danger-quiet' }) : null),
    bar([...states].sort((x, y) => order(x[0]) - order(y[0])).map(([state, n]) => ({ name: state, value: n, color: COLORS[state] || (OVER.has(state) ? 'var(--bad)' : 'var(--hold)'), pattern: OVER.has(state) && !COLORS[state] ? 'cross' : '' })), a.size, { class: 'tall', label: 'elements by state' }),
    h('div', { class: 'stats' }, stat('Elements', count(a.size)), stat('Over', percent(over / a.size), count(over) + ' of ' + count(a.size)), stat('Failed', count(bad), null, bad ? 'bad' : ''),
      first ? stat('Submitted', time(first.submit_time, ctx.now), 'by ' + plain(first.user, 40) + ' to ' + plain(first.vc, 40)) : null, first ? stat('Limit of each', first.limit_seconds ? span(first.limit_seconds) : 'none') : null));
}

const order = state => (state === 'COMPLETED' ? 0 : OVER.has(state) ? 1 : state === 'PENDING' ? 3 : 2);

const list = (ctx, a, set) => [
  h('div', { class: 'row filters' }, select(ctx.query.state || '', [['', 'All states'], ...Object.keys(a.states).map(s => [s, s])], v => set({ state: v }), 'State')),
  card('', { label: 'Elements' }, with_data(ctx.data(elements(ctx)), v => v.items.length ? [rows(ctx, v.items), v.next ? h('p', { class: 'center' }, button('Show more', () => set({ limit: limit(ctx.query) * 2 }), { class: 'small' })) : null]
    : empty('jobs', ctx.query.state ? 'No element is in this state' : 'Its elements are no longer kept here', h('code', null, 'muster history')))),
];
