// SPDX-License-Identifier: Apache-2.0
// store.js - what was asked of the controller: kept while a page shows it, asked again when an event says it changed.
//
// However fast events come, one thing is asked for at most once in `gap`, and never before it has taken ten times as
// long as its last answer took: a large cluster is looked at less often, not more slowly.
import { get } from './api.js';

export class Store {
  constructor(changed) {
    this.changed = changed;
    this.items = new Map();
    this.paused = false;
    setInterval(() => this.tick(), 250);
  }

  /** Needs of the page shown now: [{path, kinds, gap, every}]. What is no longer needed is forgotten later. */
  need(list) {
    const now = Date.now();
    for (const item of this.items.values()) item.wanted = false;
    for (const need of list) {
      let item = this.items.get(need.path);
      if (!item) {
        item = { path: need.path, value: null, error: null, at: 0, took: 0, dirty: true, asking: false };
        this.items.set(need.path, item);
      }
      Object.assign(item, { kinds: need.kinds || [], gap: need.gap || 1000, every: need.every || 30000, job: need.job || 0, wanted: true, used: now });
      if (!item.value && !item.asking && !item.error) item.dirty = true;
    }
    for (const [path, item] of this.items) if (!item.wanted && now - (item.used || 0) > 60e3) this.items.delete(path);
    this.tick();
  }

  read(path) {
    return this.items.get(path) || { value: null, error: null, at: 0 };
  }

  event(event) {
    for (const item of this.items.values()) {
      if (item.job && event.job !== item.job) continue;
      if (item.kinds.some(kind => event.kind.startsWith(kind))) item.dirty = true;
    }
  }

  /** Everything may be different. */
  stale() {
    for (const item of this.items.values()) {
      item.dirty = true;
      item.tried = 0;
    }
    this.tick();
  }

  touch(start) {
    for (const item of this.items.values()) if (item.path.startsWith(start)) {
      item.dirty = true;
      item.tried = 0;
    }
    this.tick();
  }

  tick() {
    if (this.paused || document.visibilityState === 'hidden') return;
    const now = Date.now();
    for (const item of this.items.values()) {
      if (!item.wanted || item.asking) continue;
      const since = now - (item.tried || 0);
      const gap = Math.max(item.gap, item.took * 10, item.error ? 3000 : 0);
      if ((item.dirty && since >= gap) || since >= Math.max(item.every, gap)) this.ask(item);
    }
  }

  async ask(item) {
    const start = Date.now();
    item.asking = true;
    item.dirty = false;
    item.tried = start;
    try {
      item.value = await get(item.path);
      item.error = null;
      item.at = Date.now();
    } catch (error) {
      item.error = error;
    }
    item.took = Date.now() - start;
    item.asking = false;
    if (item.wanted) this.changed(item.path);
  }
}
