// SPDX-License-Identifier: Apache-2.0
// text.js - text that others wrote, made harmless to look at. Nothing here knows of the document.

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
// Marks that turn the direction of what follows, joiners, and separators that break lines.
const HIDDEN = /[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

const picture = c => {
  const code = c.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return '\u2421';
  return '\ufffd';
};
const mark = c => '\u27e8U+' + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0') + '\u27e9';

/** One line for a table or a title: control characters as pictures, marks of direction by their numbers, cut. */
export function plain(text, most = 200) {
  if (text === null || text === undefined) return '';
  let out = String(text);
  const cut = out.length > most;
  if (cut) out = out.slice(0, most);
  out = out.replace(/[\t\n]/g, ' ').replace(CONTROL, picture).replace(HIDDEN, mark).replace(LONE, '\ufffd');
  return cut ? out + '\u2026' : out;
}

const ESCAPE = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

/** A line of a job's output: escape sequences of terminals go, a line of megabytes is cut and says so. */
export function output_line(line, most = 4000) {
  let text = line;
  if (text.length > most * 4) text = text.slice(0, most * 4);
  text = text.replace(ESCAPE, '');
  const at = text.replace(/\r+$/, '').lastIndexOf('\r');
  text = at >= 0 ? text.slice(at + 1) : text; // a progress bar shows where it got to
  text = text.replace(/\r/g, '').replace(CONTROL, picture).replace(HIDDEN, mark).replace(LONE, '\ufffd');
  if (line.length > most) return { text: text.slice(0, most), cut: line.length - most };
  return { text, cut: 0 };
}

/** Bytes as they come to whole lines; the last one may be unfinished. */
export class Lines {
  constructor(most = 20000) {
    this.most = most;
    this.lines = [];
    this.first = 1; // number of lines[0]
    this.open = '';
    this.long = 0;
  }
  add(text) {
    const parts = text.split('\n');
    parts[0] = this.open + parts[0];
    this.open = parts.pop();
    // A line without end is kept only as far as anybody will look; how long it was is counted.
    if (this.open.length > 65536) {
      this.long += this.open.length - 65536;
      this.open = this.open.slice(0, 65536);
    }
    for (const part of parts) this.lines.push(output_line(part));
    if (parts.length && this.long) {
      this.lines[this.lines.length - parts.length].cut += this.long;
      this.long = 0;
    }
    const over = this.lines.length - this.most;
    if (over > 0) {
      this.lines.splice(0, over);
      this.first += over;
    }
  }
  all() {
    if (!this.open) return this.lines;
    const last = output_line(this.open);
    if (this.long) last.cut += this.long;
    return this.lines.concat([last]);
  }
}

/** A word for a shell. */
export function shell_word(text) {
  const word = String(text);
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : "'" + word.replace(/'/g, "'\\''") + "'";
}

export const command = (...words) => words.filter(w => w !== null && w !== undefined && w !== '').join(' ');
