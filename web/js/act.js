// SPDX-License-Identifier: Apache-2.0
// act.js - what can be done to jobs and nodes: offered where state and role allow it, asked for once more, done.
import { send } from './api.js';
import { button } from './ui.js';
import { plain, shell_word } from './text.js';

export const OVER = new Set(['COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT', 'PREEMPTED', 'NODE_FAIL', 'OUT_OF_MEMORY', 'DEADLINE']);

/** Whether this person governs the job. */
export function governs(who, job) {
  if (!who) return false;
  if (who.role === 'admin') return true;
  if (who.role !== 'user' && who.role !== 'vc-admin') return false;
  return job.user === who.user || (who.role === 'vc-admin' && who.scope === 'vc:' + job.vc);
}

/** Names of what may be done to a job in its state. */
export function actions(job) {
  const held = job.held || (job.reason && job.reason.code === 'Held');
  if (OVER.has(job.state)) return ['requeue'];
  if (job.state === 'PENDING') return [held ? 'release' : 'hold', 'cancel'];
  if (job.state === 'SUSPENDED') return ['resume', 'requeue', 'cancel'];
  if (job.kept_until) return ['release', 'requeue', 'cancel'];
  if (job.state === 'RUNNING') return ['suspend', 'requeue', 'cancel'];
  return ['cancel'];
}

const WORDS = {
  cancel: ['Cancel', 'stop', 'Its processes get SIGTERM, the time of its grace, then SIGKILL. What it has not saved is lost.', true],
  requeue: ['Requeue', 'back', 'It is stopped if it runs and waits again as a new attempt.', true],
  suspend: ['Suspend', 'pause', 'Its processes are stopped where they are; its GPUs go to others.', false],
  resume: ['Resume', 'play', 'It goes on as soon as its GPUs are free.', false],
  hold: ['Hold', 'lock', 'It waits until it is released.', false],
  release: ['Release', 'play', 'It is considered again.', false],
};

export function action_buttons(ctx, job, small) {
  if (!governs(ctx.who, job)) return null;
  return actions(job).map(name => {
    const [label, icon, text, danger] = WORDS[name];
    return button(label, () => act(ctx, job, name, text, danger), { key: name, icon, label, class: (danger && name === 'cancel' ? 'danger-quiet ' : '') + (small ? 'small' : ''), title: text });
  });
}

function act(ctx, job, name, text, danger) {
  const words = 'muster ' + name + ' ' + job.id;
  const call = async () => {
    const [label] = WORDS[name];
    await ctx.ask(label + ' job ' + job.id, () => (name === 'cancel' ? send('DELETE', '/jobs/' + job.id) : send('POST', '/jobs/' + job.id + '/' + name, {})));
    ctx.store.touch('/jobs');
    ctx.store.touch('/queue');
  };
  ctx.dialog({ kind: 'confirm', title: WORDS[name][0] + ' job ' + job.id + (job.name ? ' \u201c' + plain(job.name, 60) + '\u201d' : '') + '?', text, words, verb: WORDS[name][0], danger, yes: call });
}

const PRIORITIES = ['oppo', 'low', 'normal', 'high', 'urgent'];

/** Another priority or time limit; of an elastic job another size. */
export function change_button(ctx, job) {
  if (!governs(ctx.who, job) || OVER.has(job.state)) return null;
  return button('Change', () => ctx.dialog({ kind: 'confirm', title: 'Change job ' + job.id, text: 'What is left as it is stays as it is.', words: 'muster set ' + job.id + ' priority=high time=12h' + (job.size ? ' size=' + job.size.max : ''), verb: 'Change',
    fields: [{ name: 'priority', label: 'Priority', choices: PRIORITIES, value: job.priority_class }, { name: 'hours', label: 'Time limit in hours', placeholder: job.limit_seconds ? String(Math.round(job.limit_seconds / 36) / 100) : 'none', type: 'number' },
      ...(job.size ? [{ name: 'size', label: 'GPUs, ' + job.size.min + ' to ' + job.size.max, placeholder: job.size.set ? String(job.size.set) : 'as the policy chooses', type: 'number' }] : [])],
    yes: async values => {
      const body = {};
      if (values.priority !== job.priority_class) body.priority = values.priority;
      if (Number(values.hours) > 0) body.time_seconds = Math.round(Number(values.hours) * 3600);
      if (Object.keys(body).length) await ctx.ask('Change job ' + job.id, () => send('PATCH', '/jobs/' + job.id, body));
      if (Number(values.size) > 0) await ctx.ask('Resize job ' + job.id, () => send('POST', '/jobs/' + job.id + '/resize', { size: Number(values.size) }));
      ctx.store.touch('/jobs');
    } }), { icon: 'resize', title: 'Another priority, time limit or, where it is elastic, size' });
}

export function node_buttons(ctx, node) {
  if (!ctx.may('admin')) return null;
  const path = '/nodes/' + encodeURIComponent(node.name);
  const drained = node.state === 'drain' || node.state === 'draining' || node.drain_reason;
  if (drained)
    return button('Resume', () => ctx.dialog({ kind: 'confirm', title: 'Resume ' + plain(node.name, 60) + '?', text: 'Jobs are placed on it again.', words: 'muster node resume ' + shell_word(node.name), verb: 'Resume',
      yes: async () => { await ctx.ask('Resume ' + node.name, () => send('PATCH', path, { drain: false })); ctx.store.touch('/nodes'); } }), { icon: 'play', class: 'small' });
  return button('Drain', () => ctx.dialog({ kind: 'confirm', title: 'Drain ' + plain(node.name, 60) + '?', text: 'Nothing new is placed on it. What runs there goes on to its end.', danger: true, verb: 'Drain',
    fields: [{ name: 'reason', label: 'Reason', required: true, placeholder: 'fan 3 is loud' }], words: 'muster node drain ' + shell_word(node.name) + ' --reason TEXT',
    yes: async values => { await ctx.ask('Drain ' + node.name, () => send('PATCH', path, { drain: true, reason: values.reason })); ctx.store.touch('/nodes'); } }), { icon: 'pause', class: 'small' });
}
