// SPDX-License-Identifier: Apache-2.0
// route.js - addresses of views. Every view has one; nothing is only reachable by clicking.

export const PAGES = [
  { id: 'overview', path: '/', icon: 'home', label: 'Overview' },
  { id: 'queue', path: '/queue', icon: 'queue', label: 'Queue' },
  { id: 'topology', path: '/topology', icon: 'map', label: 'Topology' },
  { id: 'timeline', path: '/timeline', icon: 'gantt', label: 'Timeline' },
  { id: 'jobs', path: '/jobs', icon: 'jobs', label: 'Jobs' },
  { id: 'vcs', path: '/vcs', icon: 'vcs', label: 'Virtual clusters' },
  { id: 'nodes', path: '/nodes', icon: 'node', label: 'Nodes' },
  { id: 'reports', path: '/reports', icon: 'report', label: 'Reports' },
  { id: 'whatif', path: '/whatif', icon: 'whatif', label: 'What-if' },
  { id: 'submit', path: '/submit', icon: 'submit', label: 'Submit', role: 'user' },
];

/** {page, id, query} of an address; page is null where there is none. */
export function route_of(path, search) {
  const parts = path.split('/').filter(Boolean).map(part => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  const query = Object.fromEntries(new URLSearchParams(search || ''));
  if (parts.length === 0) return { page: 'overview', id: null, query };
  if (parts[0] === 'jobs' && parts.length === 2 && /^\d+(_\d+)?$/.test(parts[1])) return { page: 'job', id: parts[1], query };
  if (parts[0] === 'arrays' && parts.length === 2 && /^\d+$/.test(parts[1])) return { page: 'array', id: parts[1], query };
  if (parts[0] === 'nodes' && parts.length === 2) return { page: 'node', id: parts[1], query };
  if (parts[0] === 'vcs' && parts.length === 2) return { page: 'vcs', id: parts[1], query };
  if (parts[0] === 'whatif' && parts.length === 2) return { page: 'whatif', id: parts[1], query };
  const known = PAGES.find(page => page.path === '/' + parts[0]);
  return { page: known && parts.length === 1 ? known.id : null, id: null, query };
}

/** An address with some of its query changed; null or '' takes a key out. */
export function with_query(path, query, change) {
  const all = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...query, ...change })) if (value !== null && value !== undefined && value !== '') all.set(key, value);
  const text = all.toString();
  return text ? path + '?' + text : path;
}
