// SPDX-License-Identifier: Apache-2.0
// seed.mjs - a small busy cluster to look at: a controller with emulated nodes, people, virtual clusters, jobs in every state.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const BUILD = process.env.MUSTER_BUILD || 'build';

// Controllers do not outlive us, however we end.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => process.exit(1));

const CONFIG = `cluster: aurora
policy: fifo-skip
vcs:
  nlp: {guarantee: {H100: "3 nodes"}, borrow: 16}
  vision: {guarantee: {H100: "2 nodes", A100: "1 node"}, borrow: all}
  speech: {guarantee: {A100: "2 nodes"}}
  default: {quota: {}}
`;

const tokens_known = new Map(); // of controllers by their URL: what --dev printed
export const token_of = url => tokens_known.get(url) || '';

export const FAKE = '4x8:H100@rack-a,4x8:H100@rack-b,4x8:A100@rack-c';

/** A controller of its own, on a free port. */
export async function musterd({ fake = FAKE, config = CONFIG, state, port = 0, dev = true } = {}) {
  const folder = state || fs.mkdtempSync(path.join(os.tmpdir(), 'muster-web-'));
  const file = path.join(folder, 'muster.yaml');
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(file, config);
  const args = [...(dev ? ['--dev'] : []), '--config', file, '--listen', '127.0.0.1:' + port, '--state', path.join(folder, 'state'), '--log', 'warn', ...(fake ? ['--fake', fake] : [])];
  const child = spawn(path.join(BUILD, 'musterd'), args, { stdio: ['ignore', 'pipe', 'pipe'] });
  process.on('exit', () => child.exitCode === null && child.kill('SIGKILL'));
  let words = '', link = '';
  child.stderr.on('data', data => { words = (words + data).slice(-4000); });
  const url = await new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', data => {
      text += data;
      const m = /MUSTER_URL=(http:\/\/\S+)/.exec(text) || (!dev && /(http:\/\/127\.0\.0\.1:\d+)/.exec(text));
      const token = /MUSTER_TOKEN=(\S+)/.exec(text), once = /(http:\S+#once=\S+)/.exec(text);
      if (m && token) tokens_known.set(m[1], token[1]);
      if (once) link = once[1];
      if (m) resolve(m[1]);
    });
    child.on('exit', code => reject(new Error('musterd ended with ' + code + ': ' + words)));
  });
  return {
    url, folder, child, link, words: () => words,
    async stop(signal = 'SIGTERM', keep = false) {
      if (child.exitCode === null) {
        child.kill(signal);
        await new Promise(done => child.on('exit', done));
      }
      if (!keep) fs.rmSync(folder, { recursive: true, force: true });
    },
  };
}

export async function ask(url, method, route, body, token = token_of(url)) {
  const response = await fetch(url + '/api/v1' + route, {
    method, headers: { ...(body !== undefined ? { 'Content-Type': 'application/json' } : {}), ...(token ? { Authorization: 'Bearer ' + token } : {}) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  const value = text && (response.headers.get('content-type') || '').includes('json') ? JSON.parse(text) : text;
  if (!response.ok) throw new Error(method + ' ' + route + ': ' + response.status + ' ' + text);
  return value;
}

export async function until(what, check, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    if (await check()) return;
    if (Date.now() > end) throw new Error('never: ' + what);
    await new Promise(done => setTimeout(done, 50));
  }
}

/** People that have an account here: jobs run as somebody. */
function people() {
  if (process.getuid() !== 0) return [];
  const accounts = fs.readFileSync('/etc/passwd', 'utf8').split('\n').map(line => line.split(':')[0]);
  const wished = ['alice', 'bob', 'carol', 'dana', 'erin'].filter(name => accounts.includes(name));
  return wished.length >= 3 ? wished : ['games', 'mail', 'news', 'backup', 'uucp'].filter(name => accounts.includes(name));
}

const emulate = (name, vc, gpus, hours, more = {}) => ({ name, vc, gpus, time: hours + 'h', emulate: { run: more.run || hours * 3600 * 0.8 + 's', exit: more.exit || 0 }, ...more.spec });
const gang = (name, vc, nodes, type, hours, more = {}) => ({ name, vc, nodes, per_node: { gpu: type + ':8' }, time: hours + 'h', emulate: { run: more.run || hours * 3600 * 0.8 + 's', exit: 0 }, ...more.spec });

// Text that a careless page would run, hide behind or break on.
export const HOSTILE = {
  html: '<img src=x onerror="document.title=1"><script>window.hacked=1</script>',

  bidi: 'safe\u202egnp.exe',
  long: 'x'.repeat(100),
};
export const LOUD = `printf '<script>window.hacked=1</script> <b>bold</b>\\n'
printf 'bell \\007 esc \\033[31mred\\033[0m back\\rover\\n'
printf 'rtl \\342\\200\\256 txt\\n'
i=0; while [ $i -lt 40 ]; do echo "epoch $i loss 0.$((90 - i))"; i=$((i + 1)); done
head -c 2000000 /dev/zero | tr '\\0' x; echo; echo needle at the end; exec sleep 600`;

/** Fills it. Answers who is who and which job is what. */
export async function seed(url, { quick = false } = {}) {
  await until('nodes', async () => (await ask(url, 'GET', '/nodes')).items.filter(n => n.connected).length >= 12);
  const tokens = {};
  for (const user of people()) tokens[user] = (await ask(url, 'POST', '/tokens', { user, role: 'user' })).token;
  const viewer = (await ask(url, 'POST', '/tokens', { user: 'guest', role: 'viewer' })).token;
  const names = Object.keys(tokens), as = i => (names.length ? tokens[names[i % names.length]] : undefined);
  const put = async (spec, who) => (await ask(url, 'POST', '/jobs', spec, who)).id;
  const jobs = {};
  // What is over.
  for (let i = 0; i < (quick ? 4 : 12); i++) await put(emulate(['eval-glue', 'tokenise', 'resnet18', 'asr-probe'][i % 4], ['nlp', 'vision', 'speech'][i % 3], 1 + (i % 4), 1, { run: 1 + (i % 3) + 's', exit: i === 5 ? 1 : 0 }), as(i));
  jobs.done = await put({ name: 'smoke-test', vc: 'nlp', gpus: 'H100:2', time: '10m', run: 'echo all good; exit 0' });
  jobs.failed = await put({ name: 'broken-import', vc: 'vision', gpus: 1, time: '10m', run: 'echo "ModuleNotFoundError: No module named apex" >&2; exit 3' });
  await until('short jobs to end', async () => (await ask(url, 'GET', '/jobs')).items.length === 0);
  // What runs.
  jobs.gang = await put(gang('llama-pretrain', 'nlp', 2, 'H100', 48), as(0));
  await put(gang('vit-huge', 'vision', 1, 'H100', 20), as(1));
  await put(emulate('bert-large', 'nlp', 'H100:4', 8), as(0));
  await put(emulate('clip-finetune', 'vision', 'H100:4', 10), as(2));
  await put(emulate('diffusion-xl', 'vision', 'H100:8', 16), as(1));
  await put(emulate('whisper-multi', 'speech', 'A100:8', 12), as(3));
  await put(emulate('tts-baseline', 'speech', 'A100:2', 4), as(3));
  await put(emulate('notebook', 'default', 'A100:1', 6, { spec: { priority: 'low' } }), as(4));
  for (let i = 0; i < 5; i++) await put(emulate('ablation-' + 'abcde'[i], ['vision', 'nlp'][i % 2], 'H100:' + [2, 1, 4, 2, 1][i], 3 + i), as(i));
  jobs.loud = await put({ name: HOSTILE.html, vc: 'default', gpus: 'A100:1', time: '30m', run: LOUD });
  jobs.control = await put({ name: HOSTILE.bidi + HOSTILE.long, vc: 'default', gpus: 'A100:1', time: '30m', hold: true, run: 'true' });
  jobs.sweep = (await ask(url, 'POST', '/jobs', { name: 'lr-sweep', vc: 'vision', gpus: 'A100:1', time: '2h', array: '0-9%4', emulate: { run: '3000s', exit: 0 } }, as(2))).id;
  // What waits, and why.
  jobs.wait = await put(gang('llama-70b-ft', 'nlp', 4, 'H100', 24, { spec: { priority: 'high' } }), as(0));
  await put(gang('moe-8x7b', 'nlp', 2, 'H100', 36), as(4));
  await put(emulate('retrieval', 'nlp', 'H100:16', 6), as(2));
  for (let i = 0; i < (quick ? 4 : 14); i++) await put(emulate(['distill', 'rlhf-ppo', 'seg-former', 'conformer', 'prune', 'eval-mmlu'][i % 6] + '-' + i, ['nlp', 'vision', 'speech', 'nlp'][i % 4], i % 4 === 2 ? 'A100:8' : 'H100:' + [8, 4, 8, 16][i % 4], 2 + (i % 9)), as(i));
  jobs.mine = await put(emulate('my-experiment', 'nlp', 'H100:8', 5));
  jobs.after = await put({ name: 'report-after', vc: 'nlp', gpus: 1, time: '1h', after: 'ok:' + jobs.gang, run: 'true' }).catch(() => 0);
  jobs.held = await put({ name: 'parked', vc: 'vision', gpus: 'H100:2', time: '1h', hold: true, run: 'true' });
  await until('jobs to run', async () => (await ask(url, 'GET', '/jobs?state=RUNNING')).items.length >= 12);
  await ask(url, 'PATCH', '/nodes/gpu12', { drain: true, reason: 'fan 3 is loud' });
  await ask(url, 'PATCH', '/nodes/gpu11/gpus/7', { drain: true, reason: 'XID 79' });
  return { tokens, viewer, jobs, users: names };
}

// `node tests/web/seed.mjs`: one to click through, until Ctrl-C.
if (import.meta.url === 'file://' + process.argv[1]) {
  const m = await musterd({ port: Number(process.argv[2]) || 7717 });
  const s = await seed(m.url);
  console.log(m.url, JSON.stringify(s));
}
