/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c - see lease.h. */
#include "k8s/lease.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/clock.h"
#include "io/log.h"
#include "k8s/objects.h"
#include "k8s/quantity.h"

struct lease {
    struct client *client;
    struct lease_config config;
    bool flight, held;
    usec_t try_at, sent_at, renewed; /* renewed: when the last write that came through was sent */
    usec_t seen_at;                  /* when what others wrote was last seen to change */
    usec_t span;                     /* their duration */
    char seen[64];                   /* resourceVersion */
    char holder[NAME_MAX_K8S + 1];
};

int lease_new(struct client *client, const struct lease_config *config, struct lease **ret_lease, struct error *err)
{
    struct lease *lease = mem_zalloc(1, sizeof(*lease));

    if (!lease)
        return error_set(err, -ENOMEM, "no memory for the lease");
    *lease = (struct lease){ .client = client, .config = *config };
    *ret_lease = lease;
    return 0;
}

void lease_free(struct lease *lease)
{
    mem_free(lease);
}

bool lease_held(const struct lease *lease, usec_t now)
{
    return lease->held && now < lease->renewed + lease->config.duration * 2 / 3;
}

static void path_of(const struct lease *lease, char *path, size_t size, bool whole)
{
    (void)snprintf(path, size, "/apis/coordination.k8s.io/v1/namespaces/%.63s/leases%s%.253s", lease->config.namespace,
                   whole ? "/" : "", whole ? lease->config.name : "");
}

static json_t *lease_json(const struct lease *lease, const json_t *old, const char *holder)
{
    char now[TIME_TEXT_MAX];
    const char *was = json_at_text(old, "spec|holderIdentity"), *since = json_at_text(old, "spec|acquireTime");
    json_int_t turns = json_integer_value(json_at(old, "spec|leaseTransitions"));
    json_int_t seconds = lease->config.duration / USEC_SEC;
    bool same = strcmp(was, holder) == 0;
    json_t *meta = json_pack("{s:s, s:s}", "name", lease->config.name, "namespace", lease->config.namespace);

    time_print(clock_now(), now);
    if (old)
        (void)json_object_set_new(meta, "resourceVersion", json_string(json_at_text(old, "metadata|resourceVersion")));
    return json_pack("{s:s, s:s, s:o, s:{s:s, s:I, s:s, s:s, s:I}}", "apiVersion", "coordination.k8s.io/v1", "kind",
                     "Lease", "metadata", meta, "spec", "holderIdentity", holder, "leaseDurationSeconds", seconds,
                     "acquireTime", same && *since ? since : now, "renewTime", now, "leaseTransitions",
                     (json_int_t)(turns + (old && !same)));
}

static void lease_send(struct lease *lease, const char *method, json_t *body,
                       void (*done)(void *arg, const struct client_reply *reply))
{
    char path[512];

    path_of(lease, path, sizeof(path), strcmp(method, "POST") != 0);
    lease->sent_at = clock_now();
    lease->flight = client_send(lease->client,
                                &(struct client_call){ .method = method,
                                                       .path = path,
                                                       .body = body,
                                                       .limit = lease->config.duration / 3,
                                                       .done = done,
                                                       .arg = lease },
                                NULL) == 0;
}

static void on_written(void *arg, const struct client_reply *reply)
{
    struct lease *lease = arg;
    bool good = reply->status == 200 || reply->status == 201;

    lease->flight = false;
    if (good) {
        if (!lease->held)
            log_info("leads", "lease", lease->config.name, "holder", lease->config.identity);
        lease->held = true;
        lease->renewed = lease->sent_at;
        lease->try_at = clock_now() + lease->config.duration / 5;
    } else {
        lease->try_at = clock_now() + lease->config.duration / 15;
    }
}

static void on_read(void *arg, const struct client_reply *reply)
{
    struct lease *lease = arg;
    const char *holder = json_at_text(reply->body, "spec|holderIdentity");
    const char *version = json_at_text(reply->body, "metadata|resourceVersion");
    usec_t now = clock_now();
    bool mine;

    lease->flight = false;
    lease->try_at = now + lease->config.duration / 7;
    if (reply->status == 404) {
        lease_send(lease, "POST", lease_json(lease, NULL, lease->config.identity), on_written);
        return;
    }
    if (reply->status != 200)
        return;
    mine = strcmp(holder, lease->config.identity) == 0;
    if (strcmp(version, lease->seen) != 0) {
        lease->seen_at = now;
        (void)snprintf(lease->seen, sizeof(lease->seen), "%s", version);
    }
    lease->span = json_integer_value(json_at(reply->body, "spec|leaseDurationSeconds")) * USEC_SEC;
    if (!mine && lease->held)
        lease->held = false; /* somebody found it old enough */
    if (mine || !*holder || now >= lease->seen_at + lease->span)
        lease_send(lease, "PUT", lease_json(lease, reply->body, lease->config.identity), on_written);
    (void)snprintf(lease->holder, sizeof(lease->holder), "%s", holder);
}

usec_t lease_turn(struct lease *lease, usec_t now)
{
    if (!lease->flight && now >= lease->try_at)
        lease_send(lease, "GET", NULL, on_read);
    return lease->flight ? now + USEC_SEC : lease->try_at;
}

static void on_given(void *arg, const struct client_reply *reply)
{
    struct lease *lease = arg;

    if (reply->status == 200 && strcmp(json_at_text(reply->body, "spec|holderIdentity"), lease->config.identity) == 0)
        lease_send(lease, "PUT", lease_json(lease, reply->body, ""), NULL);
}

void lease_release(struct lease *lease)
{
    if (lease->held)
        lease_send(lease, "GET", NULL, on_given);
    lease->held = false;
}
