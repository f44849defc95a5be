// SPDX-License-Identifier: Apache-2.0
// why.js - reason codes in words, and the explanation of a job.
import { h } from './dom.js';
import { plain } from './text.js';
import { count, hostlist, plural, span } from './format.js';
import { badge, time } from './ui.js';
import { icon } from './icon.js';

// short: for a table; long: what it means; because: after "mostly because"; help: what its owner can do.
const WORDS = {
  Held: ['On hold', 'A person holds it back.', 'people hold them back', 'Release it.'],
  BeginTime: ['Not yet time', 'It asked to start later.', 'they asked to start later', ''],
  Dependency: ['After others', 'It waits for other jobs to end.', 'they wait for other jobs to end', ''],
  ArrayLimit: ['Array limit', 'Its array runs as many at a time as it may.', 'their arrays run as many as they may', 'Raise the number after % in --array.'],
  ReservationNotStarted: ['Reservation', 'Its reservation has not begun.', 'reservations have not begun', ''],
  SchedulerPaused: ['Paused', 'An administrator has paused the scheduler.', 'an administrator has paused the scheduler', ''],
  Backoff: ['Backing off', 'It failed and is tried again a little later.', 'they failed and are tried again later', ''],
  VcLimit: ['VC at its limit', 'It asks for more than is left of the guarantee of its virtual cluster.', 'they ask for more than is left of their guarantees', 'Wait for jobs of your virtual cluster, or submit to another.'],
  UserLimit: ['User at the limit', 'Its user has as many GPUs as one may.', 'their users have as many GPUs as they may', 'It starts when another job of this user ends.'],
  LicenseLimit: ['No licence free', 'Others hold the licences it asks for.', 'licences are in use', 'It starts when they are given back; see who holds them.'],
  AccountBudget: ['Budget spent', 'Its account has no GPU-hours left.', 'their accounts have no GPU-hours left', ''],
  BorrowLimit: ['Borrow limit', 'It asks for more than its virtual cluster may still borrow.', 'they ask for more than their virtual clusters may borrow', 'It starts when GPUs of its own guarantee are free.'],
  InsufficientGpus: ['Too few free GPUs', 'Fewer GPUs are free than it asks for.', 'too few GPUs are free', 'A smaller job would start sooner.'],
  InsufficientCpuMem: ['Too little CPU or memory', 'GPUs are free, but not the CPUs or memory it asks for.', 'CPUs or memory are short', 'Ask for fewer CPUs or less memory.'],
  Fragmented: ['Fragmented', 'Enough GPUs are free, but not together.', 'free GPUs are scattered', 'A looser shape may start now: see the other shapes.'],
  TopologyUnsatisfied: ['No such topology free', 'Enough GPUs are free, but not within the part it asks for.', 'free GPUs lie too far apart', 'Use --topo LEVEL:prefer.'],
  NodesUnhealthy: ['Nodes unhealthy', 'Nodes it could use are drained or down.', 'nodes are drained or down', ''],
  ForeignUse: ['Used by others', 'GPUs it could use are taken by processes muster did not start.', 'others use the GPUs', ''],
  ReservedForJob: ['Kept for another', 'Free GPUs are kept for a larger job ahead of it.', 'GPUs are kept for larger jobs', 'A shorter time limit lets it slip in before.'],
  Priority: ['Others first', 'Others are ahead of it in the queue.', 'others are ahead', ''],
  Preempting: ['Making room', 'Others are being stopped for it.', 'others are being stopped for them', ''],
  Defragmenting: ['Moving others', 'Others are being moved for it.', 'others are being moved for them', ''],
  KeptOnFail: ['Failed, kept', 'It failed, and its place is kept to be looked into.', 'they failed and are kept', 'Release it when you are done.'],
  NodeSilent: ['Node silent', 'Its node is not heard. It starts elsewhere when it is certain that it runs there no longer.', 'their nodes are silent', 'Look at the node.'],
  TaskStuck: ['Cannot be ended', 'It was killed, and a process of it waits in the kernel.', 'they cannot be ended', 'Look at the node.'],
  Scheduling: ['Being considered', 'The scheduler has not looked at it yet.', 'they have just arrived', ''],
};

export function reason_words(code) {
  const w = WORDS[code];
  if (w) return { short: w[0], long: w[1], because: w[2], help: w[3] };
  const spaced = plain(code, 60).replace(/([a-z])([A-Z])/g, '$1 $2');
  return { short: spaced, long: '', because: spaced.toLowerCase(), help: '' };
}

const row = (name, ...value) => h('div', { class: 'why-row', key: name }, h('dt', null, name), h('dd', null, value));

/** An answer of GET /jobs/ID/why. */
export function why_view(ctx, w, job) {
  const waits = w.state === 'PENDING', words = w.code && waits ? reason_words(w.code) : null;
  return h('div', { class: 'why' },
    w.code && w.state === 'PENDING' ? h('div', { class: 'why-head' }, icon('clock'), h('div', null, h('strong', null, words.short), h('code', { class: 'muted' }, ' ' + plain(w.code, 60)), h('p', null, plain(w.message, 400) || words.long))) : null,
    !waits && (w.message || job) ? h('p', null, job && job.end_time ? [badge(w.state), ' '] : null, w.message ? plain(w.message, 300).replace(/^it /, 'It ') + '.' : null) : null,
    w.receipt ? receipt(ctx, w.receipt) : null,
    h('dl', { class: 'why-rows' },
      w.asks && w.asks.text ? row('asks for', plain(w.asks.text, 200), job && job.size && job.size.max > job.size.min ? ', elastic from ' + count(job.size.min) + ' to ' + plural(job.size.max, 'GPU') : '') : null,
      w.entitlement ? row('virtual cluster', plain(w.entitlement.vc, 60) + ': ' + plain(w.entitlement.text, 200)) : null,
      waits && w.free ? row('free now', w.free.length ? w.free.slice(0, 12).map((f, i) => [i ? ', ' : '', h('a', { href: '/nodes/' + encodeURIComponent(f.node) }, plain(f.node, 60)), ' ' + f.gpus]) : 'nothing it could use', w.free.length > 12 ? ' and ' + (w.free.length - 12) + ' more nodes' : '') : null,
      w.heldBy && w.heldBy.length ? row('held by', h('ul', null, w.heldBy.slice(0, 8).map(b => h('li', { key: b.job }, h('a', { href: '/jobs/' + b.job }, 'job ' + b.job), ' of ' + plain(b.user, 30) + ', ' + plural(b.gpus, 'GPU') + (b.nodes && b.nodes.length ? ' on ' + plain(hostlist([].concat(b.nodes)), 60) : ''), b.until ? [', until ', time(b.until, ctx.now)] : ', no time limit')))) : null,
      waits && w.ahead ? row('ahead of it', w.ahead.length ? w.ahead.slice(0, 8).map((a, i) => [i ? ', ' : '', h('a', { href: '/jobs/' + a.job }, 'job ' + a.job), ' (' + plain(a.user, 24) + ', ' + count(a.gpus) + ')']) : 'nobody', w.ahead.length > 8 ? ' and ' + (w.ahead.length - 8) + ' more' : '') : null,
      w.eta && w.eta.at ? row('starts', h('strong', null, '~', time(w.eta.at, ctx.now)), w.eta.low && w.eta.high ? [', likely ', time(w.eta.low, ctx.now), ' to ', time(w.eta.high, ctx.now)] : null, h('span', { class: 'muted' }, ' (' + plain(w.eta.basis, 120) + ')')) : null,
      words && words.help ? row('what helps', words.help) : null),
    w.startsNowWith && w.startsNowWith.length ? [h('h3', null, 'Other shapes'), h('ul', { class: 'shapes' }, w.startsNowWith.map((s, i) => h('li', { key: i, class: s.ok ? 'ok-text' : 'muted' }, icon(s.ok ? 'check' : 'minus'), h('code', null, plain(s.flags, 120)), ' ', plain(s.text, 200))))] : null);
}

/** Why an attempt had to leave, and what that cost. */
const receipt = (ctx, r) => h('div', { class: 'receipt' }, icon('back'), h('div', null, h('strong', null, 'Attempt ' + r.attempt + ' ended ', time(r.time, ctx.now), ': ', r.by ? [plain(r.step, 60) + ', made room for ', h('a', { href: '/jobs/' + r.by }, 'job ' + r.by)] : plain(r.text, 400)),
  r.lost_gpu_seconds ? h('p', { class: 'muted' }, 'lost ' + span(r.lost_gpu_seconds) + ' of GPU time') : null));
