/* SPDX-License-Identifier: Apache-2.0 */
/* report.js - the figures of the report, drawn from the embedded data (docs/report.md, "The data").
 *
 * A figure is a title, a hint how to read it, draw(host, width) and, where it helps, the same as a table. All are
 * drawn again when the window, the theme or the choice of runs changes.
 */
window.addEventListener("error", e => document.documentElement.setAttribute("data-error", e.message));

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const runs = data.runs;
  const hidden = new Set(runs.map((_, i) => i).filter(i => i >= 8));
  const figures = [];
  const { html, svg, span, count, few, percent, rem } = plot;

  /* Where a pointer stands is no more exact than that. */
  const round = s => s < 100 ? s : Math.round(s);

  const shown = test => runs.map((run, i) => ({ run, i })).filter(r => !hidden.has(r.i) && (!test || test(r.run)));

  /* Runs often end in a long tail of a few jobs. `busy` is the time in which jobs arrive or wait, and a bit more. */
  const all = Math.max(...runs.map(r => Math.max(r.makespan, r.time ? r.time.end : 0)), 1e-3);
  const busy = Math.min(all, 1.05 * Math.max(1e-3, ...runs.map(r => Math.max(r.submitted, r.time ? r.time.step * (1 + r.time.waitingMax.findLastIndex(n => n > 0)) : 0))));
  const view = { end: busy < 0.6 * all ? busy : all };

  /* ---- distributions ---- */

  /* How many jobs have at most `value`: the last point not beyond it. Points are value, count, value, count, ... */
  function within(points, value) {
    let low = 0, high = points.length / 2;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[2 * middle] <= value) low = middle + 1; else high = middle;
    }
    return low ? points[2 * low - 1] : 0;
  }

  /* The value of the job that is the given share of the way up: element ceil(share x n) - 1. */
  function quantile(points, done, share) {
    const rank = Math.max(1, Math.ceil(share * done - 1e-9));
    for (let i = 0; i < points.length; i += 2)
      if (points[i + 1] >= rank) return points[i];
    return NaN;
  }

  function drawCdf(host, width, key, label) {
    const some = shown(r => r[key].length), size = 0.75 * rem();
    const f = plot.frame(host, width, Math.min(26 * size, 12 * size + width / 4), { left: 3.4 * size, right: size, top: 2 * size, bottom: 3.6 * size });
    const max = Math.max(10, ...some.map(r => r.run[key][r.run[key].length - 2]));
    const positive = some.map(r => r.run[key].find((v, k) => k % 2 === 0 && v > 0)).filter(v => v);
    const from = plot.logFloor(Math.min(...positive, max / 10)), least = Math.min(...some.map(r => r.run[key][0]));
    const x = plot.log(from, max, f.left, f.right), y = plot.linear(0, 1, f.bottom, f.top);
    plot.yAxis(f, y, [0, 0.25, 0.5, 0.75, 1], t => 100 * t + "%", "share of finished jobs");
    plot.xAxis(f, x, plot.logSpanTicks(from, max, width / (4.5 * size)), t => (t === from && least < from ? "\u2264" : "") + plot.spanTick(t), label);
    for (const { run, i } of some) {
      const points = run[key];
      let d = `M${f.left} ${y(within(points, from) / run.done)}`;
      for (let k = 0; k < points.length; k += 2)
        if (points[k] > from) d += `H${x(points[k]).toFixed(1)}V${y(points[k + 1] / run.done).toFixed(1)}`;
      f.add("path", { d: d + `H${f.right}`, fill: "none", "stroke-linejoin": "round", style: plot.stroke(i, 2.2) });
    }
    for (const { run, i } of some)
      for (const share of [0.5, 0.95])
        f.root.append(plot.marker(i, x(quantile(run[key], run.done, share)), y(share), plot.px(4.5), { stroke: "var(--panel)" }));
    plot.followX(host, f, px => ({
      title: "within " + plot.exact(round(x.invert(px))),
      rows: some.map(({ run, i }) => ({ run: i, name: run.label, value: percent(within(run[key], x.invert(px)) / run.done) })),
    }));
  }

  function cdfTable(key) {
    const shares = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1];
    return { head: ["Run"].concat(shares.map(s => s === 1 ? "max" : "p" + Math.round(100 * s))),
      rows: runs.map(r => [r.label].concat(shares.map(s => span(quantile(r[key], r.done, s))))) };
  }

  /* ---- over time: one strip a run, the same axes for all ---- */

  function strip(f, run, i, top, bottom, y, x, keys) {
    const t = run.time, n = Math.min(t[keys.mean].length, Math.ceil(view.end / t.step));
    const at = k => Math.min(k * t.step, t.end, view.end);
    let band = "", back = "", mean = "", limit = "";
    for (let k = 0; k < n; k++) {
      const a = x(at(k)).toFixed(1), b = x(at(k + 1)).toFixed(1);
      band += `${k ? "L" : "M"}${a} ${y(t[keys.max][k]).toFixed(1)}H${b}`;
      back = `L${b} ${y(t[keys.min][k]).toFixed(1)}H${a}` + back;
      mean += `${k ? "L" : "M"}${a} ${y(t[keys.mean][k]).toFixed(1)}H${b}`;
      if (keys.limit) limit += `${k ? "L" : "M"}${a} ${y(t[keys.limit][k]).toFixed(1)}H${b}`;
    }
    const fill = `fill:${plot.colour(i)}`;
    f.add("path", { d: `${mean}V${y(0)}H${x(0)}Z`, style: fill, opacity: 0.16 });
    f.add("path", { d: band + back + "Z", style: fill, opacity: 0.28 });
    if (keys.limit) f.add("path", { d: limit, class: "limit", fill: "none" });
    f.add("path", { d: mean, fill: "none", style: `stroke:${plot.colour(i)};stroke-width:${plot.px(1.6)}px` });
    f.add("line", { class: "axis", x1: f.left, x2: f.right, y1: bottom, y2: bottom });
  }

  /* The axis of GPUs ends at all GPUs, so that full looks full. */
  const gpuTicks = (gpus, room) => [0, 0.25, 0.5, 0.75, 1].filter(p => room > 8 || p % 0.5 === 0).map(p => p * gpus).filter(v => v % 1 === 0 || v === gpus);

  function drawStrips(host, width, keys, unit) {
    const some = shown(r => r.time), size = 0.75 * rem();
    const tall = some.length === 1 ? 15 * size : Math.max(5.5 * size, Math.min(9 * size, 40 * size / some.length));
    const pitch = tall + 2.6 * size;
    const f = plot.frame(host, width, some.length * pitch + 5 * size, { left: 4 * size, right: size, top: 2 * size, bottom: 3.4 * size });
    const end = view.end, x = plot.linear(0, end, f.left, f.right);
    const most = Math.max(1, ...some.map(r => Math.max(...r.run.time[keys.max], ...(keys.limit ? r.run.time[keys.limit] : [0]))));
    const list = keys.limit ? gpuTicks(most, tall / size) : plot.ticks(most, tall > 8 * size ? 4 : 2), top = list[list.length - 1];
    plot.xAxis(f, x, plot.spanTicks(0, end, width / (6 * size)), plot.spanTick, "time since the first submission");
    some.forEach(({ run, i }, row) => {
      const bottom = f.top + row * pitch + tall + size;
      const y = plot.linear(0, top, bottom, bottom - tall);
      for (const t of list) {
        f.add("line", { class: "grid", x1: f.left, x2: f.right, y1: y(t), y2: y(t) });
        f.add("text", { x: f.left - 0.5 * size, y: y(t) + 0.35 * size, "text-anchor": "end" }, few(t));
      }
      strip(f, run, i, bottom - tall, bottom, y, x, keys);
      if (runs.length < 2) return;
      f.root.append(plot.marker(i, f.left + 0.5 * size, bottom - tall - 0.9 * size, plot.px(4)));
      f.add("text", { class: "name", x: f.left + 1.4 * size, y: bottom - tall - 0.55 * size }, plot.fit(run.label, f.right - f.left - 2 * size, size));
    });
    f.add("text", { x: 0, y: size }, unit);
    plot.followX(host, f, px => {
      const now = x.invert(px);
      return { title: "after " + plot.exact(round(Math.max(0, now))), rows: some.map(({ run, i }) => {
        const t = run.time, k = Math.floor(now / t.step);
        if (now > t.end || k >= t.held.length) return { run: i, name: run.label, value: "ended" };
        const a = t[keys.min][k], b = t[keys.max][k];
        return { run: i, name: run.label, value: a === b ? count(a) : few(t[keys.mean][k]) + "  (" + count(a) + " \u2013 " + count(b) + ")" };
      }), note: "mean (least \u2013 most) of the " + span(some[0].run.time.step) + " around" };
    });
  }

  const HELD = { mean: "held", min: "heldMin", max: "heldMax", limit: "total" };
  const WAITING = { mean: "waiting", min: "waitingMin", max: "waitingMax" };

  function stripTable(keys) {
    return { head: ["Run", "Mean", "Least", "Most"], rows: runs.filter(r => r.time).map(r => {
      const t = r.time, n = t[keys.mean].length;
      let sum = 0;
      for (let k = 0; k < n; k++) sum += t[keys.mean][k] * (Math.min(t.end, (k + 1) * t.step) - k * t.step);
      return [r.label, few(sum / t.end), count(Math.min(...t[keys.min])), count(Math.max(...t[keys.max]))];
    }) };
  }

  /* ---- bars ---- */

  const reasons = Object.keys(data.reasonText).filter(name => runs.some(r => r.reasons[name] > 0));
  const shade = i => `var(--d${i % 10})`;

  /* Rows of stacked parts: rows [{name, run, parts: [{value, shade, name, say}]}]. */
  function drawStack(host, width, rows, name, label) {
    const size = 0.75 * rem(), pitch = 4.4 * size, items = [];
    const f = plot.frame(host, width, rows.length * pitch + 4.4 * size, { left: 0.5 * size, right: 1.5 * size, top: 0, bottom: 3.6 * size });
    const most = Math.max(1e-9, ...rows.map(r => r.parts.reduce((sum, p) => sum + p.value, 0)));
    const list = name === plot.spanTick ? plot.spanTicks(0, most, width / (8 * size), true) : plot.ticks(most, 5);
    const x = plot.linear(0, Math.max(most, list[list.length - 1]), f.left, f.right);
    plot.xAxis(f, x, list, name, label);
    rows.forEach((row, k) => {
      const y = k * pitch + 1.7 * size, h = 2.2 * size;
      let from = 0;
      f.add("text", { class: "name", x: f.left, y: y - 0.45 * size }, plot.fit(row.name, f.right - f.left, size));
      for (const part of row.parts) {
        const a = x(from), b = x(from += part.value);
        f.add("rect", { x: a, y, width: Math.max(0, b - a - (b - a > 3 ? 1 : 0)), height: h, style: `fill:${part.shade}` });
        if (plot.textWidth(part.name, size) + size < b - a)
          f.add("text", { class: "in", x: (a + b) / 2, y: y + h / 2 + 0.35 * size, "text-anchor": "middle" }, part.name);
        items.push({ x: a, y, w: b - a, h, say: part.say });
      }
    });
    plot.followItems(host, f, items);
  }

  function drawReasons(host, width) {
    drawStack(host, width, shown().map(({ run }) => {
      const all = reasons.reduce((sum, name) => sum + (run.reasons[name] || 0), 0);
      return { name: run.label, parts: reasons.map((name, k) => ({ value: (run.reasons[name] || 0) / (run.jobs || 1), shade: shade(k), name, say: () => ({
        title: run.label + ": " + name, note: data.reasonText[name],
        rows: [{ name: "a job, on average", value: plot.exact((run.reasons[name] || 0) / (run.jobs || 1)) },
          { name: "all jobs together", value: span(run.reasons[name] || 0) },
          { name: "of all waiting", value: percent((run.reasons[name] || 0) / all) }] }) })) };
    }), plot.spanTick, "waiting of the average job");
  }

  const SIZES = ["1 GPU", "2\u20134", "5\u20138", "more than 8"];

  /* Groups of standing bars or dots, one group a job size. cell(f, run, i, x, w) draws and returns an item. */
  function drawBySize(host, width, y, f, cell) {
    const some = shown(), size = 0.75 * rem(), items = [];
    const used = SIZES.map((_, b) => b).filter(b => runs.some(r => r.sizes[b].jobs));
    const room = (f.right - f.left) / used.length, w = Math.min(2.6 * size, room * 0.8 / some.length);
    used.forEach((b, g) => {
      const middle = f.left + (g + 0.5) * room;
      const jobs = Math.max(...runs.map(r => r.sizes[b].jobs));
      f.add("text", { class: "name", x: middle, y: f.bottom + 1.4 * size, "text-anchor": "middle" }, SIZES[b]);
      f.add("text", { x: middle, y: f.bottom + 2.7 * size, "text-anchor": "middle" }, plot.fit(count(jobs) + " jobs", room, size));
      some.forEach(({ run, i }, k) => {
        if (run.sizes[b].done) items.push(Object.assign(cell(run, i, run.sizes[b], middle + (k - some.length / 2) * w, w, SIZES[b]),
          { hit: { x: middle + (k - some.length / 2) * w, y: f.top, w, h: f.bottom - f.top } }));
      });
    });
    f.add("line", { class: "axis", x1: f.left, x2: f.right, y1: f.bottom, y2: f.bottom });
    plot.followItems(host, f, items);
  }

  const sizeFrame = (host, width) => {
    const size = 0.75 * rem();
    return plot.frame(host, width, Math.min(26 * size, 12 * size + width / 4), { left: 4 * size, right: 0.5 * size, top: 2 * size, bottom: 3.4 * size });
  };

  function drawQueueBySize(host, width) {
    const f = sizeFrame(host, width);
    const most = Math.max(1e-3, ...shown().flatMap(({ run }) => run.sizes.map(s => s.queue)));
    const list = plot.spanTicks(0, most, 5, true), y = plot.linear(0, Math.max(most, list[list.length - 1]), f.bottom, f.top);
    plot.yAxis(f, y, list, plot.spanTick, "average queueing");
    drawBySize(host, width, y, f, (run, i, s, x, w, name) => {
      const top = y(s.queue);
      f.add("rect", { x: x + 0.5, y: top, width: w - 1, height: Math.max(0, f.bottom - top), style: `fill:${plot.colour(i)}` });
      if (w > 11) f.root.append(plot.marker(i, x + w / 2, top - plot.px(7), plot.px(3.2)));
      return { x, y: top, w, h: Math.max(2, f.bottom - top), say: () => ({ title: run.label + ", " + name, rows: [
        { name: "average queueing", value: plot.exact(s.queue) }, { name: "19 of 20 queue at most", value: plot.exact(s.queue95) },
        { name: "finished jobs", value: count(s.done) }, { name: "waiting, fair share", value: span(s.share) },
        { name: "waiting, fragmentation", value: span(s.frag) }] }) };
    });
  }

  function drawSlowdown(host, width) {
    const f = sizeFrame(host, width);
    const most = Math.max(2, ...shown().flatMap(({ run }) => run.sizes.map(s => s.slow95)));
    const top = 1.15 * most, y = plot.log(0.8, top, f.bottom, f.top);
    const list = [1, 2, 5, 10, 20, 50, 100, 1e3, 1e4, 1e5, 1e6, 1e7].filter(t => t <= top && (top < 300 || [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].includes(t)));
    plot.yAxis(f, y, list, t => count(t) + "\u00d7", "times as long as alone");
    drawBySize(host, width, y, f, (run, i, s, x, w, name) => {
      const a = y(s.slow50), b = y(s.slow95), c = x + w / 2, arm = Math.min(plot.px(5), w / 3);
      f.add("path", { d: `M${c} ${a}V${b}M${c - arm} ${b}H${c + arm}`, fill: "none", style: `stroke:${plot.colour(i)};stroke-width:${plot.px(2)}px` });
      f.root.append(plot.marker(i, c, a, Math.min(plot.px(5.5), w / 2.6), { stroke: "var(--panel)" }));
      return { x, y: b - 2, w, h: Math.max(6, a - b + 6), say: () => ({ title: run.label + ", " + name, rows: [
        { name: "median slowdown", value: few(s.slow50) + "\u00d7" }, { name: "19 of 20 at most", value: few(s.slow95) + "\u00d7" },
        { name: "finished jobs", value: count(s.done) }] }) };
    });
  }

  const sizeTable = keys => ({ head: ["Run"].concat(SIZES), rows: runs.map(r => [r.label].concat(r.sizes.map(s => s.done ? keys(s) : "-"))) });

  /* ---- virtual clusters ---- */

  function vcNames() {
    const names = [];
    for (const run of runs) for (const vc of run.vcs || []) if (!names.includes(vc.name)) names.push(vc.name);
    return names;
  }

  function drawVcQueue(host, width) {
    const names = vcNames().slice(0, 16), some = shown(r => r.vcs), size = 0.75 * rem(), items = [];
    const thick = Math.max(5, Math.min(1.1 * size, 40 * size / (names.length * some.length))), pitch = some.length * thick + 1.9 * size;
    const f = plot.frame(host, width, names.length * pitch + 4 * size, { left: 0.5 * size, right: 1.5 * size, top: 0, bottom: 3.6 * size });
    const find = (run, name) => run.vcs.find(vc => vc.name === name);
    const most = Math.max(1e-3, ...some.flatMap(({ run }) => run.vcs.map(vc => vc.queue)));
    const list = plot.spanTicks(0, most, width / (8 * size), true), x = plot.linear(0, Math.max(most, list[list.length - 1]), f.left, f.right);
    plot.xAxis(f, x, list, plot.spanTick, "average queueing");
    names.forEach((name, row) => {
      const top = row * pitch + 1.5 * size, one = some.map(r => find(r.run, name)).find(vc => vc);
      if (!one) return;
      f.add("text", { class: "name", x: f.left, y: top - 0.35 * size }, plot.fit(name, 0.6 * (f.right - f.left), size));
      f.add("text", { x: f.right, y: top - 0.35 * size, "text-anchor": "end" }, count(one.jobs) + " jobs, " + few(one.gpuHours) + " GPU-hours");
      some.forEach(({ run, i }, k) => {
        const vc = find(run, name), y = top + k * thick;
        if (!vc) return;
        f.add("rect", { x: f.left, y: y + 0.5, width: Math.max(1, x(vc.queue) - f.left), height: thick - 1, style: `fill:${plot.colour(i)}` });
        if (thick > 8 && runs.length > 1) f.root.append(plot.marker(i, Math.max(1, x(vc.queue)) + plot.px(7), y + thick / 2, plot.px(3.2)));
        items.push({ x: f.left, y, w: Math.max(1, x(vc.queue) - f.left), h: thick, hit: { x: f.left, y, w: f.right - f.left, h: thick }, say: () => ({ title: run.label + ", " + name, rows: [
          { name: "average queueing", value: plot.exact(vc.queue) }, { name: "jobs", value: count(vc.jobs) },
          { name: "finished", value: count(vc.done) }, { name: "GPU-hours used", value: count(vc.gpuHours) }] }) });
      });
    });
    plot.followItems(host, f, items);
  }

  /* The virtual clusters of the cluster, over all runs: what gives each its shade. */
  const owners = [...new Set(runs.flatMap(r => r.vcTime ? r.vcTime.series.map(vc => vc.name) : []))];

  function drawVcTime(host, width) {
    const some = shown(r => r.vcTime), size = 0.75 * rem(), tall = Math.max(6 * size, Math.min(13 * size, 40 * size / some.length)), pitch = tall + 2.6 * size;
    const f = plot.frame(host, width, some.length * pitch + 5 * size, { left: 4 * size, right: size, top: 2 * size, bottom: 3.4 * size });
    const end = view.end, x = plot.linear(0, end, f.left, f.right), list = gpuTicks(Math.max(...some.map(r => r.run.gpus)), tall / size);
    plot.xAxis(f, x, plot.spanTicks(0, end, width / (6 * size)), plot.spanTick, "time since the first submission");
    f.add("text", { x: 0, y: size }, "GPUs held");
    some.forEach(({ run }, row) => {
      const bottom = f.top + row * pitch + tall + size, y = plot.linear(0, list[list.length - 1], bottom, bottom - tall), t = run.vcTime;
      for (const v of list) {
        f.add("line", { class: "grid", x1: f.left, x2: f.right, y1: y(v), y2: y(v) });
        f.add("text", { x: f.left - 0.5 * size, y: y(v) + 0.35 * size, "text-anchor": "end" }, few(v));
      }
      const base = t.series[0].held.map(() => 0);
      t.series.forEach(vc => {
        let up = "", down = "";
        vc.held.slice(0, Math.ceil(end / t.step)).forEach((value, n) => {
          const a = x(n * t.step).toFixed(1), b = x(Math.min(end, (n + 1) * t.step)).toFixed(1);
          down = `L${b} ${y(base[n]).toFixed(1)}H${a}` + down;
          up += `${n ? "L" : "M"}${a} ${y(base[n] += value).toFixed(1)}H${b}`;
        });
        f.add("path", { d: up + down + "Z", style: `fill:${shade(owners.indexOf(vc.name))}` });
      });
      f.add("line", { class: "axis", x1: f.left, x2: f.right, y1: bottom, y2: bottom });
      if (runs.length > 1) f.add("text", { class: "name", x: f.left, y: bottom - tall - 0.55 * size }, plot.fit(run.label, f.right - f.left, size));
    });
    plot.followX(host, f, px => {
      const now = x.invert(px), rows = [];
      for (const { run } of some) {
        const t = run.vcTime, n = Math.floor(now / t.step);
        for (const vc of t.series)
          rows.push({ name: (some.length > 1 ? run.label + ", " : "") + vc.name, value: few(vc.held[n] || 0) + " of " + count(vc.quota) });
      }
      return { title: "after " + plot.exact(round(Math.max(0, now))), rows: rows.slice(0, 24), note: "GPUs held, of those the virtual cluster is owed" };
    });
  }

  /* ---- what policies tell of themselves ---- */

  const queueName = (k, n) => "Queue " + (k + 1) + (k === 0 ? ", the best" : k + 1 === n ? ", the last" : "");

  /* Jobs in each queue, stacked, the best at the bottom. A sample holds until the next. */
  function drawLevels(host, width) {
    const some = shown(r => r.levels), size = 0.75 * rem(), tall = Math.max(6 * size, Math.min(13 * size, 40 * size / some.length)), pitch = tall + 2.6 * size;
    const f = plot.frame(host, width, some.length * pitch + 5 * size, { left: 4 * size, right: size, top: 2 * size, bottom: 3.4 * size });
    const end = view.end, x = plot.linear(0, end, f.left, f.right);
    const sum = (l, n) => l.jobs.reduce((all, q) => all + q[n], 0);
    const most = Math.max(1, ...some.map(r => Math.max(...r.run.levels.at.map((_, n) => sum(r.run.levels, n))))), list = plot.ticks(most, 3);
    plot.xAxis(f, x, plot.spanTicks(0, end, width / (6 * size)), plot.spanTick, "time since the first submission");
    f.add("text", { x: 0, y: size }, "jobs");
    some.forEach(({ run }, row) => {
      const bottom = f.top + row * pitch + tall + size, y = plot.linear(0, list[list.length - 1], bottom, bottom - tall), l = run.levels;
      for (const v of list) {
        f.add("line", { class: "grid", x1: f.left, x2: f.right, y1: y(v), y2: y(v) });
        f.add("text", { x: f.left - 0.5 * size, y: y(v) + 0.35 * size, "text-anchor": "end" }, few(v));
      }
      const last = l.at.findLastIndex(t => t < end), base = l.at.map(() => 0);
      l.jobs.forEach((queue, k) => {
        let up = "", down = "";
        for (let n = 0; n <= last; n++) {
          const a = x(l.at[n]).toFixed(1), b = x(Math.min(end, n + 1 < l.at.length ? l.at[n + 1] : run.makespan)).toFixed(1);
          down = `L${b} ${y(base[n]).toFixed(1)}H${a}` + down;
          up += `${n ? "L" : "M"}${a} ${y(base[n] += queue[n]).toFixed(1)}H${b}`;
        }
        if (up) f.add("path", { d: up + down + "Z", style: `fill:${shade(k)}` });
      });
      f.add("line", { class: "axis", x1: f.left, x2: f.right, y1: bottom, y2: bottom });
      const said = l.promotions === undefined ? "" : count(l.promotions) + " promotions";
      f.add("text", { class: "name", x: f.left, y: bottom - tall - 0.55 * size }, plot.fit((runs.length > 1 ? run.label + (said && ", ") : "") + said, f.right - f.left, size));
    });
    plot.followX(host, f, px => {
      const now = Math.max(0, x.invert(px)), rows = [];
      for (const { run } of some) {
        const l = run.levels, n = Math.max(0, l.at.findLastIndex(t => t <= now));
        l.jobs.forEach((queue, k) => rows.push({ name: (some.length > 1 ? run.label + ", " : "") + queueName(k, l.jobs.length).toLowerCase(), value: count(queue[n]) }));
      }
      return { title: "after " + plot.exact(round(now)), rows: rows.slice(0, 24), note: "jobs in each queue, running or waiting" };
    });
  }

  const levelTable = () => ({ head: ["Run", "Queue", "Mean jobs", "Most jobs", "Promotions"], rows: runs.filter(r => r.levels).flatMap(r => r.levels.jobs.map((queue, k) => {
    const l = r.levels, till = n => n + 1 < l.at.length ? l.at[n + 1] : Math.max(r.makespan, l.at[n]);
    const all = till(l.at.length - 1) - l.at[0] || 1;
    return [r.label, String(k + 1), few(queue.reduce((sum, jobs, n) => sum + jobs * (till(n) - l.at[n]), 0) / all), count(Math.max(...queue)),
      k ? "" : l.promotions === undefined ? "-" : count(l.promotions)];
  })) });

  /* Predicted against true time left; on the line it was right. */
  function drawPredictions(host, width) {
    const some = shown(r => r.predictions), size = 0.75 * rem(), items = [];
    const f = plot.frame(host, width, Math.min(34 * size, 14 * size + width / 3), { left: 4.4 * size, right: size, top: 2 * size, bottom: 3.6 * size });
    const values = some.flatMap(r => r.run.predictions.points), from = plot.logFloor(Math.min(...values)), max = Math.max(10 * from, ...values);
    const x = plot.log(from, max, f.left, f.right), y = plot.log(from, max, f.bottom, f.top), list = plot.logSpanTicks(from, max, width / (6 * size));
    plot.yAxis(f, y, list, plot.spanTick, "predicted (logarithmic)");
    plot.xAxis(f, x, list, plot.spanTick, "true time left (logarithmic)");
    f.add("path", { d: `M${f.left} ${f.bottom}L${f.right} ${f.top}`, class: "limit", fill: "none" });
    for (const { run, i } of some) {
      const points = run.predictions.points;
      for (let k = 0; k < points.length; k += 2) {
        const px = x(points[k + 1]), py = y(points[k]), r = plot.px(2.4);
        f.add("rect", { x: px - r / 2, y: py - r / 2, width: r, height: r, style: `fill:${plot.colour(i)}`, opacity: 0.55 });
        if (k % 16 === 0) items.push({ x: px - r, y: py - r, w: 2 * r, h: 2 * r, say: () => ({ title: run.label, rows: [
          { name: "predicted", value: plot.exact(points[k]) }, { name: "true", value: plot.exact(points[k + 1]) }] }) });
      }
    }
    plot.followItems(host, f, items);
  }

  const QUARTERS = ["First quarter", "Second", "Third", "Last"];
  const predictionTable = () => ({ head: ["Run"].concat(QUARTERS), rows: runs.filter(r => r.predictions).map(r => [r.label].concat(r.predictions.errors.map(e => e < 0 ? "-" : percent(e)))) });

  /* ---- assembling the page ---- */

  function table(made) {
    return html("div", { class: "scroll", tabindex: 0 }, html("table", {}, [
      html("thead", {}, html("tr", {}, made.head.map(h => html("th", { scope: "col" }, h)))),
      html("tbody", {}, made.rows.map(r => html("tr", {}, r.map((v, i) => html(i ? "td" : "th", i ? {} : { scope: "row" }, v)))))]));
  }

  function draw(figure) {
    const width = Math.floor(figure.host.clientWidth);
    if (!width) return;
    figure.width = width;
    plot.tipHide();
    if (figure.any && !shown(figure.any).length) {
      figure.host.replaceChildren(html("p", { class: "hint" }, "Every run is switched off. Switch one on above."));
      return;
    }
    figure.draw(figure.host, width);
    figure.host.setAttribute("data-plotted", figure.host.querySelectorAll("path, rect").length);
  }

  function addFigure(parent, figure) {
    figure.host = html("div", { class: "plot", tabindex: 0, role: "img", id: "plot-" + figure.id,
      "aria-label": figure.title + ". " + figure.hint + " Arrow keys read out values." });
    const box = html("figure", { class: figure.wide ? "wide" : "" }, [html("h3", {}, figure.title), html("p", { class: "hint" }, figure.hint)]);
    if (figure.controls) box.append(figure.controls);
    box.append(figure.host);
    if (figure.keys && figure.keys.length) box.append(html("ul", { class: "keys" }, figure.keys.map(k => html("li", {}, [k.sign || html("i", { style: `background:${k.shade}` }), html("b", {}, k.name), k.text || ""]))));
    if (figure.table) box.append(html("details", {}, [html("summary", {}, "As a table"), table(figure.table())]));
    parent.append(box);
    figures.push(figure);
  }

  function addLegend(parent) {
    if (runs.length < 2) return;
    const bar = html("div", { class: "legend", role: "group", "aria-label": "Runs shown in the plots" });
    runs.forEach((run, i) => {
      const button = html("button", { type: "button", "aria-pressed": String(!hidden.has(i)), title: "Show or hide " + run.label }, [plot.swatch(i), html("span", {}, run.label)]);
      button.onclick = () => {
        if (!hidden.delete(i)) hidden.add(i);
        button.setAttribute("aria-pressed", String(!hidden.has(i)));
        figures.forEach(draw);
      };
      bar.append(button);
    });
    parent.append(bar);
    if (data.left) parent.append(html("p", { class: "hint" }, "The plots show the first " + runs.length + " runs; " + data.left + " more are in the table only."));
  }

  function section(parent, title) {
    const grid = html("div", { class: "figures" });
    parent.append(html("h2", {}, title), grid);
    return grid;
  }

  function timeChoice() {
    const select = html("select", {}, [html("option", { value: busy }, "while jobs arrive or wait: " + span(busy)), html("option", { value: all }, "all: " + span(all))]);
    select.onchange = () => { view.end = Number(select.value); figures.forEach(draw); };
    return html("div", { class: "controls" }, html("label", {}, ["Time shown", select]));
  }

  function build(parent) {
    addLegend(parent);
    let grid = section(parent, "How long jobs take");
    addFigure(grid, { id: "jct", title: "Completion time", hint: "Share of jobs done within a time. Further left and higher is better. Marks: median and 95th percentile.",
      any: r => r.jct.length, draw: (h, w) => drawCdf(h, w, "jct", "time from submission to end (logarithmic)"), table: () => cdfTable("jct") });
    addFigure(grid, { id: "queue", title: "Queueing time", hint: "The same for completion time beyond what a job needs alone. Further left and higher is better.",
      any: r => r.queue.length, draw: (h, w) => drawCdf(h, w, "queue", "queueing (logarithmic)"), table: () => cdfTable("queue") });
    addFigure(grid, { id: "slowdown", title: "Slowdown by job size", hint: "Completion time as a multiple of the time alone: median (mark) and 95th percentile (end of the line). Lower is better, 1\u00d7 is ideal.",
      any: r => r.done, draw: drawSlowdown, table: () => sizeTable(s => few(s.slow50) + "\u00d7 / " + few(s.slow95) + "\u00d7") });
    addFigure(grid, { id: "size", title: "Queueing by job size", hint: "Average queueing of jobs that ask for this many GPUs. Lower is better.",
      any: r => r.done, draw: drawQueueBySize, table: () => sizeTable(s => span(s.queue)) });
    grid = section(parent, "What the cluster does");
    if (view.end < all) grid.before(timeChoice());
    if (runs.some(r => r.time)) {
      addFigure(grid, { id: "gpus", wide: true, title: "GPUs in use", hint: "GPUs held by jobs: line, mean; band, least to most; dashes, healthy GPUs. Full while there is work is better.",
        any: r => r.time, draw: (h, w) => drawStrips(h, w, HELD, "GPUs"), table: () => stripTable(HELD) });
      addFigure(grid, { id: "waiting", wide: true, title: "Jobs waiting", hint: "Length of the queue: line, mean; band, least to most. Lower is better.",
        any: r => r.time, draw: (h, w) => drawStrips(h, w, WAITING, "jobs"), table: () => stripTable(WAITING) });
    }
    const queues = Math.max(0, ...runs.map(r => r.levels ? r.levels.jobs.length : 0));
    if (queues)
      addFigure(grid, { id: "levels", wide: true, title: "Queues of the policy", hint: "Jobs in each queue, running or waiting, stacked. A job sinks with the service it has had, and comes back when it is promoted.",
        any: r => r.levels, draw: drawLevels, table: levelTable, keys: Array.from({ length: queues }, (_, k) => ({ name: queueName(k, queues), shade: shade(k) })) });
    if (runs.some(r => r.predictions))
      addFigure(grid, { id: "predictions", wide: true, title: "Predicted and true time left", hint: "Each mark is what the policy said of a running job, against how long it took from then on. On the dashed line it was right. The table has the mean error, of the job's run, in the quarters of that run.",
        any: r => r.predictions, draw: drawPredictions, table: predictionTable });
    if (reasons.length)
      addFigure(grid, { id: "reasons", wide: true, title: "Why jobs wait", hint: "Waiting of the average job by cause, as the scheduler recorded it. Shorter is better.",
        any: () => true, draw: drawReasons, keys: reasons.map((name, k) => ({ name, shade: shade(k), text: data.reasonText[name] })),
        table: () => ({ head: ["Run"].concat(reasons), rows: runs.map(r => [r.label].concat(reasons.map(n => span((r.reasons[n] || 0) / (r.jobs || 1))))) }) });
    if (vcNames().length > 1)
      addFigure(grid, { id: "vcs", wide: true, title: "Queueing by virtual cluster", hint: "Average queueing of the jobs of each; those that used most GPU time first. Shorter is better.",
        any: r => r.vcs, draw: drawVcQueue, table: () => ({ head: ["Virtual cluster"].concat(runs.map(r => r.label)), rows: vcNames().map(name => [name].concat(runs.map(r => {
          const vc = (r.vcs || []).find(v => v.name === name);
          return vc ? span(vc.queue) : "-";
        }))) }) });
    const timed = runs.find(r => r.vcTime);
    if (timed)
      addFigure(grid, { id: "vctime", wide: true, title: "GPUs by virtual cluster", hint: "GPUs held by each, stacked." + (timed.vcTime.left ? " " + timed.vcTime.left + " more are not shown." : ""),
        any: r => r.vcTime, draw: drawVcTime, keys: owners.map((name, k) => ({ name, shade: shade(k), text: "is owed " + count(runs.flatMap(r => r.vcTime ? r.vcTime.series : []).find(vc => vc.name === name).quota) })) });
    if (runs.some(r => r.gantt)) addFigure(section(parent, "Who runs where"), ganttFigure(runs, () => figures.filter(f => f.id === "gantt").forEach(draw), view.end));
  }

  document.querySelectorAll(".key[data-run]").forEach(k => runs.length > 1 && k.dataset.run < runs.length && k.append(plot.swatch(Number(k.dataset.run))));
  build(document.getElementById("plots"));
  figures.forEach(draw);
  const redraw = () => figures.forEach(f => Math.floor(f.host.clientWidth) !== f.width && draw(f));
  const resized = new ResizeObserver(() => requestAnimationFrame(redraw)); /* not inside: drawing changes sizes again */
  resized.observe(document.getElementById("plots"));
  addEventListener("scroll", plot.tipHide, { passive: true });

  const theme = document.getElementById("theme"), root = document.documentElement;
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const name = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.hidden = false;
  theme.onclick = () => { root.dataset.theme = dark() ? "light" : "dark"; name(); };
  name();
  root.setAttribute("data-ready", figures.length);
})();
