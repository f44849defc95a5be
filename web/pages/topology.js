// SPDX-License-Identifier: Apache-2.0
// topology.js - every GPU where it is: whose, how busy, how well, and where a gang would fit.
import { h } from '../js/dom.js';
import { button, card, empty, job_name, job_ref, segments, select, vc_mark, with_data } from '../js/ui.js';
import { plain } from '../js/text.js';
import { count, plural } from '../js/format.js';
import { with_query } from '../js/route.js';
import { draw } from '../js/topodraw.js';
import { hit, holes, owner_of, owners, STATE_WORDS, tally } from '../js/topo.js';
import { ramp, vc_colors } from '../js/color.js';

const COLORS = [['vc', 'Virtual cluster'], ['job', 'Job'], ['util', 'Utilisation'], ['health', 'Health'], ['guarantee', 'Guarantee']];
const GANGS = [0, 1, 2, 4, 8, 16, 32, 64];

const set = (ctx, change) => ctx.go(with_query('/topology', ctx.query, change), true);

export default {
  title: () => 'Topology',
  needs: ctx => ['/topology', ...(ctx.query.color === 'guarantee' ? ['/cells'] : [])].map(path => ({ path, kinds: ['job.', 'node.', 'gpu.'], gap: 1000, every: 10000 })),
  command: () => 'muster nodes',
  json: () => '/topology',
  view: ctx => with_data(ctx.data('/topology'), value => {
    if (!value.items.length)
      return card('', empty('map', 'No nodes yet', 'Nodes appear here when their agents join. On a node: ', h('code', null, 'muster-agent join'), '; to try it out: ', h('code', null, 'musterd --dev --fake 4x8:H100')));
    return page(ctx, value);
  }),
};

function page(ctx, value) {
  const s = ctx.state, q = ctx.query, color = COLORS.some(c => c[0] === q.color) ? q.color : 'vc';
  const gang = Number(q.gang) || 0, skus = [...new Set(value.items.map(n => n.sku))];
  const sku = skus.includes(q.sku) ? q.sku : '';
  if (s.value !== value) {
    s.value = value;
    s.jobs = new Map(value.jobs.map(j => [j.id, j]));
  }
  const cells = color === 'guarantee' ? ctx.data('/cells').value : null;
  if (s.cells !== cells) {
    s.cells = cells;
    s.owners = owners(cells);
    s.turn = (s.turn || 0) + 1;
  }
  const lit = s.over || Number(q.job) || 0;
  s.view = { nodes: sku ? value.items.filter(n => n.sku === sku) : value.items, jobs: s.jobs, color, owners: s.owners, gang, sku, job: lit, at: s.at };
  const found = gang ? holes(s.view.nodes, gang, sku) : null;
  return [
    card('', { label: 'View' },
      h('div', { class: 'row spread' },
        h('div', { class: 'row' }, h('span', { class: 'muted small' }, 'Colour by'), segments(color, COLORS, v => { set(ctx, { color: v === 'vc' ? '' : v }); ctx.app.needs(); }, 'Colour by')),
        h('div', { class: 'row' },
          skus.length > 1 ? select(sku, [['', 'All types'], ...skus.map(x => [x, x])], v => set(ctx, { sku: v }), 'GPU type') : null,
          h('label', { class: 'row small muted' }, 'Holes for a gang of', select(gang, GANGS.map(n => [n, n ? String(n) : 'off']), v => set(ctx, { gang: v === '0' ? '' : v }), 'Holes for a gang of')))),
      found ? h('p', { class: found.places ? 'holes ok-text' : 'holes wait-text', role: 'status' }, found.places
        ? count(found.places) + (found.places === 1 ? ' place' : ' places') + ' for a gang of ' + gang + (sku ? ' ' + sku : '') + ' right now, outlined below.'
        : 'No place for a gang of ' + gang + (sku ? ' ' + sku : '') + ' right now: GPUs may be free, but not together.') : null,
      legend(color, value, cells, s.owners)),
    h('div', { class: 'map-and-side' },
      h('div', { class: 'map', mount: el => watch(ctx, el), update: el => redraw(ctx, el), unmount: el => el.stop && el.stop() },
        h('canvas', { tabindex: '0', role: 'img', 'aria-label': describe(value), 'aria-describedby': 'map-word',
          onpointermove: e => point(ctx, e), onpointerleave: () => { s.over = 0; if (!s.pinned) s.at = null; ctx.redraw(); },
          onclick: e => open(ctx, e), onkeydown: e => keys(ctx, e) })),
      side(ctx, value)),
  ];
}

function describe(value) {
  const t = tally(value.items);
  return 'Map of ' + plural(value.items.length, 'node') + ' with ' + count(t.total) + ' GPUs: ' + Object.keys(STATE_WORDS).filter(k => t[k]).map(k => count(t[k]) + ' ' + STATE_WORDS[k]).join(', ') + '. Arrow keys move between GPUs, Enter opens the job.';
}

const swatch = (color, pattern, text) => h('span', { key: text, class: 'key' }, h('span', { class: 'swatch ' + (pattern || ''), style: { '--c': color } }), text);

function legend(color, value, cells, owned) {
  const t = tally(value.items), out = [];
  if (color === 'guarantee' && owned) {
    for (const vc of cells.vcs.filter(v => v.cells.length)) {
      const c = vc_colors.of(vc.name), bound = vc.cells.reduce((sum, cell) => sum + (cell.bound === null ? 0 : cell.gpu_count), 0);
      out.push(swatch(c.fill, c.pattern, plain(vc.name, 30) + ': ' + count(bound) + ' bound'));
    }
    const lone = value.items.reduce((sum, n) => sum + [...n.gpus].filter((letter, i) => letter === 'f' && !owner_of(owned, n.name, i)).length, 0);
    out.push(swatch('var(--free)', '', 'unbound ' + count(lone)), swatch('var(--off)', 'stripe', 'striped: used by others than its owner'));
  } else if (color === 'vc' || color === 'guarantee') {
    for (const name of [...new Set(value.jobs.map(j => j.vc))].sort()) {
      const c = vc_colors.of(name);
      out.push(swatch(c.fill, c.pattern, plain(name, 30)));
    }
    if (color === 'guarantee') out.push(swatch('var(--off)', '', 'solid: inside the guarantee'), swatch('var(--off)', 'stripe', 'striped: borrowed, beyond it'), cells ? h('span', { key: 'counts', class: 'muted' }, 'Guarantees are counts here, not cells: no GPU has an owner.') : null);
  } else if (color === 'util') {
    out.push(h('span', { class: 'key', key: 'ramp' }, '0 %', h('span', { class: 'ramp' }, [0, 0.2, 0.4, 0.6, 0.8, 1].map(f => h('span', { key: f, style: { background: ramp(f) } }))), '100 % busy'));
  } else if (color === 'job') {
    out.push(h('span', { class: 'muted', key: 'j' }, plural(value.jobs.length, 'job') + ' on GPUs; point at one to light it'));
  } else {
    out.push(swatch('var(--ok)', '', 'in use and well'));
  }
  if (t.f && !owned) out.push(swatch('var(--free)', '', 'free ' + count(t.f)));
  if (t.r) out.push(swatch('var(--accent)', 'stripe', 'reserved ' + count(t.r)));
  if (t.d) out.push(swatch('var(--hold)', 'stripe', 'drained ' + count(t.d)));
  if (t.x) out.push(swatch('var(--bad)', 'cross', 'unhealthy ' + count(t.x)));
  if (t.o) out.push(swatch('var(--muted)', 'dots', 'used by others ' + count(t.o)));
  if (t['-']) out.push(swatch('var(--bad)', 'dots', 'node silent ' + count(t['-'])));
  return h('div', { class: 'legend keys-row' }, out);
}

function watch(ctx, el) {
  const observer = new ResizeObserver(() => redraw(ctx, el, true));
  observer.observe(el);
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  const again = () => redraw(ctx, el, true);
  scheme.addEventListener('change', again);
  el.stop = () => {
    observer.disconnect();
    scheme.removeEventListener('change', again);
  };
}

/** Draws when what is shown changed, not whenever the page is. */
function redraw(ctx, el, force) {
  const s = ctx.state, v = s.view, key = [s.value.time, s.turn, v.color, v.gang, v.sku, v.job, v.at && v.at.name + v.at.gpu, el.clientWidth, ctx.app.theme].join('|');
  if (!force && el.drawn === key) return;
  el.drawn = key;
  s.map = draw(el.firstChild, v);
}

function point(ctx, event) {
  const s = ctx.state;
  if (!s.map) return;
  const rect = event.currentTarget.getBoundingClientRect();
  const found = hit(s.map, event.clientX - rect.left, event.clientY - rect.top);
  const at = found ? { name: found.node.name, gpu: found.gpu } : null;
  const job = found && found.gpu >= 0 ? found.node.jobs[found.gpu] : 0;
  if ((s.at && at && s.at.name === at.name && s.at.gpu === at.gpu) || (!s.at && !at)) return;
  s.at = at;
  s.over = job;
  ctx.redraw();
}

function open(ctx, event) {
  point(ctx, event);
  const s = ctx.state;
  if (s.over) ctx.go('/jobs/' + s.over);
  else if (s.at) ctx.go('/nodes/' + encodeURIComponent(s.at.name));
}

function keys(ctx, event) {
  const s = ctx.state, nodes = s.view.nodes;
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], jump = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === 'Enter' && s.at) {
    if (s.over) ctx.go('/jobs/' + s.over);
    else ctx.go('/nodes/' + encodeURIComponent(s.at.name));
    return;
  }
  if (!step && !jump) return;
  event.preventDefault();
  let n = s.at ? nodes.findIndex(node => node.name === s.at.name) : -1, g = s.at ? Math.max(0, s.at.gpu) : 0;
  if (n < 0) n = 0;
  else if (jump) n = Math.min(nodes.length - 1, Math.max(0, n + jump));
  else if (g + step >= nodes[n].gpus.length) n = Math.min(nodes.length - 1, n + 1), g = 0;
  else if (g + step < 0) n = Math.max(0, n - 1), g = nodes[n].gpus.length - 1;
  else g += step;
  g = Math.min(g, nodes[n].gpus.length - 1);
  s.at = { name: nodes[n].name, gpu: g };
  s.over = nodes[n].jobs[g];
  s.pinned = true;
  ctx.redraw();
}

/** What is pointed at, and the jobs on GPUs: pointing at one lights it. */
function side(ctx, value) {
  const s = ctx.state, node = s.at && value.items.find(n => n.name === s.at.name), i = s.at ? s.at.gpu : -1;
  const job = node && i >= 0 ? s.jobs.get(node.jobs[i]) : null;
  const jobs = [...value.jobs].sort((a, b) => b.gpus - a.gpus).slice(0, 60);
  return h('aside', { class: 'map-side' },
    card('', { label: 'Pointed at', class: 'pointed' }, h('div', { id: 'map-word', 'aria-live': 'polite' }, node ? [
      h('strong', null, plain(node.name, 60) + (i >= 0 ? ' GPU ' + i : '')), h('span', { class: 'muted' }, ' ' + (node.sku || '')),
      i >= 0 ? h('div', null, STATE_WORDS[node.gpus[i]] || '', node.gpus[i] === 'u' || node.gpus[i] === 's' ? ', ' + node.util[i] + ' % busy, ' + count(node.memory_used_mib[i]) + ' MiB used' : '') : h('div', { class: 'muted' }, 'node is ' + node.state),
      i >= 0 && s.owners ? h('div', { class: 'owner' }, owner_of(s.owners, node.name, i) ? ['guaranteed to ', vc_mark(owner_of(s.owners, node.name, i))] : 'unbound: nobody\'s guarantee') : null,
      job ? h('div', null, 'job ', h('a', { href: '/jobs/' + job.id }, job_ref(job)), ' ', job_name(job), h('div', { class: 'muted' }, plain(job.user, 30) + ' \u00b7 ', vc_mark(job.vc), job.borrowed ? ' borrowed' : ' inside its guarantee')) : null,
    ] : h('span', { class: 'muted' }, 'Point at a GPU, or use the arrow keys on the map.'))),
    card('Jobs on GPUs', { note: count(value.jobs.length) }, jobs.length ? h('ul', { class: 'job-list' }, jobs.map(j => h('li', { key: j.id, class: s.over === j.id ? 'lit' : '', onpointerenter: () => { s.over = j.id; ctx.redraw(); }, onpointerleave: () => { s.over = 0; ctx.redraw(); } },
      h('a', { href: '/jobs/' + j.id, onfocus: () => { s.over = j.id; ctx.redraw(); }, onblur: () => { s.over = 0; ctx.redraw(); } }, h('span', { class: 'clip' }, job_ref(j) + ' ', job_name(j)), h('span', { class: 'muted nowrap' }, plain(j.user, 16) + ' \u00b7 ' + j.gpus + ' GPU' + (j.gpus === 1 ? '' : 's')))))) : h('p', { class: 'muted' }, 'No job is on a GPU.'),
    Number(ctx.query.job) ? button('Stop lighting job ' + Number(ctx.query.job), () => set(ctx, { job: '' }), { class: 'small' }) : null));
}

