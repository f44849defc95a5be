/* SPDX-License-Identifier: Apache-2.0 */
/* drive_open.c - a drive is made: what the store has is loaded, and the controller's words are passed on. */
#include <errno.h>

#include "base/alloc.h"
#include "ctl/book.h"
#include "ctl/drive_part.h"
#include "ctl/part.h"
#include "io/clock.h"
#include "wire/json_read.h"

/* Orders to who is not there are not lost: they are derived anew when it comes. */
static bool sink_order(void *arg, const char *name, json_t *frame)
{
    struct drive *drive = arg;
    const struct book_node *node = book_node_find(ctl_book(drive->ctl), name);

    return node && node->connected && drive->host.order(drive->host.arg, name, frame);
}

static void sink_event(void *arg, const struct ctl_event *event)
{
    struct drive *drive = arg;

    drive->host.event(drive->host.arg, event);
}

static void sink_decision(void *arg, const char *line)
{
    struct drive *drive = arg;

    if (drive->host.decision)
        drive->host.decision(drive->host.arg, line);
}

static void sink_solve_emulated(void *arg, uint32_t vc, uint32_t ticket, uint32_t kind, const int64_t *words,
                                uint32_t count)
{
    struct drive *drive = arg;

    drive->host.solve(drive->host.arg, vc, ticket, kind, words, count);
}

static void sink_stepped(void *arg, const struct outbox *out)
{
    struct drive *drive = arg;

    drive->host.stepped(drive->host.arg, out);
}

static int load_snapshot(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    struct drive *drive = arg;
    struct ctl *ctl;
    int r = ctl_load(&drive->config.ctl, data, size, &ctl, err);

    if (r < 0)
        return r;
    if (ctl_seq(ctl) != seq) {
        ctl_free(ctl);
        return error_set(err, -EBADMSG, "snapshot: it says it is of another batch");
    }
    ctl_free(drive->ctl);
    drive->ctl = ctl;
    return 0;
}

static int replay(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    struct drive *drive = arg;
    json_t *batch = NULL;
    int r = json_read("log", data, size, &batch, err);
    const json_t *list = json_object_get(batch, "e");
    size_t count = json_array_size(list);
    struct entry *entries = mem_zalloc(count + 1, sizeof(*entries));

    if (r < 0 || !entries || seq != ctl_seq(drive->ctl) + 1)
        r = error_set(err, -EBADMSG, "log: batch %llu is damaged or out of order", (unsigned long long)seq);
    for (size_t i = 0; r == 0 && i < count; i++) {
        json_t *pair = json_array_get(list, i);
        const char *name = json_string_value(json_array_get(pair, 0));
        int kind = entry_find(name ? name : "");

        if (kind < 0)
            r = error_set(err, -EPROTONOSUPPORT, "log: batch %llu has an entry '%s' of another version",
                          (unsigned long long)seq, name ? name : "");
        else
            entries[i] = (struct entry){ .kind = (enum entry_kind)kind, .body = json_array_get(pair, 1) };
    }
    if (r == 0)
        ctl_apply(drive->ctl, seq, json_integer_value(json_object_get(batch, "at")), entries, count, NULL);
    drive->since_snapshot += count;
    mem_free(entries);
    json_decref(batch);
    return r;
}

int drive_new(const struct drive_config *config, const struct drive_host *host, struct store *store,
              struct drive **ret_drive, struct error *err)
{
    struct drive *drive = mem_zalloc(1, sizeof(*drive));
    struct ctl_sink sink = {
        .order = sink_order, .event = sink_event, .decision = sink_decision, .solve = drive_solve
    };
    int r;

    if (!drive)
        return error_set(err, -ENOMEM, "no memory for the controller");
    drive->config = *config;
    drive->host = *host;
    drive->store = store;
    r = ctl_new(&config->ctl, &drive->ctl, err);
    if (r == 0)
        r = store_load(store, load_snapshot, replay, drive, err);
    if (r < 0) {
        drive_free(drive);
        return r;
    }
    if (!config->ctl.virtual_time)
        clock_least(ctl_now(drive->ctl)); /* set back while we were away: time here goes on from where it was */
    drive->started = host->now(host->arg);
    sink.arg = drive;
    if (config->ctl.virtual_time)
        sink.solve = host->solve ? sink_solve_emulated : NULL;
    if (host->stepped)
        sink.stepped = sink_stepped;
    ctl_listen(drive->ctl, &sink);
    *ret_drive = drive;
    return 0;
}
