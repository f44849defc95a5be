/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* lease.h - how long tasks go on when the agent has no contact.
 *
 * A number in a mapped file that shepherds and the watchdog read as well: until when, on the clock that counts since
 * boot; 0: as long as they like (ADR 55). It is moved on when a beat is answered, to the time that the beat was sent
 * plus the lease, and set when a controller says hello, which may make it shorter.
 */
#include "agent/agent.h"

void lease_begin(struct agent *agent);              /* tasks of the agent before are known */
void lease_set(struct agent *agent, usec_t lease);  /* as told in answer to a hello; 0 = none */
void lease_renew(struct agent *agent, usec_t sent); /* a beat was answered */
bool lease_over(const struct agent *agent);
int64_t lease_left(const struct agent *agent); /* ms, at most, of what runs here; 0: as long as it likes */
void lease_end(void *arg);                     /* the timer */
