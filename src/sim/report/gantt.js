/* SPDX-License-Identifier: Apache-2.0 */
/* gantt.js - who runs where: a row a GPU, grouped by node, a bar a job. One run at a time; time can be zoomed.
 *
 * What was done to running jobs is told by form, never by colour alone: an arrow for a move, a triangle for another size,
 * half a row for two that share a GPU, dots for a guest, lines for workers that take turns. */

/* `busy`: what of the run is shown at first. */
const ganttFigure = (runs, redraw, busy) => {
  const { html, span, count } = plot;
  const able = runs.map((run, i) => ({ run, i })).filter(r => r.run.gantt);
  const vcs = [];
  const view = { run: able[0], from: 0, to: 0, byVc: true };
  const shadeOf = n => `var(--d${n % 10})`;
  const WIDE = 9; /* numbers a bar */
  const PAIR = 1, GUEST = 2, SPLICED = 4, MOVE = 0, SIZE = 1, SPLICE = 2, PACK = 3, UNPACK = 4, LIMIT = 5;
  const gpusOf = n => count(n) + (n === 1 ? " GPU" : " GPUs");

  const job = (g, n) => ({ id: g.jobs[4 * n], gpus: g.jobs[4 * n + 1], vc: g.jobs[4 * n + 2], user: g.jobs[4 * n + 3] });
  for (const { run } of able)
    for (let k = 2; k < run.gantt.jobs.length; k += 4)
      if (!vcs.includes(run.gantt.jobs[k])) vcs.push(run.gantt.jobs[k]);
  view.byVc = vcs.length > 1;

  const limit = () => view.run.run.gantt.until || view.run.run.makespan;
  const reset = () => { view.from = 0; view.to = limit(); };
  reset();
  { /* all that was done to jobs is in view, even where nobody waits by then */
    const told = view.run.run.gantt.marks || [];
    view.to = Math.min(view.to, Math.max(busy, told.length ? 1.15 * told[told.length - 5] : 0));
  }

  function zoom(factor, shift) {
    const width = Math.min(limit(), (view.to - view.from) * factor), middle = (view.from + view.to) / 2 + shift * (view.to - view.from);
    view.from = Math.max(0, Math.min(limit() - width, middle - width / 2));
    view.to = view.from + width;
    redraw();
  }

  /* Where each row lies: nodes are set apart by a gap. */
  function layout(g, size) {
    const gpus = view.run.run.gpus, high = gpus <= 16 ? 2.1 * size : gpus <= 32 ? 1.25 * size : gpus <= 64 ? 0.95 * size : gpus <= 128 ? 0.6 * size : 0.42 * size;
    const rows = [], nodes = [];
    let y = 2 * size;
    for (let k = 0; k < g.nodes.length; k += 2) {
      nodes.push({ name: g.nodes[k], gpus: g.nodes[k + 1], y, first: rows.length });
      for (let n = 0; n < g.nodes[k + 1]; n++, y += high) rows.push(y);
      y += 0.45 * size;
    }
    return { rows, nodes, high, bottom: y };
  }

  /* Jobs that share a GPU lie in lanes of it: the first lane whose last bar has ended; below one that has all of it. */
  function lanes(g) {
    if (g.lanes) return g.lanes;
    const ends = [], whole = [];
    g.lanes = [];
    for (let k = 0; k < g.bars.length; k += WIDE) {
      const [from, length, gpu, gpus, , , share] = g.bars.slice(k, k + 7);
      if (share >= 1000) {
        for (let n = gpu; n < gpu + gpus; n++) whole[n] = Math.max(whole[n] || 0, from + length);
        g.lanes.push(0);
        continue;
      }
      const row = ends[gpu] = ends[gpu] || [];
      let lane = whole[gpu] > from + 1e-6 ? 1 : 0;
      while (row[lane] > from + 1e-6) lane++;
      row[lane] = from + length;
      g.lanes.push(Math.min(1000 - share, lane * share));
    }
    return g.lanes;
  }

  /* What was done to each job, each with the bars it had before and has after it. */
  function marks(g) {
    if (g.told) return g.told;
    const bars = [];
    g.told = [];
    for (let k = 0; k < g.bars.length; k += WIDE) (bars[g.bars[k + 4]] = bars[g.bars[k + 4]] || []).push(k);
    for (let k = 0; k < (g.marks || []).length; k += 5) {
      const [at, n, kind, before, after] = g.marks.slice(k, k + 5), own = bars[n] || [];
      const old = own.filter(b => g.bars[b] < at - 1e-6), fresh = own.filter(b => g.bars[b] >= at - 1e-6);
      const last = Math.max(...old.map(b => g.bars[b] + g.bars[b + 1])), next = Math.min(...fresh.map(b => g.bars[b]));
      g.told.push({ at, job: n, kind, before, after,
        from: old.filter(b => g.bars[b] + g.bars[b + 1] > last - 1e-3), to: fresh.filter(b => g.bars[b] < next + 1e-3) });
    }
    return g.told;
  }

  const rowsOf = (g, list) => list.flatMap(b => Array.from({ length: g.bars[b + 3] }, (_, i) => g.bars[b + 2] + i));

  function whereOf(g, gpu) {
    let first = gpu, node = 0;
    while (first >= g.nodes[2 * node + 1]) first -= g.nodes[2 * node++ + 1];
    return { node: g.nodes[2 * node], first };
  }

  /* GPUs in words: node, numbers. */
  function places(g, list) {
    const said = list.slice(0, 4).map(b => {
      const w = whereOf(g, g.bars[b + 2]), n = g.bars[b + 3];
      return w.node + ":" + w.first + (n > 1 ? "\u2013" + (w.first + n - 1) : "");
    });
    return said.join(", ") + (list.length > 4 ? ", \u2026" : "") || "?";
  }

  /* What it may have before that instant, if not all. */
  function limitAt(g, n, end) {
    const limit = marks(g).filter(m => m.job === n && m.kind === LIMIT && m.at < end - 1e-6).pop();
    return limit && (limit.after < 100 || limit.before) ? limit : null;
  }

  const limitText = m => (m.after >= 100 ? "all of the time" : m.after ? m.after + " % of the time" : "paused") + (m.before ? ", " + count(m.before) + " MiB" : "");

  function say(g, k) {
    const [from, length, gpu, gpus, n, kind, share, how, size] = g.bars.slice(k, k + WIDE), it = job(g, n), w = whereOf(g, gpu);
    const rows = [{ name: "on", value: w.node + ", GPU " + w.first + (gpus > 1 ? "\u2013" + (w.first + gpus - 1) : "") },
      { name: "from", value: span(from) }, { name: "to", value: span(from + length) }, { name: "for", value: plot.exact(length) },
      { name: "asks for", value: gpusOf(it.gpus) }];
    if (size && size !== it.gpus && share >= 1000) rows.push({ name: "has", value: gpusOf(size) });
    if (it.vc) rows.push({ name: "virtual cluster", value: it.vc });
    if (it.user) rows.push({ name: "user", value: it.user });
    if (how & GUEST) rows.push({ name: "guest", value: "gives way to the owner" });
    else if (share < 1000) rows.push({ name: "share of the GPU", value: plot.percent(share / 1000) });
    if (how & PAIR) rows.push({ name: "packed", value: "two jobs a GPU" });
    if (how & SPLICED) rows.push({ name: "spliced", value: "workers take turns" });
    const limit = limitAt(g, n, from + length);
    if (limit) rows.push({ name: "limited to", value: limitText(limit) });
    return { title: "job " + it.id + (kind ? " (starting, no progress)" : ""), rows };
  }

  const markTitle = (g, m) => "job " + job(g, m.job).id + (m.kind === MOVE ? " moves" : m.kind === PACK ? " is packed" : m.kind === UNPACK ? " is alone again"
    : (m.after > m.before ? " grows" : " shrinks") + (m.kind === SPLICE ? ", its workers as they are" : ""));

  function sayMark(g, m) {
    const rows = [{ name: "at", value: span(m.at) }];
    if (m.kind === SIZE || m.kind === SPLICE) rows.push({ name: "size", value: m.before + " \u2192 " + gpusOf(m.after) });
    if ((m.kind === PACK || m.kind === UNPACK) && m.before >= 0) rows.push({ name: m.kind === PACK ? "beside" : "was beside", value: "job " + job(g, m.before).id });
    if (m.from.length) rows.push({ name: "from", value: places(g, m.from) });
    if (m.to.length) rows.push({ name: "to", value: places(g, m.to) }, { name: "stands still for", value: plot.exact(Math.max(0, g.bars[m.to[0] + 5] ? g.bars[m.to[0] + 1] : g.bars[m.to[0]] - m.at)) });
    return { title: markTitle(g, m), rows };
  }

  /* An arrow from GPUs that were left to those that were taken; a triangle where the size changed. Small things are pointed
   * at first: they are put before the bars. */
  function drawMarks(g, f, x, { boxes, items, size, layer }) {
    const shown = marks(g).filter(m => m.kind !== LIMIT && m.at >= view.from && m.at <= view.to && m.to.length);
    if (shown.length > 1500) {
      layer.append(plot.svg("text", { class: "name", x: f.left + 0.5 * size, y: 1.3 * size }, count(shown.length) + " moves and other changes here: zoom in to see them."));
      return;
    }
    for (const m of shown) {
      const had = rowsOf(g, m.from), has = rowsOf(g, m.to), left = m.from.filter(b => rowsOf(g, [b]).some(n => !has.includes(n))), taken = m.to.filter(b => rowsOf(g, [b]).some(n => !had.includes(n)));
      const head = boxes.get((taken[0] === undefined ? m.to : taken)[0]), px = x(m.at), half = Math.min(5, 0.4 * size);
      if (m.kind !== SIZE && m.kind !== SPLICE && taken.length)
        for (const b of left.slice(0, 4)) {
          const tail = boxes.get(b), y1 = tail.y + tail.h / 2, y2 = head.y + head.h / 2, bend = Math.min(18, Math.abs(y2 - y1) / 3 + 4);
          for (const halo of ["halo", "move"])
            layer.append(plot.svg("path", { class: halo, d: `M${px.toFixed(1)} ${y1.toFixed(1)}C${(px - bend).toFixed(1)} ${y1.toFixed(1)} ${(px - bend).toFixed(1)} ${y2.toFixed(1)} ${px.toFixed(1)} ${y2.toFixed(1)}`, "marker-end": halo === "move" ? "url(#gantt-head)" : "none" }));
        }
      if (m.kind === SIZE || m.kind === SPLICE) {
        const up = m.after > m.before, box = boxes.get(m.to[0]), y = box.y + half + 1;
        layer.append(plot.svg("path", { class: (up ? "grown" : "shrunk") + (m.kind === SPLICE ? " spliced" : ""), d: up ? `M${px} ${y + half}h${2 * half}l${-half} ${-2 * half}z` : `M${px} ${y - half}h${2 * half}l${-half} ${2 * half}z` }));
        items.unshift({ x: px, y: y - half, w: 2 * half, h: 2 * half, say: () => sayMark(g, m) });
      } else {
        if (m.kind === PACK || m.kind === UNPACK) layer.append(plot.svg("circle", { class: m.kind === PACK ? "packed" : "unpacked", cx: px, cy: head.y + head.h / 2, r: 0.8 * half }));
        items.unshift({ x: px - half, y: head.y + head.h / 2 - half, w: 2 * half, h: 2 * half, say: () => sayMark(g, m) });
      }
    }
  }

  function draw(host, width) {
    const g = view.run.run.gantt, size = 0.75 * plot.rem(), at = layout(g, size), offset = lanes(g);
    const left = Math.min(width * 0.22, 1.4 * size + Math.max(...at.nodes.map(n => plot.textWidth(n.name, size))));
    const f = plot.frame(host, width, at.bottom + 3.6 * size, { left, right: size, top: 1.5 * size, bottom: 3.6 * size });
    const x = plot.linear(view.from, view.to, f.left, f.right), items = [];
    const clip = "gantt-clip";
    f.root.append(plot.svg("defs", {}, [
      plot.svg("clipPath", { id: clip }, plot.svg("rect", { x: f.left, y: 0, width: f.right - f.left, height: f.height })),
      plot.svg("pattern", { id: "gantt-hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        plot.svg("rect", { width: 3, height: 6, style: "fill:var(--panel)", opacity: 0.65 })),
      plot.svg("pattern", { id: "gantt-guest", width: 6, height: 6, patternUnits: "userSpaceOnUse" },
        plot.svg("circle", { cx: 3, cy: 3, r: 1.5, style: "fill:var(--panel)", opacity: 0.85 })),
      plot.svg("pattern", { id: "gantt-splice", width: 5, height: 5, patternUnits: "userSpaceOnUse" },
        plot.svg("rect", { width: 5, height: 1.4, style: "fill:var(--panel)", opacity: 0.85 })),
      plot.svg("marker", { id: "gantt-head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" },
        plot.svg("path", { d: "M0 0L8 4L0 8z", style: "fill:var(--ink)" }))]));
    for (const n of at.nodes) {
      f.add("rect", { x: f.left, y: n.y, width: f.right - f.left, height: n.gpus * at.high, style: "fill:var(--grid)", opacity: 0.75 });
      if (n.gpus * at.high > 0.8 * size)
        f.add("text", { x: f.left - 0.5 * size, y: n.y + n.gpus * at.high / 2 + 0.35 * size, "text-anchor": "end" }, plot.fit(n.name, left - 0.8 * size, size));
    }
    plot.xAxis(f, x, plot.spanTicks(view.from, view.to, width / (6 * size)), plot.spanTick, "time since the first submission");
    const bars = f.root.appendChild(plot.svg("g", { "clip-path": `url(#${clip})` }));
    const boxes = new Map();
    for (let k = 0, n = 0; k < g.bars.length; k += WIDE, n++) {
      const [from, length, gpu, gpus, number, kind, share, how] = g.bars.slice(k, k + WIDE);
      const a = x(from), w = Math.max(0.6, x(from + length) - a), part = Math.min(1000, share) / 1000;
      const y = at.rows[gpu] + offset[n] / 1000 * at.high, h = share < 1000 ? part * at.high : gpus * at.high;
      boxes.set(k, { a, y, h });
      if (from + length < view.from || from > view.to) continue;
      const fill = view.byVc ? vcs.indexOf(job(g, number).vc) : number;
      const gap = w > 2.5 ? 0.8 : 0;
      const bar = style => bars.append(plot.svg("rect", { x: a.toFixed(2), y: y.toFixed(2), width: (w - gap).toFixed(2), height: Math.max(0.6, h - 0.8).toFixed(2), ...style }));
      bar({ class: "bar", rx: at.high > 6 && w > 6 ? 1.5 : 0, style: `fill:${shadeOf(fill)}` });
      if (how & GUEST) bar({ class: "guest", fill: "url(#gantt-guest)" });
      if (how & SPLICED) bar({ class: "spliced", fill: "url(#gantt-splice)" });
      if (kind) bar({ fill: "url(#gantt-hatch)" });
      const limit = how & GUEST ? limitAt(g, number, from + length) : null;
      const id = String(job(g, number).id) + (limit ? " " + limit.after + "%" : "");
      if (h > 0.95 * size && plot.textWidth(id, size) + 0.6 * size < Math.min(x(from + length), f.right) - Math.max(a, f.left))
        bars.append(plot.svg("text", { class: "in", ...(how & (GUEST | SPLICED) ? { style: `stroke:${shadeOf(fill)};stroke-width:4px;paint-order:stroke` } : {}), x: (Math.max(a, f.left) + Math.min(x(from + length), f.right)) / 2, y: y + h / 2 + 0.32 * size, "text-anchor": "middle" }, id));
      items.push({ x: Math.max(a, f.left), y, w: Math.max(1, Math.min(a + w, f.right) - Math.max(a, f.left)), h, say: () => say(g, k) });
    }
    drawMarks(g, f, x, { boxes, items, size, layer: f.root.appendChild(plot.svg("g", { "clip-path": `url(#${clip})` })) });
    plot.followItems(host, f, items);
    const arrows = host.onkeydown;
    host.onkeydown = e => {
      if (e.key === "+" || e.key === "=") zoom(0.5, 0);
      else if (e.key === "-") zoom(2, 0);
      else return arrows(e);
      e.preventDefault();
    };
  }

  function choice(label, options, pick) {
    const select = html("select", {}, options.map((text, i) => html("option", { value: i }, text)));
    select.onchange = () => { pick(Number(select.value)); redraw(); };
    return html("label", {}, [label, select]);
  }
  const button = (text, title, act) => {
    const made = html("button", { type: "button", title, "aria-label": title }, text);
    made.onclick = act;
    return made;
  };
  const controls = html("div", { class: "controls" });
  if (able.length > 1) controls.append(choice("Run", able.map(r => r.run.label), i => { view.run = able[i]; reset(); }));
  if (vcs.length > 1) controls.append(choice("Colour by", ["virtual cluster", "job"], i => { view.byVc = i === 0; }));
  controls.append(button("\u2212", "Zoom out", () => zoom(2, 0)), button("+", "Zoom in", () => zoom(0.5, 0)),
    button("\u25c0", "Earlier", () => zoom(1, -0.5)), button("\u25b6", "Later", () => zoom(1, 0.5)), button("All", "Show all", () => { reset(); redraw(); }));

  /* What the forms mean: those that are there. */
  function signs() {
    const sign = (fill, shapes) => plot.svg("svg", { class: "sign", viewBox: "0 0 20 14", "aria-hidden": "true" },
      (fill ? [plot.svg("rect", { width: 20, height: 14, rx: 2, style: "fill:var(--d0)" })] : []).concat(shapes));
    const dots = [4, 10, 16].flatMap(cx => [4, 10].map(cy => plot.svg("circle", { cx, cy, r: 1.6, style: "fill:var(--panel)" })));
    const lines = [2, 6, 10].map(y => plot.svg("rect", { y, width: 20, height: 1.5, style: "fill:var(--panel)" }));
    const list = [], any = test => able.some(r => marks(r.run.gantt).some(test));
    const how = bit => able.some(r => r.run.gantt.bars.some((n, k) => k % WIDE === 7 && n & bit));
    if (any(m => m.kind === MOVE)) list.push({ name: "arrow", text: "moved", sign: sign(false, [plot.svg("path", { class: "move", d: "M2 3C10 3 6 11 13 11" }), plot.svg("path", { d: "M12 7l7 4l-7 3z", style: "fill:var(--ink)" })]) });
    if (any(m => m.kind === PACK)) list.push({ name: "circle", text: "packed with another, half a row each; hollow: apart again", sign: sign(true, [plot.svg("circle", { class: "packed", cx: 10, cy: 7, r: 4 })]) });
    if (any(m => (m.kind === SIZE || m.kind === SPLICE) && m.after > m.before)) list.push({ name: "triangle up", text: "more GPUs", sign: sign(true, [plot.svg("path", { class: "grown", d: "M5 12h10l-5-10z" })]) });
    if (any(m => (m.kind === SIZE || m.kind === SPLICE) && m.after < m.before)) list.push({ name: "triangle down", text: "fewer GPUs", sign: sign(true, [plot.svg("path", { class: "shrunk", d: "M5 2h10l-5 10z" })]) });
    if (how(GUEST)) list.push({ name: "dots", text: "guest: gives way to whoever owns the GPUs; a percentage is the time it may have", sign: sign(true, dots) });
    if (how(SPLICED)) list.push({ name: "lines", text: "spliced: its workers take turns on fewer GPUs", sign: sign(true, lines) });
    return list;
  }

  const LISTED = 200;
  function list() {
    const rows = able.flatMap(({ run }) => marks(run.gantt).slice(0, LISTED).map(m => [run.label, span(m.at),
      m.kind === LIMIT ? "job " + job(run.gantt, m.job).id + " may have " + limitText(m) : markTitle(run.gantt, m) + (m.kind === SIZE || m.kind === SPLICE ? ", " + m.before + " \u2192 " + m.after : ""),
      m.kind === LIMIT ? "-" : places(run.gantt, m.from), m.kind === LIMIT ? "-" : places(run.gantt, m.to)]));
    return { head: ["Run", "At", "What", "From", "To"], rows };
  }

  const cut = able.find(r => r.run.gantt.until);
  return { id: "gantt", wide: true, title: "GPU by GPU", controls, draw,
    hint: "A row is a GPU, a block a job on it; hatched while it starts, moves or restores." + (cut ? " The run has too many bars to draw: its first " + span(cut.run.gantt.until) + " are shown." : "") + " Point at a block for the job.",
    keys: (vcs.length > 1 ? vcs.slice(0, 10).map((name, k) => ({ name: name || "(none)", shade: shadeOf(k) })) : []).concat(signs()),
    table: able.some(r => marks(r.run.gantt).length) ? list : undefined };
};
