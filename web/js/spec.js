// SPDX-License-Identifier: Apache-2.0
// spec.js - a job as a file, as a command and as a form. Knows nothing of the document.
import { shell_word } from './text.js';

const PLAIN = /^[A-Za-z_/.][A-Za-z0-9_./@ -]*$/;
const WORDS = new Set(['true', 'false', 'yes', 'no', 'on', 'off', 'null', 'y', 'n', '~']);

function scalar(value) {
  if (typeof value !== 'string') return String(value);
  if (PLAIN.test(value) && !WORDS.has(value.toLowerCase()) && !value.endsWith(' ') && !value.includes(' #')) return value;
  return JSON.stringify(value).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

const is_flat = value => typeof value !== 'object' || value === null;
const flow = value => is_flat(value) ? scalar(value) : Array.isArray(value) ? '[' + value.map(flow).join(', ') + ']' : '{' + Object.entries(value).map(([k, v]) => scalar(k) + ': ' + flow(v)).join(', ') + '}';

/** A job file of a specification: keys in the order people write them, text of several lines as a block. */
export function yaml_of(spec) {
  const order = ['name', 'vc', 'account', 'priority', 'time', 'gpus', 'nodes', 'per_node', 'topology', 'launch', 'image', 'env', 'array', 'preempt', 'checkpoint', 'retries', 'dir', 'run', 'args'];
  const keys = Object.keys(spec).filter(k => spec[k] !== null && spec[k] !== undefined && spec[k] !== '').sort((a, b) => (order.indexOf(a) + 1 || 99) - (order.indexOf(b) + 1 || 99));
  return keys.map(key => {
    const value = spec[key];
    if (typeof value === 'string' && value.includes('\n') && !/[^\n\t -~\u00a0-\ud7ff\ue000-\ufffd]/.test(value) && !/^[ \n]/.test(value)) {
      const lines = value.replace(/\n+$/, '').split('\n');
      return key + ': |' + (value.endsWith('\n') ? '' : '-') + '\n' + lines.map(line => (line ? '  ' + line : '')).join('\n');
    }
    return key + ': ' + flow(value);
  }).join('\n') + '\n';
}

/** The form's fields to a specification: only what was said. */
export function spec_of(form) {
  const out = {};
  if (form.name) out.name = form.name;
  if (form.vc) out.vc = form.vc;
  if (form.priority && form.priority !== 'normal') out.priority = form.priority;
  if (form.time) out.time = form.time;
  const gpu = (form.type ? form.type + ':' : '') + (form.gpus || '1');
  if (Number(form.nodes) > 1) {
    out.nodes = Number(form.nodes);
    out.per_node = { gpu: /^\d+$/.test(gpu) ? Number(gpu) : gpu };
    if (form.cpus) out.per_node.cpu = Number(form.cpus);
    if (form.memory) out.per_node.memory = form.memory;
    out.launch = 'node';
  } else {
    out.gpus = /^\d+$/.test(gpu) ? Number(gpu) : gpu;
    if (form.cpus || form.memory) {
      out.nodes = 1;
      delete out.gpus;
      out.per_node = { gpu: /^\d+$/.test(gpu) ? Number(gpu) : gpu };
      if (form.cpus) out.per_node.cpu = Number(form.cpus);
      if (form.memory) out.per_node.memory = form.memory;
    }
  }
  if (form.image) out.image = form.image;
  if (form.dir) out.dir = form.dir;
  const env = env_of(form.env);
  if (env) out.env = env;
  if (form.preempt && form.preempt !== 'requeue') out.preempt = form.preempt;
  if (form.ckpt) out.checkpoint = { dir: form.ckpt, grace: '120s' };
  if (form.retries && form.retries !== '0') out.retries = Number(form.retries);
  const sweep = sweep_of(form.sweep);
  if (sweep) out.array = Number(form.parallel) ? { values: sweep, parallel: Number(form.parallel) } : { values: sweep };
  if (form.run) out.run = form.run;
  return out;
}

/** "A=1" lines to an object. */
export function env_of(text) {
  const out = {};
  for (const line of (text || '').split('\n')) {
    const m = /^\s*([A-Za-z_][A-Za-z0-9_]*)=(.*)$/.exec(line);
    if (m) out[m[1]] = m[2];
  }
  return Object.keys(out).length ? out : null;
}

/** "lr = 0.1, 0.01" lines to lists of values. */
export function sweep_of(text) {
  const out = {};
  for (const line of (text || '').split('\n')) {
    const m = /^\s*([A-Za-z_][A-Za-z0-9_]*)\s*[=:]\s*(.+)$/.exec(line);
    if (!m) continue;
    out[m[1]] = m[2].split(',').map(v => v.trim()).filter(Boolean).map(v => (/^-?\d+(\.\d+)?(e-?\d+)?$/i.test(v) ? Number(v) : v));
  }
  return Object.keys(out).length ? out : null;
}

/** The same as flags, for what flags can say; else the file. */
export function command_of(spec) {
  const can = ['name', 'vc', 'priority', 'time', 'gpus', 'nodes', 'per_node', 'image', 'dir', 'env', 'preempt', 'retries', 'run'];
  if (Object.keys(spec).some(k => !can.includes(k)) || !spec.run || spec.run.includes('\n') || (spec.per_node && spec.per_node.cpu)) return 'muster submit -f job.yaml';
  const out = ['muster submit'];
  if (spec.name) out.push('-J ' + shell_word(spec.name));
  if (spec.vc) out.push('-p ' + shell_word(spec.vc));
  if (spec.priority) out.push('-q ' + spec.priority);
  if (spec.nodes) out.push('-N ' + spec.nodes);
  if (spec.gpus !== undefined) out.push('-G ' + shell_word(String(spec.gpus)));
  if (spec.per_node && spec.per_node.gpu !== undefined) out.push('--gpus-per-node=' + shell_word(String(spec.per_node.gpu)));
  if (spec.per_node && spec.per_node.memory) out.push('--mem=' + shell_word(spec.per_node.memory));
  if (spec.time) out.push('-t ' + shell_word(spec.time));
  if (spec.image) out.push('--image ' + shell_word(spec.image));
  if (spec.dir) out.push('-D ' + shell_word(spec.dir));
  for (const [k, v] of Object.entries(spec.env || {})) out.push('--env ' + shell_word(k + '=' + v));
  if (spec.preempt) out.push('--preempt ' + spec.preempt);
  if (spec.retries) out.push('--retries ' + spec.retries);
  out.push('--wrap ' + shell_word(spec.run));
  return out.join(' ');
}

export const TEMPLATES = {
  empty: { label: 'Empty', form: {} },
  single: { label: 'PyTorch, one node', form: { name: 'train', gpus: '8', time: '12h', run: 'torchrun --standalone --nproc-per-node=gpu train.py\n', env: 'OMP_NUM_THREADS=8' } },
  multi: { label: 'PyTorch, several nodes', form: { name: 'train-ddp', nodes: '2', gpus: '8', time: '24h', run: '# MASTER_ADDR, PET_NNODES and the rest are set: torchrun needs no flags\ntorchrun train.py --resume "$MUSTER_CKPT_DIR"\n', env: 'NCCL_DEBUG=WARN', ckpt: '/ckpt', preempt: 'checkpoint', retries: '3' } },
  sweep: { label: 'Sweep', form: { name: 'lr-sweep', gpus: '1', time: '2h', sweep: 'lr = 0.1, 0.01, 0.001\nseed = 0, 1, 2', parallel: '4', run: 'python train.py --lr "$lr" --seed "$seed"\n' } },
};
