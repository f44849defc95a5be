// SPDX-License-Identifier: Apache-2.0
// dom.js - a page as a function of its data: h() describes elements, paint() makes the document equal to them.
//
// Text only ever becomes text nodes and attributes, never markup, so that nothing a user wrote is read as HTML. Styles
// go through the style object: the content-security policy allows no style attribute.

const SVG = 'http://www.w3.org/2000/svg';

/** An element: h('a', {href}, 'text', [more], null). Children that are null or false are left out. */
export function h(tag, props, ...children) {
  return { tag, props: props || {}, children: flat(children, []), key: props && props.key, el: null };
}

function flat(list, out) {
  for (const child of list) {
    if (child === null || child === undefined || child === false || child === true) continue;
    if (Array.isArray(child)) flat(child, out);
    else out.push(typeof child === 'object' ? child : { tag: null, text: String(child), el: null });
  }
  return out;
}

function prop_set(el, name, value, old) {
  if (name.startsWith('on')) {
    const kind = name.slice(2);
    if (!el.heard) el.heard = {};
    if (!el.heard[kind] && value) el.addEventListener(kind, event => el.heard[kind] && el.heard[kind](event));
    el.heard[kind] = value || null;
  } else if (name === 'style') {
    for (const key in old || {}) if (!value || !(key in value)) el.style.removeProperty(key);
    for (const key in value || {}) if (!old || old[key] !== value[key]) el.style.setProperty(key, value[key]);
  } else if (name === 'value' || name === 'checked' || name === 'selected' || name === 'indeterminate') {
    if (el[name] !== value) el[name] = value === undefined || value === null ? '' : value;
  } else if (value === false || value === null || value === undefined) {
    el.removeAttribute(name);
  } else {
    el.setAttribute(name, value === true ? '' : value);
  }
}

const SILENT = { key: 1, mount: 1, update: 1, unmount: 1 };

function props_patch(el, now, was) {
  for (const name in was) if (!(name in now) && !SILENT[name]) prop_set(el, name, undefined, was[name]);
  for (const name in now) {
    if (SILENT[name]) continue;
    // What a person typed may differ from what was last drawn; the page's data win only when they changed.
    if (now[name] !== was[name]) prop_set(el, name, now[name], was[name]);
  }
}

function make(node, space) {
  if (node.tag === null) return (node.el = document.createTextNode(node.text));
  const ns = node.tag === 'svg' ? SVG : node.tag === 'foreignObject' ? null : space;
  const el = ns ? document.createElementNS(ns, node.tag) : document.createElement(node.tag);
  node.el = el;
  for (const child of node.children) el.appendChild(make(child, ns));
  props_patch(el, node.props, {});
  if (node.props.mount) mounted.push(node);
  return el;
}

function gone(node) {
  if (node.tag === null) return;
  if (node.props.unmount) node.props.unmount(node.el);
  node.children.forEach(gone);
}

// Elements made since the last painting; told when they are part of the document.
let mounted = [];

// One that was told of its being there is not made into something else.
const same = (a, b) => a.tag === b.tag && a.key === b.key && (a.tag === null || !a.props.mount === !b.props.mount);

function patch(was, now, space) {
  const el = (now.el = was.el);
  if (now.tag === null) {
    if (was.text !== now.text) el.data = now.text;
    return;
  }
  const ns = now.tag === 'svg' ? SVG : space;
  children_patch(el, was.children, now.children, ns);
  props_patch(el, now.props, was.props);
  if (now.props.update) now.props.update(el);
}

function children_patch(el, was, now, ns) {
  let start = 0, a = was.length, b = now.length;
  while (start < a && start < b && same(was[start], now[start])) {
    patch(was[start], now[start], ns);
    start++;
  }
  while (a > start && b > start && same(was[a - 1], now[b - 1])) patch(was[--a], now[--b], ns);
  const kept = new Map();
  const loose = [];
  for (let i = start; i < a; i++) {
    if (was[i].key !== undefined) kept.set(was[i].key, was[i]);
    else loose.push(was[i]);
  }
  const used = new Set();
  let after = b < now.length ? now[b].el : null;
  for (let i = b - 1; i >= start; i--) {
    const node = now[i];
    let old = node.key !== undefined ? kept.get(node.key) : loose.find(o => !used.has(o) && same(o, node));
    if (old && !same(old, node)) old = undefined;
    if (old) {
      used.add(old);
      patch(old, node, ns);
      if (node.el.nextSibling !== after) el.insertBefore(node.el, after);
    } else {
      el.insertBefore(make(node, ns), after);
    }
    after = node.el;
  }
  for (let i = start; i < a; i++)
    if (!used.has(was[i])) {
      gone(was[i]);
      el.removeChild(was[i].el);
    }
}

/** Makes the children of `root` equal to `nodes`. */
export function paint(root, nodes) {
  const now = flat([nodes], []);
  children_patch(root, root.painted || [], now, null);
  root.painted = now;
  const list = mounted;
  mounted = [];
  for (const node of list) if (node.el.isConnected) node.props.mount(node.el);
}
