// SPDX-License-Identifier: Apache-2.0
// timeline.js - what ran, what runs, what is planned and what is reserved, on one axis of time.
import { h } from '../js/dom.js';
import { button, card, empty, segments, time, with_data } from '../js/ui.js';
import { plain } from '../js/text.js';
import { from_now, hosts_of, instant, plural, span, when } from '../js/format.js';
import { with_query } from '../js/route.js';
import { draw, hit, measure, rows_of } from '../js/gantt.js';

const SPANS = { '1h': 3600, '6h': 21600, '24h': 86400, '3d': 259200, '7d': 604800, '30d': 2592000 };
const ROWS = [['nodes', 'Nodes'], ['vcs', 'Virtual clusters'], ['jobs', 'Jobs']];

const set = (ctx, change) => ctx.go(with_query('/timeline', ctx.query, change), true);
const reserved = '/reservations';

function window_of(ctx) {
  const length = (SPANS[ctx.query.span] || 86400) * 1000, at = instant(ctx.query.at) || Math.round(ctx.now / 60e3) * 60e3;
  return { from: at - length / 4, to: at + (length * 3) / 4, length, at };
}

const path = ctx => {
  const w = window_of(ctx), step = Math.max(60e3, w.length / 20);
  return '/schedule?from=' + new Date(Math.floor(w.from / step) * step).toISOString() + '&to=' + new Date(Math.ceil(w.to / step) * step).toISOString();
};

export default {
  title: () => 'Timeline',
  needs: ctx => [{ path: path(ctx), kinds: ['job.'], gap: 1500, every: 20000 },
    { path: reserved, kinds: ['reservation.'], gap: 5000 }],
  command: () => 'muster prio',
  json: ctx => path(ctx),
  view: ctx => {
    const s = ctx.state, by = ROWS.some(r => r[0] === ctx.query.rows) ? ctx.query.rows : 'nodes', w = window_of(ctx);
    if (s.path !== path(ctx) && s.path) ctx.app.needs();
    s.path = path(ctx);
    const data = ctx.data(s.path).value ? ctx.data(s.path) : s.last ? { value: s.last } : ctx.data(s.path);
    if (ctx.data(s.path).value) s.last = ctx.data(s.path).value;
    const move = f => set(ctx, { at: new Date(w.at + w.length * f).toISOString() });
    return [
      card('', { label: 'View' }, h('div', { class: 'row spread' },
        segments(by, ROWS, v => set(ctx, { rows: v === 'nodes' ? '' : v }), 'Rows'),
        h('div', { class: 'row' }, button('', () => move(-0.5), { icon: 'back', title: 'Earlier', class: 'small' }), button('Now', () => set(ctx, { at: '' }), { class: 'small' }), button('', () => move(0.5), { icon: 'arrow', title: 'Later', class: 'small' }), segments(ctx.query.span || '24h', Object.keys(SPANS).map(k => [k, k]), v => set(ctx, { span: v === '24h' ? '' : v }), 'Span of time'))),
        h('div', { class: 'legend keys-row' }, h('span', null, h('span', { class: 'swatch', style: { '--c': 'var(--run)' } }), 'ran or runs'), h('span', null, h('span', { class: 'swatch faint', style: { '--c': 'var(--run)' } }), 'until its expected end'), h('span', null, h('span', { class: 'swatch hollow', style: { '--c': 'var(--run)' } }), 'planned'), h('span', null, h('span', { class: 'swatch', style: { '--c': 'var(--hold-soft)' } }), 'reserved'), h('span', { class: 'muted' }, 'drag or arrow keys to move, + and \u2212 to zoom, click a bar for its job'))),
      card('', { label: 'Timeline' }, with_data(data, v => chart(ctx, v, by, w))),
    ];
  },
};

function chart(ctx, value, by, w) {
  const s = ctx.state;
  if (!value.items.length && !value.nodes.length) return empty('gantt', 'Nothing ran and nothing is planned in this window', 'Move it, or choose a longer span.');
  if (s.value !== value || s.by !== by) {
    s.rows = rows_of(by === 'jobs' ? value.items.filter(i => !i.end || instant(i.end) > w.from) : value.items, value.nodes, by, ctx.now);
    s.height = measure(s.rows, by);
    s.value = value;
    s.by = by;
  }
  const list = ctx.data(reserved).value;
  s.view = { rows: s.rows, from: w.from, to: w.to, top: s.top || 0, now: ctx.now, color: by === 'jobs' ? 'job' : 'vc', over: s.over, reservations: (list ? list.items : []).map(r => ({ name: plain(r.name, 40), from: instant(r.start), to: instant(r.end), nodes: new Set(hosts_of(r.nodes)), item: r })) };
  const planned = value.items.filter(i => i.planned), tall = 'min(' + (matchMedia('(max-width: 720px)').matches ? '60vh' : 'max(18rem, 100vh - 21rem)') + ', ' + (s.height + 32) + 'px)';
  return [
    h('div', { class: 'gantt', style: { height: tall }, mount: el => watch(ctx, el), update: el => paint(ctx, el), unmount: el => el.stop && el.stop(), onscroll: e => { s.top = e.currentTarget.scrollTop; s.view.top = s.top; paint(ctx, e.currentTarget); } },
      h('canvas', { tabindex: '0', role: 'img', 'aria-label': 'Timeline of ' + plural(s.rows.length, 'row') + ' with ' + plural(new Set(value.items.map(i => i.job)).size, 'job') + ', ' + plural(new Set(planned.map(i => i.job)).size, 'job') + ' planned, ' + plural(s.view.reservations.length, 'reservation') + '. The list below names what is planned.',
        onpointermove: e => point(ctx, e), onpointerleave: () => { s.over = null; s.drag = null; ctx.redraw(); }, onpointerdown: e => { s.drag = { x: e.clientX, at: w.at, moved: false }; }, onpointerup: e => up(ctx, e), onkeydown: e => keys(ctx, e, w) }),
      h('div', { class: 'gantt-tall', style: { height: s.height + 24 + 'px', 'margin-top': 'calc(-1 * ' + tall + ')' } })),
    h('p', { class: 'gantt-word', 'aria-live': 'polite' }, s.over ? words(ctx, s.over) : h('span', { class: 'muted' }, 'Point at a bar.')),
    s.view.reservations.length ? h('ul', { class: 'resv' }, s.view.reservations.slice(0, 20).map(r => h('li', { key: r.name }, h('b', null, r.name), ' keeps ' + plain(r.item.nodes, 80) + ' from ', time(r.from, ctx.now), ' to ', time(r.to, ctx.now), r.item.reason ? ': ' + plain(r.item.reason, 120) : ''))) : null,
    planned.length ? planned_list(ctx, planned) : null,
  ];
}

const words = (ctx, bar) => [h('a', { href: '/jobs/' + bar.job }, 'job ' + bar.job), ' of ' + plain(bar.item.user, 30) + ' in ' + plain(bar.item.vc, 30) + ' on ' + plain(bar.item.node, 40) + (bar.planned ? ', planned ' : ', ' + bar.item.state.toLowerCase() + ' '), time(bar.from, ctx.now), ' \u2013 ', bar.open && !bar.planned ? 'now' : time(bar.to, ctx.now), ' (' + span((bar.to - bar.from) / 1000) + ')'];

function planned_list(ctx, planned) {
  const first = new Map();
  for (const item of planned) if (!first.has(item.job)) first.set(item.job, item);
  const list = [...first.values()].sort((a, b) => instant(a.start) - instant(b.start)).slice(0, 12);
  return h('details', { class: 'planned' }, h('summary', null, 'Next planned starts'), h('ul', null, list.map(i => h('li', { key: i.job }, h('a', { href: '/jobs/' + i.job }, 'job ' + i.job), ' of ' + plain(i.user, 30) + ' on ' + plain(i.node, 40) + ' ' + from_now(instant(i.start), ctx.now) + ', ', when(instant(i.start), ctx.now)))));
}

function watch(ctx, el) {
  const observer = new ResizeObserver(() => paint(ctx, el));
  observer.observe(el);
  el.stop = () => observer.disconnect();
}

function paint(ctx, el) {
  if (ctx.state.view) draw(el.firstChild, ctx.state.view, el.clientWidth, el.clientHeight);
}

function point(ctx, event) {
  const s = ctx.state, rect = event.currentTarget.getBoundingClientRect(), width = rect.width;
  if (s.drag && event.buttons === 1) {
    const moved = event.clientX - s.drag.x;
    if (Math.abs(moved) > 4) {
      s.drag.moved = true;
      const per = (s.view.to - s.view.from) / (width - 96);
      set(ctx, { at: new Date(Math.round((s.drag.at - moved * per) / 1000) * 1000).toISOString() });
    }
    return;
  }
  const found = hit(s.view, event.clientX - rect.left, event.clientY - rect.top, width);
  if (found === s.over) return;
  s.over = found;
  ctx.redraw();
}

function up(ctx, event) {
  const s = ctx.state, rect = event.currentTarget.getBoundingClientRect();
  const found = hit(s.view, event.clientX - rect.left, event.clientY - rect.top, rect.width);
  if (s.drag && !s.drag.moved && found) ctx.go('/jobs/' + found.job);
  s.drag = null;
}

function keys(ctx, event, w) {
  const spans = Object.keys(SPANS), i = spans.indexOf(ctx.query.span || '24h');
  if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') set(ctx, { at: new Date(w.at + (event.key === 'ArrowLeft' ? -0.2 : 0.2) * w.length).toISOString() });
  else if (event.key === '+' || event.key === '=') set(ctx, { span: spans[Math.max(0, i - 1)] });
  else if (event.key === '-') set(ctx, { span: spans[Math.min(spans.length - 1, i + 1)] });
  else return;
  event.preventDefault();
}

