// SPDX-License-Identifier: Apache-2.0
// dashboard.mjs - how the dashboard does on a large cluster: first paint, input while events come, and what open browsers cost
// the controller. Prints figures, asserts nothing.
//
//   node tests/bench/dashboard.mjs [NODES [JOBS]]     (1000 nodes of 8 GPUs, 10000 jobs)
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { ask, musterd, token_of, until } from '../web/seed.mjs';

const web = path.join(path.dirname(fileURLToPath(import.meta.url)), '../web/');
let chromium = null;
try {
  ({ chromium } = createRequire(web)('playwright-core'));
} catch {
  console.log('no playwright-core (tools/web-setup): only the controller is measured');
}
const nodes = Number(process.argv[2]) || 1000, jobs = Number(process.argv[3]) || 10000;
const seconds = ms => (ms / 1000).toFixed(2) + ' s';
const wait = ms => new Promise(done => setTimeout(done, ms));

const CONFIG = 'cluster: large\npolicy: fifo-skip\nvcs:\n' + ['nlp', 'vision', 'speech', 'robotics'].map(name => '  ' + name + ': {quota: {H100: ' + Math.floor(nodes * 2) + '}}\n').join('') + '  default: {quota: {}}\nlimits: {connections_per_address: 4096, connections: 8192}\n';

/** CPU seconds a process has used. */
function cpu(pid) {
  const fields = fs.readFileSync('/proc/' + pid + '/stat', 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

async function fill(url) {
  await until('nodes', async () => (await ask(url, 'GET', '/topology')).items.filter(n => n.state === 'idle').length >= nodes, 240);
  const start = Date.now(), vcs = ['nlp', 'vision', 'speech', 'robotics'], part = 500;
  for (let i = 0; i < jobs + nodes * 2; i += part)
    await ask(url, 'POST', '/jobs', { name: ['llama-ft', 'resnet', 'whisper', 'planner'][(i / part) % 4], vc: vcs[(i / part) % 4], gpus: 'H100:' + [4, 2, 8, 1][(i / part) % 4], time: 1 + ((i / part) % 12) + 'h', array: '0-' + (part - 1), emulate: { run: '36000s', exit: 0 } });
  console.log('filled with ' + (jobs + nodes * 2) + ' jobs in ' + seconds(Date.now() - start));
  await wait(3000);
}

/** Ten events a second: short jobs come and go. */
function noise(url) {
  let on = true, sent = 0;
  (async () => {
    while (on) {
      const id = (await ask(url, 'POST', '/jobs', { name: 'noise', vc: 'default', gpus: 1, hold: true, time: '5m', run: 'true' })).id;
      await wait(150);
      await ask(url, 'DELETE', '/jobs/' + id);
      sent += 2;
      await wait(30);
    }
  })().catch(error => console.log('noise: ' + error.message));
  return () => {
    on = false;
    return sent;
  };
}

const READY = {
  '/': () => !!document.querySelector('.hero-main') && !!document.querySelector('.vc-bar'),
  '/queue': () => document.querySelectorAll('.q-row[role=listitem] a').length > 5,
  '/topology': () => { const c = document.querySelector('.map canvas'); return !!c && c.height > 200; },
  '/nodes': () => document.querySelectorAll('tbody tr').length > 20,
  '/timeline': () => !!document.querySelector('.gantt canvas'),
};

async function paints(url) {
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] });
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  await context.addInitScript(text => sessionStorage.setItem('muster-token', text), token_of(url));
  for (const [view, ready] of Object.entries(READY)) {
    const times = [];
    for (let i = 0; i < 3; i++) {
      const page = await context.newPage();
      await page.goto(url + view, { waitUntil: 'commit' });
      await page.waitForFunction(ready, null, { polling: 'raf', timeout: 60000 });
      times.push(await page.evaluate(() => performance.now()));
      if (i === 2) console.log(view.padEnd(12) + 'with its data after ' + times.map(t => Math.round(t)).join(', ') + ' ms; first contentful paint ' + (await page.evaluate(() => Math.round((performance.getEntriesByName('first-contentful-paint')[0] || {}).startTime || 0))) + ' ms');
      await page.close();
    }
  }
  for (const view of ['/queue', '/topology', '/']) {
    const page = await context.newPage();
    await page.goto(url + view);
    await page.waitForFunction(READY[view], null, { timeout: 60000 });
    await page.evaluate(() => {
      window.slow = [];
      window.keys = [];
      new PerformanceObserver(list => list.getEntries().forEach(e => window.slow.push(e.duration))).observe({ type: 'longtask' });
      document.querySelector('[data-search]').addEventListener('keydown', e => requestAnimationFrame(() => window.keys.push(performance.now() - e.timeStamp)));
    });
    const stop = noise(url);
    await page.focus('[data-search]');
    const typed = 80;
    for (let i = 0; i < typed; i++) {
      await page.keyboard.press('abcdefghij'[i % 10]);
      await wait(100);
    }
    const changes = stop();
    const r = await page.evaluate(() => ({ keys: window.keys.sort((a, b) => a - b), slow: window.slow, text: document.querySelector('[data-search]').value.length }));
    console.log(view.padEnd(12) + 'while ' + changes + ' changes came in 8 s: ' + r.text + ' of ' + typed + ' keys typed, to the next frame ' + Math.round(r.keys[r.keys.length >> 1]) + ' ms (median), ' + Math.round(r.keys[Math.floor(r.keys.length * 0.95)]) + ' ms (95 %), ' + Math.round(r.keys[r.keys.length - 1]) + ' ms (worst); ' + r.slow.length + ' tasks over 50 ms, longest ' + Math.round(Math.max(0, ...r.slow)) + ' ms');
    await page.close();
  }
  await browser.close();
}

/** So many listeners to events, and what they cost. */
async function streams(count) {
  const m = await musterd({ fake: '4x8:H100', config: CONFIG.replace(/H100: \d+/g, 'H100: 8') });
  await until('nodes', async () => (await ask(m.url, 'GET', '/nodes')).items.length >= 4);
  const agent = new http.Agent({ keepAlive: true, maxSockets: count + 8 }), open = [];
  const figures = [];
  let events = 0;
  for (const listeners of [0, count]) {
    for (let i = 0; i < listeners; i++)
      await new Promise((done, fail) => {
        const request = http.get(m.url + '/api/v1/events', { agent, headers: { Accept: 'text/event-stream', Authorization: 'Bearer ' + token_of(m.url) } }, response => {
          response.on('data', data => { events += data.toString().split('\nid: ').length - 1 + (data.toString().startsWith('id: ') ? 1 : 0); });
          open.push(request);
          done();
        });
        request.on('error', fail);
      });
    const stop = noise(m.url), before = cpu(m.child.pid), start = Date.now();
    await wait(10000);
    figures.push((cpu(m.child.pid) - before) / ((Date.now() - start) / 1000));
    const sent = stop();
    if (listeners) console.log(listeners + ' event streams, ' + (sent / 10).toFixed(1) + ' changes/s: ' + Math.round(events / 10) + ' events/s handed over; the controller uses ' + (figures[1] * 100).toFixed(1) + ' % of a core, without them ' + (figures[0] * 100).toFixed(1) + ' %: they cost ' + ((figures[1] - figures[0]) * 100).toFixed(1) + ' %');
    await wait(500);
  }
  open.forEach(request => request.destroy());
  agent.destroy();
  await m.stop();
}

console.log('dashboard, load average ' + fs.readFileSync('/proc/loadavg', 'utf8').split(' ')[0]);
await streams(200);
if (chromium) {
  const m = await musterd({ fake: nodes + 'x8:H100', config: CONFIG });
  try {
    await fill(m.url);
    for (const route of ['/overview', '/topology', '/queue?limit=100', '/nodes?limit=10000', '/schedule']) {
      const start = performance.now(), text = JSON.stringify(await ask(m.url, 'GET', route));
      console.log('GET ' + route.padEnd(22) + Math.round(performance.now() - start) + ' ms, ' + Math.round(text.length / 1024) + ' KiB');
    }
    await paints(m.url);
  } finally {
    await m.stop('SIGKILL');
  }
}
