/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* notify.h - people and programs are told: of a job's start, end, failure or preemption as it asked, and of any kind of
 * event as an administrator asked (webhooks).
 *
 * How something is told is not ours: the command of muster.yaml (`notify`) is run with where to and what, as JSON. Few
 * run at a time; what waits is bounded, and what failed is tried again twice. Nothing of it is durable: a controller
 * that crashes forgets what it had not told yet.
 */
#include "ctl/daemon/server.h"

struct notify;

int notify_new(struct server *server, struct notify **ret_notify);
void notify_stop(struct notify *notify); /* children are abandoned */
void notify_free(struct notify *notify);

void notify_event(struct notify *notify, const struct ctl_event *event);

struct notify_counts {
    uint64_t sent, failed, dropped;
    size_t waiting;
};
void notify_count(const struct notify *notify, struct notify_counts *ret);
