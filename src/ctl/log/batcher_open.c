/* SPDX-License-Identifier: Apache-2.0 */
/* batcher_open.c - a batcher is made: what the store has is loaded, and the controller's words are passed on. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/log/batcher_internal.h"
#include "ctl/log/entry_json.h"
#include "ctl/state/registry.h"
#include "ctl/state/state_internal.h"
#include "io/clock.h"

/* Secrets are opened for the frame alone; one that cannot be opened has no value, and its node refuses the job. */
static void secrets_open(const struct batcher *batcher, const struct agent_order *order)
{
    for (size_t i = 0; i < order->secret_count; i++)
        order->secrets[i].value =
            batcher->host.secret(batcher->host.arg, order->user, order->secrets[i].name, order->secrets[i].value);
}

static void secrets_drop(const struct agent_order *order)
{
    for (size_t i = 0; i < order->secret_count; i++)
        if (order->secrets[i].value) {
            char *value = (char *)(uintptr_t)order->secrets[i].value;

            explicit_bzero(value, strlen(value));
            mem_free(value);
        }
}

/* Orders to who is not there are not lost: they are derived anew when it comes. */
static bool sink_order(void *arg, const char *name, const struct agent_order *order)
{
    struct batcher *batcher = arg;
    const struct ctl_node *node = registry_node_find(ctl_registry(batcher->ctl), name);

    if (!node || !node->connected)
        return false;
    buf_clear(&batcher->frame);
    if (order->secrets && batcher->host.secret)
        secrets_open(batcher, order);
    agent_order_write(order, &batcher->frame);
    if (order->secrets && batcher->host.secret)
        secrets_drop(order);
    return batcher_send(batcher, name, order->frame, order->kind);
}

static void sink_event(void *arg, const struct ctl_event *event)
{
    struct batcher *batcher = arg;

    batcher->host.event(batcher->host.arg, event);
}

static void sink_decision(void *arg, const char *line)
{
    struct batcher *batcher = arg;

    if (batcher->host.decision)
        batcher->host.decision(batcher->host.arg, line);
}

static void sink_solve_emulated(void *arg, uint32_t vc, uint32_t ticket, uint32_t kind, const int64_t *words,
                                uint32_t count)
{
    struct batcher *batcher = arg;

    batcher->host.solve(batcher->host.arg, vc, ticket, kind, words, count);
}

static void sink_stepped(void *arg, const struct outbox *out)
{
    struct batcher *batcher = arg;

    batcher->host.stepped(batcher->host.arg, out);
}

static int load_snapshot(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    struct batcher *batcher = arg;
    struct ctl *ctl;
    CLEANUP_BUF struct buf present = BUF_INIT((size_t)1 << 31);
    int r = ctl_snapshot_is(data, size) ? 0 : snapshot_from_json(data, size, &present, err);

    if (r == 0)
        r = ctl_load(&batcher->config.ctl, present.size ? present.data : data, present.size ? present.size : size, &ctl,
                     err);
    if (r < 0)
        return r;
    if (ctl_seq(ctl) != seq) {
        ctl_free(ctl);
        return error_set(err, -EBADMSG, "snapshot: it says it is of another batch");
    }
    ctl_free(batcher->ctl);
    batcher->ctl = ctl;
    return 0;
}

static int replay(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    struct batcher *batcher = arg;
    struct entry *entries = NULL;
    struct error own = { 0 };
    size_t count = 0;
    usec_t at = 0;
    int r;

    if (seq != ctl_seq(batcher->ctl) + 1)
        return error_set(err, -EBADMSG, "log: batch %llu is out of order", (unsigned long long)seq);
    r = batch_is(data, size) ? batch_decode(data, size, &at, &entries, &count, &own)
                             : batch_from_json(data, size, &at, &entries, &count, &own);
    if (r < 0)
        return error_set(err, r == -EPROTONOSUPPORT ? r : -EBADMSG, "log: batch %llu: %s", (unsigned long long)seq,
                         own.text[0] ? own.text : "no memory");
    ctl_apply(batcher->ctl, seq, at, entries, count, NULL);
    batcher->since_snapshot += count;
    entries_free(entries, count);
    return 0;
}

static void on_over(void *arg, const struct ctl *ctl, const struct ctl_job *job)
{
    struct batcher *batcher = arg;

    record_keep(&batcher->over, ctl, job);
}

int batcher_new(const struct batcher_config *config, const struct batcher_host *host, struct store *store,
                struct batcher **ret_drive, struct error *err)
{
    struct batcher *batcher = mem_zalloc(1, sizeof(*batcher));
    struct ctl_sink sink = {
        .order = sink_order, .event = sink_event, .decision = sink_decision, .solve = batcher_solve
    };
    int r;

    if (!batcher)
        return error_set(err, -ENOMEM, "no memory for the controller");
    batcher->config = *config;
    batcher->config.ctl.over = on_over;
    batcher->config.ctl.over_arg = batcher;
    batcher->frame = (struct buf)BUF_INIT((size_t)FRAME_BYTES_MAX * 2);
    batcher->host = *host;
    batcher->store = store;
    r = ctl_new(&batcher->config.ctl, &batcher->ctl, err);
    if (r == 0)
        r = store_load(store, load_snapshot, replay, batcher, err);
    if (r < 0) {
        batcher_free(batcher);
        return r;
    }
    if (!config->ctl.virtual_time)
        clock_least(ctl_now(batcher->ctl)); /* set back while we were away: time here goes on from where it was */
    batcher->started = host->now(host->arg);
    sink.arg = batcher;
    if (config->ctl.virtual_time)
        sink.solve = host->solve ? sink_solve_emulated : NULL;
    if (host->stepped)
        sink.stepped = sink_stepped;
    ctl_listen(batcher->ctl, &sink);
    *ret_drive = batcher;
    return 0;
}
