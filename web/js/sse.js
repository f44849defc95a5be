// SPDX-License-Identifier: Apache-2.0
// sse.js - the grammar of server-sent events: text as it comes, in pieces of any size, to events.

export class EventParser {
  constructor(tell) {
    this.tell = tell;
    this.rest = '';
    this.clear();
  }
  clear() {
    this.kind = '';
    this.id = '';
    this.data = [];
  }
  add(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r/);
    this.rest = lines.pop();
    for (const line of lines) this.line(line);
  }
  line(line) {
    if (line === '') {
      if (this.data.length) this.tell({ kind: this.kind || 'message', id: this.id, data: this.data.join('\n') });
      this.clear();
      return;
    }
    if (line[0] === ':') return;
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value[0] === ' ') value = value.slice(1);
    if (name === 'event') this.kind = value;
    else if (name === 'id') this.id = value;
    else if (name === 'data') this.data.push(value);
  }
}
