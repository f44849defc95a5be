// SPDX-License-Identifier: Apache-2.0
// submit.js - a form that writes the job file as one types, asks what would become of it, and says it as a command.
import { h } from '../js/dom.js';
import { button, card, copy, field, segments, time } from '../js/ui.js';
import { plain } from '../js/text.js';
import { plural } from '../js/format.js';
import { send } from '../js/api.js';
import { icon } from '../js/icon.js';
import { command_of, spec_of, TEMPLATES, yaml_of } from '../js/spec.js';
import { reason_words } from '../js/why.js';

const PRIORITIES = ['oppo', 'low', 'normal', 'high', 'urgent'];
const PREEMPT = ['suspend', 'checkpoint', 'requeue', 'cancel', 'never'];

export default {
  title: () => 'Submit',
  needs: () => [{ path: '/vcs', gap: 5000 }, { path: '/gpus', kinds: ['job.', 'node.'], gap: 3000 }],
  command: ctx => (ctx.state.form ? command_of(spec_of(ctx.state.form)) : 'muster submit -f job.yaml'),
  view: ctx => {
    const s = ctx.state;
    if (!s.form) {
      s.form = { ...TEMPLATES.single.form };
      s.template = 'single';
      if (s.text) s.edit = true;
      else write(ctx);
      check(ctx);
    }
    return h('div', { class: 'grid submit' },
      h('div', { class: 'c6' }, card('What to run', { actions: segments(s.template, Object.entries(TEMPLATES).map(([k, t]) => [k, t.label]), k => { s.template = k; s.form = { ...TEMPLATES[k].form, vc: s.form.vc, type: s.form.type }; s.edit = false; write(ctx); check(ctx); }, 'Template') }, s.edit ? h('div', null, h('p', { class: 'muted' }, 'You are writing the file yourself. '), button('Back to the form', () => { s.edit = false; write(ctx); check(ctx); }, { class: 'small' })) : form(ctx))),
      h('div', { class: 'c6 submit-side' }, card('Job file', { note: 'write here too, if you like', actions: [button('Copy', async () => ctx.toast((await copy(s.text)) ? 'Copied' : 'The browser does not let copy'), { class: 'small', icon: 'copy' })] },
        h('div', { class: 'code' }, h('pre', { class: 'code-lines', 'aria-hidden': 'true' }, lines(s)), h('textarea', { class: 'code-text', value: s.text, spellcheck: 'false', wrap: 'off', rows: Math.max(12, s.text.split('\n').length + 1), 'aria-label': 'Job file', oninput: e => { s.text = e.target.value; s.edit = true; check(ctx); } })),
        h('p', { class: 'small muted' }, 'As a command: ', h('code', null, s.edit ? 'muster submit -f job.yaml' : command_of(spec_of(s.form))))),
        card('What would happen', plan(ctx), h('div', { class: 'row end-row' }, button('Submit', () => submit(ctx), { class: 'primary', icon: 'submit', disabled: !s.plan || s.busy })))));
  },
};

function lines(s) {
  const bad = s.problem && /^body:(\d+):/.exec(s.problem.message);
  return s.text.split('\n').map((_, i) => h('span', { key: i, class: bad && Number(bad[1]) === i + 1 ? 'bad-line' : '' }, String(i + 1)));
}

function write(ctx) {
  ctx.state.text = yaml_of(spec_of(ctx.state.form));
}

/** Asks the controller a little after the last key. */
function check(ctx) {
  const s = ctx.state;
  clearTimeout(s.timer);
  s.checking = true;
  ctx.redraw();
  s.timer = setTimeout(async () => {
    const text = s.text;
    try {
      const plan = await send('POST', '/jobs:plan', text, 'application/yaml');
      if (text !== s.text) return;
      s.plan = plan;
      s.problem = null;
    } catch (error) {
      if (text !== s.text) return;
      s.plan = null;
      s.problem = error;
    }
    s.checking = false;
    ctx.redraw();
  }, 350);
}

async function submit(ctx) {
  const s = ctx.state;
  s.busy = true;
  try {
    const job = await send('POST', '/jobs', s.text, 'application/yaml');
    ctx.toast(job.kind === 'Array' ? 'Submitted array ' + job.id + ' of ' + job.size : 'Submitted job ' + job.id);
    ctx.app.states.delete('submit/');
    ctx.go(job.kind === 'Array' ? '/arrays/' + job.id : '/jobs/' + job.id);
  } catch (error) {
    s.problem = error;
    s.plan = null;
  }
  s.busy = false;
  ctx.redraw();
}

function plan(ctx) {
  const s = ctx.state;
  if (s.problem) return h('div', { class: 'problem', role: 'alert' }, icon('warn'), h('div', null, h('strong', null, plain(s.problem.message.split('\n')[0].replace(/^body:/, 'line '), 300)), s.problem.code ? h('code', null, ' ' + plain(s.problem.code, 60)) : null, s.problem.hints.map((hint, i) => h('p', { key: i }, plain(hint, 300)))));
  if (!s.plan) return h('p', { class: 'muted' }, 'Asking\u2026');
  const p = s.plan, now = p.startsAt && new Date(p.startsAt) - ctx.now < 5000;
  return h('div', { class: s.checking ? 'plan checking' : 'plan', 'aria-live': 'polite' },
    h('div', { class: p.feasible ? (now ? 'good' : 'plan-later') : 'problem' }, icon(now ? 'check' : 'clock'), h('div', null, h('strong', null, !p.feasible ? 'It can never run here' : now ? 'It starts at once' : p.startsAt ? ['It starts ~', time(p.startsAt, ctx.now)] : 'It waits; when it starts is not known'), p.nodelist ? h('span', null, ' on ' + plain(p.nodelist, 80)) : null, !now && p.code && p.code !== 'Now' ? h('p', null, reason_words(p.code).long || plain(p.message, 200)) : null)),
    h('p', { class: 'muted' }, 'It asks for ' + plain(p.asks && p.asks.text, 120) + (p.eta && p.eta.basis ? ' \u00b7 by ' + plain(p.eta.basis, 80) : '')),
    p.preempts && p.preempts.length ? h('p', { class: 'wait-text' }, plural(p.preempts.length, 'job') + ' would be stopped for it') : null,
    (p.warnings || []).map((w, i) => h('p', { class: 'wait-text', key: i }, icon('warn'), ' ', plain(typeof w === 'string' ? w : w.text || JSON.stringify(w), 200))),
    p.alternatives && p.alternatives.length ? [h('h3', null, 'Other shapes'), h('ul', { class: 'shapes' }, p.alternatives.map((a, i) => h('li', { key: i, class: a.ok ? 'ok-text' : 'muted' }, icon(a.ok ? 'check' : 'minus'), h('code', null, plain(a.flags, 100)), ' ', plain(a.text, 160))))] : null);
}

function form(ctx) {
  const s = ctx.state, f = s.form, vcs = ctx.data('/vcs').value, gpus = ctx.data('/gpus').value;
  const put = (name, value) => {
    f[name] = value;
    write(ctx);
    check(ctx);
  };
  const input = (name, more) => h('input', { value: f[name] || '', oninput: e => put(name, e.target.value), autocomplete: 'off', ...more });
  const choice = (name, choices, standard) => h('select', { onchange: e => put(name, e.target.value) }, choices.map(([v, text]) => h('option', { key: v, value: v, selected: (f[name] || standard) === v }, text)));
  const area = (name, more) => h('textarea', { value: f[name] || '', oninput: e => put(name, e.target.value), spellcheck: 'false', ...more });
  return h('form', { class: 'form', onsubmit: e => e.preventDefault() },
    h('div', { class: 'form-row' }, field('Name', input('name', { maxlength: 128 })), field('Virtual cluster', choice('vc', [['', 'the usual one'], ...(vcs ? vcs.items.map(v => [v.name, plain(v.name, 40)]) : [])], ''))),
    h('div', { class: 'form-row three' },
      field('GPU type', choice('type', [['', 'any'], ...(gpus ? gpus.items.map(g => [g.sku, g.sku + ' (' + g.free + ' free)']) : [])], '')),
      field(Number(f.nodes) > 1 ? 'GPUs a node' : 'GPUs', input('gpus', { inputmode: 'decimal', placeholder: '1', maxlength: 20 }), '8, 4..16 (elastic), 0.5 (a share)'),
      field('Nodes', input('nodes', { inputmode: 'numeric', placeholder: '1', maxlength: 8 }))),
    h('div', { class: 'form-row three' }, field('Time limit', input('time', { placeholder: 'none', maxlength: 20 }), '2h30m, 1-12:00:00'), field('Priority', choice('priority', PRIORITIES.map(p => [p, p]), 'normal')), field('When it must leave', choice('preempt', PREEMPT.map(p => [p, p]), 'requeue'))),
    field('Command', area('run', { rows: 4, class: 'mono', placeholder: 'python train.py' })),
    h('details', { open: !!(f.image || f.env || f.ckpt || f.dir || f.cpus || f.memory || f.retries) }, h('summary', null, 'More: image, environment, checkpoints, CPUs'),
      h('div', { class: 'form-row' }, field('Container image', input('image', { placeholder: 'none' })), field('Folder', input('dir', { placeholder: 'your home' }))),
      h('div', { class: 'form-row three' }, field('CPUs a node', input('cpus', { inputmode: 'numeric' })), field('Memory a node', input('memory', { placeholder: '64G' })), field('Retries', input('retries', { inputmode: 'numeric', placeholder: '0' }))),
      h('div', { class: 'form-row' }, field('Environment', area('env', { rows: 2, class: 'mono', placeholder: 'NAME=value, one a line' })), field('Checkpoints in', input('ckpt', { placeholder: '/ckpt' }), 'found again as $MUSTER_CKPT_DIR'))),
    h('details', { open: !!f.sweep }, h('summary', null, 'Sweep: one job for every combination'), h('div', { class: 'form-row' }, field('Values', area('sweep', { rows: 3, class: 'mono', placeholder: 'lr = 0.1, 0.01' }), 'each is a variable of that name'), field('At a time', input('parallel', { inputmode: 'numeric', placeholder: 'all' })))));
}
