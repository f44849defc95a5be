// SPDX-License-Identifier: Apache-2.0
// api.js - requests to the controller, with the reader's token.

const BASE = '/api/v1';
const KEY = 'muster-token';

export class ApiError extends Error {
  constructor(status, problem) {
    super((problem && problem.detail) || (status ? 'The controller answered ' + status : 'The controller does not answer'));
    this.status = status;
    this.code = (problem && problem.code) || '';
    this.hints = (problem && problem.hints) || [];
    this.errors = (problem && problem.errors) || [];
  }
}

let told = null; // what to do when a token is refused

export const on_refused = call => {
  told = call;
};
export const token = () => sessionStorage.getItem(KEY) || localStorage.getItem(KEY) || '';
export function token_keep(text, long) {
  sessionStorage.removeItem(KEY);
  localStorage.removeItem(KEY);
  if (text) (long ? localStorage : sessionStorage).setItem(KEY, text);
}

/** The link that musterd --dev prints has a code, which is exchanged once for its token. */
export async function once_end() {
  const code = new URLSearchParams(location.hash.slice(1)).get('once');
  if (!code) return '';
  history.replaceState(null, '', location.pathname + location.search);
  try {
    token_keep((await send('POST', '/login/once', { code })).token, false);
    return '';
  } catch (error) {
    return error.message;
  }
}

export function headers(more) {
  const out = { Accept: 'application/json', ...more };
  if (token()) out.Authorization = 'Bearer ' + token();
  return out;
}

async function problem_of(response) {
  try {
    return await response.json();
  } catch {
    return null;
  }
}

/** The raw answer; throws ApiError unless it is one of success. */
export async function fetch_raw(path, options = {}) {
  let response;
  try {
    response = await fetch(BASE + path, { cache: 'no-store', credentials: 'omit', ...options, headers: headers(options.headers) });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, null);
  }
  if (!response.ok) {
    const error = new ApiError(response.status, await problem_of(response));
    if (response.status === 401 && told) told(error);
    throw error;
  }
  return response;
}

export async function get(path, options) {
  return (await fetch_raw(path, options)).json();
}

/** POST, PATCH, PUT, DELETE; text goes as it is (type tells what it is), all else as JSON. */
export async function send(method, path, body, type) {
  const options = { method, headers: {} };
  if (body !== undefined) {
    options.body = typeof body === 'string' ? body : JSON.stringify(body);
    options.headers['Content-Type'] = type || 'application/json';
  }
  const response = await fetch_raw(path, options);
  return response.status === 204 ? null : response.json();
}
