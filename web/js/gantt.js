// SPDX-License-Identifier: Apache-2.0
// gantt.js - what ran and what is planned, as bars: rows and lanes of intervals, and their drawing. Only what is in sight
// is drawn.
import { tick_label, time_ticks } from './format.js';
import { job_color, vc_colors } from './color.js';

/**
 * Rows of {name, bars: [{job, from, to, lane, lanes, planned, item}], lanes}. by: nodes, jobs or vcs. A job that runs is
 * due to leave its GPUs when the controller expects it to: what is planned there begins then.
 */
export function rows_of(items, nodes, by, now) {
  const rows = new Map();
  if (by === 'nodes') for (const name of nodes) rows.set(name, { name, bars: [], lanes: 1 });
  for (const item of items) {
    const key = by === 'nodes' ? item.node : by === 'vcs' ? item.vc : 'job ' + item.job;
    if (!rows.has(key)) rows.set(key, { name: key, bars: [], lanes: 1 });
    const from = Date.parse(item.start), to = item.end ? Date.parse(item.end) : now;
    rows.get(key).bars.push({ job: item.job, from, to, item, planned: item.planned, open: !item.end, due: !item.end && item.until ? Date.parse(item.until) : 0 });
  }
  for (const row of rows.values()) {
    if (by === 'nodes') node_lanes(row);
    else free_lanes(row, by);
  }
  const out = [...rows.values()];
  if (by !== 'jobs') out.sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
  if (by === 'jobs') {
    // What runs or will run first, then what is over, the latest first.
    const over = row => row.bars.every(bar => !bar.open && !bar.planned), first = row => Math.min(...row.bars.map(bar => bar.from));
    out.sort((a, b) => over(a) - over(b) || (over(a) ? first(b) - first(a) : first(a) - first(b)));
  }
  return out;
}

/** On a node, a GPU is a lane; a job covers those it has, in as many pieces as they are. */
function node_lanes(row) {
  const out = [];
  let most = 0;
  for (const bar of row.bars) {
    const gpus = [...bar.item.gpus].sort((a, b) => a - b);
    for (let i = 0; i < gpus.length; ) {
      let j = i + 1;
      while (j < gpus.length && gpus[j] === gpus[j - 1] + 1) j++;
      out.push({ ...bar, lane: gpus[i], lanes: j - i });
      i = j;
    }
    most = Math.max(most, (gpus[gpus.length - 1] || 0) + 1);
  }
  row.bars = out;
  row.lanes = Math.max(1, most);
}

/** Elsewhere a bar takes the first lane that is free; the nodes of one job are one bar. */
function free_lanes(row, by) {
  const merged = new Map();
  for (const bar of row.bars) {
    const key = bar.job + '/' + bar.item.attempt + '/' + bar.planned + '/' + bar.from;
    const other = merged.get(key);
    if (!other) merged.set(key, bar);
    else {
      other.from = Math.min(other.from, bar.from);
      other.to = Math.max(other.to, bar.to);
      other.gpus = (other.gpus || other.item.gpus.length) + bar.item.gpus.length;
    }
  }
  row.bars = [...merged.values()].sort((a, b) => a.from - b.from);
  const ends = [];
  for (const bar of row.bars) {
    let lane = by === 'jobs' ? 0 : ends.findIndex(end => end <= bar.from);
    if (lane < 0) lane = ends.length;
    ends[lane] = Math.max(bar.to, bar.due || 0);
    bar.lane = lane;
    bar.lanes = 1;
  }
  row.lanes = Math.max(1, ends.length);
}

/** Heights: {row: top, height} of each, and the sum. */
export function measure(rows, by) {
  let y = 0;
  const lane = by === 'nodes' ? (rows.length > 200 ? 2 : rows.length > 40 ? 3 : 5) : by === 'vcs' ? 7 : 16;
  for (const row of rows) {
    row.top = y;
    row.lane = lane;
    row.height = Math.max(by === 'nodes' ? 16 : 20, row.lanes * lane + 4);
    y += row.height + 3;
  }
  return y;
}

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const NAME = 96;
export const X = (view, t, width) => NAME + ((t - view.from) / (view.to - view.from)) * (width - NAME);
export const T = (view, x, width) => view.from + ((x - NAME) / (width - NAME)) * (view.to - view.from);

/** view: {rows, from, to, top, now, reservations, color, over} */
export function draw(canvas, view, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.setProperty('width', width + 'px');
  canvas.style.setProperty('height', height + 'px');
  const g = canvas.getContext('2d');
  g.scale(scale, scale);
  const ink = { text: css('--text'), muted: css('--muted'), line: css('--line'), surface: css('--surface'), accent: css('--accent'), hold: css('--hold'), row: css('--row'), bad: css('--bad') };
  g.fillStyle = ink.surface;
  g.fillRect(0, 0, width, height);
  const AXIS = 24, ticks = time_ticks(view.from, view.to, Math.max(3, width / 110));
  g.font = '11px system-ui, sans-serif';
  for (const row of view.rows) {
    const y = row.top - view.top + AXIS;
    if (y > height || y + row.height < AXIS) continue;
    g.fillStyle = ink.row;
    g.fillRect(NAME, y, width - NAME, row.height);
    rule(g, view, ticks, y - 2, row.height + 4, width, ink); // behind the bars: their words are to be read
    for (const r of view.reservations || []) if (r.nodes.has(row.name)) draw_reserved(g, view, r, y, row.height, width, ink);
    for (const bar of row.bars) draw_bar(g, view, row, bar, y, width, ink);
    g.fillStyle = ink.surface;
    g.fillRect(0, y - 2, NAME - 2, row.height + 4);
    g.fillStyle = ink.text;
    g.fillText(clip(row.name, 14), 4, y + row.height / 2 + 4);
  }
  g.fillStyle = ink.surface;
  g.fillRect(0, 0, width, AXIS);
  rule(g, view, ticks, AXIS - 4, 4, width, ink);
  g.fillStyle = ink.muted;
  for (const t of ticks.at) {
    const x = Math.round(X(view, t, width)) + 0.5;
    if (x < NAME) continue;
    g.textAlign = 'center';
    g.fillText(tick_label(t, ticks.step), x, 14);
    g.textAlign = 'left';
  }
  const now = X(view, view.now, width);
  if (now > NAME && now < width) {
    g.strokeStyle = ink.bad;
    g.lineWidth = 2;
    g.beginPath();
    g.moveTo(now, 16);
    g.lineTo(now, height);
    g.stroke();
    g.fillStyle = ink.bad;
    g.fillText('now', Math.min(now + 3, width - 26), 26);
  }
}

/** Lines at the ticks, over a part of the height. */
function rule(g, view, ticks, y, tall, width, ink) {
  g.strokeStyle = ink.line;
  g.lineWidth = 1;
  g.beginPath();
  for (const t of ticks.at) {
    const x = Math.round(X(view, t, width)) + 0.5;
    if (x < NAME) continue;
    g.moveTo(x, y);
    g.lineTo(x, y + tall);
  }
  g.stroke();
}

/** A node that is kept for some, or for nobody: shaded, with its name. */
function draw_reserved(g, view, r, y, tall, width, ink) {
  const a = Math.max(NAME, X(view, r.from, width)), b = Math.min(width, X(view, r.to, width));
  if (b <= a) return;
  g.save();
  g.beginPath();
  g.rect(a, y, b - a, tall);
  g.clip();
  g.fillStyle = ink.hold;
  g.globalAlpha = 0.16;
  g.fillRect(a, y, b - a, tall);
  g.globalAlpha = 0.5;
  g.strokeStyle = ink.hold;
  g.lineWidth = 1;
  g.beginPath();
  for (let x = a - tall; x < b; x += 9) {
    g.moveTo(x, y + tall);
    g.lineTo(x + tall, y);
  }
  g.stroke();
  g.globalAlpha = 1;
  g.fillStyle = ink.text;
  g.fillText(r.name, a + 4, y + tall / 2 + 4);
  g.restore();
}

function draw_bar(g, view, row, bar, y, width, ink) {
  const a = Math.max(NAME, X(view, bar.from, width)), b = Math.min(width, X(view, bar.open && !bar.planned ? view.now : bar.to, width));
  const due = bar.due > view.now ? Math.min(width, X(view, bar.due, width)) : 0;
  if (Math.max(b, due) < NAME || a > width || b < a) return;
  const top = y + 2 + bar.lane * row.lane, h = Math.max(1.5, bar.lanes * row.lane - 1), w = Math.max(1.5, b - a - 0.5);
  const color = view.color === 'vc' ? vc_colors.of(bar.item.vc).fill : job_color(bar.job);
  const lit = view.over && view.over.job === bar.job;
  g.globalAlpha = view.over && !lit ? 0.35 : 1;
  if (due > b) { // may still run so long
    g.globalAlpha *= 0.4;
    g.fillStyle = color;
    g.fillRect(Math.max(NAME, b), top, due - Math.max(NAME, b), h);
    g.globalAlpha = view.over && !lit ? 0.35 : 1;
  }
  if (bar.planned) {
    g.strokeStyle = color;
    g.lineWidth = 1.5;
    g.setLineDash([4, 3]);
    g.strokeRect(a + 0.5, top + 0.5, w - 1, h - 1);
    g.setLineDash([]);
    g.globalAlpha *= 0.15;
    g.fillStyle = color;
    g.fillRect(a, top, w, h);
  } else {
    g.fillStyle = color;
    g.fillRect(a, top, w, h);
  }
  g.globalAlpha = 1;
  if (lit) {
    g.strokeStyle = ink.text;
    g.lineWidth = 1.5;
    g.strokeRect(a, top, w, h);
  }
  const wide = Math.max(w, due - a);
  if (h >= 12 && wide > 34) {
    g.fillStyle = ink.text;
    g.save();
    g.beginPath();
    g.rect(a, top, wide - 3, h);
    g.clip();
    g.fillText(String(bar.job) + (bar.item.user ? ' ' + bar.item.user : ''), Math.max(a, w > 60 ? a : b) + 4, top + h / 2 + 4);
    g.restore();
  }
}

/** The bar at a point of the canvas. */
export function hit(view, x, y, width) {
  const at = y - 24 + view.top;
  for (const row of view.rows) {
    if (at < row.top || at > row.top + row.height) continue;
    for (let i = row.bars.length - 1; i >= 0; i--) {
      const bar = row.bars[i], top = row.top + 2 + bar.lane * row.lane;
      const a = X(view, bar.from, width), b = X(view, Math.max(bar.due || 0, bar.open && !bar.planned ? view.now : bar.to), width);
      if (x >= a - 1 && x <= b + 1 && at >= top - 1 && at <= top + bar.lanes * row.lane + 1) return bar;
    }
  }
  return null;
}

const clip = (text, most) => (text.length > most ? text.slice(0, most - 1) + '\u2026' : text);
