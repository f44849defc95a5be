// SPDX-License-Identifier: Apache-2.0
// logs.js - a job's output as it comes: follow, search, one tab a rank. Only lines in sight are in the document.
import { h } from './dom.js';
import { fetch_raw } from './api.js';
import { Lines } from './text.js';
import { button, segments, select } from './ui.js';
import { bytes, count } from './format.js';

const LINE = 19, TAIL = 2000;

/** One stream of output of one task; tells `changed` when there is more. */
class Tail {
  constructor(path, changed) {
    this.path = path;
    this.changed = changed;
    this.lines = new Lines();
    this.state = 'reading'; // reading following over failed
    this.abort = new AbortController();
    this.skipped = 0;
    this.run();
  }
  async run() {
    try {
      const response = await fetch_raw(this.path, { headers: { Accept: 'text/plain' }, signal: this.abort.signal });
      const at = Number(response.headers.get('X-Log-Offset')) || 0;
      this.skipped = at;
      this.size = Number(response.headers.get('X-Log-Size')) || 0;
      this.state = 'following';
      const reader = response.body.getReader(), decoder = new TextDecoder();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        this.lines.add(decoder.decode(value, { stream: true }));
        this.changed();
      }
      this.state = 'over';
    } catch (error) {
      if (error.name === 'AbortError') return;
      this.state = 'failed';
      this.error = error;
    }
    this.changed();
  }
  stop() {
    this.abort.abort();
  }
}

/** s: the state of the viewer, kept by the page. options: {job, ranks, attempts, attempt} */
export function log_view(ctx, s, options) {
  const want = [options.job, s.rank || 0, s.attempt === undefined ? options.attempt : s.attempt, s.stream || 'out'].join('/');
  if (s.want !== want) {
    if (s.tail) s.tail.stop();
    s.want = want;
    s.follow = s.follow !== false;
    s.top = 0;
    s.tail = new Tail('/jobs/' + options.job + '/logs?task=' + (s.rank || 0) + '&attempt=' + (s.attempt === undefined ? options.attempt : s.attempt) + '&stream=' + (s.stream || 'out') + '&tail=' + TAIL + '&follow=1', ctx.redraw);
  }
  const all = s.tail.lines.all(), first = s.tail.lines.first, needle = (s.find || '').toLowerCase();
  const hits = needle ? all.map((line, i) => (line.text.toLowerCase().includes(needle) ? i : -1)).filter(i => i >= 0) : null;
  const rows = s.only && hits ? hits : null, total = rows ? rows.length : all.length;
  const top = Math.floor((s.top || 0) / LINE), from = Math.max(0, top - 20), to = Math.min(total, top + Math.ceil((s.tall || 420) / LINE) + 20);
  const shown = [];
  for (let k = from; k < to; k++) {
    const i = rows ? rows[k] : k, line = all[i];
    shown.push(h('div', { class: 'log-line' + (hits && s.hit !== undefined && hits[s.hit] === i ? ' here' : ''), key: first + i }, h('span', { class: 'log-no', 'aria-hidden': 'true' }, first + i), h('span', { class: 'log-text' }, line.cut ? h('span', { class: 'log-cut' }, '[' + count(line.cut) + ' more characters on this line] ') : null, marked(line.text, needle))));
  }
  const go = step => {
    if (!hits || !hits.length) return;
    s.hit = ((s.hit === undefined ? (step > 0 ? -1 : 0) : s.hit) + step + hits.length) % hits.length;
    s.follow = false;
    const box = document.querySelector('.log');
    if (box) box.scrollTop = Math.max(0, (s.only ? s.hit : hits[s.hit]) * LINE - 120);
    ctx.redraw();
  };
  return h('div', { class: 'log-view' },
    h('div', { class: 'row log-bar' },
      options.ranks > 1 ? select(s.rank || 0, Array.from({ length: Math.min(options.ranks, 1024) }, (_, i) => [i, 'rank ' + i]), v => { s.rank = Number(v); ctx.redraw(); }, 'Rank') : null,
      options.attempts > 1 ? select(s.attempt === undefined ? options.attempt : s.attempt, Array.from({ length: options.attempts }, (_, i) => [i, 'attempt ' + i]), v => { s.attempt = Number(v); ctx.redraw(); }, 'Attempt') : null,
      segments(s.stream || 'out', [['out', 'output'], ['err', 'errors']], v => { s.stream = v; ctx.redraw(); }, 'Stream'),
      h('input', { type: 'search', placeholder: 'Search', 'aria-label': 'Search the output', value: s.find || '', maxlength: 200, oninput: e => { s.find = e.target.value; s.hit = undefined; ctx.redraw(); }, onkeydown: e => { if (e.key === 'Enter') { e.preventDefault(); go(e.shiftKey ? -1 : 1); } } }),
      hits ? h('span', { class: 'muted small', role: 'status' }, hits.length ? (s.hit === undefined ? '' : s.hit + 1 + ' of ') + count(hits.length) + ' lines' : 'not found') : null,
      hits && hits.length ? [button('\u2191', () => go(-1), { class: 'small', title: 'Previous' }), button('\u2193', () => go(1), { class: 'small', title: 'Next' }), h('label', { class: 'check small' }, h('input', { type: 'checkbox', checked: !!s.only, onchange: e => { s.only = e.target.checked; s.top = 0; ctx.redraw(); } }), 'only these')] : null,
      h('label', { class: 'check small', title: 'Stay at the end' }, h('input', { type: 'checkbox', checked: !!s.follow, onchange: e => { s.follow = e.target.checked; ctx.redraw(); } }), 'follow')),
    h('div', { class: 'log', tabindex: '0', role: 'log', 'aria-label': 'Output of the job', 'aria-live': 'off',
      mount: el => { s.tall = el.clientHeight; if (s.follow) requestAnimationFrame(() => { el.scrollTop = el.scrollHeight; }); },
      update: el => { if (s.follow && el.drawn_lines !== total) requestAnimationFrame(() => { el.scrollTop = el.scrollHeight; }); el.drawn_lines = total; },
      unmount: () => { if (s.tail) s.tail.stop(); s.want = null; },
      onscroll: e => {
        const el = e.currentTarget, end = el.scrollHeight - el.scrollTop - el.clientHeight < LINE * 2;
        if (s.follow && !end && el.scrollTop < (s.top || 0) - 2) s.follow = false;
        s.top = el.scrollTop;
        s.tall = el.clientHeight;
        ctx.redraw();
      } },
      h('div', { key: 'top', style: { height: from * LINE + 'px' } }), shown, h('div', { key: 'end', style: { height: (total - to) * LINE + 'px' } }),
      total ? null : h('div', { class: 'row log-none' }, nothing(ctx, s, hits))),
    h('p', { class: 'muted small' }, s.tail.skipped ? 'From byte ' + bytes(s.tail.skipped) + ' on; all of it: ' : 'All of it: ', h('code', null, 'muster logs ' + options.job + ((s.rank || 0) ? '.' + s.rank : '') + (s.attempt === undefined || s.attempt === options.attempt ? '' : '@' + s.attempt) + (s.stream === 'err' ? ' --err' : '')), s.tail.state === 'following' ? ' \u00b7 following' : s.tail.state === 'over' ? ' \u00b7 complete' : ''));
}

/** Why no line is shown, and what to do about it. */
function nothing(ctx, s, hits) {
  if (s.tail.state === 'reading') return 'Nothing yet\u2026';
  if (s.tail.state === 'failed') return [s.tail.error.message, button('Try again', () => { s.want = null; ctx.redraw(); }, { class: 'small' })];
  if (hits) return 'No line has it.';
  if (s.tail.state !== 'over') return 'It has written nothing yet.';
  return s.stream === 'err' ? 'It wrote nothing here.' : ['It wrote nothing here.', button('Show errors', () => { s.stream = 'err'; ctx.redraw(); }, { class: 'small' })];
}

/** The text with what was searched for marked. */
function marked(text, needle) {
  if (!needle) return text;
  const low = text.toLowerCase(), out = [];
  let at = 0, found;
  while ((found = low.indexOf(needle, at)) >= 0 && out.length < 200) {
    out.push(text.slice(at, found), h('mark', null, text.slice(found, found + needle.length)));
    at = found + needle.length;
  }
  out.push(text.slice(at));
  return out;
}
