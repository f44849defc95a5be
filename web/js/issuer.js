// SPDX-License-Identifier: Apache-2.0
// issuer.js - signing in by an issuer of OpenID Connect: away with a question only this tab knows, back with a code.
import { get, send, token_keep } from './api.js';

const KEY = 'muster-signin';
const text_of = bytes => btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
const random = () => text_of(crypto.getRandomValues(new Uint8Array(32)));
const here = () => location.origin + '/';

/** The issuer, where the cluster has one and this page may use it (SHA-256 needs https or this machine); null. */
export async function issuer_get() {
  try {
    const issuer = await get('/login/oidc');
    return issuer.authorization_endpoint && crypto.subtle ? issuer : null;
  } catch {
    return null;
  }
}

/** Leaves for the issuer's page. */
export async function issuer_begin(issuer) {
  const asked = { state: random(), nonce: random(), verifier: random(), page: location.pathname + location.hash };
  const challenge = text_of(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(asked.verifier))));
  sessionStorage.setItem(KEY, JSON.stringify(asked));
  const url = new URL(issuer.authorization_endpoint);
  for (const [name, value] of Object.entries({ response_type: 'code', client_id: issuer.client_id, redirect_uri: here(), scope: issuer.scope,
    state: asked.state, nonce: asked.nonce, code_challenge: challenge, code_challenge_method: 'S256' })) url.searchParams.set(name, value);
  location.assign(url);
}

/** Back again? Then the code is changed for a token and the address made clean. What went wrong, or ''. */
export async function issuer_end() {
  const query = new URLSearchParams(location.search);
  const kept = sessionStorage.getItem(KEY);
  if (!kept || !query.get('state')) return '';
  const asked = JSON.parse(kept);
  sessionStorage.removeItem(KEY);
  history.replaceState(null, '', asked.page || '/');
  if (query.get('state') !== asked.state) return 'This is the answer to another question. Sign in again.';
  if (query.get('error')) return 'The issuer says: ' + query.get('error');
  try {
    const answer = await send('POST', '/login/oidc', { code: query.get('code'), code_verifier: asked.verifier, redirect_uri: here(), nonce: asked.nonce });
    token_keep(answer.token, false);
    return '';
  } catch (error) {
    return error.message;
  }
}
