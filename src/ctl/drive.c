/* SPDX-License-Identifier: Apache-2.0 */
/* drive.c - see drive.h.
 *
 *   offers ─► put aside ─► (turn ends) ─► one batch ─► committed on the worker ─► applied ─► answered, orders sent
 *                              ▲                                                     │
 *                              └──────────── what came meanwhile is the next ◄───────┘
 *
 * A batch is {"at":..., "e":[["submit",{...}], ...]}. Finished jobs and snapshots travel with the batch that follows
 * them; a crash before that replays the batch that made them, and makes them again.
 */
#include "ctl/drive.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "ctl/book.h"
#include "ctl/drive_part.h"
#include "ctl/part.h"
#include "wire/json_quick.h"
#include "wire/json_read.h"

#define SNAPSHOT_BYTES_MAX ((size_t)1 << 31)

#define RETRY_EVERY USEC_SEC /* where there was no room */
#define ROWS_WAIT (200 * USEC_MSEC)
enum { ROWS_MANY = 256 };

/* What is being committed. */
struct flight {
    struct drive *drive;
    struct offer *offers;
    size_t count;
    usec_t at;
    struct buf text;
    json_t *records;
    struct store_job *rows;
    size_t row_count;
    struct buf snapshot;
    uint64_t snapshot_seq;
    struct store_write write;
    struct error err;
    int result;
};

struct ctl *drive_ctl(struct drive *drive)
{
    return drive->ctl;
}

bool drive_quiet(const struct drive *drive)
{
    return drive->stuck || (drive->offer_count == 0 && !drive->flying);
}

/* Puts an entry aside; takes what it holds. */
static int push(struct drive *drive, struct entry entry, drive_done_fn done, void *arg)
{
    void *block = drive->offers;
    int r = mem_grow(&block, &drive->offer_capacity, drive->offer_count + 1, (size_t)1 << 24, sizeof(*drive->offers));

    drive->offers = block;
    if (r < 0) {
        entry_done(&entry);
        return r;
    }
    drive->offers[drive->offer_count++] = (struct offer){ entry, done, arg };
    return 0;
}

int drive_push(struct drive *drive, enum entry_kind kind, json_t *body, drive_done_fn done, void *arg)
{
    return push(drive, (struct entry){ .kind = kind, .body = body }, done, arg);
}

static int no_room(struct entry_result *ret)
{
    return ret->code =
               error_set(&ret->text, -EAGAIN, "the controller's disk is full: nothing is taken until there is room");
}

int drive_offer(struct drive *drive, enum entry_kind kind, json_t *body, drive_done_fn done, void *arg,
                struct entry_result *ret)
{
    struct entry entry = { .kind = kind, .body = body };
    struct entry_result scratch, *result = ret ? ret : &scratch;
    int r = ctl_check(drive->ctl, &entry, result);

    if (r == 0 && drive->full)
        r = no_room(result);
    else if (r == 0 && (drive->offer_count >= drive->config.pending_max || drive->failed))
        r = result->code = error_set(&result->text, -EAGAIN, "the controller is busy: %zu requests wait to be written",
                                     drive->offer_count);
    if (r < 0) {
        entry_done(&entry);
        return r;
    }
    r = push(drive, entry, done, arg);
    if (r < 0)
        result->code = error_set(&result->text, r, "no memory");
    return r;
}

static void flight_free(struct flight *flight)
{
    for (size_t i = 0; i < flight->count; i++)
        entry_done(&flight->offers[i].entry);
    mem_free(flight->offers);
    buf_done(&flight->text);
    json_decref(flight->records);
    mem_free(flight->rows);
    buf_done(&flight->snapshot);
    mem_free(flight);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* Finished jobs as rows; each keeps its record as text inside the record itself, so that all is freed with it. */
static int take_rows(struct drive *drive, struct flight *flight, bool all)
{
    size_t count = ctl_done_count(drive->ctl);

    /* Several together change fewer pages; until then the batches that made them are there. */
    if (!all && count < ROWS_MANY && flight->at - drive->rows_since < ROWS_WAIT)
        return 0;

    drive->rows_since = 0;
    flight->records = ctl_take_done(drive->ctl);
    count = json_array_size(flight->records);
    if (count == 0)
        return 0;
    flight->rows = mem_zalloc(count, sizeof(*flight->rows));
    if (!flight->rows)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        json_t *record = json_array_get(flight->records, i);
        char *text = json_text(record, NULL);

        if (!text)
            return -ENOMEM;
        (void)json_object_set_new(record, "text", json_string_nocheck(text));
        free(text); /* jansson's */
        flight->rows[flight->row_count++] =
            (struct store_job){ .id = json_integer_value(json_object_get(record, "id")),
                                .submit = json_integer_value(json_object_get(record, "submit_usec")),
                                .end = json_integer_value(json_object_get(record, "end_usec")),
                                .user = text_of(record, "user"),
                                .vc = text_of(record, "vc"),
                                .state = text_of(record, "state"),
                                .name = text_of(record, "name"),
                                .gpu_seconds = json_integer_value(json_object_get(record, "gpu_seconds")),
                                .json = text_of(record, "text") };
    }
    return 0;
}

static int batch_write(struct flight *flight)
{
    struct buf *out = &flight->text;

    buf_printf(out, "{\"at\":%lld,\"e\":[", (long long)flight->at);
    for (size_t i = 0; i < flight->count; i++) {
        buf_printf(out, "%s[\"%s\",", i ? "," : "", entry_name(flight->offers[i].entry.kind));
        json_put(out, flight->offers[i].entry.body);
        buf_char(out, ']');
    }
    buf_text(out, "]}");
    return out->error;
}

/* Everything put aside, and what has to be written with it; `all`: the finished jobs that could wait too. */
static struct flight *flight_new(struct drive *drive, usec_t at, bool all)
{
    struct flight *flight = mem_zalloc(1, sizeof(*flight));
    bool save;

    if (!flight)
        return NULL;
    flight->drive = drive;
    flight->at = at;
    flight->offers = drive->offers;
    flight->count = drive->offer_count;
    flight->text = flight->snapshot = (struct buf)BUF_INIT(SNAPSHOT_BYTES_MAX);
    drive->offers = NULL;
    drive->offer_count = drive->offer_capacity = 0;
    drive->since_snapshot += flight->count;
    save = drive->config.snapshot_every && drive->since_snapshot >= drive->config.snapshot_every;
    /* The batches before a snapshot go: what they made must be written by then. */
    if (take_rows(drive, flight, save || all) < 0 || batch_write(flight) < 0) {
        flight_free(flight);
        return NULL;
    }
    if (save && ctl_save(drive->ctl, &flight->snapshot, &flight->err) == 0) {
        flight->snapshot_seq = ctl_seq(drive->ctl);
        drive->since_snapshot = 0;
    }
    flight->write = (struct store_write){ .seq = ctl_seq(drive->ctl) + 1,
                                          .batch = flight->text.data,
                                          .batch_size = flight->text.size,
                                          .jobs = flight->rows,
                                          .job_count = flight->row_count,
                                          .snapshot = flight->snapshot.size ? flight->snapshot.data : NULL,
                                          .snapshot_size = flight->snapshot.size,
                                          .snapshot_seq = flight->snapshot_seq };
    return flight;
}

static void to_agent(struct drive *drive, const char *node, json_t *frame)
{
    drive->host.order(drive->host.arg, node, frame);
    json_decref(frame);
}

/* Reports that are durable now are acknowledged; a node that joined is welcomed, and told what it should be doing. */
static void answer_agents(struct drive *drive, const struct flight *flight)
{
    for (size_t i = 0; i < flight->count; i++) {
        const struct entry *entry = &flight->offers[i].entry;
        const char *name = text_of(entry->body, "node");
        struct book_node *node;
        uint32_t index;

        if (entry->kind != ENTRY_JOIN && entry->kind != ENTRY_REPORT)
            continue;
        index = names_find(&ctl_book(drive->ctl)->node_names, name, strlen(name));
        if (index == NAME_NONE)
            continue;
        node = &ctl_book_mut(drive->ctl)->nodes[index];
        if (entry->kind == ENTRY_REPORT) {
            /* One acknowledgement says that all before it were taken too. */
            if (node->ack_batch != flight->write.seq && node->connected &&
                strcmp(node->agent, text_of(entry->body, "agent")) == 0)
                to_agent(drive, name,
                         json_pack("{s:s, s:I}", "t", agent_down_name(DOWN_ACK), "seq", (json_int_t)node->report_seq));
            node->ack_batch = flight->write.seq;
            continue;
        }
        to_agent(drive, name,
                 json_pack("{s:s, s:I, s:s, s:I, s:I, s:I}", "t", agent_down_name(DOWN_WELCOME), "now",
                           (json_int_t)drive->host.now(drive->host.arg), "cluster",
                           drive->config.ctl.cluster ? drive->config.ctl.cluster : "muster", "acked",
                           (json_int_t)node->report_seq, "lease_ms", (json_int_t)(drive->config.ctl.lease / USEC_MSEC),
                           "beat_ms", (json_int_t)(drive->config.ctl.node_timeout / 6 / USEC_MSEC)));
        node->connected = true;
        node->seen = drive->host.now(drive->host.arg);
        ctl_sync(drive->ctl, name);
    }
}

/* The batch is durable: it happens now. */
static void land(struct flight *flight)
{
    struct drive *drive = flight->drive;
    struct entry *entries = mem_zalloc(flight->count + 1, sizeof(*entries));
    struct entry_result *results = mem_zalloc(flight->count + 1, sizeof(*results));

    if (!entries || !results) {
        /* It is written, so it must happen: a restart applies it. */
        (void)error_set(&flight->err, -ENOMEM, "no memory to apply a batch");
        drive->failed = true;
        drive->host.fatal(drive->host.arg, &flight->err);
    } else {
        for (size_t i = 0; i < flight->count; i++)
            entries[i] = flight->offers[i].entry;
        usec_t began = drive->host.applied ? drive->host.now(drive->host.arg) : 0, ended;

        ctl_apply(drive->ctl, flight->write.seq, flight->at, entries, flight->count, results);
        if (drive->host.applied) {
            ended = drive->host.now(drive->host.arg);
            drive->host.applied(drive->host.arg, ended - flight->at, ended - began);
        }
        answer_agents(drive, flight);
        for (size_t i = 0; i < flight->count; i++)
            if (flight->offers[i].done)
                flight->offers[i].done(flight->offers[i].arg, &results[i]);
    }
    mem_free(entries);
    mem_free(results);
}

static void commit_work(void *arg)
{
    struct flight *flight = arg;

    flight->result = store_commit(flight->drive->store, &flight->write, &flight->err);
}

static void room_tell(struct drive *drive, const struct error *err)
{
    if (drive->full != (err != NULL) && drive->host.full)
        drive->host.full(drive->host.arg, err);
    drive->full = err != NULL;
}

/* No room in the store. Whoever waits for an answer gets it: nothing of theirs has happened. What cannot be refused,
 * such as the reports of nodes, waits with the batch. Beats are answered meanwhile, so that jobs run on. */
static int flight_park(struct flight *flight)
{
    struct drive *drive = flight->drive;
    struct entry_result refused = { 0 };
    size_t kept = 0;

    room_tell(drive, &flight->err);
    (void)no_room(&refused);
    for (size_t i = 0; i < flight->count; i++) {
        if (flight->offers[i].done) {
            flight->offers[i].done(flight->offers[i].arg, &refused);
            entry_done(&flight->offers[i].entry);
        } else {
            flight->offers[kept++] = flight->offers[i];
        }
    }
    flight->count = kept;
    buf_clear(&flight->text);
    if (batch_write(flight) < 0)
        return error_set(&flight->err, -ENOMEM, "no memory for a batch");
    flight->write.batch = flight->text.data;
    flight->write.batch_size = flight->text.size;
    drive->stuck = flight;
    drive->retry = drive->host.now(drive->host.arg) + RETRY_EVERY;
    return 0;
}

static void commit_done(void *arg)
{
    struct flight *flight = arg;
    struct drive *drive = flight->drive;
    bool parked = flight->result == -ENOSPC && flight_park(flight) == 0;

    drive->flying = false;
    if (flight->result == 0) {
        room_tell(drive, NULL);
        land(flight);
    } else if (!parked) {
        drive->failed = true;
        drive->host.fatal(drive->host.arg, &flight->err);
    }
    if (!parked)
        flight_free(flight);
    drive_turn(drive);
}

static void flight_start(struct drive *drive, struct flight *flight)
{
    if (!flight || drive->host.work(drive->host.arg, commit_work, commit_done, flight) < 0) {
        struct error err;

        drive->failed = true;
        (void)error_set(&err, -ENOMEM, "no memory for a batch");
        drive->host.fatal(drive->host.arg, &err);
        return;
    }
    drive->flying = true;
}

void drive_turn(struct drive *drive)
{
    usec_t now, wake;

    if (drive->flying || drive->failed || drive->config.ctl.virtual_time)
        return;
    now = drive->host.now(drive->host.arg);
    if (drive->stuck) {
        if (now < drive->retry)
            drive->host.wake_at(drive->host.arg, drive->retry);
        else
            flight_start(drive, take(drive->stuck));
        return;
    }
    if (now < ctl_now(drive->ctl))
        now = ctl_now(drive->ctl); /* the clock went back; time here does not */
    drive_look_at_nodes(drive, now);
    wake = ctl_next_wake(drive->ctl);
    if (ctl_done_count(drive->ctl) == 0)
        drive->rows_since = 0;
    else if (!drive->rows_since)
        drive->rows_since = now;
    if (drive->rows_since && drive->rows_since + ROWS_WAIT < wake)
        wake = drive->rows_since + ROWS_WAIT; /* nothing else may come to write them with */
    if (drive->offer_count == 0 && wake > now) {
        usec_t look = drive->looked + DRIVE_LOOK_EVERY;

        drive->host.wake_at(drive->host.arg, wake < look ? wake : look);
        return;
    }
    flight_start(drive, flight_new(drive, now, false));
}

int drive_turn_at(struct drive *drive, usec_t at)
{
    struct flight *flight;
    int r;

    if (drive->flying || drive->failed)
        return -EBUSY;
    flight = flight_new(drive, at, true);
    if (!flight)
        return -ENOMEM;
    commit_work(flight);
    r = flight->result;
    if (r == 0)
        land(flight);
    else
        drive->failed = true;
    flight_free(flight);
    return r;
}

int drive_agent_hello(struct drive *drive, const char *node, json_t *hello, struct error *err)
{
    json_t *body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:O?}", "node", node, "agent", text_of(hello, "agent"), "boot",
                             text_of(hello, "boot"), "address", text_of(hello, "address"), "version",
                             text_of(hello, "version"), "inventory", json_object_get(hello, "inventory"));
    struct entry_result result;
    int r;

    if (!body)
        return error_set(err, -EBADMSG, "hello: expected an inventory");
    r = drive_offer(drive, ENTRY_JOIN, body, NULL, NULL, &result);
    if (r < 0 && err)
        *err = result.text;
    return r;
}

static int take_beat(struct drive *drive, struct book_node *node, const char *name, json_t *frame)
{
    const json_t *gpus = json_object_get(frame, "gpus");

    usec_t at = json_integer_value(json_object_get(frame, "at"));

    node->seen = drive->host.now(drive->host.arg);
    node->ahead = at ? at - node->seen : 0;
    for (size_t g = 0; g < json_array_size(gpus) && g < node->gpu_count; g++) {
        const json_t *from = json_array_get(gpus, g);

        node->gpus[g].util = (uint8_t)json_integer_value(json_object_get(from, "util"));
        node->gpus[g].temp = (uint8_t)json_integer_value(json_object_get(from, "temp"));
        node->gpus[g].memory_mib = (uint32_t)json_integer_value(json_object_get(from, "memory"));
        node->gpus[g].power = (uint32_t)json_integer_value(json_object_get(from, "power"));
    }
    to_agent(drive, name,
             json_pack("{s:s, s:I, s:I}", "t", agent_down_name(DOWN_BEAT), "n",
                       json_integer_value(json_object_get(frame, "n")), "now", (json_int_t)node->seen));
    return 0;
}

int drive_agent_frame(struct drive *drive, const char *name, json_t *frame, struct error *err)
{
    int kind = agent_up_find(text_of(frame, "t"));
    uint32_t index = names_find(&ctl_book(drive->ctl)->node_names, name, strlen(name));
    struct book_node *node = index == NAME_NONE ? NULL : &ctl_book_mut(drive->ctl)->nodes[index];
    json_t *body;

    if (kind == UP_HELLO)
        return drive_agent_hello(drive, name, frame, err);
    if (!node || !node->connected)
        return error_set(err, -EPROTO, "node %s: a frame before it was welcomed", name);
    if (kind == UP_BEAT)
        return take_beat(drive, node, name, frame);
    if (kind != UP_REPORT)
        return error_set(err, -EPROTO, "node %s: unexpected frame '%s'", name, text_of(frame, "t"));
    body = json_copy(frame);
    (void)json_object_del(body, "t");
    (void)json_object_set_new(body, "node", json_string(name));
    (void)json_object_set_new(body, "agent", json_string(node->agent));
    return drive_push(drive, ENTRY_REPORT, body, NULL, NULL) == 0 ? 0 : error_set(err, -ENOMEM, "no memory");
}

void drive_agent_gone(struct drive *drive, const char *name)
{
    uint32_t index = names_find(&ctl_book(drive->ctl)->node_names, name, strlen(name));

    if (index != NAME_NONE)
        ctl_book_mut(drive->ctl)->nodes[index].connected = false;
}

/* Orders to who is not there are not lost: they are derived anew when it comes. */
static void sink_order(void *arg, const char *name, json_t *frame)
{
    struct drive *drive = arg;
    const struct book_node *node = book_node_find(ctl_book(drive->ctl), name);

    if (node && node->connected)
        drive->host.order(drive->host.arg, name, frame);
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

void drive_free(struct drive *drive)
{
    if (!drive)
        return;
    for (size_t i = 0; i < drive->offer_count; i++)
        entry_done(&drive->offers[i].entry);
    mem_free(drive->offers);
    if (drive->stuck)
        flight_free(drive->stuck);
    ctl_free(drive->ctl);
    mem_free(drive);
}

/* The state as it is, and the finished jobs that only the batches it replaces could tell again. */
static int close_save(struct drive *drive, struct error *err)
{
    struct buf snapshot = BUF_INIT(SNAPSHOT_BYTES_MAX);
    struct flight *last = mem_zalloc(1, sizeof(*last));
    int r = last ? take_rows(drive, last, true) : -ENOMEM;

    if (r < 0)
        (void)error_set(err, r, "no memory for a snapshot");
    if (r == 0)
        r = ctl_save(drive->ctl, &snapshot, err);
    if (r == 0) {
        struct store_write write = { .jobs = last->rows,
                                     .job_count = last->row_count,
                                     .snapshot = snapshot.data,
                                     .snapshot_size = snapshot.size,
                                     .snapshot_seq = ctl_seq(drive->ctl) };

        r = store_commit(drive->store, &write, err);
    }
    if (last)
        flight_free(last);
    buf_done(&snapshot);
    return r;
}

int drive_close(struct drive *drive, struct error *err)
{
    struct flight *flight;
    int r;

    if (drive->stuck) {
        /* Those who could be answered were; nodes tell the rest again. */
        flight_free(take(drive->stuck));
        return error_set(err, -ENOSPC, "there was no room left in the store");
    }
    flight = flight_new(drive, ctl_now(drive->ctl), true);
    /* The batch is applied before the state is saved, so that the snapshot holds everything. */
    if (!flight)
        return error_set(err, -ENOMEM, "no memory for a snapshot");
    commit_work(flight);
    r = flight->result;
    if (r == 0)
        land(flight);
    else if (err)
        *err = flight->err;
    flight_free(flight);
    return r < 0 ? r : close_save(drive, err);
}
