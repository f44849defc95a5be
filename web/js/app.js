// SPDX-License-Identifier: Apache-2.0
// app.js - starts it all: who is here, which view, what it needs, and drawing it when something changed.
import { get, on_refused, once_end, token, token_keep } from './api.js';
import { entry_of } from './entry.js';
import { issuer_begin, issuer_end, issuer_get } from './issuer.js';
import { paint } from './dom.js';
import { Live } from './live.js';
import { Store } from './store.js';
import { route_of } from './route.js';
import { shell } from './shell.js';
import { vc_colors } from './color.js';

const root = document.getElementById('app');
const modules = new Map();

const app = {
  who: null, version: null, route: route_of(location.pathname, location.search), page: null, page_error: null,
  entry: 'starting', // starting signin expired unreachable in
  live: 'connecting', restarted: 0, events: [], toasts: [], dialog: null, menu: false,
  theme: localStorage.getItem('muster-theme') || 'auto', states: new Map(),
};

const store = new Store(() => draw());
const live = new Live({
  event(event) {
    app.events.unshift(event);
    if (app.events.length > 200) app.events.length = 200;
    store.event(event);
    if (app.page && app.page.event) app.page.event(context(), event);
  },
  state(state) {
    app.live = state;
    store.paused = state === 'lost' && Date.now() - live.since > 60e3;
    if (state === 'live') store.paused = false;
    draw();
  },
  reset() {
    identify(); // it may be another program than before, and somebody else may be signed in
    store.stale();
    draw();
  },
});

function context() {
  const key = app.route.page + '/' + (app.route.id || '');
  if (!app.states.has(key)) app.states.set(key, {});
  return {
    app, store, live, route: app.route, query: app.route.query, id: app.route.id, who: app.who, now: Date.now(),
    state: app.states.get(key), data: path => store.read(path), redraw: draw, go, toast, ask, dialog, close,
    may: role => rank(app.who && app.who.role) >= rank(role),
  };
}

const RANKS = ['nobody', 'viewer', 'user', 'vc-admin', 'admin'];
const rank = role => RANKS.indexOf(role);

let waiting = false;
function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    paint(root, shell(context()));
    document.documentElement.dataset.theme = app.theme;
    if (app.entry === 'in' && app.page) {
      const title = app.page.title(context());
      document.title = title + ' \u00b7 ' + ((app.version && app.version.cluster) || 'muster');
    }
  });
}
app.draw = draw;

function needs() {
  if (app.entry !== 'in' || !app.page) return;
  const list = app.page.needs ? app.page.needs(context()) : [];
  store.need(list);
}
app.needs = needs;

async function show() {
  const wanted = app.route.page;
  // What was shown before does not fit this address.
  app.page = modules.get(wanted) || null;
  if (!wanted) return draw();
  try {
    if (!modules.has(wanted)) modules.set(wanted, (await import('/pages/' + wanted + '.js')).default);
    app.page_error = null;
  } catch (error) {
    app.page_error = error;
  }
  if (app.route.page !== wanted) return;
  app.page = modules.get(wanted) || null;
  needs();
  draw();
}

/** To another view of the dashboard. */
function go(href, replace) {
  const url = new URL(href, location.href);
  const moved = url.pathname !== location.pathname;
  history[replace ? 'replaceState' : 'pushState'](null, '', url);
  app.route = route_of(url.pathname, url.search);
  app.menu = false;
  if (moved) {
    window.scrollTo(0, 0);
    requestAnimationFrame(() => {
      const main = document.getElementById('main');
      if (main) main.focus({ preventScroll: true });
    });
  }
  show();
}

document.addEventListener('click', event => {
  const a = event.target.closest && event.target.closest('a[href]');
  if (!a || a.target || a.hasAttribute('download') || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const url = new URL(a.href, location.href);
  if (url.origin !== location.origin || url.pathname.startsWith('/api') || url.pathname === '/metrics') return;
  if (url.hash && url.pathname === location.pathname) return;
  event.preventDefault();
  go(url.href);
});
window.addEventListener('popstate', () => {
  app.route = route_of(location.pathname, location.search);
  show();
});

let toasts = 0;
/** A word at the edge, for a while. */
function toast(text, kind) {
  const id = ++toasts;
  app.toasts.push({ id, text, kind: kind || 'ok' });
  setTimeout(() => {
    app.toasts = app.toasts.filter(t => t.id !== id);
    draw();
  }, kind === 'bad' ? 9000 : 4000);
  draw();
}

function dialog(spec) {
  app.dialog = { ...spec, from: document.activeElement };
  draw();
}
function close() {
  const from = app.dialog && app.dialog.from;
  app.dialog = null;
  draw();
  if (from && from.focus) requestAnimationFrame(() => from.focus());
}

/** Does something, says how it went; true when it went well. */
async function ask(what, call) {
  try {
    await call();
    toast(what);
    return true;
  } catch (error) {
    toast(what + ': ' + error.message + (error.hints && error.hints.length ? ' \u2014 ' + error.hints.join(' ') : ''), 'bad');
    return false;
  }
}

async function identify() {
  try {
    app.version = await get('/version');
    app.who = await get('/whoami');
    app.entry = 'in';
    const [vcs, scheduler] = await Promise.all([get('/vcs'), get('/scheduler')]);
    if (app.started && app.started !== scheduler.started_time) app.restarted = Date.now();
    app.started = scheduler.started_time;
    vc_colors.know(vcs.items.map(vc => vc.name));
    live.start();
    if (live.state === 'lost') live.again();
    await show();
  } catch (error) {
    app.entry = entry_of(error.status, !!token(), app.entry);
    if (error.status === 401 && app.issuer === undefined) app.issuer = await issuer_get();
    if (app.entry === 'unreachable') setTimeout(() => app.entry === 'unreachable' && identify(), 2000);
  }
  draw();
}

app.sign_in = async (text, long) => {
  token_keep(text.trim(), long);
  app.entry = 'starting';
  draw();
  await identify();
};
app.sign_in_issuer = () => issuer_begin(app.issuer);
app.sign_out = () => {
  token_keep('', false);
  live.stop();
  app.who = null;
  store.items.clear();
  app.entry = 'signin';
  app.signed_out = true;
  draw();
  identify();
};
app.theme_set = theme => {
  app.theme = theme;
  localStorage.setItem('muster-theme', theme);
  draw();
};

on_refused(() => {
  if (app.entry !== 'in') return;
  app.entry = token() ? 'expired' : 'signin';
  live.stop();
  draw();
});

// Keys: g then a letter goes to a page, / searches, ? tells.
let prefix = 0;
const KEYS = { o: '/', q: '/queue', t: '/topology', l: '/timeline', j: '/jobs', v: '/vcs', n: '/nodes', r: '/reports', w: '/whatif', s: '/submit' };
document.addEventListener('keydown', event => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable;
  if (event.key === 'Escape' && app.menu) {
    app.menu = false;
    draw();
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || app.dialog) return;
  if (event.key === 'g') prefix = Date.now();
  else if (Date.now() - prefix < 1200 && KEYS[event.key]) {
    prefix = 0;
    event.preventDefault();
    go(KEYS[event.key]);
  } else if (event.key === '/') {
    const search = document.querySelector('[data-search]');
    if (search) {
      event.preventDefault();
      search.focus();
    }
  } else if (event.key === '?') {
    dialog({ kind: 'keys', title: 'Keys' });
  }
});

// Spans of time go on while nothing else happens.
setInterval(() => {
  if (document.visibilityState === 'visible' && app.entry === 'in') draw();
}, 1000);
matchMedia('(max-width: 720px)').addEventListener('change', draw);

draw();
Promise.all([issuer_end(), once_end()]).then(wrong => {
  app.sign_error = wrong.find(Boolean) || '';
  identify();
});
