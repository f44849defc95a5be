// SPDX-License-Identifier: Apache-2.0
// live.js - the stream of events, and an honest word about it.
//
// It is read with fetch, which can send a token where EventSource cannot. A tab that is not looked at lets go of its
// stream: browsers give a site few connections, and the controller need not talk to nobody.
import { fetch_raw } from './api.js';
import { EventParser } from './sse.js';

const SILENCE = 40e3; // the controller says something every 15 s
const BACKOFF = [500, 1000, 2000, 4000, 8000, 15000];

export class Live {
  constructor({ event, state, reset }) {
    this.on_event = event;
    this.on_state = state;
    this.on_reset = reset;
    this.state = 'connecting'; // connecting live lost paused
    this.last = '';
    this.tries = 0;
    this.since = Date.now();
    this.wanted = false;
    document.addEventListener('visibilitychange', () => this.look());
    window.addEventListener('online', () => this.again());
  }
  start() {
    this.wanted = true;
    this.look();
  }
  stop() {
    this.wanted = false;
    this.close();
  }
  look() {
    if (!this.wanted) return;
    if (document.visibilityState === 'hidden') {
      this.close();
      this.say('paused');
    } else if (!this.abort) {
      this.open();
    }
  }
  again() {
    if (!this.wanted || this.state === 'live') return;
    this.close();
    this.tries = 0;
    this.look();
  }
  say(state) {
    if (state === this.state) return;
    this.state = state;
    this.since = Date.now();
    this.on_state(state);
  }
  close() {
    clearTimeout(this.timer);
    clearTimeout(this.watch);
    if (this.abort) this.abort.abort();
    this.abort = null;
  }
  heard() {
    clearTimeout(this.watch);
    this.watch = setTimeout(() => this.abort && this.abort.abort(), SILENCE);
  }
  async open() {
    const abort = (this.abort = new AbortController());
    const was_lost = this.state === 'lost' || this.state === 'paused';
    try {
      const head = { Accept: 'text/event-stream' };
      if (this.last) head['Last-Event-ID'] = this.last;
      this.heard();
      const response = await fetch_raw('/events', { headers: head, signal: abort.signal });
      this.say('live');
      this.tries = 0;
      if (was_lost) this.on_reset();
      await this.read(response, abort);
    } catch (error) {
      if (error.status === 401 || error.status === 403) this.wanted = false;
    }
    if (this.abort !== abort) return; // closed on purpose, or another took over
    clearTimeout(this.watch);
    this.abort = null;
    if (!this.wanted) return;
    this.say('lost');
    this.timer = setTimeout(() => this.look(), BACKOFF[Math.min(this.tries++, BACKOFF.length - 1)]);
  }
  async read(response, abort) {
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const parser = new EventParser(event => {
      if (event.id) this.last = event.id;
      if (event.kind === 'reset') this.on_reset();
      else {
        try {
          this.on_event(JSON.parse(event.data));
        } catch {
          // not for us
        }
      }
    });
    for (;;) {
      const { done, value } = await reader.read();
      if (done || abort.signal.aborted) return;
      this.heard();
      parser.add(decoder.decode(value, { stream: true }));
    }
  }
}
