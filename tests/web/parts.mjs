// SPDX-License-Identifier: Apache-2.0
// parts.mjs - the parts of the dashboard that need no browser: text, numbers, events, addresses, job files, pictures' layout.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';

const web = path.join(process.env.MUSTER_SOURCE || '.', 'web');
const load = name => import('file://' + path.resolve(web, name));
const text = await load('js/text.js'), format = await load('js/format.js'), { EventParser } = await load('js/sse.js'), route = await load('js/route.js');
const spec = await load('js/spec.js'), topo = await load('js/topo.js'), gantt = await load('js/gantt.js'), plot = await load('js/plot.js'), color = await load('js/color.js'), act = await load('js/act.js'), why = await load('js/why.js'), door = await load('js/entry.js');

test('text of others is one harmless line', () => {
  assert.equal(text.plain('<b>x</b>'), '<b>x</b>'); // it only ever becomes a text node
  assert.equal(text.plain('a\u0007b\u001b[31m\u0000\u007f'), 'a\u2407b\u241b[31m\u2400\u2421');
  assert.equal(text.plain('a\u202eb\u2066c\u200fd\ufeff'), 'a\u27e8U+202E\u27e9b\u27e8U+2066\u27e9c\u27e8U+200F\u27e9d\u27e8U+FEFF\u27e9');
  assert.equal(text.plain('a\nb\tc'), 'a b c');
  assert.equal(text.plain('\ud800x\udc00'), '\ufffdx\ufffd');
  assert.equal(text.plain('\u{1f600} \u00e9 \u6f22 \u05d0'), '\u{1f600} \u00e9 \u6f22 \u05d0');
  assert.equal(text.plain(null), '');
  assert.equal(text.plain('x'.repeat(5000)).length, 201);
});

test('output: escapes go, a bar shows where it got to, long lines are cut', () => {
  assert.deepEqual(text.output_line('\u001b[1;31mred\u001b[0m \u001b]0;title\u0007x'), { text: 'red x', cut: 0 });
  assert.deepEqual(text.output_line(' 10%\r 50%\r100%'), { text: '100%', cut: 0 });
  assert.deepEqual(text.output_line('dos\r'), { text: 'dos', cut: 0 });
  assert.equal(text.output_line('\u202etxt').text, '\u27e8U+202E\u27e9txt');
  const long = text.output_line('y'.repeat(1000000));
  assert.equal(long.text.length, 4000);
  assert.equal(long.cut, 996000);
});

test('lines come in pieces', () => {
  const lines = new text.Lines(3);
  lines.add('a\nb');
  lines.add('c\n');
  lines.add('d');
  assert.deepEqual(lines.all().map(l => l.text), ['a', 'bc', 'd']);
  lines.add('\ne\nf\ng\n');
  assert.deepEqual(lines.all().map(l => l.text), ['e', 'f', 'g']);
  assert.equal(lines.first, 4);
  const endless = new text.Lines();
  for (let i = 0; i < 40; i++) endless.add('z'.repeat(100000));
  endless.add('\nafter\n');
  assert.equal(endless.all()[0].text.length, 4000);
  assert.equal(endless.all()[0].cut, 4000000 - 4000);
  assert.equal(endless.all()[1].text, 'after');
});

test('jobs as a command that the client knows', async () => {
  const { command } = (await load('pages/jobs.js')).default;
  assert.equal(command({ query: { state: 'FAILED', user: 'x' } }), 'muster history -A --user x --state FAILED');
  assert.equal(command({ query: { state: 'FAILED', find: 'a b' } }), "muster queue -A --find 'a b' --state FAILED"); // history has no --find
});

test('shell words are one word', () => {
  for (const word of ['plain', 'a b', "it's", '$(reboot)', '`x`', '', 'a\nb', '-x', '*']) assert.equal(execFileSync('sh', ['-c', 'printf %s ' + text.shell_word(word)], { encoding: 'utf8' }), word);
});

test('spans, counts and sizes', () => {
  assert.deepEqual([0, 59, 61, 3599, 3600, 5400, 86399, 90000, null, NaN].map(format.span), ['0s', '59s', '1m 1s', '59m', '1h', '1h 30m', '23h 59m', '1d 1h', '\u2013', '\u2013']);
  assert.deepEqual([1234567, 0.5, 12.345, 123.456].map(format.count), ['1,234,567', '0.5', '12.3', '123']);
  assert.deepEqual([0, 1023, 1024, 80 * 2 ** 30].map(format.bytes), ['0 B', '1023 B', '1.00 KiB', '80.0 GiB']);
  assert.deepEqual([3, 12000, 3.4e6].map(format.brief), ['3', '12k', '3.4M']);
  assert.equal(format.percent(0.666), '67%');
});

test('times of the reader', () => {
  const now = Date.parse('2026-03-03T12:00:00'), at = text => Date.parse(text);
  assert.equal(format.when(at('2026-03-03T14:20:00'), now), '14:20');
  assert.equal(format.when(at('2026-03-05T09:05:00'), now), 'Thu 09:05');
  assert.equal(format.when(at('2026-05-05T09:05:00'), now), '5 May 09:05');
  assert.equal(format.when(null, now), '\u2013');
  assert.equal(format.from_now(now + 20 * 60e3, now), 'in 20m');
  assert.equal(format.from_now(now - 90e3, now), '1m 30s ago');
  assert.match(format.exact(now), /^2026-03-03 12:00:00 UTC[+-]\d\d:\d\d$/);
});

test('ticks are round and inside', () => {
  assert.deepEqual(format.ticks(0, 87, 5), [0, 20, 40, 60, 80]);
  assert.deepEqual(format.ticks(0, 1, 4), [0, 0.5, 1]);
  assert.deepEqual(format.ticks(5, 5, 4), [5]);
  const t = format.time_ticks(0, 86400e3, 6);
  assert.equal(t.step, 6 * 3600e3);
  assert.deepEqual(format.span_ticks(0, 46 * 86400, 6), [0, 10, 20, 30, 40].map(d => d * 86400));
});

test('hostlists', () => {
  assert.equal(format.hostlist(['gpu01', 'gpu02', 'gpu03', 'gpu07']), 'gpu[01-03,07]');
  assert.equal(format.hostlist(['gpu9', 'gpu10']), 'gpu10,gpu9');
  assert.equal(format.hostlist(['a', 'a']), 'a');
  assert.deepEqual(format.hosts_of('gpu[01-03,07],big1'), ['gpu01', 'gpu02', 'gpu03', 'gpu07', 'big1']);
  assert.deepEqual(format.hosts_of(''), []);
  assert.ok(format.hosts_of('x[0-999999999]').length <= 5000);
});

test('server-sent events in pieces of any size', () => {
  const raw = ': hello\nretry: 2000\n\nid: 7\nevent: job.running\ndata: {"a":\ndata: 1}\n\r\nid: 8\r\ndata:x\r\n\r\n';
  for (const size of [1, 2, 3, 7, 1000]) {
    const got = [];
    const parser = new EventParser(event => got.push(event));
    for (let i = 0; i < raw.length; i += size) parser.add(raw.slice(i, i + size));
    const want = [{ kind: 'job.running', id: '7', data: '{"a":\n1}' }, { kind: 'message', id: '8', data: 'x' }];
    if (size !== 1 && size !== 2 && size !== 3 && size !== 7) assert.deepEqual(got, want);
    else assert.deepEqual(got.map(e => e.data), want.map(e => e.data));
  }
});

test('addresses', () => {
  assert.deepEqual(route.route_of('/', ''), { page: 'overview', id: null, query: {} });
  assert.deepEqual(route.route_of('/jobs/12', '?x=1'), { page: 'job', id: '12', query: { x: '1' } });
  assert.deepEqual(route.route_of('/nodes/a%2Fb.example', ''), { page: 'node', id: 'a/b.example', query: {} });
  assert.deepEqual(route.route_of('/jobs/12_3', ''), { page: 'job', id: '12_3', query: {} });
  assert.deepEqual(route.route_of('/arrays/12', ''), { page: 'array', id: '12', query: {} });
  for (const bad of ['/nope', '/arrays/12_3', '/arrays',  '/jobs/abc', '/queue/1', '/jobs/1/2']) assert.equal(route.route_of(bad, '').page, null);
  assert.equal(route.route_of('/nodes/%zz', '').id, '%zz');
  assert.equal(route.with_query('/queue', { vc: 'a b', user: 'x' }, { user: '' }), '/queue?vc=a+b');
});

test('who may do what to which job', () => {
  const job = { user: 'ann', vc: 'nlp', state: 'RUNNING' };
  assert.equal(act.governs({ role: 'admin', user: 'x' }, job), true);
  assert.equal(act.governs({ role: 'user', user: 'ann' }, job), true);
  assert.equal(act.governs({ role: 'user', user: 'bob' }, job), false);
  assert.equal(act.governs({ role: 'vc-admin', user: 'bob', scope: 'vc:nlp' }, job), true);
  assert.equal(act.governs({ role: 'vc-admin', user: 'bob', scope: 'vc:cv' }, job), false);
  assert.equal(act.governs({ role: 'viewer', user: 'ann' }, job), false);
  assert.deepEqual(act.actions(job), ['suspend', 'requeue', 'cancel']);
  assert.deepEqual(act.actions({ ...job, state: 'PENDING' }), ['hold', 'cancel']);
  assert.deepEqual(act.actions({ ...job, state: 'PENDING', reason: { code: 'Held' } }), ['release', 'cancel']);
  assert.deepEqual(act.actions({ ...job, state: 'FAILED' }), ['requeue']);
});

test('every reason has words', () => {
  for (const code of ['Held', 'Fragmented', 'InsufficientGpus', 'BorrowLimit', 'Priority']) assert.ok(why.reason_words(code).long.length > 10);
  assert.equal(why.reason_words('SomethingNew').short, 'Something New');
  // Those the manual names that a pending job can have.
  const man = fs.readFileSync(path.join(web, '../man/muster-reasons.7.scd'), 'utf8');
  const codes = [...man.matchAll(/^\*([A-Z][A-Za-z]+)\*/gm)].map(m => m[1]);
  assert.ok(codes.length > 5);
});

test('GPUs lie inside the picture and do not touch', () => {
  const nodes = Array.from({ length: 1000 }, (_, i) => ({ name: 'n' + i, rack: 'r' + Math.floor(i / 32), domain: '', sku: 'H100', sockets: 2, groups: 1, state: 'idle', gpus: 'ffffffff', jobs: [0, 0, 0, 0, 0, 0, 0, 0] }));
  for (const width of [340, 1000, 2400]) {
    const map = topo.layout(nodes, width, 900);
    assert.equal(map.nodes.length, 1000);
    assert.equal(map.racks.length, 32);
    const seen = new Set();
    for (const box of map.nodes)
      for (let g = 0; g < 8; g++) {
        const x = box.cells[g * 2], y = box.cells[g * 2 + 1];
        assert.ok(x >= 0 && y >= 0 && y + map.cell <= map.height + 1, 'inside');
        assert.ok(x + map.cell <= Math.max(width, 8 * 8 + 40) + 1, 'not wider: ' + x + ' of ' + width);
        const key = Math.round(x) + ',' + Math.round(y);
        assert.ok(!seen.has(key));
        seen.add(key);
        if (g === 3) assert.deepEqual(topo.hit(map, x + 1, y + 1), { node: box.node, gpu: 3 });
      }
  }
  assert.equal(topo.hit(topo.layout(nodes, 1000, 900), -5, -5), null);
});

test('holes for a gang', () => {
  const node = (name, gpus, more) => ({ name, gpus, sku: 'H100', state: 'mixed', ...more });
  const nodes = [node('a', 'ffffuuuu'), node('b', 'ffffffff'), node('c', 'ffffffff'), node('d', 'ffffffff', { state: 'drain' }), node('e', 'ffxxuuff')];
  assert.deepEqual([topo.holes(nodes, 4).places, [...topo.holes(nodes, 4).nodes]], [6, ['a', 'b', 'c', 'e']]);
  assert.equal(topo.holes(nodes, 8).places, 2);
  assert.deepEqual([topo.holes(nodes, 16).places, [...topo.holes(nodes, 16).nodes]], [1, ['b', 'c']]);
  assert.equal(topo.holes(nodes, 32).places, 0);
  assert.equal(topo.holes(nodes, 8, 'A100').places, 0);
  assert.equal(topo.tally(nodes).total, 40);
});

test('whose guarantee a GPU stands for', () => {
  const cell = (bound, gpus) => ({ bound, gpus, gpu_count: 2 });
  const tree = { vcs: [{ name: 'nlp', cells: [cell('0/a/1', [{ node: 'a', indices: [2, 3] }]), cell(null, [])] }, { name: 'lab', cells: [cell('0/b', [{ node: 'b', indices: [0, 1] }])] }] };
  const found = topo.owners(tree);
  assert.deepEqual([0, 1, 2, 3].map(i => topo.owner_of(found, 'a', i)), ['', '', 'nlp', 'nlp']);
  assert.equal(topo.owner_of(found, 'b', 0), 'lab');
  assert.equal(topo.owner_of(found, 'c', 0), '');
  assert.equal(topo.owners({ vcs: [{ name: 'nlp', cells: [] }] }), null); // counts: nobody's
  assert.equal(topo.owners(null), null);
});

test('bars of a timeline: GPUs are lanes, pieces apart are apart', () => {
  const items = [{ job: 1, node: 'a', gpus: [0, 1, 6], start: '2026-01-01T00:00:00Z', end: null, until: '2026-01-01T02:00:01Z', user: 'u', vc: 'v', attempt: 0, planned: false }, { job: 2, node: 'b', gpus: [0], start: '2026-01-01T00:00:00Z', end: '2026-01-01T01:00:00Z', user: 'u', vc: 'v', attempt: 0, planned: false }];
  const now = Date.parse('2026-01-01T02:00:00Z'), rows = gantt.rows_of(items, ['b', 'a', 'c10', 'c9'], 'nodes', now);
  assert.deepEqual(rows.map(r => r.name), ['a', 'b', 'c9', 'c10']);
  assert.deepEqual(rows[0].bars.map(b => [b.lane, b.lanes, b.to, b.due]), [[0, 2, now, now + 1000], [6, 1, now, now + 1000]]);
  assert.ok(gantt.measure(rows, 'nodes') > 0);
  const view = { rows, from: now - 4 * 3600e3, to: now, top: 0, now };
  assert.equal(gantt.hit(view, gantt.X(view, now - 600e3, 900), rows[0].top + 24 + 3, 900).job, 1);
  const jobs = gantt.rows_of(items, [], 'jobs', now);
  assert.deepEqual(jobs.map(r => r.bars.length), [1, 1]);
  // Planned, stopped for another and planned again: two bars, with room for that other between them.
  const twice = [['03:00', '04:00'], ['05:00', '06:00']].map(t => ({ job: 3, node: 'a', gpus: [0], start: '2026-01-01T' + t[0] + ':00Z', end: '2026-01-01T' + t[1] + ':00Z', user: 'u', vc: 'v', attempt: 1, planned: true }));
  assert.deepEqual(gantt.rows_of(twice, [], 'vcs', now)[0].bars.map(b => b.to - b.from), [3600e3, 3600e3]);
});

test('plots', () => {
  assert.deepEqual(plot.extent([{ points: [[0, 1], [10, 5]] }, { points: [[0, 2], [10, 2]] }], false), { x0: 0, x1: 10, y1: 5 });
  assert.equal(plot.extent([{ points: [[0, 1], [10, 5]] }, { points: [[0, 2], [10, 2]] }], true).y1, 7);
  assert.equal(plot.extent([{ points: [] }]), null);
  assert.equal(plot.value_at([[0, 1], [10, 5]], 9), 1);
  assert.equal(plot.value_at([[0, 1], [10, 5]], 10), 5);
  assert.equal(plot.value_at([[5, 1]], 1), null);
});

/** Relative luminance, as WCAG counts it. */
const luminance = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16) / 255).map(c => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((a, c, i) => a + c * [0.2126, 0.7152, 0.0722][i], 0);
/** How a colour looks to somebody without red, green or blue receptors (simple projections). */
const BLIND = { protan: [[0.567, 0.433, 0], [0.558, 0.442, 0], [0, 0.242, 0.758]], deutan: [[0.625, 0.375, 0], [0.7, 0.3, 0], [0, 0.3, 0.7]], tritan: [[0.95, 0.05, 0], [0, 0.433, 0.567], [0, 0.475, 0.525]] };

test('the first colours are told apart by everybody', () => {
  const rgb = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
  for (const [name, m] of Object.entries(BLIND)) {
    const seen = color.PALETTE.slice(0, 6).map(hex => m.map(row => row.reduce((a, f, i) => a + f * rgb(hex)[i], 0)));
    for (let i = 0; i < seen.length; i++) for (let j = i + 1; j < seen.length; j++) assert.ok(Math.hypot(...seen[i].map((v, k) => v - seen[j][k])) > 28, name + ': ' + color.PALETTE[i] + ' and ' + color.PALETTE[j]);
  }
  const steps = [0, 0.2, 0.4, 0.6, 0.8, 1].map(f => color.ramp(f).match(/\d+/g).map(Number)).map(([r, g, b]) => luminance('#' + [r, g, b].map(v => v.toString(16).padStart(2, '0')).join('')));
  for (let i = 1; i < steps.length; i++) assert.ok(steps[i] > steps[i - 1], 'the ramp grows lighter');
  const colors = new color.Colors();
  assert.deepEqual([colors.of('a'), colors.of('b').number, colors.of('a').number], [{ fill: color.PALETTE[0], pattern: '', number: 0 }, 1, 0]);
  for (let i = 0; i < 8; i++) colors.of('x' + i);
  assert.equal(colors.of('x6').pattern, 'stripe');
});

test('a form becomes a file, and only what was said', () => {
  assert.deepEqual(spec.spec_of({ gpus: '8', run: 'x' }), { gpus: 8, run: 'x' });
  assert.deepEqual(spec.spec_of({ type: 'H100', gpus: '4..16', nodes: '1' }), { gpus: 'H100:4..16' });
  assert.deepEqual(spec.spec_of({ type: 'H100', gpus: '8', nodes: '2', cpus: '16' }), { nodes: 2, per_node: { gpu: 'H100:8', cpu: 16 }, launch: 'node' });
  assert.deepEqual(spec.sweep_of('lr = 0.1, 1e-3\nname: a, b\nnonsense'), { lr: [0.1, 0.001], name: ['a', 'b'] });
  assert.deepEqual(spec.env_of('A=1\nB=x=y\n bad'), { A: '1', B: 'x=y' });
  assert.equal(spec.yaml_of({ run: 'a\nb\n', name: 'x', time: '12h' }), 'name: x\ntime: "12h"\nrun: |\n  a\n  b\n');
  assert.equal(spec.yaml_of({ name: 'yes' }), 'name: "yes"\n');
});

const muster = path.join(process.env.MUSTER_BUILD || 'build', 'muster');

test('what the form writes is what the controller reads', { skip: !fs.existsSync(muster) && 'no muster' }, () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-spec-')), file = path.join(folder, 'job.yaml');
  const forms = [...Object.values(spec.TEMPLATES).map(t => t.form).filter(f => f.run), { name: "it's: a #name", vc: 'nlp', type: 'H100', gpus: '2', time: '2h', priority: 'high', run: 'echo "$HOME" \'x\' # y', env: 'A=b c\nQ="$x"', image: 'pytorch:2', retries: '2' },
    { name: 'block', gpus: '1', run: '  leading\n\nblank\t\u00e9\n' }, { name: 'odd', gpus: '1', run: 'tab\there\u2028end' }];
  for (const form of forms) {
    const s = spec.spec_of(form);
    fs.writeFileSync(file, spec.yaml_of(s));
    const out = execFileSync(muster, ['submit', '--convert', file], { encoding: 'utf8' });
    const got = Object.fromEntries([...out.matchAll(/^(\w+): ("[^\n]*"|\d+)$/gm)].map(m => [m[1], JSON.parse(m[2])]));
    for (const key of ['name', 'run', 'priority', 'image']) if (s[key] !== undefined) assert.equal(got[key], s[key], out);
  }
  fs.rmSync(folder, { recursive: true });
});

test('the bundle is small', async () => {
  const zlib = await import('node:zlib');
  let plain = 0, packed = 0;
  const walk = folder => fs.readdirSync(folder, { withFileTypes: true }).forEach(entry => {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) walk(file);
    else if (/\.(js|css|html|svg)$/.test(entry.name)) {
      const data = fs.readFileSync(file);
      plain += data.length;
      packed += zlib.gzipSync(data, { level: 9 }).length;
      assert.ok(!/\b(https?:)?\/\/(?!www\.w3\.org)[a-z0-9-]+\.[a-z]{2,}/i.test(data.toString().replace(/CONTROLLER:7717/g, '')), entry.name + ' names another site');
      assert.ok(!/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/.test(data.toString()), entry.name + ' makes markup of text');
    }
  });
  walk(web);
  console.log('# dashboard: ' + plain + ' bytes, ' + packed + ' compressed');
  assert.ok(packed < 120000, packed + ' bytes compressed');
  const built = fs.readFileSync(path.join(web, 'meson.build'), 'utf8');
  for (const folder of ['js', 'pages']) for (const name of fs.readdirSync(path.join(web, folder))) assert.ok(built.includes("'" + folder + '/' + name + "'"), name + ' is not built in');
});

test('signing in and out always leads somewhere', () => {
  // Signed out, a mistyped token, the next mistyped one, none again: never "does not answer".
  let entry = 'in';
  for (const [status, has_token, expected] of [[401, false, 'signin'], [401, true, 'expired'], [401, true, 'expired'], [401, false, 'signin'], [403, true, 'forbidden'], [0, true, 'unreachable'], [503, true, 'unreachable'], [401, true, 'expired']]) {
    entry = door.entry_of(status, has_token, entry === 'in' ? 'signin' : entry);
    assert.equal(entry, expected);
  }
  assert.equal(door.entry_of(0, true, 'in'), 'in'); // what is shown stays while the controller is started again
});
