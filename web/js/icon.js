// SPDX-License-Identifier: Apache-2.0
// icon.js - line drawings of 16 by 16.
import { h } from './dom.js';

const PATHS = {
  home: 'M2 8l6-5 6 5M4 7v6h8V7', map: 'M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z', queue: 'M2 4h12M2 8h9M2 12h6', gantt: 'M2 3h6M5 8h7M9 13h5',
  vcs: 'M8 2a6 6 0 106 6H8z M10 2a5 5 0 014 4h-4z', node: 'M2 3h12v4H2zM2 9h12v4H2zM5 5h.01M5 11h.01', report: 'M3 14V8M8 14V3M13 14v-4', submit: 'M8 14V4M4 8l4-4 4 4M3 2h10',
  whatif: 'M2 13c4 0 4-9 8-9h4M2 13c5 0 6-4 12-4', jobs: 'M3 2h7l3 3v9H3zM6 8h4M6 11h4', clock: 'M8 2a6 6 0 110 12A6 6 0 018 2zM8 5v3l2 2', play: 'M5 3l8 5-8 5z',
  pause: 'M5 3v10M11 3v10', check: 'M3 8l4 4 6-8', cross: 'M4 4l8 8M12 4l-8 8', minus: 'M3 8h10', warn: 'M8 2l6.5 12h-13zM8 6v4M8 12v.01', lock: 'M4 7h8v7H4zM5.5 7V5a2.5 2.5 0 015 0v2',
  back: 'M12 12V8a3 3 0 00-3-3H3M6 2L3 5l3 3', save: 'M3 2h8l2 2v10H3zM5 2v4h5V2', resize: 'M2 8h12M4 5L2 8l2 3M12 5l2 3-2 3', stop: 'M4 4h8v8H4z', half: 'M8 2a6 6 0 110 12zM8 2a6 6 0 000 12',
  copy: 'M5 5h8v9H5zM3 11V2h7', code: 'M5 4L1 8l4 4M11 4l4 4-4 4', sun: 'M8 5a3 3 0 110 6 3 3 0 010-6zM8 1v1M8 14v1M1 8h1M14 8h1M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1', moon: 'M13 10A6 6 0 016 3a6 6 0 107 7z',
  auto: 'M8 2a6 6 0 110 12A6 6 0 018 2zM8 2v12', user: 'M8 2a3 3 0 110 6 3 3 0 010-6zM2 14c0-3 3-4 6-4s6 1 6 4', out: 'M9 3H3v10h6M7 8h7M11 5l3 3-3 3', more: 'M3 8h.01M8 8h.01M13 8h.01', search: 'M7 2a5 5 0 110 10A5 5 0 017 2zM11 11l3 3',
  down: 'M8 2v9M4 8l4 4 4-4M3 14h10', wifi: 'M2 6c4-4 8-4 12 0M4 9c3-2.500 5-2.500 8 0M8 12v.01', refresh: 'M13 8a5 5 0 11-1.500-3.500M13 2v3h-3', bell: 'M4 11V7a4 4 0 018 0v4l1 1H3zM7 14h2', arrow: 'M3 8h10M9 4l4 4-4 4', plus: 'M8 3v10M3 8h10',
};

export const icon = (name, size) => h('svg', { class: 'icon ' + (size || ''), viewBox: '0 0 16 16', 'aria-hidden': 'true', focusable: 'false' }, h('path', { d: PATHS[name] || PATHS.minus }));
