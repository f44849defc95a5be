// SPDX-License-Identifier: Apache-2.0
// browser.mjs - a seeded controller driven through every page and button of its dashboard by a real browser.
//
// Debian's Chromium by playwright-core; axe-core looks for faults of accessibility. TAP on stdout; skipped where either is
// missing. Screenshots go to MUSTER_SHOTS (out/web). MUSTER_WEB_ONLY=word runs the parts whose names have it.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ask, HOSTILE, musterd, seed, token_of, until } from './seed.mjs';

const skip = why => {
  console.log('1..0 # SKIP ' + why);
  process.exit(0);
};
const here = path.dirname(fileURLToPath(import.meta.url));
const browser_path = ['/usr/bin/chromium', '/usr/bin/chromium-browser', process.env.MUSTER_CHROMIUM].find(file => file && fs.existsSync(file)) || skip('no chromium; tools/setup web installs it');
let chromium, axe;
try {
  ({ chromium } = await import('playwright-core'));
  axe = fs.readFileSync(path.join(here, 'node_modules/axe-core/axe.min.js'), 'utf8');
} catch {
  skip('no playwright-core or axe-core; tools/web-setup installs them');
}

const shots = process.env.MUSTER_SHOTS || path.join(process.env.MUSTER_SOURCE || '.', 'out/web');
fs.mkdirSync(shots, { recursive: true });
const only = process.env.MUSTER_WEB_ONLY || '';

let number = 0, failures = 0;
function ok(condition, what, detail) {
  console.log((condition ? 'ok ' : 'not ok ') + ++number + ' - ' + what);
  if (!condition) {
    failures++;
    if (detail !== undefined) console.log('# ' + String(typeof detail === 'string' ? detail : JSON.stringify(detail)).slice(0, 1500).replace(/\n/g, '\n# '));
  }
  return condition;
}

// Streams that are let go of are no failures; nor is it the page's fault that other tests make network interfaces, at which
// Chromium drops everything.
const OURS = /ERR_ABORTED|ERR_NETWORK_CHANGED/;

const VIEWPORTS = { desktop: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

/** A page that keeps count of everything that went wrong in it. */
async function open(browser, url, { view = 'desktop', dark = false, token = token_of(url) } = {}) {
  const context = await browser.newContext({ viewport: VIEWPORTS[view], colorScheme: dark ? 'dark' : 'light', hasTouch: view === 'phone', permissions: ['clipboard-read', 'clipboard-write'], acceptDownloads: true, reducedMotion: 'reduce' });
  if (token) await context.addInitScript(text => sessionStorage.setItem('muster-token', text), token);
  const page = await context.newPage();
  page.wrong = [];
  page.on('console', message => message.type() === 'error' && !OURS.test(message.text()) && page.wrong.push('console: ' + message.text()));
  page.on('pageerror', error => page.wrong.push('error: ' + (error.stack || error)));
  page.on('dialog', dialog => {
    page.wrong.push('dialog: ' + dialog.message());
    dialog.dismiss();
  });
  page.on('response', response => response.status() >= 400 && page.wrong.push(response.status() + ' ' + response.url()));
  page.on('request', request => new URL(request.url()).origin !== new URL(url).origin && !/^(blob|data):/.test(request.url()) && page.wrong.push('elsewhere: ' + request.url()));
  page.on('requestfailed', request => !OURS.test(request.failure()?.errorText || '') && page.wrong.push('failed: ' + request.url() + ' ' + request.failure()?.errorText));
  page.base = url;
  return page;
}

const clean = (page, what) => {
  ok(page.wrong.length === 0, what + ': no error, no failed request', page.wrong.slice(0, 5).join('\n'));
  page.wrong.length = 0;
};

/** Loads a view and waits until it shows its data. */
async function visit(page, view) {
  for (let i = 0; i < 3; i++) {
    await page.goto(page.base + view, { waitUntil: 'domcontentloaded' });
    if (await page.waitForSelector('main .page, .gate', { timeout: 10000 }).then(() => true, () => false)) break;
  }
  await settled(page);
}
async function settled(page) {
  await page.waitForSelector('main .page, .gate', { timeout: 15000 });
  await page.waitForFunction(() => !document.querySelector('main .loading'), null, { timeout: 15000 });
}
/** The same without loading the program again, as a click does. */
async function go(page, view) {
  await page.evaluate(href => {
    const a = document.createElement('a');
    a.href = href;
    document.getElementById('main').appendChild(a);
    a.click();
    a.remove();
  }, view);
  await page.waitForFunction(href => location.pathname + location.search === href, view);
  await settled(page);
}

/** Serious faults; of colours only where all else was looked at before. */
async function faults(page, colours) {
  if (!(await page.evaluate(() => !!window.axe))) await page.evaluate(axe);
  const result = await page.evaluate(list => window.axe.run(document, { resultTypes: ['violations'], ...(list ? { runOnly: list } : {}) }), colours ? ['color-contrast', 'link-in-text-block'] : null);
  return result.violations.filter(v => v.impact === 'serious' || v.impact === 'critical').map(v => v.id + ' (' + v.impact + '): ' + v.nodes.slice(0, 3).map(n => n.html.slice(0, 140) + ' ' + (n.any[0] ? n.any[0].message : '')).join(' | '));
}

const wide = page => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
// Times of the slowest, with MUSTER_WEB_TIMES.
const took = {};
async function timed(name, call) {
  const start = performance.now();
  const out = await call();
  took[name] = (took[name] || 0) + performance.now() - start;
  return out;
}
const shot = (page, name) => page.screenshot({ path: path.join(shots, name + '.png') });
const text = (page, selector) => page.locator(selector).first().innerText();
const toast = (page, words) => page.locator('.toast', { hasText: words }).first().waitFor({ timeout: 8000 });

/** The button of a page and the one that confirms it. */
async function press(page, label, fill) {
  await page.locator('main').getByRole('button', { name: label, exact: true }).first().click();
  const dialog = page.locator('dialog[open]');
  await dialog.waitFor();
  if (fill) await dialog.locator('input').fill(fill);
  await dialog.getByRole('button', { name: label, exact: true }).click();
}

/* Every page, wide and narrow, light and dark. */

async function pages(browser, m, s) {
  const views = [['overview', '/'], ['queue', '/queue'], ['topology', '/topology'], ['timeline', '/timeline'], ['jobs', '/jobs'], ['job-running', '/jobs/' + s.jobs.gang], ['job-waiting', '/jobs/' + s.jobs.wait], ['job-output', '/jobs/' + s.jobs.loud], ['job-failed', '/jobs/' + s.jobs.failed], ['array', '/arrays/' + s.jobs.sweep], ['vcs', '/vcs'], ['vc', '/vcs/nlp'], ['nodes', '/nodes'], ['node', '/nodes/gpu11'], ['reports', '/reports'], ['submit', '/submit'], ['whatif', '/whatif'], ['whatif-result', '/whatif/1']];
  for (const view of ['desktop', 'phone'])
    for (const dark of [false, true]) {
      const page = await open(browser, m.url, { view, dark }), mode = view + (dark ? '-dark' : '');
      await visit(page, '/');
      const bad = [], broad = [];
      for (const [name, href] of views) {
        await timed('go', () => go(page, href));
        if (name === 'job-output') await page.waitForSelector('.log-line');
        await page.waitForTimeout(60);
        await timed('shot', () => shot(page, mode + '-' + name));
        if (view === 'desktop' || ['overview', 'queue', 'job-waiting', 'submit'].includes(name)) for (const fault of await timed('axe', () => faults(page, dark))) bad.push(name + ': ' + fault);
        const over = await wide(page);
        if (over > 1) broad.push(name + ' by ' + over);
      }
      ok(bad.length === 0, mode + ': axe-core finds nothing serious on ' + views.length + ' views', bad.join('\n'));
      ok(broad.length === 0, mode + ': no view is wider than the screen', broad.join(', '));
      clean(page, mode);
      await page.context().close();
    }
}

/* What each page says. */

async function content(browser, m, s) {
  const page = await open(browser, m.url);
  await visit(page, '/');
  ok(/\d+ of 96 GPUs are in use by \d+ jobs/.test(await text(page, '.hero-main')), 'overview: the state in a sentence');
  ok(await page.locator('.alert', { hasText: 'gpu12' }).count() > 0, 'overview: the drained node is an alert');
  ok(await page.locator('.vc-bar').count() === 4, 'overview: four virtual clusters');
  ok(await page.locator('.reasons li').count() >= 2, 'overview: jobs wait for several reasons');
  await page.locator('.reasons a').first().click();
  await page.waitForURL(/\/queue\?reason=/);
  await settled(page);
  await page.locator('.q-row[role=listitem]').first().waitFor();
  ok(true, 'a reason leads to those who wait for it');
  await go(page, '/queue');
  const first = await text(page, '.q-row[role=listitem]');
  ok(/next|ahead/.test(first) && /~|not known/.test(first), 'queue: place, reason and time of the first', first);
  await page.selectOption('select[aria-label="Virtual cluster"]', 'nlp');
  await page.waitForURL(/vc=nlp/);
  await settled(page);
  const vcs = await page.locator('.q-row[role=listitem] .vc').allInnerTexts();
  ok(vcs.length > 0 && vcs.every(v => v.trim() === 'nlp'), 'queue: filtered by virtual cluster', vcs);
  await page.goBack();
  await go(page, '/topology?gang=8');
  ok(/place/.test(await text(page, '.holes')), 'topology: holes for a gang are counted');
  ok((await text(page, '.job-list')).includes(s.jobs.sweep + '_0'), 'topology: an element of an array has its index');
  const canvas = page.locator('.map canvas');
  await canvas.focus();
  for (const key of ['ArrowRight', 'ArrowRight', 'ArrowDown', 'ArrowLeft']) await page.keyboard.press(key);
  await page.waitForFunction(() => /GPU \d/.test(document.getElementById('map-word').textContent), null, { timeout: 5000 });
  ok(/GPU \d/.test(await text(page, '#map-word')), 'topology: arrow keys name a GPU', await text(page, '#map-word'));
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + 40, box.y + 55);
  await page.waitForFunction(() => /gpu\d+/.test(document.getElementById('map-word').textContent), null, { timeout: 5000 });
  ok(true, 'topology: pointing names a GPU');
  for (const color of ['Job', 'Utilisation', 'Health', 'Guarantee']) {
    await page.getByRole('radio', { name: color, exact: true }).click();
    await page.locator('[role=radio][aria-checked=true]', { hasText: color }).waitFor();
    ok(true, 'topology: coloured by ' + color.toLowerCase());
  }
  const tree = await ask(m.url, 'GET', '/cells'), mine = tree.vcs.find(v => v.name === 'nlp').cells.filter(c => c.bound !== null);
  ok(mine.length > 0 && mine.every(c => c.gpus.reduce((sum, g) => sum + g.indices.length, 0) === c.gpu_count), 'cells: bound ones name their GPUs', mine);
  await page.locator('.keys-row', { hasText: 'unbound' }).waitFor({ timeout: 5000 }).catch(() => {});
  const key = await text(page, '.keys-row');
  ok(/nlp: [1-9]\d* bound/.test(key) && /unbound \d/.test(key) && !/inside the guarantee/.test(key), 'topology: a guarantee in cells has its owner in the legend', key);
  const drawn = await page.evaluate(async () => {
    const base = new URL('.', document.querySelector('script[type=module]').src), { draw } = await import(base + 'topodraw.js'), { vc_colors } = await import(base + 'color.js');
    const box = document.body.appendChild(document.createElement('div')), canvas = box.appendChild(document.createElement('canvas'));
    const node = { name: 'n', rack: '', sku: 'X', sockets: 1, groups: 1, state: 'idle', gpus: 'ff', jobs: [0, 0], util: [0, 0] };
    const map = draw(canvas, { nodes: [node], jobs: new Map(), color: 'guarantee', owners: new Map([['n', { 1: 'nlp' }]]) });
    const at = i => '#' + [...canvas.getContext('2d').getImageData(...[0, 1].map(k => (map.nodes[0].cells[i * 2 + k] + map.cell / 2) * devicePixelRatio), 1, 1).data].slice(0, 3).map(v => v.toString(16).padStart(2, '0')).join('');
    const out = { unbound: at(0), bound: at(1), owner: vc_colors.of('nlp').fill };
    box.remove();
    return out;
  });
  ok(drawn.bound === drawn.owner && drawn.unbound !== drawn.owner, 'topology: an idle GPU bound to a guarantee has the colour of its owner', drawn);
  await page.route('**/api/v1/cells', route => route.fulfill({ json: { ...tree, vcs: tree.vcs.map(v => ({ ...v, cells: [] })) } }));
  await visit(page, '/topology?color=guarantee');
  await page.locator('.keys-row', { hasText: 'counts' }).waitFor({ timeout: 5000 }).catch(() => {});
  const counts = await text(page, '.keys-row');
  ok(/inside the guarantee/.test(counts) && /counts here, not cells/.test(counts), 'topology: guarantees that are counts say so', counts);
  await page.unroute('**/api/v1/cells');
  await go(page, '/timeline');
  await page.locator('.gantt canvas').focus();
  await page.keyboard.press('-');
  await page.waitForURL(/span=3d/);
  for (const rows of ['Virtual clusters', 'Jobs']) await page.getByRole('radio', { name: rows, exact: true }).click();
  await page.getByText('Next planned starts').click();
  ok(await page.locator('.planned li').count() > 0, 'timeline: planned starts are named');
  await go(page, '/jobs/' + s.jobs.wait);
  const why = await text(page, '.why');
  ok(/asks for/.test(why) && /ahead of it/.test(why) && /starts/.test(why), 'job: why it waits, who is ahead, until when', why);
  await go(page, '/jobs/' + s.jobs.gang);
  ok(await page.locator('.place').count() === 2, 'job: placed on two nodes');
  await page.waitForFunction(() => document.querySelectorAll('.gpu-cell').length === 16, null, { timeout: 15000 });
  ok(true, 'job: sixteen GPUs measured');
  for (const metric of ['Memory', 'Power']) await page.getByRole('radio', { name: metric, exact: true }).click();
  await arrays(page, s);
  await go(page, '/reports');
  for (const by of ['Virtual clusters', 'GPU types', 'Nodes', 'Job names', 'Accounts']) {
    await page.getByRole('radio', { name: by, exact: true }).click();
    await settled(page);
  }
  await page.getByRole('radio', { name: 'Users', exact: true }).click();
  await settled(page);
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV' }).click()]);
  const csv = fs.readFileSync(await file.path(), 'utf8');
  ok(csv.startsWith('key,jobs,'), 'reports: CSV', csv.slice(0, 100));
  await go(page, '/vcs/nlp');
  ok(/Guaranteed/.test(await text(page, '.stats')), 'virtual cluster: figures');
  clean(page, 'contents');
  await page.context().close();
}

/** An array has a page, by its number too; an element is found by its index, jobs by a part of their name. */
async function arrays(page, s) {
  await go(page, '/arrays/' + s.jobs.sweep);
  ok(/Array \d+ \u00b7 lr-sweep/.test(await text(page, 'h1')) && await page.locator('tbody tr').count() === 10, 'array: its ten elements');
  ok(await page.locator('.sidebar [aria-current]', { hasText: 'Jobs' }).count() === 1, 'array: among the jobs');
  await page.selectOption('select[aria-label="State"]', 'PENDING');
  await page.waitForFunction(() => { const rows = document.querySelectorAll('tbody tr'); return rows.length > 0 && rows.length < 10; }, null, { timeout: 5000 });
  ok((await page.locator('tbody .badge').allInnerTexts()).every(t => t.trim() === 'PENDING'), 'array: those that wait');
  clean(page, 'array');
  const find = async words => {
    await page.fill('[data-search]', words);
    await page.locator('[data-search]').press('Enter'); // the view that comes takes the keyboard when it is there
  };
  await find(String(s.jobs.sweep));
  await page.waitForURL(/\/arrays\/\d+$/);
  await settled(page);
  ok(true, 'the number of an array leads to it');
  page.wrong.length = 0; // that it is no job was asked first
  await find(s.jobs.sweep + '_2');
  await page.waitForURL(url => /\/jobs\/\d+$/.test(url.pathname));
  await settled(page);
  ok((await text(page, 'h1')).includes(s.jobs.sweep + '_2'), 'an element is found by its index', await text(page, 'h1'));
  await go(page, '/jobs?find=lr-sweep');
  const sweep = page.locator('tbody tr', { hasText: 'lr-sweep' });
  ok(await sweep.count() === 1 && /array \d+ 10 elements/.test(await sweep.innerText()) && await sweep.locator('a[href="/arrays/' + s.jobs.sweep + '"]').count() > 0, 'jobs: an array is one row that leads to it');
  await find('LLAMA-PRE');
  await page.locator('tbody tr', { hasText: 'llama-pretrain' }).waitFor();
  ok(await page.locator('tbody tr').count() === 1, 'a job is found by a part of its name');
}

/* Everything that changes something. */

async function buttons(browser, m, s) {
  const page = await open(browser, m.url), state = id => ask(m.url, 'GET', '/jobs/' + id).then(j => j.state);
  await visit(page, '/jobs/' + s.jobs.held);
  await press(page, 'Release');
  await toast(page, 'Release job ' + s.jobs.held);
  await until('released', async () => !(await ask(m.url, 'GET', '/jobs/' + s.jobs.held)).held);
  ok(true, 'release');
  await go(page, '/jobs/' + s.jobs.mine);
  await press(page, 'Hold');
  await until('held', async () => (await ask(m.url, 'GET', '/jobs/' + s.jobs.mine)).held);
  await page.getByRole('button', { name: 'Release', exact: true }).waitFor();
  ok(true, 'hold, and the page follows without being asked');
  await page.locator('main').getByRole('button', { name: 'Change', exact: true }).click();
  await page.locator('dialog[open]').waitFor();
  ok(await page.evaluate(() => document.activeElement.tagName === 'SELECT'), 'the first field of a dialog has the keyboard');
  await page.locator('dialog[open] select').selectOption('high');
  await page.locator('dialog[open] input').fill('3');
  await page.locator('dialog[open]').getByRole('button', { name: 'Change', exact: true }).click();
  await until('changed', async () => {
    const job = await ask(m.url, 'GET', '/jobs/' + s.jobs.mine);
    return job.priority_class === 'high' && job.limit_seconds === 10800;
  });
  ok(true, 'another priority and time limit');
  const wide = (await ask(m.url, 'POST', '/jobs', { name: 'elastic', vc: 'vision', gpus: 'H100:1..2', time: '1h', hold: true, run: 'true' })).id;
  await go(page, '/jobs/' + wide);
  ok(/elastic from 1 to 2 GPUs/.test(await text(page, '.why')), 'an elastic job says between which sizes', await text(page, '.why'));
  await page.locator('main').getByRole('button', { name: 'Change', exact: true }).click();
  await page.locator('dialog[open] input').nth(1).fill('2');
  await page.locator('dialog[open]').getByRole('button', { name: 'Change', exact: true }).click();
  await until('resized', async () => (await ask(m.url, 'GET', '/jobs/' + wide)).size.set === 2);
  ok(true, 'another size');
  const run = (await ask(m.url, 'POST', '/jobs', { name: 'to-push-around', vc: 'default', gpus: 1, time: '1h', emulate: { run: '3000s', exit: 0 }, priority: 'urgent' })).id;
  await until('running', async () => (await state(run)) === 'RUNNING');
  await go(page, '/jobs/' + run);
  await press(page, 'Suspend');
  await until('suspended', async () => (await state(run)) === 'SUSPENDED');
  await page.getByRole('button', { name: 'Resume', exact: true }).waitFor();
  ok(true, 'suspend');
  await press(page, 'Resume');
  await until('resumed', async () => (await state(run)) === 'RUNNING');
  await page.getByRole('button', { name: 'Suspend', exact: true }).waitFor();
  ok(true, 'resume');
  await press(page, 'Requeue');
  await until('again', async () => (await ask(m.url, 'GET', '/jobs/' + run)).attempt >= 1 || (await state(run)) === 'PENDING');
  ok(true, 'requeue');
  await page.getByRole('button', { name: 'Cancel', exact: true }).waitFor();
  await press(page, 'Cancel');
  await until('cancelled', async () => (await state(run)) === 'CANCELLED');
  await page.locator('.job-head .badge', { hasText: 'CANCELLED' }).waitFor();
  ok(true, 'cancel');
  await go(page, '/nodes');
  const node = name => ask(m.url, 'GET', '/nodes/' + name);
  const row = page.locator('tr', { hasText: 'gpu09' });
  await row.getByRole('button', { name: 'Drain' }).click();
  await page.locator('dialog[open] input').fill('<b>dust</b>');
  await page.locator('dialog[open]').getByRole('button', { name: 'Drain', exact: true }).click();
  await until('drained', async () => (await node('gpu09')).drain_reason === '<b>dust</b>');
  await row.getByRole('button', { name: 'Resume' }).waitFor();
  ok((await row.innerText()).includes('<b>dust</b>'), 'drain a node, the reason is shown as it is');
  await row.getByRole('button', { name: 'Resume' }).click();
  await page.locator('dialog[open]').getByRole('button', { name: 'Resume', exact: true }).click();
  await until('resumed', async () => (await node('gpu09')).drain_reason === '');
  ok(true, 'resume a node');
  await go(page, '/nodes/gpu10');
  await page.locator('table').first().getByRole('button', { name: 'Drain' }).first().click();
  await page.locator('dialog[open] input').fill('XID 48');
  await page.locator('dialog[open]').getByRole('button', { name: 'Drain', exact: true }).click();
  await until('GPU drained', async () => (await node('gpu10')).gpu_list[0].reason === 'XID 48');
  await page.locator('table').first().getByRole('button', { name: 'Resume' }).first().click();
  await until('GPU resumed', async () => (await node('gpu10')).gpu_list[0].reason === '');
  ok(true, 'drain and resume one GPU');
  await page.keyboard.press('Escape');
  // Submitting.
  await go(page, '/submit');
  for (const name of ['PyTorch, several nodes', 'Sweep', 'Empty', 'PyTorch, one node']) {
    await page.getByRole('radio', { name, exact: true }).click();
    await page.waitForTimeout(50);
  }
  await page.getByLabel('Name', { exact: true }).fill('from-the-browser');
  await page.getByLabel('Command').fill('echo "hello"');
  await page.getByLabel('GPUs', { exact: false }).first().fill('1');
  await page.waitForFunction(() => document.querySelector('.code-text').value.includes('name: from-the-browser'), null, { timeout: 5000 });
  ok(true, 'submit: the file is written as one types');
  await page.locator('.plan').waitFor();
  ok(/starts/.test(await text(page, '.plan')), 'submit: checked by plan');
  await page.fill('.code-text', 'name: x\nfoo: 1\n');
  await page.locator('.bad-line').waitFor();
  ok(/unknown key/.test(await text(page, '.problem')), 'submit: a wrong file is explained where it is wrong', await text(page, '.problem'));
  page.wrong.length = 0; // the refusal above is one
  await page.fill('.code-text', 'name: from-the-browser\nvc: default\ngpus: 1\ntime: 5m\nrun: |\n  echo hello\n');
  await page.locator('.plan').waitFor();
  await page.locator('.submit-side').getByRole('button', { name: 'Submit', exact: true }).click();
  await page.waitForURL(/\/jobs\/\d+$/);
  await toast(page, 'Submitted job');
  ok(true, 'submit: the job is shown');
  // What-if.
  await go(page, '/whatif');
  while (await page.locator('.policies input:checked').count()) {
    const count = await page.locator('.policies input:checked').count();
    await page.locator('.policies input:checked').first().click();
    await page.waitForFunction(n => document.querySelectorAll('.policies input:checked').length < n, count);
  }
  for (const name of ['present', 'srsf', 'las']) await page.locator('.policies label', { hasText: name }).filter({ has: page.locator('b', { hasText: new RegExp('^' + name + '$') }) }).locator('input').check();
  await page.getByRole('button', { name: 'Compare' }).click();
  await page.waitForURL(/\/whatif\/\d+$/);
  await page.locator('.side-by-side').waitFor({ timeout: 30000 });
  await page.getByText('The same in a terminal').waitFor({ timeout: 30000 });
  ok(await page.locator('.metric-bars').count() === 6 && await page.locator('figure.plot, .plot-none').count() >= 4, 'what-if: figures and plots side by side');
  const [trace] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'trace.csv' }).click()]);
  ok(fs.readFileSync(await trace.path(), 'utf8').includes('submit'), 'what-if: the trace can be taken away');
  clean(page, 'buttons');
  await page.context().close();
}

/* Twins, keys, search, output. */

async function tools(browser, m, s) {
  const page = await open(browser, m.url);
  await visit(page, '/queue?vc=nlp');
  await page.locator('.command').click();
  await toast(page, 'Copied');
  const words = await page.evaluate(() => navigator.clipboard.readText());
  ok(words === 'muster queue -A --state PD -p nlp', 'copy as a command', words);
  const out = execFileSync('sh', ['-c', words.replace(/^muster/, '"$0"'), path.join(process.env.MUSTER_BUILD || 'build', 'muster')], { encoding: 'utf8', env: { ...process.env, MUSTER_URL: m.url } });
  ok(/PENDING/.test(out), 'and the command works', out);
  for (const view of ['/', '/queue?user=root&name=x', '/topology', '/timeline', '/jobs', '/jobs?state=FAILED&user=root', '/jobs?find=lr', '/jobs?state=FAILED&find=lr', '/queue?find=lr', '/arrays/' + s.jobs.sweep, '/jobs/' + s.jobs.gang, '/vcs', '/vcs/nlp', '/nodes', '/nodes/gpu11', '/reports?by=skus', '/whatif', '/whatif/1']) {
    await go(page, view);
    const title = await page.locator('.command').getAttribute('title'), line = title.replace('Copy as a command: muster', '"$0"');
    let said = '';
    try {
      execFileSync('sh', ['-c', line, path.join(process.env.MUSTER_BUILD || 'build', 'muster')], { encoding: 'utf8', stdio: 'pipe', env: { ...process.env, MUSTER_URL: m.url } });
    } catch (error) {
      said = error.stderr || String(error);
    }
    ok(said === '', view + ' as a command: ' + title.slice(19), said);
  }
  await go(page, '/queue');
  await page.getByRole('button', { name: 'JSON' }).click();
  ok(JSON.parse(await text(page, 'dialog[open] pre')).kind === 'JobList', 'the JSON twin');
  await page.keyboard.press('Escape');
  await page.locator('dialog[open]').waitFor({ state: 'detached' });
  ok(true, 'Escape closes it');
  for (const [keys, where] of [['gt', '/topology'], ['gn', '/nodes'], ['gw', '/whatif'], ['go', '/']]) {
    await page.evaluate(() => document.activeElement.blur());
    for (const key of keys) await page.keyboard.press(key);
    await page.waitForFunction(href => location.pathname === href, where);
  }
  ok(true, 'keys go to pages');
  await page.keyboard.press('?');
  await page.locator('dialog[open] .keys').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog[open]').waitFor({ state: 'detached' });
  await page.waitForTimeout(50);
  await page.keyboard.press('/');
  await page.waitForFunction(() => document.activeElement.hasAttribute('data-search'), null, { timeout: 5000 });
  await page.keyboard.type(String(s.jobs.gang));
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/jobs\/\d+$/);
  ok(true, 'a job is found by its number');
  await page.keyboard.press('Tab');
  ok(await page.evaluate(() => document.activeElement !== document.body), 'the Tab key finds its way');
  const theme = page.locator('.topbar .round').first();
  for (const want of ['light', 'dark', 'auto']) {
    await theme.click();
    await page.waitForFunction(name => document.documentElement.dataset.theme === name, want, { timeout: 5000 });
    ok(true, 'colours: ' + want);
  }
  await page.goto(m.url + '/nope');
  await page.getByText('There is no such page').waitFor();
  await go(page, '/jobs/999999');
  await page.getByText('There is no job 999999').waitFor();
  ok(true, 'what is not there is told as such');
  page.wrong.length = 0; // 404 was asked for
  clean(page, 'tools');
  await page.context().close();
}

/* What others wrote. */

async function hostile(browser, m, s) {
  const page = await open(browser, m.url);
  const csp = (await page.request.get(m.url + '/')).headers()['content-security-policy'];
  ok(/default-src 'none'/.test(csp) && !/unsafe/.test(csp), 'a strict policy', csp);
  await visit(page, '/jobs/' + s.jobs.loud);
  await page.waitForSelector('.log-line');
  ok((await text(page, 'h1')).includes(HOSTILE.html.slice(0, 40)), 'HTML in a name is text');
  const lines = await page.evaluate(() => [...document.querySelectorAll('.log-text')].map(e => e.textContent));
  const longest = Math.max(...lines.map(l => l.length));
  ok(longest < 5000 && lines.some(l => /more characters on this line/.test(l)), 'two megabytes on a line are cut and said to be', longest);
  await page.fill('input[aria-label="Search the output"]', 'needle');
  await page.locator('.log mark').first().waitFor();
  await page.keyboard.press('Enter');
  await page.getByText('only these').click();
  await page.waitForFunction(() => document.querySelectorAll('.log-line').length === 1, null, { timeout: 5000 });
  ok(true, 'output: searched, and only what was found');
  await page.fill('input[aria-label="Search the output"]', '');
  const quiet = (await ask(m.url, 'POST', '/jobs', { name: 'speaks', vc: 'default', gpus: 1, time: '10m', priority: 'urgent', run: "printf '<script>window.hacked=1</script><img src=x onerror=window.hacked=1>\\n'; printf 'bell \\007 nul \\000 esc \\033[31mred\\033[0m\\n'; printf 'rtl \\342\\200\\256 abc \\342\\201\\246\\n'; i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done; sleep 2; echo the end; sleep 600" })).id;
  await until('it runs', async () => (await ask(m.url, 'GET', '/jobs/' + quiet)).state === 'RUNNING');
  await go(page, '/jobs/' + quiet);
  await page.locator('.log-line', { hasText: 'the end' }).waitFor({ timeout: 15000 });
  ok(true, 'output: followed as it comes');
  await page.evaluate(() => { document.querySelector('.log').scrollTop = 0; });
  await page.locator('.log-line', { hasText: 'bell' }).waitFor();
  const top = await page.evaluate(() => [...document.querySelectorAll('.log-text')].slice(0, 3).map(e => e.textContent));
  ok(top[0].includes('<script>') && top[1].includes('\u2407') && top[1].includes('red') && !top[1].includes('\u001b') && top[2].includes('U+202E') && !top[2].includes('\u202e'), 'HTML, control characters and turned text in output are harmless', top);
  await go(page, '/jobs');
  const names = await page.evaluate(() => document.querySelector('table').innerText);
  ok(names.includes('U+202E') && !names.includes('\u202e'), 'marks of direction in a name are shown by number');
  for (const view of ['/', '/queue', '/topology', '/nodes/gpu10']) await go(page, view);
  ok(await page.evaluate(() => window.hacked === undefined && !document.querySelector('img[src="x"]') && document.querySelectorAll('script:not([src])').length === 0), 'nothing of it ran');
  ok(!/^1/.test(await page.title()), 'nor changed the page');
  clean(page, 'hostile text');
  await ask(m.url, 'DELETE', '/jobs/' + quiet + '?now=1');
  await page.context().close();
}

/* Who may not, who may no longer, and when nobody answers. */

async function states(browser, m, s) {
  const viewer = await open(browser, m.url, { token: s.viewer });
  await visit(viewer, '/jobs/' + s.jobs.gang);
  ok(await viewer.getByRole('button', { name: 'Cancel' }).count() === 0 && await viewer.locator('.sidebar').getByText('Submit').count() === 0, 'a viewer is offered nothing to change');
  ok(await viewer.getByText('Only its owner and administrators see its output').count() === 1, 'nor others\u2019 output');
  await go(viewer, '/submit');
  await viewer.getByText('Your role does not allow this').waitFor();
  await shot(viewer, 'desktop-no-permission');
  await go(viewer, '/nodes');
  ok(await viewer.getByRole('button', { name: 'Drain' }).count() === 0, 'nor nodes to drain');
  clean(viewer, 'viewer');
  // Its token is taken back while it looks.
  const all = await ask(m.url, 'GET', '/tokens'), id = all.items.find(t => t.user === 'guest').id;
  await ask(m.url, 'DELETE', '/tokens/' + id);
  await go(viewer, '/reports').catch(() => {});
  await viewer.getByText('Your token is no longer accepted').waitFor({ timeout: 10000 });
  await shot(viewer, 'desktop-expired');
  ok((await faults(viewer)).length === 0, 'a token that is no longer accepted has a page of its own');
  // Signing in with another.
  const fresh = (await ask(m.url, 'POST', '/tokens', { user: 'guest', role: 'viewer' })).token;
  await viewer.evaluate(() => sessionStorage.removeItem('muster-token'));
  await viewer.fill('input[name=token]', fresh);
  await viewer.locator('.signin').getByRole('button', { name: 'Sign in' }).click();
  await viewer.locator('.sidebar').waitFor();
  ok((await text(viewer, '.who')).includes('guest'), 'signed in with a token');
  await viewer.context().close();
  if (s.users.length) {
    const user = await open(browser, m.url, { token: s.tokens[s.users[0]] });
    await visit(user, '/jobs/' + s.jobs.gang);
    ok(await user.getByRole('button', { name: 'Cancel' }).count() === 1, 'an owner may cancel the own job');
    await go(user, '/jobs/' + s.jobs.mine);
    ok(await user.getByRole('button', { name: 'Cancel' }).count() === 0, 'and not that of others');
    clean(user, 'user');
    await user.context().close();
  }
}

async function outage(browser) {
  let m = await musterd({ fake: '2x8:H100', config: 'cluster: small\n' });
  const port = Number(new URL(m.url).port), folder = m.folder;
  const own = (await ask(m.url, 'POST', '/tokens', { role: 'admin' })).token; // that of --dev ends with the controller
  const page = await open(browser, m.url, { token: own });
  await visit(page, '/');
  await page.locator('.conn.live').waitFor();
  await m.stop('SIGTERM', true);
  await page.getByText('No connection to the controller').waitFor({ timeout: 15000 });
  await shot(page, 'desktop-lost');
  ok((await text(page, '.conn')).includes('no connection') && await page.locator('.hero').count() === 1, 'lost connection: said, and the last known stays');
  m = await musterd({ fake: '2x8:H100', config: 'cluster: small\n', state: folder, port });
  await page.locator('.conn.live').waitFor({ timeout: 20000 });
  ok(await page.getByText('No connection to the controller').count() === 0, 'and found again by itself');
  await page.getByText('The controller was restarted').waitFor({ timeout: 5000 });
  ok(true, 'a restart is told as one');
  await shot(page, 'desktop-restarted');
  const id = (await ask(m.url, 'POST', '/jobs', { name: 'after', gpus: 1, time: '5m', run: 'sleep 60' })).id;
  await page.locator('.feed', { hasText: 'job ' + id }).waitFor({ timeout: 10000 });
  ok(true, 'events come again after a restart');
  const hour = n => new Date(Date.now() + n * 3600e3).toISOString().slice(0, 19) + 'Z';
  await ask(m.url, 'POST', '/reservations', { name: 'new-switch', nodes: 'gpu[01-02]', start: hour(3), end: hour(7), reason: '<i>cables</i>' });
  await go(page, '/timeline');
  ok((await text(page, '.resv')).includes('new-switch keeps gpu[01-02]') && (await text(page, '.resv')).includes('<i>cables</i>'), 'timeline: reservations are named');
  await shot(page, 'desktop-reservation');
  await page.context().close();
  await m.stop();
  const none = await musterd({ fake: '', config: 'cluster: empty\n' });
  const bare = await open(browser, none.url);
  await visit(bare, '/');
  await bare.getByText('This cluster has no nodes yet').waitFor();
  await shot(bare, 'desktop-empty');
  for (const view of ['/queue', '/topology', '/timeline', '/jobs', '/vcs', '/nodes', '/reports', '/whatif', '/submit']) await go(bare, view);
  bare.wrong = bare.wrong.filter(w => !/jobs:plan/.test(w) && !/status of (4|5)\d\d/.test(w));
  clean(bare, 'empty cluster');
  await bare.context().close();
  const first = await open(browser, none.url, { token: '' });
  await first.goto(none.link);
  await first.locator('.sidebar').waitFor();
  ok(!first.url().includes('once'), 'the link of --dev signs in, and is gone from the address');
  await first.context().close();
  const second = await open(browser, none.url, { token: '' });
  await second.goto(none.link);
  await second.getByText('this link was used').waitFor();
  ok(await second.locator('.sidebar').count() === 0, 'it works once');
  await second.context().close();
  await none.stop();
}

const m = await musterd();
let code = 0;
try {
  const s = await seed(m.url, { quick: true });
  const browser = await chromium.launch({ executablePath: browser_path, args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] });
  await ask(m.url, 'POST', '/sim', { policies: ['present', 'srsf', 'las', 'fifo'] });
  const parts = { pages, content, tools, hostile, buttons, states, outage };
  for (const [name, part] of Object.entries(parts)) {
    if (only && !name.includes(only)) continue;
    const start = Date.now();
    try {
      await part(browser, m, s);
    } catch (error) {
      ok(false, name, error.stack);
    }
    console.log('# ' + name + ': ' + ((Date.now() - start) / 1000).toFixed(1) + ' s');
  }
  await browser.close();
  if (process.env.MUSTER_WEB_TIMES) console.log('# ' + JSON.stringify(took));
  ok(m.child.exitCode === null, 'the controller is alive', m.words());
} catch (error) {
  ok(false, 'set up', error.stack);
} finally {
  await m.stop();
}
console.log('1..' + number);
process.exit(failures ? 1 : code);
