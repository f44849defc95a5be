/* SPDX-License-Identifier: Apache-2.0 */
/* plot.js - the little that plots need: numbers in words, ticks, SVG, one tooltip, the keyboard.
 *
 * Text of the data enters the page through textContent and attributes only, never as markup.
 */
"use strict";

const plot = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const MINUTE = 60, HOUR = 3600, DAY = 86400;
  const DASHES = ["", "8 4", "2 3", "10 3 2 3", "14 4", "5 2 1 2", "1 3", "6 2 6 6"];

  /* ---- numbers in words ---- */

  const pad = n => String(n).padStart(2, "0");

  function span(s) {
    if (!isFinite(s)) return "-";
    if (s < 0) return "-" + span(-s);
    if (s === 0) return "0s";
    if (s < 0.9995) return Number((s * 1000).toPrecision(3)) + "ms";
    if (s < 99.95) return s.toFixed(1) + "s";
    if (s < 5999.5) { const w = Math.round(s); return Math.floor(w / 60) + "m" + pad(w % 60) + "s"; }
    if (s < 172770) { const w = Math.round(s / 60); return Math.floor(w / 60) + "h" + pad(w % 60) + "m"; }
    const w = Math.round(s / HOUR);
    return Math.floor(w / 24) + "d" + pad(w % 24) + "h";
  }

  const count = n => Number(n).toLocaleString("en-US", { maximumFractionDigits: 3 });
  const few = n => Number(n).toLocaleString("en-US", { maximumFractionDigits: n < 10 ? 2 : n < 100 ? 1 : 0 });
  const percent = r => isFinite(r) ? (100 * r).toFixed(1) + "%" : "-";
  const exact = s => s < 100 ? span(s) : span(s) + " (" + count(s) + " s)";

  /* ---- scales and ticks ---- */

  function linear(d0, d1, r0, r1) {
    const f = v => r0 + (v - d0) / (d1 - d0 || 1) * (r1 - r0);
    f.invert = p => d0 + (p - r0) / (r1 - r0 || 1) * (d1 - d0);
    return f;
  }

  function log(d0, d1, r0, r1) {
    const inner = linear(Math.log(d0), Math.log(d1), r0, r1);
    const f = v => inner(Math.log(Math.max(v, d0)));
    f.invert = p => Math.exp(inner.invert(p));
    return f;
  }

  /* Round numbers from 0 to at least `max`, about `n` of them. The last tick closes the axis. */
  function ticks(max, n) {
    const raw = (max || 1) / n, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 2.5, 5, 10].find(m => m * power >= raw - 1e-12);
    const list = [];
    for (let i = 0; i === 0 || list[i - 1] < max - 1e-9; i++) list.push(Number((i * step).toPrecision(12)));
    return list;
  }

  const SPANS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, DAY, 2 * DAY,
    5 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 56 * DAY, 140 * DAY, 365 * DAY];

  function spanTick(s) {
    if (s === 0) return "0";
    if (s % DAY === 0) return s / DAY + "d";
    if (s >= DAY && s % HOUR === 0) return Math.floor(s / DAY) + "d" + pad(s % DAY / HOUR) + "h";
    if (s % HOUR === 0) return s / HOUR + "h";
    if (s >= HOUR) return Math.floor(s / HOUR) + "h" + pad(Math.round(s % HOUR / 60));
    if (s % MINUTE === 0) return s / MINUTE + "m";
    if (s >= MINUTE) return Math.floor(s / MINUTE) + "m" + pad(s % MINUTE);
    return Number(s.toPrecision(3)) + "s";
  }

  /* Ticks of a linear axis of time between d0 and d1, about `n`; when `close`, up to the first beyond d1. */
  function spanTicks(d0, d1, n, close) {
    const raw = (d1 - d0) / n;
    let step = SPANS.find(s => s >= raw);
    if (raw < 1) step = 10 ** Math.ceil(Math.log10(raw || 1));
    if (!step) step = 365 * DAY * Math.ceil(raw / (365 * DAY));
    const list = [];
    for (let i = Math.ceil(d0 / step - 1e-9); i * step <= d1 + 1e-9; i++) list.push(Number((i * step).toPrecision(12)));
    if (close && !(list[list.length - 1] >= d1 - 1e-9)) list.push(list.length * step);
    return list;
  }

  const LOGS = [1, 10, 60, 600, 3600, 6 * HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY, 3650 * DAY];
  const logFloor = v => LOGS.filter(t => t <= v).pop() || 1;
  const logSpanTicks = (d0, d1, room) => {
    const inside = LOGS.filter(t => t >= d0 * 0.999 && t <= d1 * 1.001);
    return inside.filter((t, i) => room >= inside.length || i % Math.ceil(inside.length / room) === 0);
  };

  /* ---- drawing ---- */

  function node(space, tag, attributes, children) {
    const made = space ? document.createElementNS(space, tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {}))
      if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
    for (const child of [].concat(children === undefined ? [] : children))
      made.append(child && child.nodeType ? child : document.createTextNode(String(child)));
    return made;
  }
  const html = (tag, attributes, children) => node(null, tag, attributes, children);
  const svg = (tag, attributes, children) => node(SVG, tag, attributes, children);

  const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize) || 16;
  const colour = i => "var(--c" + i % 8 + ")";
  const dash = i => DASHES[(i + Math.floor(i / 8)) % 8];

  /* Thin things grow with the text: a length in the pixels of a 16-pixel rem. */
  const px = n => n * rem() / 16;
  const stroke = (i, width) => `stroke:${colour(i)};stroke-width:${px(width)}px;` + (dash(i) ? `stroke-dasharray:${dash(i).split(" ").map(px).join(" ")}` : "");

  let measurer = null;
  function textWidth(text, size) {
    measurer = measurer || document.createElement("canvas").getContext("2d");
    measurer.font = size + "px " + getComputedStyle(document.body).fontFamily;
    return measurer.measureText(text).width;
  }

  function fit(text, room, size) {
    if (textWidth(text, size) <= room) return text;
    let n = text.length;
    while (n > 1 && textWidth(text.slice(0, n) + "\u2026", size) > room) n--;
    return text.slice(0, n) + "\u2026";
  }

  /* The shape that belongs to run `i`, centred at x, y. */
  function marker(i, x, y, r, attributes) {
    const p = [
      `M${-r} 0A${r} ${r} 0 1 0 ${r} 0A${r} ${r} 0 1 0 ${-r} 0Z`,
      `M${-r} ${-r}H${r}V${r}H${-r}Z`,
      `M0 ${-1.2 * r}L${1.15 * r} ${0.9 * r}H${-1.15 * r}Z`,
      `M0 ${-1.35 * r}L${1.35 * r} 0L0 ${1.35 * r}L${-1.35 * r} 0Z`,
      `M${-r} ${-r / 3}H${-r / 3}V${-r}H${r / 3}V${-r / 3}H${r}V${r / 3}H${r / 3}V${r}H${-r / 3}V${r / 3}H${-r}Z`,
      `M0 ${1.2 * r}L${1.15 * r} ${-0.9 * r}H${-1.15 * r}Z`,
      `M${-1.3 * r} ${-r / 2}H${1.3 * r}V${r / 2}H${-1.3 * r}Z`,
      `M${-r / 2} ${-1.3 * r}H${r / 2}V${1.3 * r}H${-r / 2}Z`,
    ][i % 8];
    return svg("path", Object.assign({ d: p, transform: `translate(${x} ${y})`, style: `fill:${colour(i)}` }, attributes));
  }

  /* The key of a run in legends, tables and tips: its line and its marker. */
  function swatch(i) {
    return svg("svg", { width: "2.2em", height: "0.9em", viewBox: "0 0 36 14", "aria-hidden": "true" }, [
      svg("line", { x1: 1, x2: 35, y1: 7, y2: 7, "stroke-width": 2.4, "stroke-dasharray": dash(i), style: `stroke:${colour(i)}` }),
      marker(i, 18, 7, 4.4),
    ]);
  }

  /* An empty drawing with axes to be. */
  function frame(host, width, height, margin) {
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, "aria-hidden": "true", focusable: "false" });
    host.replaceChildren(root);
    return { root, width, height, left: margin.left, right: width - margin.right, top: margin.top,
      bottom: height - margin.bottom, add: (tag, attributes, children) => root.appendChild(svg(tag, attributes, children)) };
  }

  function xAxis(f, scale, list, name, label) {
    const size = 0.75 * rem();
    for (const t of list) {
      const x = scale(t);
      f.add("line", { class: "grid", x1: x, x2: x, y1: f.top, y2: f.bottom });
      f.add("text", { x, y: f.bottom + 1.4 * size, "text-anchor": x > f.right - size && textWidth(name(t), size) / 2 > f.width - x ? "end" : "middle" }, name(t));
    }
    f.add("line", { class: "axis", x1: f.left, x2: f.right, y1: f.bottom, y2: f.bottom });
    if (label) f.add("text", { x: (f.left + f.right) / 2, y: f.bottom + 3 * size, "text-anchor": "middle" }, label);
  }

  function yAxis(f, scale, list, name, label) {
    const size = 0.75 * rem();
    for (const t of list) {
      const y = scale(t);
      f.add("line", { class: "grid", x1: f.left, x2: f.right, y1: y, y2: y });
      f.add("text", { x: f.left - 0.5 * size, y: y + 0.35 * size, "text-anchor": "end" }, name(t));
    }
    if (label) f.add("text", { x: 0, y: f.top - 0.8 * size }, label);
  }

  /* ---- the tooltip and the keyboard ---- */

  let tip = null, live = null;

  function tipFill(said) {
    if (!tip) {
      tip = html("div", { id: "tip", role: "tooltip", hidden: true });
      live = html("div", { class: "sr", "aria-live": "polite" });
      document.body.append(tip, live);
    }
    tip.replaceChildren(html("div", { class: "title" }, said.title));
    for (const row of said.rows || [])
      tip.append(html("div", { class: "row" }, [row.run === undefined ? "" : swatch(row.run), html("span", {}, row.name), html("b", {}, row.value)]));
    if (said.note) tip.append(html("p", {}, said.note));
    tip.hidden = false;
  }

  function tipShow(said, x, y, speak) {
    tipFill(said);
    const box = tip.getBoundingClientRect(), gap = 14;
    let left = x + gap, top = y + gap;
    if (left + box.width > innerWidth - 4) left = Math.max(4, x - gap - box.width);
    if (top + box.height > innerHeight - 4) top = Math.max(4, y - gap - box.height);
    tip.style.left = left + "px";
    tip.style.top = top + "px";
    if (speak) live.textContent = said.title + ". " + (said.rows || []).map(r => r.name + ": " + r.value).join(", ");
  }

  function tipHide() {
    if (tip) tip.hidden = true;
  }

  /* Along x: `inspect(x)` says what is there. Pointer, touch and arrow keys move a line. */
  function followX(host, f, inspect) {
    const line = f.add("line", { class: "cross", y1: f.top, y2: f.bottom, visibility: "hidden" });
    let at = (f.left + f.right) / 2;
    const show = (to, x, y, speak) => {
      at = Math.min(f.right, Math.max(f.left, to));
      const said = inspect(at);
      if (!said) return hide();
      line.setAttribute("x1", at);
      line.setAttribute("x2", at);
      line.setAttribute("visibility", "visible");
      tipShow(said, x, y, speak);
    };
    const hide = () => { line.setAttribute("visibility", "hidden"); tipHide(); };
    host.onpointermove = host.onpointerdown = e => {
      const box = f.root.getBoundingClientRect();
      show((e.clientX - box.left) / box.width * f.width, e.clientX, e.clientY, false);
    };
    host.onpointerleave = host.onblur = hide;
    host.onkeydown = e => {
      if (e.key === "Escape") return hide();
      const way = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (!way) return;
      e.preventDefault();
      const box = f.root.getBoundingClientRect();
      const to = at + way * (f.right - f.left) / (e.shiftKey ? 10 : 100);
      show(to, box.left + to / f.width * box.width, box.top + f.top, true);
    };
  }

  /* Over things: `items` have x, y, w, h and say(), and `hit`, where a larger area belongs to them. Pointer finds one,
   * arrow keys go from one to the next. */
  function followItems(host, f, items) {
    const mark = f.add("rect", { class: "mark", visibility: "hidden", rx: 2 });
    let at = -1;
    const hide = () => { mark.setAttribute("visibility", "hidden"); tipHide(); };
    const show = (i, x, y, speak) => {
      const item = items[at = i];
      for (const [key, value] of [["x", item.x - 1], ["y", item.y - 1], ["width", item.w + 2], ["height", item.h + 2]])
        mark.setAttribute(key, value);
      mark.setAttribute("visibility", "visible");
      tipShow(item.say(), x, y, speak);
    };
    host.onpointermove = host.onpointerdown = e => {
      const box = f.root.getBoundingClientRect();
      const x = (e.clientX - box.left) / box.width * f.width, y = (e.clientY - box.top) / box.height * f.height;
      let best = -1, distance = 6;
      items.forEach((item, i) => {
        const area = item.hit || item;
        const d = Math.max(area.x - x, 0, x - area.x - area.w) + Math.max(area.y - y, 0, y - area.y - area.h);
        if (d < distance) { distance = d; best = i; }
      });
      if (best < 0) return hide();
      show(best, e.clientX, e.clientY, false);
    };
    host.onpointerleave = host.onblur = hide;
    host.onkeydown = e => {
      if (e.key === "Escape") return hide();
      const way = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[e.key];
      if (!way || !items.length) return;
      e.preventDefault();
      const i = (at + way + items.length) % items.length, box = f.root.getBoundingClientRect();
      const item = items[i];
      show(i, box.left + (item.x + item.w / 2) / f.width * box.width, box.top + item.y / f.height * box.height, true);
    };
  }

  return { span, count, few, percent, exact, linear, log, ticks, spanTick, spanTicks, logFloor, logSpanTicks, html, svg, rem,
    colour, dash, fit, textWidth, marker, swatch, px, stroke, frame, xAxis, yAxis, followX, followItems, tipHide, HOUR, DAY };
})();
