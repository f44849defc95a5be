/* SPDX-License-Identifier: Apache-2.0 */
/* gantt.js - who runs where: a row a GPU, grouped by node, a bar a job. One run at a time; time can be zoomed. */

/* `busy`: what of the run is shown at first. */
const ganttFigure = (runs, redraw, busy) => {
  const { html, span, count } = plot;
  const able = runs.map((run, i) => ({ run, i })).filter(r => r.run.gantt);
  const vcs = [];
  const view = { run: able[0], from: 0, to: 0, byVc: true };
  const shadeOf = n => `var(--d${n % 10})`;

  const job = (g, n) => ({ id: g.jobs[4 * n], gpus: g.jobs[4 * n + 1], vc: g.jobs[4 * n + 2], user: g.jobs[4 * n + 3] });
  for (const { run } of able)
    for (let k = 2; k < run.gantt.jobs.length; k += 4)
      if (!vcs.includes(run.gantt.jobs[k])) vcs.push(run.gantt.jobs[k]);
  view.byVc = vcs.length > 1;

  const limit = () => view.run.run.gantt.until || view.run.run.makespan;
  const reset = () => { view.from = 0; view.to = limit(); };
  reset();
  view.to = Math.min(view.to, busy);

  function zoom(factor, shift) {
    const width = Math.min(limit(), (view.to - view.from) * factor), middle = (view.from + view.to) / 2 + shift * (view.to - view.from);
    view.from = Math.max(0, Math.min(limit() - width, middle - width / 2));
    view.to = view.from + width;
    redraw();
  }

  /* Where each row lies: nodes are set apart by a gap. */
  function layout(g, size) {
    const gpus = view.run.run.gpus, high = gpus <= 32 ? 1.25 * size : gpus <= 64 ? 0.95 * size : gpus <= 128 ? 0.6 * size : 0.42 * size;
    const rows = [], nodes = [];
    let y = 2 * size;
    for (let k = 0; k < g.nodes.length; k += 2) {
      nodes.push({ name: g.nodes[k], gpus: g.nodes[k + 1], y, first: rows.length });
      for (let n = 0; n < g.nodes[k + 1]; n++, y += high) rows.push(y);
      y += 0.45 * size;
    }
    return { rows, nodes, high, bottom: y };
  }

  /* Jobs that share a GPU lie in lanes of it: the first lane whose last bar has ended. */
  function lanes(g) {
    if (g.lanes) return g.lanes;
    const ends = [];
    g.lanes = [];
    for (let k = 0; k < g.bars.length; k += 7) {
      const [from, length, gpu, , , , share] = g.bars.slice(k, k + 7);
      if (share >= 1000) { g.lanes.push(0); continue; }
      const row = ends[gpu] = ends[gpu] || [];
      let lane = 0;
      while (row[lane] > from + 1e-6) lane++;
      row[lane] = from + length;
      g.lanes.push(lane * share);
    }
    return g.lanes;
  }

  function say(g, k) {
    const [from, length, gpu, gpus, n, kind, share] = g.bars.slice(k, k + 7), it = job(g, n);
    let first = gpu, node = 0;
    while (first >= g.nodes[2 * node + 1]) first -= g.nodes[2 * node++ + 1];
    const rows = [{ name: "on", value: g.nodes[2 * node] + ", GPU " + first + (gpus > 1 ? "\u2013" + (first + gpus - 1) : "") },
      { name: "from", value: span(from) }, { name: "to", value: span(from + length) }, { name: "for", value: plot.exact(length) },
      { name: "asks for", value: count(it.gpus) + (it.gpus === 1 ? " GPU" : " GPUs") }];
    if (it.vc) rows.push({ name: "virtual cluster", value: it.vc });
    if (it.user) rows.push({ name: "user", value: it.user });
    if (share < 1000) rows.push({ name: "share of the GPU", value: plot.percent(share / 1000) });
    return { title: "job " + it.id + (kind ? " (starting, no progress)" : ""), rows };
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
        plot.svg("rect", { width: 3, height: 6, style: "fill:var(--panel)", opacity: 0.65 }))]));
    for (const n of at.nodes) {
      f.add("rect", { x: f.left, y: n.y, width: f.right - f.left, height: n.gpus * at.high, style: "fill:var(--grid)", opacity: 0.75 });
      if (n.gpus * at.high > 0.8 * size)
        f.add("text", { x: f.left - 0.5 * size, y: n.y + n.gpus * at.high / 2 + 0.35 * size, "text-anchor": "end" }, plot.fit(n.name, left - 0.8 * size, size));
    }
    plot.xAxis(f, x, plot.spanTicks(view.from, view.to, width / (6 * size)), plot.spanTick, "time since the first submission");
    const bars = f.root.appendChild(plot.svg("g", { "clip-path": `url(#${clip})` }));
    for (let k = 0, n = 0; k < g.bars.length; k += 7, n++) {
      const [from, length, gpu, gpus, number, kind, share] = g.bars.slice(k, k + 7);
      if (from + length < view.from || from > view.to) continue;
      const a = x(from), w = Math.max(0.6, x(from + length) - a), part = Math.min(1000, share) / 1000;
      const y = at.rows[gpu] + offset[n] / 1000 * at.high, h = share < 1000 ? part * at.high : gpus * at.high;
      const fill = view.byVc ? vcs.indexOf(job(g, number).vc) : number;
      const gap = w > 2.5 ? 0.8 : 0;
      bars.append(plot.svg("rect", { x: a.toFixed(2), y: y.toFixed(2), width: (w - gap).toFixed(2), height: Math.max(0.6, h - 0.8).toFixed(2), rx: at.high > 6 && w > 6 ? 1.5 : 0, style: `fill:${shadeOf(fill)}` }));
      if (kind) bars.append(plot.svg("rect", { x: a.toFixed(2), y: y.toFixed(2), width: (w - gap).toFixed(2), height: Math.max(0.6, h - 0.8).toFixed(2), fill: "url(#gantt-hatch)" }));
      const id = String(job(g, number).id);
      if (h > 0.95 * size && plot.textWidth(id, size) + 0.6 * size < Math.min(x(from + length), f.right) - Math.max(a, f.left))
        bars.append(plot.svg("text", { class: "in", x: (Math.max(a, f.left) + Math.min(x(from + length), f.right)) / 2, y: y + h / 2 + 0.32 * size, "text-anchor": "middle" }, id));
      items.push({ x: Math.max(a, f.left), y, w: Math.max(1, Math.min(a + w, f.right) - Math.max(a, f.left)), h, say: () => say(g, k) });
    }
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

  const cut = able.find(r => r.run.gantt.until);
  return { id: "gantt", wide: true, title: "GPU by GPU", controls, draw,
    hint: "A row is a GPU, a block a job on it; hatched while it starts or restores." + (cut ? " The run has too many bars to draw: its first " + span(cut.run.gantt.until) + " are shown." : "") + " Point at a block for the job.",
    keys: vcs.length > 1 ? vcs.slice(0, 10).map((name, k) => ({ name: name || "(none)", shade: shadeOf(k) })) : undefined };
};
