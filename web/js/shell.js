// SPDX-License-Identifier: Apache-2.0
// shell.js - what is around every page: navigation, who and how live, banners, dialogs; and the ways not to be in.
import { h } from './dom.js';
import { icon } from './icon.js';
import { PAGES } from './route.js';
import { button, copy, failed, field, loading } from './ui.js';
import { span } from './format.js';
import { plain } from './text.js';
import { get } from './api.js';

export function shell(ctx) {
  const { app } = ctx;
  if (app.entry !== 'in') return [gate(ctx), toasts(app)];
  return [
    h('a', { class: 'skip', href: '#main' }, 'Skip to content'),
    h('div', { class: 'frame' + (app.menu ? ' menu-open' : '') },
      sidebar(ctx),
      h('div', { class: 'column' },
        topbar(ctx),
        banner(ctx),
        h('main', { id: 'main', tabindex: '-1' }, content(ctx)))),
    tabbar(ctx),
    toasts(app),
    app.dialog ? modal(ctx, app.dialog) : null,
  ];
}

function content(ctx) {
  const { app } = ctx;
  if (!app.route.page) return h('div', { class: 'empty' }, icon('search', 'big'), h('strong', null, 'There is no such page'), h('p', null, h('a', { href: '/' }, 'To the overview')));
  if (app.page_error) return h('div', { class: 'empty' }, icon('warn', 'big'), h('strong', null, 'This page could not be loaded'), h('p', { class: 'muted' }, 'The controller may have been replaced by another version. Load the page again.'), button('Load again', () => location.reload()));
  if (!app.page) return loading();
  const role = (PAGES.find(p => p.id === app.route.page) || {}).role;
  return [
    h('div', { class: 'page-head', key: 'head' }, h('h1', null, app.page.title(ctx)), twins(ctx)),
    h('div', { key: 'page-' + app.route.page + (app.route.id || ''), class: 'page page-' + app.route.page }, role && !ctx.may(role) ? no_role(ctx, role) : app.page.view(ctx)),
  ];
}

const no_role = (ctx, role) => h('div', { class: 'empty' }, icon('lock', 'big'), h('strong', null, 'Your role does not allow this'),
  h('p', { class: 'muted' }, 'You are ' + (ctx.who.user || 'a guest') + ' (' + ctx.who.role + '); this needs the role ' + role + '. Sign in with another token, or ask an administrator for one: ',
    h('code', null, 'muster token new --role ' + role)), button('Sign in with a token', ctx.app.sign_out, { class: 'primary' }));

/** The same as a command, and as JSON. */
function twins(ctx) {
  const { page } = ctx.app;
  const words = page.command && page.command(ctx), path = page.json && page.json(ctx);
  return h('div', { class: 'twins' },
    words ? h('button', { class: 'button quiet command', type: 'button', title: 'Copy as a command: ' + words, onclick: async () => ctx.toast((await copy(words)) ? 'Copied: ' + words : 'The browser does not let copy; the command is: ' + words) },
      icon('copy'), h('code', null, words), h('span', { class: 'sr' }, 'copy as a command')) : null,
    path ? button('JSON', () => json_dialog(ctx, path, words), { class: 'quiet', icon: 'code', title: 'GET /api/v1' + path }) : null);
}

async function json_dialog(ctx, path, words) {
  try {
    const value = await get(path);
    ctx.dialog({ kind: 'json', title: 'GET /api/v1' + path, words: words ? words + (path.includes('/why') ? '' : ' --json') : null, text: JSON.stringify(value, null, 2) });
  } catch (error) {
    ctx.toast(error.message, 'bad');
  }
}

function sidebar(ctx) {
  const { app } = ctx;
  const here = app.route.page === 'job' || app.route.page === 'array' ? 'jobs' : app.route.page === 'node' ? 'nodes' : app.route.page;
  return h('nav', { class: 'sidebar', 'aria-label': 'Pages' },
    h('a', { class: 'brand', href: '/' }, h('img', { src: '/icon.svg', alt: '', width: 28, height: 28 }), h('span', null, 'muster'), h('span', { class: 'cluster' }, plain(app.version && app.version.cluster, 30))),
    h('ul', null, PAGES.filter(p => !p.role || ctx.may(p.role)).map(p => h('li', { key: p.id },
      h('a', { href: p.path, 'aria-current': here === p.id ? 'page' : undefined }, icon(p.icon), p.label)))),
    h('div', { class: 'side-foot' },
      h('a', { href: '/api/v1/openapi.json', target: '_blank', rel: 'noopener' }, 'API'), ' \u00b7 ', h('a', { href: '/metrics', target: '_blank', rel: 'noopener' }, 'Metrics'), ' \u00b7 ',
      h('button', { class: 'plain', type: 'button', onclick: () => ctx.dialog({ kind: 'keys', title: 'Keys' }) }, 'Keys ?'),
      h('div', { class: 'muted small' }, 'muster ' + plain(app.version && app.version.version, 20))));
}

const PHONE = ['overview', 'queue', 'topology', 'jobs'];
function tabbar(ctx) {
  const { app } = ctx;
  return h('nav', { class: 'tabbar', 'aria-label': 'Main pages' },
    PHONE.map(id => PAGES.find(p => p.id === id)).map(p => h('a', { key: p.id, href: p.path, 'aria-current': app.route.page === p.id ? 'page' : undefined }, icon(p.icon), p.label)),
    h('button', { type: 'button', 'aria-expanded': String(app.menu), onclick: () => { app.menu = !app.menu; ctx.redraw(); } }, icon('more'), 'More'));
}

const THEMES = { auto: ['auto', 'light', 'as the system'], light: ['sun', 'dark', 'light'], dark: ['moon', 'auto', 'dark'] };

function topbar(ctx) {
  const { app } = ctx, theme = THEMES[app.theme] || THEMES.auto;
  return h('header', { class: 'topbar' },
    h('span', { class: 'brand-small' }, h('img', { src: '/icon.svg', alt: '', width: 22, height: 22 }), plain(app.version && app.version.cluster, 24)),
    find_box(ctx),
    connection(ctx),
    button('', () => app.theme_set(theme[1]), { icon: theme[0], class: 'quiet round', title: 'Colours: ' + theme[2] + ' (change)' }),
    h('span', { class: 'who', title: 'role ' + ctx.who.role + ', by ' + ctx.who.via + (ctx.who.scope ? ', only ' + ctx.who.scope : '') }, icon('user'), h('span', null, plain(ctx.who.user, 24) || 'guest'), h('span', { class: 'role' }, ctx.who.role)),
    ctx.who.via === 'token' ? button('', app.sign_out, { icon: 'out', class: 'quiet round', title: 'Sign out' })
      : ctx.who.via === 'anonymous' ? button('Sign in', () => { app.entry = 'signin'; ctx.redraw(); }, { class: 'small' }) : null);
}

/** To a job by its number, a node by its name, else the jobs of that name. */
function find_box(ctx) {
  return h('form', { class: 'find', role: 'search', onsubmit: e => {
    e.preventDefault();
    const text = e.target.elements.find.value.trim();
    if (!text) return;
    if (/^\d+(_\d+)?$/.test(text)) ctx.go('/jobs/' + text);
    else ctx.go('/jobs?find=' + encodeURIComponent(text));
    e.target.elements.find.value = '';
  } }, icon('search'), h('input', { name: 'find', type: 'search', 'data-search': true, 'aria-label': 'Find a job by number or name', placeholder: 'Job number or name', autocomplete: 'off', maxlength: 128 }));
}

function connection(ctx) {
  const words = { live: 'live', connecting: 'connecting', lost: 'no connection', paused: 'paused' };
  return h('span', { class: 'conn ' + ctx.app.live, role: 'status', title: ctx.app.live === 'live' ? 'Changes are shown as they happen' : 'What is shown may be old' }, h('span', { class: 'conn-dot', 'aria-hidden': 'true' }), words[ctx.app.live]);
}

function banner(ctx) {
  const { app, live } = ctx;
  if (app.live === 'lost') {
    const seconds = (Date.now() - live.since) / 1000;
    return h('div', { class: 'banner bad', role: 'alert', key: 'banner' }, icon('wifi'),
      h('span', null, h('strong', null, 'No connection to the controller for ' + span(seconds) + '. '), 'What you see is how it was then. Jobs go on without it; it is tried again by itself.'),
      button('Try now', () => live.again(), { class: 'small' }));
  }
  if (app.restarted && Date.now() - app.restarted < 15e3)
    return h('div', { class: 'banner info', role: 'status', key: 'banner' }, icon('refresh'), h('span', null, 'The controller was restarted. Everything was read again; jobs were not touched.'));
  return null;
}

const toasts = app => h('div', { class: 'toasts', 'aria-live': 'polite', key: 'toasts' }, app.toasts.map(t => h('div', { key: t.id, class: 'toast ' + t.kind }, icon(t.kind === 'bad' ? 'warn' : 'check'), h('span', null, plain(t.text, 400)))));

/** Not in: why, and what to do. */
function gate(ctx) {
  const { app } = ctx;
  const box = (title, ...rest) => h('main', { class: 'gate', id: 'main', key: 'gate' }, h('div', { class: 'gate-box' }, h('div', { class: 'brand' }, h('img', { src: '/icon.svg', alt: '', width: 36, height: 36 }), h('span', null, 'muster')), h('h1', null, title), rest));
  if (app.entry === 'starting') return box('Connecting\u2026', loading());
  if (app.entry === 'unreachable') return box('The controller does not answer', h('p', null, 'It is tried again every two seconds. Jobs that run go on without it.'), h('p', { class: 'muted' }, 'On its machine: ', h('code', null, 'systemctl status musterd')), loading());
  const expired = app.entry === 'expired', forbidden = app.entry === 'forbidden';
  return box(expired ? 'Your token is no longer accepted' : forbidden ? 'This token may not look here' : 'Sign in',
    h('p', null, expired ? 'It has expired, or was taken back. Make another one in a terminal, or ask an administrator for one, and paste it here:' : forbidden ? 'It is for nodes, not for people. Paste one of your own:' : 'Paste a token. You get one in a terminal on the cluster:'),
    h('pre', { class: 'say' }, 'muster token new'),
    h('form', { class: 'signin', onsubmit: e => {
      e.preventDefault();
      const f = e.target.elements;
      if (f.token.value.trim()) app.sign_in(f.token.value, f.long.checked);
    } },
      field('Token', h('input', { name: 'token', type: 'password', autocomplete: 'current-password', required: true, placeholder: 'mus_\u2026', spellcheck: 'false' })),
      h('label', { class: 'check' }, h('input', { name: 'long', type: 'checkbox' }), 'Keep me signed in on this computer'),
      button('Sign in', null, { type: 'submit', class: 'primary' })),
    app.sign_error ? h('p', { class: 'bad', role: 'alert' }, plain(app.sign_error, 300)) : null,
    app.issuer ? button('Sign in with ' + plain(new URL(app.issuer.issuer).host, 60), app.sign_in_issuer, {}) : null,
    h('p', { class: 'muted small' }, 'A controller that was started with ', h('code', null, 'musterd --dev'), ' prints its token, and a link that signs in once.'));
}

const KEYS = [['g o', 'Overview'], ['g q', 'Queue'], ['g t', 'Topology'], ['g l', 'Timeline'], ['g j', 'Jobs'], ['g v', 'Virtual clusters'], ['g n', 'Nodes'], ['g r', 'Reports'], ['g w', 'What-if'], ['g s', 'Submit'], ['/', 'Find a job'], ['?', 'These keys'], ['Esc', 'Close']];

function modal(ctx, d) {
  const done = () => ctx.close();
  return h('dialog', { class: 'modal modal-' + d.kind, key: 'modal', 'aria-label': d.title, mount: el => open_box(el), oncancel: e => { e.preventDefault(); done(); }, onclick: e => e.target.tagName === 'DIALOG' && done() },
    h('div', { class: 'modal-box' },
      h('header', null, h('h2', null, d.title), button('', done, { icon: 'cross', class: 'quiet round', title: 'Close' })),
      d.kind === 'json' ? [
        h('p', { class: 'small muted' }, d.words ? ['The same in a terminal: ', h('code', null, d.words)] : null),
        h('pre', { class: 'json', tabindex: '0' }, d.text.length > 200000 ? d.text.slice(0, 200000) + '\n\u2026 cut; ask the address itself for all of it' : d.text),
        h('footer', null, button('Copy', async () => ctx.toast((await copy(d.text)) ? 'Copied' : 'The browser does not let copy'), { icon: 'copy' }), button('Close', done))]
      : d.kind === 'keys' ? h('dl', { class: 'keys' }, KEYS.map(([k, what]) => [h('dt', null, h('kbd', null, k)), h('dd', null, what)]))
      : d.kind === 'confirm' ? confirm_box(ctx, d, done) : d.view(ctx, done)));
}

/** The first thing to fill in has the keyboard, or the way back: not the cross. */
function open_box(el) {
  el.showModal();
  const first = el.querySelector('form input, form select') || el.querySelector('footer button');
  if (first) first.focus();
}

function confirm_box(ctx, d, done) {
  return h('form', { method: 'dialog', onsubmit: async e => {
    e.preventDefault();
    const values = Object.fromEntries(new FormData(e.target));
    done();
    await d.yes(values);
  } },
    h('p', null, d.text), (d.fields || []).map(f => field(f.label, f.choices ? h('select', { name: f.name }, f.choices.map(c => h('option', { key: c, value: c, selected: c === f.value }, c)))
      : h('input', { name: f.name, type: f.type || 'text', min: f.type === 'number' ? '0' : undefined, step: f.type === 'number' ? 'any' : undefined, required: f.required, placeholder: f.placeholder, maxlength: 200, autocomplete: 'off' }), f.hint)),
    d.words ? h('p', { class: 'small muted' }, 'As a command: ', h('code', null, d.words)) : null,
    h('footer', null, button('Back', done), button(d.verb, null, { type: 'submit', class: d.danger ? 'danger' : 'primary' })));
}

export { failed };
