// SPDX-License-Identifier: Apache-2.0
// color.js - a colour and a pattern for each name. Eight colours that people who see few of them can still tell apart,
// then the same with stripes; a name keeps its colour on every page.

export const PALETTE = ['#0072b2', '#e69f00', '#2a9d3f', '#cc79a7', '#56b4e9', '#d55e00', '#8c6bb1', '#a6961a'];
export const PATTERNS = ['', 'stripe', 'dots', 'cross'];

/** Numbers names get in the order they are first asked for, beginning with the known ones. */
export class Colors {
  constructor() {
    this.numbers = new Map();
  }
  know(names) {
    for (const name of names) this.number(name);
  }
  number(name) {
    if (!this.numbers.has(name)) this.numbers.set(name, this.numbers.size);
    return this.numbers.get(name);
  }
  of(name) {
    const n = this.number(name);
    return { fill: PALETTE[n % PALETTE.length], pattern: PATTERNS[Math.floor(n / PALETTE.length) % PATTERNS.length], number: n };
  }
}

export const vc_colors = new Colors();
export const policy_colors = new Colors();

/** Any number (of a job) to a colour: neighbours differ, and the same job is the same everywhere. */
export function job_color(id) {
  const hue = (id * 137.508) % 360;
  const light = 46 + ((id * 7) % 3) * 8;
  return 'hsl(' + hue.toFixed(0) + ' 62% ' + light + '%)';
}

/** 0..1 to a colour from calm to busy, in even steps of lightness (works without colour too). */
const RAMP = [[30, 42, 74], [38, 88, 128], [32, 136, 138], [74, 178, 112], [178, 212, 74], [250, 230, 60]];
export function ramp(f) {
  const x = Math.min(0.9999, Math.max(0, f)) * (RAMP.length - 1), i = Math.floor(x), t = x - i;
  return 'rgb(' + [0, 1, 2].map(c => Math.round(RAMP[i][c] + (RAMP[i + 1][c] - RAMP[i][c]) * t)).join(' ') + ')';
}
