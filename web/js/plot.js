// SPDX-License-Identifier: Apache-2.0
// plot.js - lines, areas and bars over time or over numbers, drawn as SVG; a cross-hair tells the values.
import { h } from './dom.js';
import { brief, exact, span_ticks, tick_label, ticks, time_ticks } from './format.js';

const W = 640; // user units across; the height is the caller's

/** Lowest and highest of all series; stacked ones add up. */
export function extent(series, stacked) {
  let x0 = Infinity, x1 = -Infinity, y1 = 0;
  const sums = new Map();
  for (const s of series)
    for (const [x, y] of s.points) {
      if (y === null || !isFinite(y)) continue;
      if (x < x0) x0 = x;
      if (x > x1) x1 = x;
      if (stacked && !s.line) {
        const sum = (sums.get(x) || 0) + y;
        sums.set(x, sum);
        if (sum > y1) y1 = sum;
      } else if (y > y1) y1 = y;
    }
  if (x0 === Infinity) return null;
  return { x0, x1: x1 > x0 ? x1 : x0 + 1, y1: y1 > 0 ? y1 : 1 };
}

/** The value at or before x. */
export function value_at(points, x) {
  let low = 0, high = points.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (points[mid][0] <= x) low = mid + 1;
    else high = mid;
  }
  return low > 0 ? points[low - 1][1] : null;
}

function path(points, X, Y, step) {
  let d = '', last = null;
  for (const [x, y] of points) {
    if (y === null || !isFinite(y)) {
      last = null;
      continue;
    }
    d += last === null ? 'M' + X(x) + ' ' + Y(y) : step ? 'H' + X(x) + 'V' + Y(y) : 'L' + X(x) + ' ' + Y(y);
    last = y;
  }
  return d;
}

function stack(series, X, Y) {
  const base = new Map();
  return series.map(s => {
    const top = s.points.map(([x, y]) => [x, (base.get(x) || 0) + (y || 0)]);
    const low = s.points.map(([x]) => [x, base.get(x) || 0]).reverse();
    top.forEach(([x, y]) => base.set(x, y));
    return top.length ? 'M' + top.map(([x, y]) => X(x) + ' ' + Y(y)).join('L') + 'L' + low.map(([x, y]) => X(x) + ' ' + Y(y)).join('L') + 'Z' : '';
  });
}

/**
 * series: [{name, color, points: [[x, y]], line, dash, fill}]; options: {height, label, stacked, step, time, x_label,
 * y_label, y_max, format, marks: [{x, text}], log}
 */
export function plot(series, options) {
  const height = options.height || 180;
  const box = extent(series, options.stacked);
  if (!box) return h('div', { class: 'plot-none muted' }, options.none || 'Nothing was recorded yet.');
  if (options.x0 !== undefined) box.x0 = options.x0;
  if (options.x1 !== undefined) box.x1 = options.x1;
  if (options.y_max) box.y1 = Math.max(options.y_max, options.y_fixed ? 0 : box.y1);
  const many = Math.max(2, Math.floor(height / 50)), step = ticks(0, box.y1, many)[1];
  if (step && !options.y_fixed) box.y1 = Math.ceil(box.y1 / step - 1e-9) * step; // the highest value is below a line with a number
  const left = 44, right = 12, top = 10, bottom = 22;
  const tf = options.log ? v => Math.log10(Math.max(v, options.log)) : v => v;
  const r1 = n => Math.round(n * 10) / 10;
  const X = x => r1(left + ((tf(x) - tf(box.x0)) / (tf(box.x1) - tf(box.x0))) * (W - left - right));
  const Y = y => r1(height - bottom - (Math.min(y, box.y1) / box.y1) * (height - top - bottom));
  const ys = ticks(0, box.y1, many);
  const xs = options.time ? time_ticks(box.x0, box.x1, 6) : { at: options.log ? decades(box.x0, box.x1) : options.spans ? span_ticks(box.x0, box.x1, 6) : ticks(box.x0, box.x1, 6) };
  const areas = options.stacked ? series.filter(s => !s.line) : [];
  const lines = options.stacked ? series.filter(s => s.line) : series;
  const shapes = stack(areas, X, Y);
  const format = options.format || brief;
  const x_text = options.time ? x => tick_label(x, xs.step) : options.x_format || brief;
  const summary = options.label + '. ' + series.slice(0, 8).map(s => s.name + ': ' + (s.points.length ? format(s.points[s.points.length - 1][1] || 0) : 'none')).join(', ');
  return h('figure', { class: 'plot', key: options.key },
    options.legend === false ? null : h('figcaption', { class: 'legend' }, series.map((s, i) => h('span', { key: s.name + i }, h('span', { class: 'swatch ' + (s.line || !options.stacked ? 'linemark ' + (s.dash ? 'dash' : '') : s.pattern || ''), style: { '--c': s.color } }), s.name))),
    h('div', { class: 'plot-box', mount: el => hover(el), update: el => { el.now = { series, box, X, tf, format, options, height, left, right }; }, onpointermove: e => { e.currentTarget.now = { series, box, X, tf, format, options, height, left, right }; } },
      h('svg', { viewBox: '0 0 ' + W + ' ' + height, role: 'img', 'aria-label': summary, preserveAspectRatio: 'none', style: { height: height + 'px' } },
        ys.map(y => h('line', { key: 'y' + y, class: 'grid', x1: left, x2: W - right, y1: Y(y), y2: Y(y) })),
        (options.shades || []).map((s, i) => h('rect', { key: 's' + i, class: 'shade', x: X(s.from), width: Math.max(1, X(s.to) - X(s.from)), y: top, height: height - top - bottom })),
        shapes.map((d, i) => h('path', { key: 'a' + areas[i].name, d, class: 'area', style: { fill: areas[i].color } })),
        lines.map(s => h('path', { key: 'l' + s.name, d: path(s.points, X, Y, options.step), class: 'line' + (s.dash ? ' dash' : ''), style: { stroke: s.color } })),
        (options.marks || []).map((m, i) => h('line', { key: 'm' + i, class: 'mark', x1: X(m.x), x2: X(m.x), y1: top, y2: height - bottom })),
        h('line', { class: 'axis', x1: left, x2: W - right, y1: height - bottom, y2: height - bottom }),
        h('line', { class: 'hair', x1: 0, x2: 0, y1: top, y2: height - bottom })),
      h('div', { class: 'plot-labels', 'aria-hidden': 'true' },
        ys.map(y => h('span', { key: y, class: 'y-label', style: { top: (Y(y) / height) * 100 + '%' } }, format(y))),
        xs.at.map(x => h('span', { key: x, class: 'x-label', style: { left: (X(x) / W) * 100 + '%' } }, x_text(x))),
        options.y_label ? h('span', { class: 'y-name' }, options.y_label) : null),
      h('div', { class: 'tip', hidden: true })));
}

function decades(low, high) {
  const out = [];
  for (let d = Math.floor(Math.log10(Math.max(low, 1e-9))); d <= Math.ceil(Math.log10(high)); d++) {
    const v = Math.pow(10, d);
    if (v >= low * 0.999 && v <= high * 1.001) out.push(v);
  }
  return out;
}

function hover(el) {
  const tip = el.querySelector('.tip');
  const leave = () => {
    tip.hidden = true;
    const cross = el.querySelector('.hair');
    if (cross) cross.classList.remove('shown');
  };
  el.addEventListener('pointerleave', leave);
  el.addEventListener('pointermove', event => {
    const { series, box, tf, format, options, left, right } = el.now || {};
    if (!series) return;
    const rect = el.getBoundingClientRect();
    const at = ((event.clientX - rect.left) / rect.width) * W;
    const f = (at - left) / (W - left - right);
    if (f < 0 || f > 1) return leave();
    const t = tf(box.x0) + f * (tf(box.x1) - tf(box.x0));
    const x = options.log ? Math.pow(10, t) : t;
    const cross = el.querySelector('.hair');
    cross.classList.add('shown');
    cross.setAttribute('x1', at);
    cross.setAttribute('x2', at);
    tip.replaceChildren();
    const head = document.createElement('strong');
    head.textContent = options.time ? exact(x) : (options.x_format || brief)(x);
    tip.appendChild(head);
    for (const s of series.slice(0, 12)) {
      const value = value_at(s.points, x);
      if (value === null) continue;
      const row = document.createElement('div');
      const dot = document.createElement('span');
      dot.className = 'swatch';
      dot.style.setProperty('--c', s.color);
      row.append(dot, s.name + '  ' + format(value));
      tip.appendChild(row);
    }
    tip.hidden = false;
    const side = event.clientX - rect.left > rect.width / 2;
    tip.style.setProperty('left', side ? 'auto' : event.clientX - rect.left + 12 + 'px');
    tip.style.setProperty('right', side ? rect.right - event.clientX + 12 + 'px' : 'auto');
  });
}

/** A line without axes, for a row of a table. */
export function spark(values, color, most) {
  if (!values.length) return h('span', { class: 'muted' }, '\u2013');
  const top = most || Math.max(...values, 1e-9), n = Math.max(1, values.length - 1);
  const d = 'M' + values.map((v, i) => ((i / n) * 100).toFixed(1) + ' ' + (22 - (Math.min(v, top) / top) * 20).toFixed(1)).join('L');
  return h('svg', { class: 'spark', viewBox: '0 0 100 24', 'aria-hidden': 'true', preserveAspectRatio: 'none' }, h('path', { d: d + 'L100 24L0 24Z', class: 'spark-area', style: { fill: color } }), h('path', { d, class: 'line', style: { stroke: color } }));
}

/** One bar in parts: [{value, color, pattern, name}] of `total`, with marks [{at, name}]. */
export function bar(parts, total, options = {}) {
  const whole = Math.max(total, parts.reduce((a, p) => a + p.value, 0), 1e-9);
  const text = parts.filter(p => p.value > 0).map(p => p.name + ' ' + brief(p.value)).join(', ');
  return h('div', { class: 'bar ' + (options.class || ''), role: 'img', 'aria-label': (options.label ? options.label + ': ' : '') + text },
    parts.map(p => p.value > 0 ? h('span', { key: p.name, class: 'bar-part ' + (p.pattern || ''), title: p.name + ': ' + brief(p.value), style: { width: (p.value / whole) * 100 + '%', '--c': p.color } }) : null),
    (options.marks || []).map(m => h('span', { key: m.name, class: 'bar-mark', title: m.name + ': ' + brief(m.at), style: { left: (Math.min(m.at, whole) / whole) * 100 + '%' } })));
}
