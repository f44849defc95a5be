// SPDX-License-Identifier: Apache-2.0
// format.js - numbers, spans and times for people.

/** 45s, 12m, 3h 20m, 2d 4h. */
export function span(seconds) {
  if (seconds === null || seconds === undefined || !isFinite(seconds)) return '\u2013';
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return s + 's';
  if (s < 3600) return Math.floor(s / 60) + 'm' + (s < 600 && s % 60 ? ' ' + (s % 60) + 's' : '');
  if (s < 86400) return Math.floor(s / 3600) + 'h' + (s % 3600 >= 60 ? ' ' + Math.floor((s % 3600) / 60) + 'm' : '');
  return Math.floor(s / 86400) + 'd' + (s % 86400 >= 3600 ? ' ' + Math.floor((s % 86400) / 3600) + 'h' : '');
}

/** 1234567 -> 1,234,567; fractions with as many digits as help. */
export function count(n) {
  if (n === null || n === undefined || !isFinite(n)) return '\u2013';
  if (Number.isInteger(n)) return n.toLocaleString('en');
  const digits = Math.abs(n) >= 100 ? 0 : Math.abs(n) >= 10 ? 1 : 2;
  return n.toLocaleString('en', { maximumFractionDigits: digits });
}

/** 12k, 3.4M: for axes. */
export function brief(n) {
  const a = Math.abs(n);
  if (a >= 1e9) return trim(n / 1e9) + 'G';
  if (a >= 1e6) return trim(n / 1e6) + 'M';
  if (a >= 1e4) return trim(n / 1e3) + 'k';
  return trim(n);
}
const trim = n => String(Number(n.toPrecision(3)));

export function bytes(n) {
  if (n === null || n === undefined) return '\u2013';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let u = 0;
  while (n >= 1024 && u < units.length - 1) {
    n /= 1024;
    u++;
  }
  return (n >= 100 || u === 0 ? Math.round(n) : n.toPrecision(3)) + ' ' + units[u];
}

export const percent = f => (f === null || f === undefined || !isFinite(f) ? '\u2013' : Math.round(f * 100) + '%');
export const plural = (n, one, many) => count(n) + ' ' + (n === 1 ? one : many || one + 's');

const two = n => String(n).padStart(2, '0');
const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** In the reader's zone: 14:20 today, Tue 14:20 within a week, 3 Mar 14:20 else. */
export function when(at, now) {
  if (at === null || at === undefined) return '\u2013';
  const d = new Date(at), n = new Date(now);
  const clock = two(d.getHours()) + ':' + two(d.getMinutes());
  if (d.toDateString() === n.toDateString()) return clock;
  if (Math.abs(d - n) < 6 * 86400e3) return DAYS[d.getDay()] + ' ' + clock;
  return d.getDate() + ' ' + MONTHS[d.getMonth()] + (d.getFullYear() === n.getFullYear() ? ' ' + clock : ' ' + d.getFullYear());
}

/** Whole, with seconds and zone: what hovering tells. */
export function exact(at) {
  if (at === null || at === undefined) return '';
  const d = new Date(at);
  const off = -d.getTimezoneOffset(), sign = off < 0 ? '-' : '+', o = Math.abs(off);
  return d.getFullYear() + '-' + two(d.getMonth() + 1) + '-' + two(d.getDate()) + ' ' + two(d.getHours()) + ':' +
    two(d.getMinutes()) + ':' + two(d.getSeconds()) + ' UTC' + sign + two(Math.floor(o / 60)) + ':' + two(o % 60);
}

/** Milliseconds of an ISO time or null. */
export const instant = text => (text ? Date.parse(text) : null);

/** in 20m, 5m ago. */
export function from_now(at, now) {
  if (at === null || at === undefined) return '\u2013';
  const s = (at - now) / 1000;
  if (Math.abs(s) < 5) return 'now';
  return s > 0 ? 'in ' + span(s) : span(-s) + ' ago';
}

/** Values at round places: ticks(0, 87, 5) -> [0, 20, 40, 60, 80]. */
export function ticks(low, high, about) {
  if (!(high > low)) return [low];
  const raw = (high - low) / Math.max(1, about);
  const ten = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map(m => m * ten).find(s => s >= raw * 0.999);
  const out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) out.push(Number(v.toPrecision(12)));
  return out;
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000];

/** The same for times, in ms, at round places of the reader's zone. */
export function time_ticks(low, high, about) {
  const raw = (high - low) / 1000 / Math.max(1, about);
  const step = (STEPS.find(s => s >= raw) || STEPS[STEPS.length - 1]) * 1000;
  const zone = new Date(low).getTimezoneOffset() * 60e3;
  const out = [];
  for (let v = Math.ceil((low - zone) / step) * step + zone; v <= high; v += step) out.push(v);
  return { step, at: out };
}

/** Round spans of time, in seconds. */
export function span_ticks(low, high, about) {
  const raw = (high - low) / Math.max(1, about), days = raw / 86400;
  const step = days > 30 ? Math.pow(10, Math.ceil(Math.log10(days))) * 86400 : days > 14 ? 20 * 86400 : days > 7 ? 10 * 86400 : STEPS.find(s => s >= raw);
  const out = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) out.push(v);
  return out;
}

export function tick_label(at, step) {
  const d = new Date(at);
  const clock = two(d.getHours()) + ':' + two(d.getMinutes());
  if (step < 60e3) return clock + ':' + two(d.getSeconds());
  if (step < 86400e3 && (d.getHours() || d.getMinutes())) return clock;
  return d.getDate() + ' ' + MONTHS[d.getMonth()];
}

/** Names of "gpu[01-03,07],big1"; at most a few thousand. */
export function hosts_of(text) {
  const out = [];
  for (const m of String(text || '').matchAll(/([^,[\]]*)(?:\[([^\]]*)\])?(?:,|$)/g)) {
    if (!m[1] && !m[2]) continue;
    if (!m[2]) {
      out.push(m[1].trim());
      continue;
    }
    for (const part of m[2].split(',')) {
      const [from, to] = part.split('-'), last = Number(to || from);
      for (let i = Number(from); i <= last && out.length < 5000; i++) out.push(m[1].trim() + String(i).padStart(from.length, '0'));
    }
  }
  return out;
}

/** "gpu[01-03,07]" of a list of names. */
export function hostlist(names) {
  const groups = new Map(), out = [];
  for (const name of [...new Set(names)]) {
    const m = /^(.*?)(\d+)$/.exec(name);
    if (!m) {
      out.push(name);
      continue;
    }
    const key = m[1] + '\u0000' + m[2].length;
    if (!groups.has(key)) groups.set(key, { head: m[1], width: m[2].length, numbers: [] });
    groups.get(key).numbers.push(Number(m[2]));
  }
  for (const g of groups.values()) {
    g.numbers.sort((a, b) => a - b);
    const parts = [];
    for (let i = 0; i < g.numbers.length; i++) {
      let j = i;
      while (j + 1 < g.numbers.length && g.numbers[j + 1] === g.numbers[j] + 1) j++;
      const pad = n => String(n).padStart(g.width, '0');
      parts.push(i === j ? pad(g.numbers[i]) : pad(g.numbers[i]) + '-' + pad(g.numbers[j]));
      i = j;
    }
    const one = parts.length === 1 && !parts[0].includes('-');
    out.push(one ? g.head + parts[0] : g.head + '[' + parts.join(',') + ']');
  }
  return out.sort().join(',');
}
