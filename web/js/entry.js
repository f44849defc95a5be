// SPDX-License-Identifier: Apache-2.0
// entry.js - where a reader stands at the door: starting, signin, expired, forbidden, unreachable or in.

/**
 * What a failed look at who we are means. A refused token asks for another one, and none for the first, however often that
 * happens; only a controller that gives no answer, or one of trouble, is out of reach.
 */
export function entry_of(status, has_token, entry) {
  if (status === 401) return has_token ? 'expired' : 'signin';
  if (status === 403) return 'forbidden';
  return entry === 'in' ? 'in' : 'unreachable';
}
