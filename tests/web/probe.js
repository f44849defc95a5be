/* SPDX-License-Identifier: Apache-2.0 */
/* probe.js - put behind the report's own script by check_report.sh: uses the page as a reader would and leaves what it
 * found in attributes of <html>. */
(() => {
  const root = document.documentElement, plots = [...document.querySelectorAll(".plot")], found = [];
  const say = (what, ok) => { if (!ok) found.push(what); };
  const tip = () => document.getElementById("tip");

  for (const host of plots) {
    const svg = host.querySelector("svg"), box = svg && svg.getBoundingClientRect();
    say(host.id + ": empty", svg && Number(host.dataset.plotted) > 0);
    if (!svg) continue;
    const bad = [...svg.querySelectorAll("*")].find(e => [...e.attributes].some(a => /NaN|Infinity|undefined/.test(a.value)));
    say(host.id + ": not a number in " + (bad && bad.outerHTML.slice(0, 120)), !bad);
    let seen = 0;
    for (let i = 1; i < 60; i++) {
      const x = box.left + box.width * i / 60, y = box.top + box.height * (i % 9 + 0.5) / 9;
      host.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y, bubbles: true }));
      if (tip() && !tip().hidden && tip().textContent.length > 5) seen++;
      if (tip() && !tip().hidden) say(host.id + ": tip without a value: " + tip().textContent, !/NaN|undefined|null/.test(tip().textContent));
    }
    say(host.id + ": pointing shows nothing", seen > 0);
    host.dispatchEvent(new PointerEvent("pointerleave", {}));
    say(host.id + ": the tip stays", !tip() || tip().hidden);
    host.focus();
    say(host.id + ": cannot be focused", document.activeElement === host);
    host.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    say(host.id + ": the keyboard shows nothing", tip() && !tip().hidden);
    host.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    say(host.id + ": Escape does not hide", tip() && tip().hidden);
  }
  /* What the marks of the chart say, pointed at one by one: small things lie over bars, and are found first. */
  const said = [], chart = document.getElementById("plot-gantt");
  for (const mark of chart ? chart.querySelectorAll(".move, .grown, .shrunk, .packed, .unpacked") : []) {
    const box = mark.getBoundingClientRect(), arrow = mark.classList.contains("move"), end = arrow && mark.getPointAtLength(mark.getTotalLength());
    const at = arrow ? end.matrixTransform(mark.getScreenCTM()) : { x: box.left + box.width / 2, y: box.top + box.height / 2 };
    chart.dispatchEvent(new PointerEvent("pointermove", { clientX: at.x, clientY: at.y, bubbles: true }));
    const text = tip() && !tip().hidden ? tip().textContent : "";
    say("gantt: a " + mark.getAttribute("class") + " says " + text, /moves|grows|shrinks|packed|alone again/.test(text));
    said.push(text);
  }
  root.setAttribute("data-marks", said.join(" | "));
  for (const button of document.querySelectorAll(".legend button")) {
    button.click();
    say("legend: not switched off", button.getAttribute("aria-pressed") === "false");
  }
  if (document.querySelector(".legend")) say("legend: all off says nothing", /switched off/.test(document.getElementById("plot-jct").textContent));
  document.querySelectorAll(".legend button").forEach(b => b.click());
  for (const select of document.querySelectorAll("select"))
    for (let i = select.options.length - 1; i >= 0; i--) { select.selectedIndex = i; select.dispatchEvent(new Event("change")); }
  document.querySelectorAll(".controls button").forEach(b => b.click());
  document.getElementById("theme").click();
  say("theme: not switched", root.dataset.theme === "dark" || root.dataset.theme === "light");
  say("page: wider than the window by " + (root.scrollWidth - innerWidth), root.scrollWidth <= innerWidth);
  say("page: an element of the data got in", !document.querySelector("img, iframe, object, link"));
  for (const table of document.querySelectorAll("details")) table.open = true;
  say("tables: a number is missing", !/NaN|undefined/.test(document.querySelector("main").textContent));
  root.setAttribute("data-probed", plots.length);
  root.setAttribute("data-found", found.join(" | "));
})();
