// SPDX-License-Identifier: Apache-2.0
// topodraw.js - the picture of a cluster on a canvas: thousands of GPUs in a few milliseconds.
import { job_color, ramp, vc_colors } from './color.js';
import { holes, layout, owner_of } from './topo.js';

const HATCH = new Map();
// States worth a word beside the node's name.
const WORDS = { drain: 'drained', draining: 'draining', down: 'down', unknown: 'silent', maint: 'maintenance' };

/** Stripes of a colour, made once. */
function hatch(color, back, kind) {
  const key = color + back + kind;
  if (HATCH.has(key)) return HATCH.get(key);
  const c = document.createElement('canvas');
  c.width = c.height = 6;
  const g = c.getContext('2d');
  g.fillStyle = back;
  g.fillRect(0, 0, 6, 6);
  g.strokeStyle = color;
  g.fillStyle = color;
  g.lineWidth = 1.6;
  g.beginPath();
  if (kind === 'dots') {
    g.fillRect(1, 1, 2, 2);
    g.fillRect(4, 4, 2, 2);
  } else {
    for (const o of [-6, 0, 6]) {
      g.moveTo(o, 6);
      g.lineTo(o + 6, 0);
    }
    if (kind === 'cross') for (const o of [-6, 0, 6]) {
      g.moveTo(o, 0);
      g.lineTo(o + 6, 6);
    }
  }
  g.stroke();
  const pattern = g.createPattern(c, 'repeat');
  HATCH.set(key, pattern);
  return pattern;
}

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Colours of the page as they are now. */
function inks() {
  return { free: css('--free'), text: css('--text'), muted: css('--muted'), line: css('--line'), surface: css('--surface'), bg: css('--bg'), bad: css('--bad'), hold: css('--hold'), accent: css('--accent'), ok: css('--ok'), off: css('--off') };
}

function fill_of(view, node, i, ink) {
  const letter = node.gpus[i], job = view.jobs.get(node.jobs[i]);
  if (letter === 'x') return hatch(ink.bad, ink.surface, 'cross');
  if (letter === '-') return hatch(ink.bad, ink.surface, 'dots');
  if (letter === 'd') return hatch(ink.hold, ink.surface, 'stripe');
  if (letter === 'o') return hatch(ink.muted, ink.surface, 'dots');
  if (view.color === 'health') return letter === 'f' || letter === 'r' ? ink.free : ink.ok;
  if (view.color === 'guarantee' && view.owners) {
    const owner = owner_of(view.owners, node.name, i);
    if (!owner) return job ? hatch(ink.off, ink.surface, 'stripe') : ink.free;
    const { fill, pattern } = vc_colors.of(owner);
    if (job && job.vc !== owner) return hatch(fill, ink.surface, 'stripe');
    return pattern ? hatch('#ffffff99', fill, pattern) : fill;
  }
  if (!job) return letter === 'r' ? hatch(ink.accent, ink.free, 'stripe') : letter === 'f' ? ink.free : ink.off;
  if (view.color === 'job') return job_color(job.id);
  if (view.color === 'util') return ramp(node.util[i] / 100);
  const { fill, pattern } = vc_colors.of(job.vc);
  if (view.color === 'guarantee' && job.borrowed) return hatch(fill, ink.surface, 'stripe');
  return pattern ? hatch('#ffffff99', fill, pattern) : fill;
}

/** The whole picture; returns its layout, for pointing at. view: {nodes, jobs: Map, color, owners, gang, sku, job, at} */
export function draw(canvas, view) {
  const width = canvas.parentElement.clientWidth || 300;
  const tall = Math.max(360, window.innerHeight - 330);
  const map = layout(view.nodes, width, tall);
  const scale = window.devicePixelRatio || 1, ink = inks();
  canvas.width = Math.round(width * scale);
  canvas.height = Math.max(1, Math.round(map.height * scale));
  canvas.style.setProperty('width', width + 'px');
  canvas.style.setProperty('height', map.height + 'px');
  const g = canvas.getContext('2d');
  g.scale(scale, scale);
  g.clearRect(0, 0, width, map.height);
  const hole = view.gang ? holes(view.nodes, view.gang, view.sku) : null;
  const lit = view.job || 0, r = map.cell >= 12 ? 3 : map.cell >= 8 ? 2 : 0;
  for (const box of map.racks) {
    g.fillStyle = ink.surface;
    g.strokeStyle = ink.line;
    g.beginPath();
    g.roundRect(box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1, 8);
    g.fill();
    g.stroke();
    g.fillStyle = ink.muted;
    g.font = '600 12px system-ui, sans-serif';
    g.fillText(clip((box.rack.domain ? box.rack.domain + ' / ' : '') + box.rack.name, Math.floor(box.w / 7)), box.x + 10, box.y + 16);
  }
  for (const box of map.nodes) {
    const { node } = box;
    if (map.label) {
      g.fillStyle = node.state === 'down' || node.state === 'unknown' ? ink.bad : WORDS[node.state] ? ink.hold : ink.muted;
      g.font = (map.label > 12 ? 11 : 9) + 'px system-ui, sans-serif';
      const odd = WORDS[node.state];
      g.fillText(clip(node.name + (odd && map.label > 12 ? ' \u00b7 ' + odd : ''), Math.floor(box.w / (map.label > 12 ? 6.2 : 5))), box.x, box.y + map.label - 4);
    }
    for (let i = 0; i < node.gpus.length; i++) {
      const x = box.cells[i * 2], y = box.cells[i * 2 + 1], c = map.cell;
      const fits = hole && node.gpus[i] === 'f' && hole.nodes.has(node.name);
      const dim = lit ? node.jobs[i] !== lit : hole ? !fits : false;
      g.globalAlpha = dim ? 0.22 : 1;
      g.fillStyle = fill_of(view, node, i, ink);
      if (r) {
        g.beginPath();
        g.roundRect(x, y, c, c, r);
        g.fill();
      } else {
        g.fillRect(x, y, c, c);
      }
      if (node.gpus[i] === 's' && c >= 8) {
        g.fillStyle = ink.surface;
        g.fillRect(x + c * 0.55, y + c * 0.55, c * 0.3, c * 0.3);
      }
      if (fits || (lit && node.jobs[i] === lit)) {
        g.globalAlpha = 1;
        g.strokeStyle = fits ? ink.ok : ink.text;
        g.lineWidth = 2;
        g.strokeRect(x - 1, y - 1, c + 2, c + 2);
      }
    }
    g.globalAlpha = 1;
  }
  if (view.at) mark(g, map, view.at, ink);
  return map;
}

function mark(g, map, at, ink) {
  const box = map.nodes.find(b => b.node.name === at.name);
  if (!box) return;
  g.strokeStyle = ink.accent;
  g.lineWidth = 2.5;
  if (at.gpu >= 0) g.strokeRect(box.cells[at.gpu * 2] - 2, box.cells[at.gpu * 2 + 1] - 2, map.cell + 4, map.cell + 4);
}

const clip = (text, most) => (text.length > most ? text.slice(0, Math.max(1, most - 1)) + '\u2026' : text);
