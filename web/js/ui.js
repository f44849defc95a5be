// SPDX-License-Identifier: Apache-2.0
// ui.js - the small parts all pages are made of.
import { h } from './dom.js';
import { exact, from_now, instant, when } from './format.js';
import { plain } from './text.js';
import { icon } from './icon.js';
import { vc_colors } from './color.js';

export const card = (title, ...rest) => {
  const options = rest.length && rest[0] && rest[0].tag === undefined && !Array.isArray(rest[0]) && typeof rest[0] === 'object' ? rest.shift() : {};
  return h('section', { class: 'card ' + (options.class || ''), 'aria-label': typeof title === 'string' ? title : options.label, key: options.key },
    title ? h('header', { class: 'card-head' }, h('h2', null, title), options.note ? h('span', { class: 'muted small' }, options.note) : null, options.actions ? h('span', { class: 'card-actions' }, options.actions) : null) : null,
    rest);
};

export const button = (label, onclick, options = {}) =>
  h('button', { type: options.type || 'button', class: 'button ' + (options.class || ''), onclick, disabled: options.disabled, title: options.title, 'aria-label': options.label, 'aria-pressed': options.pressed === undefined ? undefined : String(options.pressed), key: options.key },
    options.icon ? icon(options.icon) : null, label ? h('span', null, label) : null);

/** A link inside the dashboard. */
export const link = (href, label, options = {}) => h('a', { href, class: options.class, title: options.title, 'aria-label': options.label, key: options.key }, label);

const STATES = {
  PENDING: ['wait', 'clock'], STARTING: ['start', 'play'], RUNNING: ['run', 'play'], SUSPENDED: ['hold', 'pause'], CHECKPOINTING: ['start', 'save'],
  RESIZING: ['start', 'resize'], COMPLETING: ['start', 'stop'], COMPLETED: ['ok', 'check'], FAILED: ['bad', 'cross'], CANCELLED: ['off', 'minus'],
  TIMEOUT: ['bad', 'clock'], PREEMPTED: ['hold', 'back'], NODE_FAIL: ['bad', 'node'], OUT_OF_MEMORY: ['bad', 'cross'], DEADLINE: ['bad', 'clock'],
  idle: ['ok', 'check'], mixed: ['run', 'half'], alloc: ['run', 'play'], drain: ['hold', 'pause'], draining: ['hold', 'pause'], down: ['bad', 'cross'],
  unknown: ['off', 'minus'], maint: ['hold', 'pause'], reserved: ['start', 'clock'],
};

/** A state is told by a word, a shape and a colour. */
export const badge = state => {
  const [kind, shape] = STATES[state] || ['off', 'minus'];
  return h('span', { class: 'badge ' + kind }, icon(shape), state);
};

export const priority = name => h('span', { class: 'prio prio-' + name }, name);

/** A time in the reader's zone, exact on hover. */
export const time = (text, now, relative) => {
  const at = typeof text === 'number' ? text : instant(text);
  if (at === null) return h('span', { class: 'muted' }, '\u2013');
  return h('time', { datetime: new Date(at).toISOString(), title: exact(at) }, relative ? from_now(at, now) : when(at, now));
};

export const vc_mark = name => {
  const { fill, pattern } = vc_colors.of(name);
  return h('span', { class: 'vc' }, h('span', { class: 'swatch ' + pattern, style: { '--c': fill } }), plain(name, 40));
};

export const job_name = job => (job.name ? plain(job.name, 80) : h('span', { class: 'muted' }, 'no name'));
export const job_ref = job => (job.array ? job.array.id + '_' + job.array.index : String(job.id));

export const gpus_of = job => {
  const n = job.gpu_share && job.gpu_share < 1000 ? job.gpu_share / 1000 : job.gpus;
  return n + (job.gpu_type ? ' ' + plain(job.gpu_type, 20) : '');
};

/** Nothing here, and what to do about it. */
export const empty = (shape, title, ...words) => h('div', { class: 'empty' }, icon(shape, 'big'), h('strong', null, title), h('p', { class: 'muted' }, words));

export const loading = () => h('div', { class: 'loading', role: 'status' }, h('span', { class: 'spinner', 'aria-hidden': 'true' }), 'Loading\u2026');

/** An answer that failed: what the controller said, and what helps. */
export const failed = (error, retry) => {
  const words = {
    0: 'The controller does not answer. What you see may be old; it is asked again by itself.',
    403: 'Your role does not allow this. Ask an administrator for a token that does.',
    404: 'It is not there (any more).',
  };
  return h('div', { class: 'problem', role: 'alert' }, icon(error.status === 403 ? 'lock' : 'warn'),
    h('div', null, h('strong', null, plain(error.message, 400)), error.code ? h('code', null, ' ' + plain(error.code, 60)) : null,
      h('p', { class: 'muted' }, error.hints.length ? plain(error.hints.join(' '), 400) : words[error.status] || ''),
      retry ? button('Try again', retry, { class: 'small' }) : null));
};

/** The value of a need, or what stands in for it. */
export const with_data = (item, show) => {
  if (item.value) return [item.error ? failed(item.error) : null, show(item.value)];
  return item.error ? failed(item.error) : loading();
};

/** A small table: columns [{label, cell(row), class, title}], rows, key(row). */
export function table(columns, rows, options = {}) {
  return h('div', { class: 'scroll-x', tabindex: rows.length ? '0' : undefined, role: rows.length ? 'region' : undefined, 'aria-label': rows.length ? options.label : undefined },
    h('table', { class: 'table ' + (options.class || '') },
      h('thead', null, h('tr', null, columns.map(c => h('th', { scope: 'col', class: c.class, title: c.title }, c.label)))),
      h('tbody', null, rows.map((row, i) => h('tr', { key: options.key ? options.key(row) : i, class: options.row_class ? options.row_class(row) : undefined }, columns.map(c => h('td', { class: c.class }, c.cell(row, i))))))));
}

export const field = (label, input, hint) => h('label', { class: 'field' }, h('span', { class: 'field-label' }, label), input, hint ? h('span', { class: 'muted small' }, hint) : null);

export const select = (value, choices, onchange, label) =>
  h('select', { onchange: e => onchange(e.target.value), 'aria-label': label }, choices.map(([v, text]) => h('option', { value: v, selected: String(v) === String(value), key: v }, text)));

/** Choose one of a few; arrow keys move as between radio buttons. */
export const segments = (value, choices, onchange, label) =>
  h('div', { class: 'segments', role: 'radiogroup', 'aria-label': label, onkeydown: e => {
    const i = choices.findIndex(c => c[0] === value), step = e.key === 'ArrowRight' || e.key === 'ArrowDown' ? 1 : e.key === 'ArrowLeft' || e.key === 'ArrowUp' ? -1 : 0;
    if (!step) return;
    e.preventDefault();
    const next = (i + step + choices.length) % choices.length;
    onchange(choices[next][0]);
    e.currentTarget.children[next].focus();
  } }, choices.map(([v, text]) =>
    h('button', { type: 'button', role: 'radio', 'aria-checked': String(v === value), tabindex: v === value ? '0' : '-1', onclick: () => onchange(v), key: v }, text)));

/** label, value, and a word below. */
export const stat = (label, value, note, kind) => h('div', { class: 'stat ' + (kind || '') }, h('span', { class: 'stat-label' }, label), h('span', { class: 'stat-value' }, value), note ? h('span', { class: 'stat-note' }, note) : null);

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    document.body.appendChild(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

export function download(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const a = document.createElement('a');
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
