/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* watch.h - one collection of the API server, listed and then watched for ever.
 *
 * A list is told between begin() and synced(): what was known before and did not come in between is gone. After that
 * changes come one by one. A watch that ends goes on where it was; one that is too old (410 Gone) lists anew. A
 * collection that the server does not have (404) counts as an empty one and is asked for again every minute.
 */
#include "k8s/client.h"

struct watch;

enum watch_event { WATCH_ADDED, WATCH_MODIFIED, WATCH_DELETED };

struct watch_kind {
    const char *name; /* "pods" */
    const char *path; /* "/api/v1/pods" */
    void (*begin)(void *arg);
    void (*object)(void *arg, enum watch_event event, const json_t *object);
    void (*synced)(void *arg);
    void *arg;
    usec_t stretch; /* how long one watch lasts at most */
};

int api_watch_new(struct client *client, const struct watch_kind *kind, struct watch **ret_watch, struct error *err);
void api_watch_free(struct watch *watch); /* after the client */
/* Does what is due; returns when to be called again, USEC_NEVER: when something came. */
usec_t api_watch_turn(struct watch *watch, usec_t now);
bool api_watch_synced(const struct watch *watch); /* has been listed once */
uint64_t api_watch_lists(const struct watch *watch);
