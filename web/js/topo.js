// SPDX-License-Identifier: Apache-2.0
// topo.js - where each GPU lies in the picture of a cluster, and what the picture says. Knows nothing of drawing.

/** Letters of GPU states, as GET /topology writes them. */
export const STATE_WORDS = { f: 'free', u: 'in use', s: 'shared', r: 'reserved', d: 'drained', x: 'unhealthy', o: 'used by others', '-': 'node silent' };

/** Nodes by rack, in their order; without racks, by GPU type. */
export function racks_of(nodes) {
  const racks = new Map();
  for (const node of nodes) {
    const name = node.rack || '';
    const key = (node.domain || '') + '\u0000' + (name || '\u0001' + (node.sku || ''));
    if (!racks.has(key)) racks.set(key, { name: name || (node.sku || 'GPU') + ' nodes', domain: node.domain || '', nodes: [] });
    racks.get(key).nodes.push(node);
  }
  return [...racks.values()];
}

/**
 * Boxes of racks, nodes and GPUs within `width`: {height, cell, racks: [{x, y, w, h, rack}], nodes: [{x, y, w, h, node}],
 * labels}. Cells shrink until there is room for all of them without much scrolling.
 */
export function layout(nodes, width, tall) {
  const total = nodes.reduce((sum, node) => sum + node.gpus.length, 0);
  let cell = 44;
  // About as many pixels as there are: a cell with its margins and its share of names and frames.
  while (cell > 5 && total * cell * cell * 2.1 > width * tall) cell--;
  return place(racks_of(nodes), width, cell);
}

function node_width(node, cell, gap) {
  const groups = Math.max(1, (node.sockets || 1) * (node.groups || 1));
  const per_row = node.gpus.length > 16 ? 16 : node.gpus.length;
  return per_row * cell + (per_row - 1) * gap + (Math.min(groups, per_row) - 1) * gap * 2;
}

function place(racks, width, cell) {
  const gap = cell >= 24 ? 4 : cell >= 12 ? 3 : cell >= 8 ? 2 : 1;
  const label = cell >= 12 ? 16 : cell >= 8 ? 11 : 0; // room above a node for its name
  const pad = cell >= 10 ? 12 : 7, head = 22, out = { cell, gap, label, racks: [], nodes: [], height: 0 };
  let x = 0, y = 0, tall = 0;
  for (const rack of racks) {
    const w = Math.max(...rack.nodes.map(node => node_width(node, cell, gap)));
    const rows = rack.nodes.map(node => Math.ceil(node.gpus.length / 16));
    const h = label + Math.max(...rows) * (cell + gap) + (label ? 7 : 4);
    // As near to a square as the width allows, small racks side by side.
    const most = Math.max(1, Math.floor((width - 2 * pad + gap * 4) / (w + gap * 4)));
    let columns = Math.min(most, rack.nodes.length, Math.max(1, Math.ceil(Math.sqrt((rack.nodes.length * h * 2.2) / w))));
    if (racks.length === 1) columns = Math.min(most, rack.nodes.length);
    const box_w = columns * w + (columns - 1) * gap * 4 + 2 * pad;
    const box_h = head + Math.ceil(rack.nodes.length / columns) * h + pad;
    if (x > 0 && x + box_w > width) {
      x = 0;
      y += tall + 12;
      tall = 0;
    }
    out.racks.push({ x, y, w: box_w, h: box_h, rack });
    rack.nodes.forEach((node, i) => {
      const nx = x + pad + (i % columns) * (w + gap * 4), ny = y + head + Math.floor(i / columns) * h;
      out.nodes.push({ x: nx, y: ny, w, h, node, cells: cells_of(node, nx, ny + label, cell, gap) });
    });
    tall = Math.max(tall, box_h);
    x += box_w + 12;
  }
  out.height = y + tall;
  return out;
}

/** Upper left corners of a node's GPUs; NVLink or PCIe groups stand apart. */
function cells_of(node, x, y, cell, gap) {
  const count = node.gpus.length, groups = Math.max(1, (node.sockets || 1) * (node.groups || 1)), size = Math.ceil(count / groups);
  const out = new Float32Array(count * 2);
  for (let i = 0; i < count; i++) {
    const column = i % 16, row = Math.floor(i / 16);
    out[i * 2] = x + column * (cell + gap) + Math.floor(column / size) * gap * 2;
    out[i * 2 + 1] = y + row * (cell + gap);
  }
  return out;
}

/** {node, gpu} at a point, or null. */
export function hit(map, x, y) {
  for (const box of map.nodes) {
    if (x < box.x - 2 || x > box.x + box.w + 2 || y < box.y || y > box.y + box.h) continue;
    for (let i = 0; i < box.node.gpus.length; i++) {
      const cx = box.cells[i * 2], cy = box.cells[i * 2 + 1];
      if (x >= cx - 1 && x <= cx + map.cell + 1 && y >= cy - 1 && y <= cy + map.cell + 1) return { node: box.node, gpu: i };
    }
    return { node: box.node, gpu: -1 };
  }
  return null;
}

/**
 * Where a gang of n GPUs of one type fits now: on a part of one node if n is at most a node's GPUs, else on whole free
 * nodes. {places, nodes: Set of names, text}
 */
export function holes(nodes, n, sku) {
  const fit = new Set();
  let places = 0, whole = [], size = 0;
  for (const node of nodes) {
    if (sku && node.sku !== sku) continue;
    if (node.state === 'drain' || node.state === 'draining' || node.state === 'down' || node.state === 'unknown') continue;
    let free = 0;
    for (const letter of node.gpus) free += letter === 'f';
    size = Math.max(size, node.gpus.length);
    if (free >= n) {
      places += Math.floor(free / n);
      fit.add(node.name);
    }
    if (free === node.gpus.length && free > 0) whole.push(node);
  }
  if (n <= size || size === 0) return { places, nodes: fit };
  places = 0;
  const by_sku = new Map();
  for (const node of whole) by_sku.set(node.sku, (by_sku.get(node.sku) || []).concat([node]));
  for (const list of by_sku.values()) {
    const gpus = list.reduce((sum, node) => sum + node.gpus.length, 0);
    places += Math.floor(gpus / n);
    if (gpus >= n) list.forEach(node => fit.add(node.name));
  }
  return { places, nodes: fit };
}

/** How many GPUs are in each state. */
export function tally(nodes) {
  const out = { total: 0 };
  for (const node of nodes)
    for (const letter of node.gpus) {
      out[letter] = (out[letter] || 0) + 1;
      out.total++;
    }
  return out;
}

/**
 * Whose guarantee each GPU stands for now, by GET /cells: Map of node to {index: virtual cluster}. Null where no virtual
 * cluster is guaranteed cells: then quotas are counts, and no GPU is anybody's.
 */
export function owners(tree) {
  if (!tree || !tree.vcs || !tree.vcs.some(vc => vc.cells.length)) return null;
  const out = new Map();
  for (const vc of tree.vcs)
    for (const cell of vc.cells)
      for (const { node, indices } of cell.gpus) {
        if (!out.has(node)) out.set(node, {});
        for (const i of indices) out.get(node)[i] = vc.name;
      }
  return out;
}

/** The virtual cluster that is guaranteed a GPU, '' when none is. */
export const owner_of = (owners, node, i) => (owners.get(node) || {})[i] || '';
