/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* lease.h - who of several processes leads: the holder of a Lease object (coordination.k8s.io/v1).
 *
 * The holder renews it; others watch it stand still for its whole duration, by their own clock, before they take it.
 * Every write carries the resourceVersion that was read, so two never hold it at once. A holder that could not renew it
 * for two thirds of the duration leads no more.
 */
#include "k8s/client.h"

struct lease;

struct lease_config {
    const char *namespace, *name, *identity; /* borrowed */
    usec_t duration;                         /* whole seconds */
};

int lease_new(struct client *client, const struct lease_config *config, struct lease **ret_lease, struct error *err);
void lease_free(struct lease *lease);               /* after the client */
usec_t lease_turn(struct lease *lease, usec_t now); /* when to be called again */
bool lease_held(const struct lease *lease, usec_t now);
void lease_release(struct lease *lease); /* asks to give it up; the answer is not waited for */
